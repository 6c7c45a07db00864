"""The coordinator on the real replica manager and log: what it wrote is there after a restart, in Kafka's formats."""

import errno
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator_fakes import join
from tests.support.real_log import TOPIC, RealBroker
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.damage import SKIP_KEY
from twisted_kafka.coordinator.replica_log import ReplicaReader, ReplicaWriter
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Sender, SyncRequest
from twisted_kafka.log.producer_state.producer_state_manager import NO_SEQUENCE
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.protocol.errors import ErrorCode, KafkaStorageError
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.protocol.topic_partition import TRANSACTION_TOPIC, TopicPartition
from twisted_kafka.replication.partition.partition import LeaderState
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState
from twisted_kafka.transaction_coordinator.verification import TransactionVerification

PARTITION = TopicPartition("orders", 3)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_disk_that_fails_while_a_partition_is_loaded_takes_its_directory_offline(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = RealBroker(tmp_path, clock)
    broker.lead()
    offset = OffsetCommitValue(offset=1, metadata="", commit_timestamp=clock.wall_ms())
    assert broker.groups.commit_offsets(Sender("group", "", None, -1), {PARTITION: offset}, 9) == ErrorCode.NONE
    partition = TopicPartition(TOPIC, broker.groups.runtime.partition_for("group"))

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(FileRegion, "read", fail)
    with pytest.raises(KafkaStorageError, match="broken"):
        list(ReplicaReader(broker.replicas).read_all(partition, 1000))
    assert [directory.is_online for directory in broker.logs.directories] == [False]
    broker.stop()


@pytest.mark.parametrize("codec", ["0", "1", "4"])
def test_groups_and_offsets_survive_a_restart(tmp_path: Path, clock: ManualClock, codec: str) -> None:
    broker = RealBroker(tmp_path, clock, **{"offsets.topic.compression.codec": codec})
    broker.lead()
    assert sorted(broker.groups.runtime.active_partitions()) == [0, 1, 2, 3]
    joined = {}
    for index in range(20):
        group_id = f"group-{index}"
        joined[group_id] = broker.groups.join(join(group_id))
        member_id = joined[group_id].member_id
        synced = broker.groups.sync(SyncRequest(Sender(group_id, member_id, None, 1), None, None, {member_id: b"all of it"}))
        assert synced.assignment == b"all of it"
        offset = OffsetCommitValue(offset=index, metadata=f"m{index}", commit_timestamp=clock.wall_ms())
        assert broker.groups.commit_offsets(Sender(group_id, member_id, None, 1), {PARTITION: offset}, 9) == ErrorCode.NONE
    broker.stop()

    broker = RealBroker(tmp_path, clock)
    broker.lead(epoch=1)
    listed: Any = broker.groups.list_groups((), ())
    error, listings = listed
    assert (error, len(listings), {one.group_state for one in listings}) == (0, 20, {"Stable"})
    for index in range(20):
        group_id = f"group-{index}"
        answer: Any = broker.groups.fetch_offsets(OffsetFetch(Sender(group_id), None, False))
        error, offsets = answer
        assert {key: (value.offset, value.metadata) for key, value in offsets.items()} == {PARTITION: (index, f"m{index}")}
        assert broker.groups.heartbeat(Sender(group_id, joined[group_id].member_id, None, 1)) == ErrorCode.NONE
    clock.advance_ms(10_001)
    broker.timer.expire_due()
    broker.scheduler.run_due()
    assert {one.group_state for one in broker.groups.list_groups((), ())[1]} == {"Empty"}
    broker.stop()


def test_not_coordinator_before_the_election_and_after_the_resignation(tmp_path: Path, clock: ManualClock) -> None:
    broker = RealBroker(tmp_path, clock)
    assert broker.groups.heartbeat(Sender("g", "m", None, 1)) == ErrorCode.NOT_COORDINATOR
    broker.lead()
    assert broker.groups.heartbeat(Sender("g", "m", None, 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    broker.replicas.state.become_leader_or_follower(
        1,
        [(TopicPartition(TOPIC, index), b"o" * 16, LeaderState(1, 2, 1, (1, 2), (1, 2), 1)) for index in range(4)],
    )
    assert broker.groups.heartbeat(Sender("g", "m", None, 1)) == ErrorCode.NOT_COORDINATOR
    broker.stop()
    assert broker.groups.heartbeat(Sender("g", "m", None, 1)) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("buffer_size", ["1", "300", "5242880"])
def test_a_partition_is_loaded_whole_whatever_the_buffer(tmp_path: Path, clock: ManualClock, buffer_size: str) -> None:
    broker = RealBroker(tmp_path, clock, **{"offsets.load.buffer.size": buffer_size})
    broker.lead()
    for index in range(30):
        value = OffsetCommitValue(offset=index, commit_timestamp=clock.wall_ms())
        assert broker.groups.commit_offsets(Sender("g"), {TopicPartition("t", index): value}, 9) == ErrorCode.NONE
    broker.stop()

    broker = RealBroker(tmp_path, clock, **{"offsets.load.buffer.size": buffer_size})
    broker.lead(epoch=1)
    answer: Any = broker.groups.fetch_offsets(OffsetFetch(Sender("g"), None, False))
    assert {key.partition: value.offset for key, value in answer[1].items()} == {index: index for index in range(30)}
    partition = TopicPartition(TOPIC, broker.groups.partition_for("g"))
    read = [data for chunk in ReplicaReader(broker.replicas).read_all(partition, int(buffer_size)) for data in batches(chunk)]
    assert [batch.base_offset for batch in read] == list(range(30))
    broker.stop()


def test_an_append_that_the_partition_refuses_is_the_client_s_error(tmp_path: Path, clock: ManualClock) -> None:
    broker = RealBroker(tmp_path, clock, **{"min.insync.replicas": "2"})
    broker.lead(replicas=(1, 2))
    value = OffsetCommitValue(offset=1, commit_timestamp=clock.wall_ms())
    assert broker.groups.commit_offsets(Sender("g"), {PARTITION: value}, 9) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.stop()


def test_the_leader_s_own_log_is_enough_where_acks_say_so(tmp_path: Path, clock: ManualClock) -> None:
    broker = RealBroker(tmp_path, clock, **{"min.insync.replicas": "2", "offsets.commit.required.acks": "1"})
    broker.lead(replicas=(1, 2))
    value = OffsetCommitValue(offset=1, commit_timestamp=clock.wall_ms())
    assert broker.groups.commit_offsets(Sender("g"), {PARTITION: value}, 9) == ErrorCode.NONE
    broker.stop()


def test_other_topics_change_no_coordinator(tmp_path: Path, clock: ManualClock) -> None:
    broker = RealBroker(tmp_path, clock)
    state = LeaderState(1, 1, 0, (1,), (1,), 0)
    broker.replicas.state.become_leader_or_follower(1, [(TopicPartition("orders", 0), b"x" * 16, state)])
    broker.scheduler.run_due()
    assert broker.groups.runtime.active_partitions() == []
    broker.lead()
    following = LeaderState(1, 2, 1, (1, 2), (1, 2), 1)
    broker.replicas.state.become_leader_or_follower(1, [(TopicPartition("orders", 0), b"x" * 16, following)])
    assert sorted(broker.groups.runtime.active_partitions()) == [0, 1, 2, 3]
    broker.stop()


def test_a_transaction_is_verified_before_its_first_append(tmp_path: Path, clock: ManualClock) -> None:
    """The coordinator is asked about a partition that this broker has, unless the transaction is open in it already."""
    broker = RealBroker(tmp_path, clock)
    broker.lead()
    asked: list[Any] = []
    partition = broker.groups.transactional_partition("g")
    producer = Producer(7, 0)

    def never(*_: Any) -> Any:
        raise AssertionError

    def ask(*question: Any) -> dict[TopicPartition, ErrorCode]:
        asked.append(question)
        return {partition: ErrorCode.NONE if len(asked) > 1 else ErrorCode.INVALID_TXN_STATE}

    def verify(each: TopicPartition) -> Any:
        return verification.verify({each: NO_SEQUENCE}, "tx", producer)

    verification = TransactionVerification(broker.replicas, ask, never, broker.metrics)
    assert verify(TopicPartition(TOPIC, 99)) == ({}, {})
    assert asked == []
    assert verify(partition) == ({partition: ErrorCode.INVALID_TXN_STATE}, {})
    errors, guards = verify(partition)
    assert errors == {}
    assert asked == [("tx", producer, [partition])] * 2
    value = OffsetCommitValue(offset=1, commit_timestamp=clock.wall_ms())
    assert (
        broker.groups.commit_transactional_offsets(Sender("g"), producer, None, {PARTITION: value}) == ErrorCode.INVALID_TXN_STATE
    )
    guard = guards[partition]
    assert broker.groups.commit_transactional_offsets(Sender("g"), producer, guard, {PARTITION: value}) == ErrorCode.NONE
    assert verify(partition) == ({}, {})
    assert len(asked) == 2

    def error_for(answer: ErrorCode, **options: bool) -> ErrorCode:
        asked_once = TransactionVerification(broker.replicas, lambda *_: {partition: answer}, never, broker.metrics)
        return asked_once.verify({partition: NO_SEQUENCE}, "tx", Producer(8, 0), **options).errors[partition]

    assert error_for(ErrorCode.INVALID_PRODUCER_ID_MAPPING) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert error_for(ErrorCode.PRODUCER_FENCED) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_for(ErrorCode.TRANSACTION_ABORTABLE) == ErrorCode.TRANSACTION_ABORTABLE
    assert error_for(ErrorCode.TRANSACTION_ABORTABLE, knows_abortable=False) == ErrorCode.INVALID_TXN_STATE
    assert broker.metrics.meter("AddPartitionsToTxnManager", "VerificationFailureRate").count == 5
    assert broker.metrics.histogram("AddPartitionsToTxnManager", "VerificationTimeMs").snapshot().count == 6
    broker.stop()


def test_transactions_survive_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    store = SqliteStore(tmp_path / "metadata.sqlite", threaded=False)
    producer = Producer(0, 0)
    for epoch, state in enumerate((TransactionState.ONGOING, TransactionState.COMPLETE_ABORT)):
        broker = RealBroker(tmp_path / "log", clock, **{"transaction.state.log.num.partitions": "4"})
        transactions: Any = broker.make_transactions(store)
        transactions.startup()
        assert transactions.describe("tx")[0] is ErrorCode.NOT_COORDINATOR
        assert broker.metrics.value("TransactionMarkerChannelManager", "UnknownDestinationQueueSize") == 0
        broker.lead(epoch, topic=TRANSACTION_TOPIC)
        if state is TransactionState.ONGOING:
            assert transactions.init_producer_id("tx", 1000, None).producer == producer
            assert transactions.add_partitions("tx", producer, [PARTITION]) is ErrorCode.NONE
        else:
            assert transactions.describe("tx")[1].state is TransactionState.ONGOING
            assert transactions.end_transaction("tx", producer, False).error is ErrorCode.NONE
        error, found = transactions.describe("tx")
        assert (error, found.state, found.producer) == (ErrorCode.NONE, state, producer)
        transactions.shutdown()
        broker.stop()
    store.close()


def test_an_offset_is_committed_below_the_high_watermark_of_a_leader(tmp_path: Path, clock: ManualClock) -> None:
    broker = RealBroker(tmp_path, clock, **{"offsets.topic.num.partitions": "1"})
    writer = ReplicaWriter(broker.replicas, 1_000)
    partition = TopicPartition(TOPIC, 0)
    assert not writer.is_committed(partition, 0), "it is not here"
    broker.lead()
    assert not writer.is_committed(partition, 0)
    assert broker.groups.commit_offsets(Sender("g"), {PARTITION: OffsetCommitValue(offset=1)}, 9) is ErrorCode.NONE
    assert writer.is_committed(partition, 0)
    assert not writer.is_committed(partition, 1)
    broker.stop()


@pytest.mark.parametrize("skips", [False, True])
def test_a_batch_of_unknown_size_hides_the_rest_of_its_segment_only(tmp_path: Path, clock: ManualClock, skips: bool) -> None:
    properties = {"offsets.topic.num.partitions": "1", "log.segment.bytes": "1000", SKIP_KEY: str(skips).lower()}
    broker = RealBroker(tmp_path, clock, **properties)
    broker.lead()
    for number in range(30):
        value = OffsetCommitValue(offset=number, commit_timestamp=clock.wall_ms())
        assert broker.groups.commit_offsets(Sender(f"g{number}"), {PARTITION: value}, 9) is ErrorCode.NONE
    _, second, third, *_ = sorted(tmp_path.glob(f"{TOPIC}-0/*.log"))
    damaged = range(int(second.stem) + 1, int(third.stem))
    with second.open("r+b") as file:
        first_size = 12 + int.from_bytes(file.read(12)[8:], "big")
        file.seek(first_size + 8)
        file.write(b"\xff" * 4)
    broker.groups.runtime.resigned(0)
    broker.groups.runtime.elected(0, 1)
    broker.scheduler.run_due()
    if skips:
        found = {one.group_id for one in broker.groups.list_groups((), ())[1]}
        assert found == {f"g{number}" for number in range(30) if number not in damaged}
    else:
        assert broker.groups.runtime.partition_states() == {"loading": 0, "active": 0, "failed": 1}
    broker.stop()


def test_a_coordinator_deletes_records_of_its_internal_topic(tmp_path: Path, clock: ManualClock) -> None:
    broker = RealBroker(tmp_path, clock)
    broker.lead()
    for index in range(3):
        value = OffsetCommitValue(offset=index, commit_timestamp=clock.wall_ms())
        assert broker.groups.commit_offsets(Sender("g"), {PARTITION: value}, 9) == ErrorCode.NONE
    partition = TopicPartition(TOPIC, broker.groups.partition_for("g"))
    writer = ReplicaWriter(broker.replicas, 1_000)
    assert writer.delete_records(partition, 2).result(0) == ErrorCode.NONE
    assert writer.delete_records(partition, 4).result(0) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert [
        batch.base_offset for chunk in ReplicaReader(broker.replicas).read_all(partition, 1000) for batch in batches(chunk)
    ] == [2]
    broker.stop()


def test_a_group_whose_tombstones_are_too_large_for_one_batch_can_be_deleted(tmp_path: Path, clock: ManualClock) -> None:
    """Its id is in the key of each record, and as long as the client likes."""
    broker = RealBroker(tmp_path, clock)
    broker.lead()
    group_id = "g" * 12_000
    offset = OffsetCommitValue(offset=1, metadata="", commit_timestamp=clock.wall_ms())
    for start in range(0, 200, 50):
        offsets = {TopicPartition("orders", index): offset for index in range(start, start + 50)}
        assert broker.groups.commit_offsets(Sender(group_id, "", None, -1), offsets, 9) == ErrorCode.NONE
    assert broker.groups.delete_group(group_id) == ErrorCode.NONE
    broker.stop()
    broker = RealBroker(tmp_path, clock)
    broker.lead(epoch=1)
    listed: Any = broker.groups.list_groups((), ())
    assert listed == (ErrorCode.NONE, [])
    broker.stop()


@pytest.mark.medium
def test_transactional_ids_whose_tombstones_are_too_large_for_one_batch_expire(tmp_path: Path, clock: ManualClock) -> None:
    broker = RealBroker(tmp_path / "log", clock, **{"transaction.state.log.num.partitions": "1"})
    store = SqliteStore(tmp_path / "metadata.sqlite", threaded=False)
    transactions = broker.make_transactions(store)
    transactions.startup()
    broker.lead(topic=TRANSACTION_TOPIC)
    for number in range(100):
        init: Any = transactions.init_producer_id(f"{number:016000d}", 1_000, None)
        assert init.error is ErrorCode.NONE
    clock.advance_ms(8 * 86_400_000)
    transactions.remove_expired_ids()
    assert transactions.list_transactions((), (), -1).transactions == []
    transactions.shutdown()
    broker.stop()
    store.close()
