from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.apis.transactions.marker_broker import DATA, PRODUCER, MarkerBroker
from tests.support.real_log import TOPIC as OFFSETS
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.log.producer_state.producer_state_manager import NO_OFFSET, NO_SEQUENCE
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.transaction_coordinator.verification import TransactionVerification


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    made = MarkerBroker(tmp_path, ManualClock())
    yield made
    made.stop()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_markers_end_transactions_in_the_log(broker: Any, version: Any) -> None:
    broker.produce()
    assert (broker.log.last_stable_offset, broker.open_transactions) == (0, [0])
    assert broker.write(broker.marker(), version=version) == {(PRODUCER, "orders", 0): 0}
    assert (broker.log.last_stable_offset, broker.open_transactions) == (2, [NO_OFFSET])
    broker.produce(1)
    assert broker.write(broker.marker(committed=False), version=version) == {(PRODUCER, "orders", 0): 0}
    assert broker.log.last_stable_offset == 4
    assert [(each.producer_id, each.first_offset) for each in broker.log.aborted_transactions(0, 4)] == [(PRODUCER, 2)]


def test_the_access_log_hears_of_each_topic_once(broker: Any) -> None:
    broker.write(broker.marker(partitions=(0, 1, 2)), broker.marker(topic="gone"))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(broker.context.topics) == [("gone", (0,), 0, 0, unknown), ("orders", (0, 1, 2), 0, 0, unknown)]


def test_markers_of_transactions_with_an_epoch_each(broker: Any) -> None:
    broker.produce()
    for topic, commit in (("orders", None), (OFFSETS, broker.commit)):
        index = 0
        if commit is not None:
            assert commit("g", 5) == 0
            index = broker.groups.partition_for("g")
        late, done = (broker.marker(topic=topic, partitions=[index], epoch=epoch, transaction_version=2) for epoch in (0, 1))
        assert broker.write(late, version=2) == {(PRODUCER, topic, index): ErrorCode.INVALID_PRODUCER_EPOCH}
        assert broker.write(done, version=2) == {(PRODUCER, topic, index): 0}
        assert broker.write(done, version=2) == {(PRODUCER, topic, index): 0}
    assert broker.offset("g") == 5
    assert broker.open_transactions == [NO_OFFSET]


def test_epochs_fence(broker: Any) -> None:
    broker.produce()
    assert broker.write(broker.marker(epoch=2, coordinator_epoch=5)) == {(PRODUCER, "orders", 0): 0}
    refused = {(PRODUCER, "orders", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert broker.write(broker.marker(epoch=1, coordinator_epoch=5)) == refused
    refused = {(PRODUCER, "orders", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert broker.write(broker.marker(epoch=2, coordinator_epoch=4)) == refused
    assert broker.write(broker.marker(epoch=2, coordinator_epoch=5)) == {(PRODUCER, "orders", 0): 0}
    assert broker.commit("g", 5, epoch=3) == 0
    assert broker.end_offsets_of("g", epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.offset("g") == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert broker.end_offsets_of("g", epoch=3, coordinator_epoch=1) == 0
    assert broker.offset("g") == 5
    assert broker.end_offsets_of("g", epoch=3, coordinator_epoch=0) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_of_offsets_that_a_marker_overtook_after_its_verification_is_refused(broker: Any, committed: Any) -> None:
    def end_meanwhile(*_: Any) -> Any:
        assert broker.end_offsets_of("g", committed) == 0
        return {partition: ErrorCode.NONE}

    verification = TransactionVerification(broker.replicas, end_meanwhile, end_meanwhile, broker.metrics)
    partition = broker.groups.transactional_partition("g")
    producer = Producer(PRODUCER, 0)
    verified: Any = verification.verify({partition: NO_SEQUENCE}, "tx", producer)
    errors, guards = verified
    value = OffsetCommitValue(offset=5, commit_timestamp=broker.clock.wall_ms())
    assert errors == {}
    late = broker.groups.commit_transactional_offsets(Sender("g"), producer, guards[partition], {DATA: value})
    assert late == ErrorCode.INVALID_TXN_STATE
    assert broker.offset("g") is None


def test_each_partition_has_its_own_error_and_each_producer_one_entry(broker: Any) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = broker.write(
        broker.marker(partitions=[0, 9]), broker.marker(topic="none"), broker.marker(producer=8), broker.marker(partitions=[])
    )
    assert answer == {
        (PRODUCER, "orders", 0): 0,
        (PRODUCER, "orders", 9): unknown,
        (PRODUCER, "none", 0): unknown,
        (8, "orders", 0): 0,
    }
    assert broker.log.log_end_offset == 2
    assert broker.write(broker.marker(topic=OFFSETS, partitions=[99])) == {(PRODUCER, OFFSETS, 99): unknown}
    assert broker.write() == {}


def test_a_coordinator_that_loads_is_no_leader_yet(broker: Any) -> None:
    index = broker.groups.partition_for("g")
    broker.groups.runtime.resigned(index)
    broker.groups.runtime.elected(index, 5)
    assert broker.end_offsets_of("g") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.scheduler.run_due()
    assert broker.end_offsets_of("g") == 0


def test_a_restart_finds_what_is_pending_committed_and_aborted(tmp_path: Path) -> None:
    clock = ManualClock()
    broker = MarkerBroker(tmp_path, clock)
    for group_id in ("committed", "aborted", "pending"):
        assert broker.commit(group_id, 5) == 0
        if group_id != "pending":  # else the partitions' common marker would end that one too
            assert broker.end_offsets_of(group_id, group_id == "committed") == 0
    expected = {"committed": 5, "aborted": None, "pending": ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert {group_id: broker.offset(group_id) for group_id in expected} == expected
    broker.stop()
    broker = MarkerBroker(tmp_path, clock, epoch=1)
    assert {group_id: broker.offset(group_id) for group_id in expected} == expected
    assert broker.commit("pending", 6) == 0  # the producer's epoch is known again, too
    assert broker.commit("pending", 6, epoch=-1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.end_offsets_of("pending") == 0
    assert broker.offset("pending") == 6
    broker.stop()
