import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.replication_harness import BROKER, OTHER, TOPIC, TP, Harness, topic_id
from twisted_kafka.log.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.metadata.store import AccessDeniedError, NoNodeError, SessionExpiredError, StoreDisconnectedError
from twisted_kafka.protocol.errors import ErrorCode, KafkaStorageError
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicV1,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.control_plane import ControlPlane
from twisted_kafka.replication.partition.fetch_data import FetchParams, PartitionFetch
from twisted_kafka.replication.partition.high_watermarks import HighWatermarkCheckpoints

BOTH = (BROKER, OTHER)


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def test_leading_begins_the_epoch_at_the_logs_end(h: Harness) -> None:
    h.lead(epoch=3)
    h.append(b"a")
    partition = h.lead(epoch=4, version=1)
    assert partition.leader_epoch_start_offset == 1
    assert partition.end_offset_for_epoch(-1, 3) == (3, 1)


def test_listeners_hear_of_each_new_epoch_once(h: Harness) -> None:
    h.order(epoch=0)
    h.order(epoch=0)
    h.order(epoch=1, version=1)
    h.order(leader=OTHER, epoch=2, replicas=BOTH, version=2)
    h.order(leader=OTHER, epoch=2, replicas=BOTH, version=2)
    assert h.changes == [([TP], []), ([TP], []), ([], [TP])]


def test_one_listeners_failure_is_not_the_others(h: Harness) -> None:
    heard = []

    def fail(led: Any, not_led: Any) -> None:
        raise RuntimeError("deaf")

    h.replicas.add_leadership_listener(fail)
    h.replicas.add_leadership_listener(lambda led, not_led: heard.append(led))
    h.order()
    assert heard == [[TP]]


def test_an_old_controller_is_not_obeyed(h: Harness) -> None:
    h.order(controller_epoch=5)
    assert h.order(epoch=1, controller_epoch=4) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert h.stop_replica(controller_epoch=4) == ErrorCode.STALE_CONTROLLER_EPOCH
    h.announce(controller_epoch=4)
    assert h.metadata.partition(TP) is None
    assert h.replicas.online_leader(TP).leader_epoch == 0


def test_an_old_leader_epoch_is_not_obeyed(h: Harness) -> None:
    h.order(epoch=5)
    assert h.order(leader=OTHER, epoch=4, replicas=BOTH) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert h.replicas.online_leader(TP) is not None


def test_another_topic_id_is_another_topic(h: Harness) -> None:
    h.order()
    assert h.order(epoch=1, topic_uuid=b"z" * 16) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert h.replicas.get_partition(TP).leader_epoch == 0


def test_a_partition_without_replica_here_is_refused(h: Harness) -> None:
    assert h.order(leader=OTHER, replicas=(OTHER,)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert h.replicas.get_partition(TP) is None


@pytest.mark.parametrize(
    "partition", [TopicPartition("../a", 0), TopicPartition("a b", 0), TopicPartition("..", 0), TopicPartition("a", -1)]
)
def test_a_name_that_no_partition_has_is_refused(h: Harness, partition: TopicPartition) -> None:
    assert h.order(partition.topic, partition.partition) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert h.logs.get_log(partition) is None


def test_a_log_that_cannot_be_opened_takes_the_partition_offline(h: Harness) -> None:
    h.logs.failing.add(TP)
    assert h.order() == ErrorCode.KAFKA_STORAGE_ERROR
    assert h.append(b"a").error == ErrorCode.KAFKA_STORAGE_ERROR
    assert h.order(epoch=1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert h.metrics.value("ReplicaManager", "OfflineReplicaCount") == 1


def test_a_directory_that_fails_takes_its_partitions_offline(h: Harness) -> None:
    partition = h.lead(replicas=BOTH)
    answer = h.append(b"a", acks=-1)
    h.replicas.directory_failed(partition.log.dir.parent)
    assert answer.result(0)[TP].error == ErrorCode.KAFKA_STORAGE_ERROR
    assert h.append(b"a").error == ErrorCode.KAFKA_STORAGE_ERROR
    assert h.stop_replica() == ErrorCode.KAFKA_STORAGE_ERROR
    assert not partition.is_leader
    assert h.changes[-1] == ([], [TP])


def test_a_directory_that_fails_leaves_the_partitions_of_the_others_alone(tmp_path: Path) -> None:
    h = Harness([tmp_path / "a", tmp_path / "b"])
    lost, kept = [h.lead(partition=number) for number in range(2)]
    h.replicas.directory_failed(lost.log.parent)
    assert h.append(b"a", topic_partition=kept.topic_partition).error == 0
    assert h.changes[-1] == ([], [lost.topic_partition])
    h.replicas.directory_failed(lost.log.parent)
    assert len(h.changes) == 3, "there is nothing to say the second time"


def test_deleting(h: Harness) -> None:
    partition = h.lead()
    h.append(b"a")
    assert h.stop_replica() == 0
    assert h.logs.deleted == [TP]
    assert h.append(b"a").error == ErrorCode.NOT_LEADER_OR_FOLLOWER  # until the metadata say that it is gone
    assert not partition.is_leader
    assert h.changes[-1] == ([], [TP])


def test_a_topics_meters_go_with_its_last_partition(h: Harness) -> None:
    def meters() -> set[object]:
        return {name.name for name, _ in h.metrics.items() if ("topic", TOPIC) in name.tags}

    h.lead()
    h.lead(partition=1)
    h.append(b"a")
    before = meters()
    assert "BytesInPerSec" in before
    h.stop_replica()
    assert meters() == before
    h.replicas.state.stop(1, [(TopicPartition(TOPIC, 1), -2, True)])
    assert meters() == set()


def test_the_deletion_of_a_topic_does_not_walk_through_all_partitions(h: Harness) -> None:
    class Counted(dict[TopicPartition, Any]):
        walks = 0

        def __iter__(self) -> Any:
            self.walks += 1
            return super().__iter__()

    h.order()
    h.order("other")
    table = h.replicas.partitions
    table.online = online = Counted(table.online)
    h.order()  # known already
    assert h.stop_replica() == 0
    assert online.walks == 0
    assert [table.hosts_topic(topic) for topic in (TOPIC, "other")] == [False, True]
    table.mark_offline(TopicPartition("other", 0))
    assert not table.hosts_topic("other")


def test_what_waits_for_a_deleted_partition_is_answered(h: Harness) -> None:
    h.lead(replicas=BOTH)
    answer = h.append(b"a", acks=-1)
    h.stop_replica()
    assert answer.result(0)[TP].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_deleted_partition_leaves_the_checkpoints(h: Harness, tmp_path: Path) -> None:
    h.lead()
    h.append(b"a")
    h.replicas.get_partition(TP).delete_records(1)
    h.advance_ms(100_000)
    files = [OffsetCheckpoint(tmp_path / name) for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)]
    assert all(TP in file.read() for file in files)
    h.stop_replica()
    assert [file.read() for file in files] == [{}, {}]


def test_a_log_that_cannot_be_deleted_takes_the_partition_offline(h: Harness) -> None:
    h.lead()
    answer = h.append(b"a", acks=-1)
    h.logs.failing.add(TP)
    assert h.stop_replica() == ErrorCode.KAFKA_STORAGE_ERROR
    assert h.append(b"a").error == ErrorCode.KAFKA_STORAGE_ERROR
    assert answer.error == 0


def test_an_unexpected_failure_to_delete_is_its_own_partitions(h: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    other = TopicPartition(TOPIC, 1)
    h.lead()
    h.lead(partition=1)
    delete = h.logs.delete_log

    def fail_once(topic_partition: TopicPartition) -> bool:
        if topic_partition == TP:
            raise RuntimeError("nobody expects it")
        return delete(topic_partition)

    monkeypatch.setattr(h.logs, "delete_log", fail_once)
    h.changes.clear()
    errors = h.replicas.state.stop(1, [(TP, -2, True), (other, -2, True)])
    assert errors == {TP: ErrorCode.KAFKA_STORAGE_ERROR, other: ErrorCode.NONE}
    assert h.changes == [([], [other])]
    assert h.logs.get_log(other) is None


def test_stopping_without_deleting_keeps_the_log(h: Harness) -> None:
    h.lead(replicas=BOTH)
    assert h.stop_replica(epoch=0, delete=False) == 0
    assert h.logs.deleted == []
    assert h.replicas.get_partition(TP) is not None


def test_stopping_by_an_old_leader_epoch_is_fenced(h: Harness) -> None:
    h.lead(epoch=5)
    assert h.stop_replica(epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
    assert h.replicas.online_leader(TP) is not None
    assert h.stop_replica(epoch=5) == 0


@pytest.mark.parametrize(
    "order",
    [
        {"topics": [StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])]},
        {"ungrouped_partitions": [StopReplicaPartitionV0(topic_name=TOPIC, partition_index=0)]},
    ],
)
@pytest.mark.parametrize("delete", [True, False])
def test_old_versions_stop_replicas_without_a_leader_epoch(h: Harness, order: Any, delete: bool) -> None:
    h.lead(epoch=5)
    response = h.control.stop_replica(StopReplicaRequest(controller_epoch=1, delete_partitions=delete, **order))
    assert [(each.topic_name, each.partition_index, each.error_code) for each in response.partition_errors] == [(TOPIC, 0, 0)]
    assert h.logs.deleted == ([TP] if delete else [])


def test_old_versions_order_roles_without_topic_id(h: Harness) -> None:
    state = LeaderAndIsrPartitionState(
        topic_name=TOPIC, partition_index=0, controller_epoch=1, leader=BROKER, leader_epoch=3, isr=[BROKER], replicas=[BROKER]
    )
    response = h.control.leader_and_isr(
        LeaderAndIsrRequest(controller_id=BROKER, controller_epoch=1, ungrouped_partition_states=[state])
    )
    assert response.error_code == 0
    assert h.replicas.current_leader(TP) == (BROKER, 3)
    assert h.order(epoch=4) == 0, "the first order with a topic id sets it"
    assert h.order(epoch=5, topic_uuid=b"z" * 16) == ErrorCode.INCONSISTENT_TOPIC_ID


def test_an_order_of_several_topics_is_answered_for_each(h: Harness) -> None:
    def topic(name: str, *partitions: int) -> LeaderAndIsrTopicState:
        states = [
            LeaderAndIsrPartitionState(
                partition_index=number, controller_epoch=1, leader=BROKER, leader_epoch=0, isr=[BROKER], replicas=[BROKER]
            )
            for number in partitions
        ]
        return LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id(name), partition_states=states)

    h.logs.failing.add(TopicPartition("u", 1))
    request = LeaderAndIsrRequest(controller_id=BROKER, controller_epoch=1, topic_states=[topic("t", 0), topic("u", 0, 1)])
    response = h.control.leader_and_isr(request)
    errors = {
        (topic.topic_id, each.topic_name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partition_errors
    }
    assert errors == {
        (topic_id("t"), "t", 0): 0,
        (topic_id("u"), "u", 0): 0,
        (topic_id("u"), "u", 1): ErrorCode.KAFKA_STORAGE_ERROR,
    }
    assert len(response.topics) == 2


def test_an_order_of_the_same_epoch_with_an_older_partition_epoch_changes_nothing(h: Harness) -> None:
    partition = h.lead(replicas=BOTH, version=5)
    h.order(replicas=BOTH, isr=(BROKER,), version=5)
    h.order(replicas=BOTH, isr=(BROKER,), version=4)
    assert partition.isr == set(BOTH)
    h.order(replicas=BOTH, isr=(BROKER,), version=6)
    assert partition.isr == {BROKER}


def test_a_follower_knows_its_replicas_and_no_in_sync_ones(h: Harness) -> None:
    h.lead(replicas=BOTH, version=1)
    h.order(leader=OTHER, epoch=1, replicas=(OTHER, BROKER, 3), version=2)
    partition = h.replicas.get_partition(TP)
    assert (partition.leader_id, partition.leader_epoch, partition.is_leader) == (OTHER, 1, False)
    assert (partition.replicas, partition.isr, partition.remote_replicas) == ((OTHER, BROKER, 3), frozenset(), {})
    assert (partition.partition_epoch, partition.controller_epoch) == (2, 1)


def test_only_the_leader_is_an_online_leader(h: Harness) -> None:
    partition = h.lead()
    h.order(leader=OTHER, partition=1, replicas=BOTH)
    found = [h.replicas.online_leader(TopicPartition(TOPIC, number)) for number in range(3)]
    assert found == [partition, None, None]


def test_a_partition_is_known_from_its_order_or_from_the_metadata(h: Harness) -> None:
    internal = TopicPartition("__consumer_offsets", 0)
    assert h.append(b"a", topic_partition=internal).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    h.order(internal.topic)
    assert h.append(b"a", topic_partition=internal).error == ErrorCode.INVALID_TOPIC_EXCEPTION
    elsewhere = TopicPartition("elsewhere", 0)
    h.announce(elsewhere.topic, leader=OTHER, replicas=(OTHER,))
    assert h.append(b"a", topic_partition=elsewhere, acks=7).error == ErrorCode.INVALID_REQUIRED_ACKS


def test_a_log_that_is_left_over_is_deleted_too(h: Harness) -> None:
    h.logs.get_or_create_log(TP)
    assert h.stop_replica() == 0
    assert h.logs.deleted == [TP]


def test_deleted_partitions_are_told(h: Harness) -> None:
    told: list[Any] = []
    h.control = ControlPlane(h.replicas, [told.append])
    h.lead()
    h.announce(leader=-2)
    assert told == [[TP]]


def test_topics_that_were_deleted_without_a_session_are_forgotten_once_the_controller_knows_the_new_epoch(h: Harness) -> None:
    told: list[Any] = []
    there: list[Any] = [["t", "unknown"]]
    reads = 0

    def read_topics() -> list[str]:
        nonlocal reads
        reads += 1
        if isinstance(there[0], Exception):
            raise there[0]
        return list(there[0])

    def announce(broker_epoch: int, *topics: str) -> None:
        states = [
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=topic.encode() * 16,
                partition_states=[UpdateMetadataPartitionState(partition_index=0, leader=1)],
            )
            for topic in topics
        ]
        update = UpdateMetadataRequest(controller_epoch=1, broker_epoch=broker_epoch, topic_states=states)
        assert h.control.update_metadata(update)

    h.control = ControlPlane(h.replicas, [told.append], read_topics)
    announce(5, "t", "u")
    h.control.forget_deleted(6)
    assert reads == 0, "the controller may not send this broker what it deletes yet"
    there[0] = StoreDisconnectedError("not now")
    announce(6, "t")
    there[0] = ["t"]
    announce(6)
    assert list(h.replicas.metadata.topic_names()) == ["t"]
    assert told == [[TopicPartition("u", 0)]]
    announce(6, "u")
    assert (reads, set(h.replicas.metadata.topic_names())) == (2, {"t", "u"}), "that is done once"
    announce(7)
    h.control.forget_deleted(7)
    assert set(h.replicas.metadata.topic_names()) == {"t"}, "the controller was faster"


def test_topics_whose_deletion_died_with_its_controller_are_forgotten(h: Harness) -> None:
    told: list[Any] = []
    topics = [TOPIC]
    h.control = ControlPlane(h.replicas, [told.append], lambda: topics)
    h.lead()
    h.announce()
    h.announce("elsewhere", leader=OTHER, replicas=(OTHER,))
    assert h.control.update_metadata(UpdateMetadataRequest(controller_epoch=2))
    assert told == [[TopicPartition("elsewhere", 0)]]
    assert list(h.replicas.metadata.topic_names()) == [TOPIC]
    topics.clear()
    assert h.control.update_metadata(UpdateMetadataRequest(controller_epoch=2))
    assert list(h.replicas.metadata.topic_names()) == [TOPIC], "this controller tells of deletions"


@pytest.mark.parametrize("failure", [NoNodeError("/brokers/topics"), AccessDeniedError("/brokers/topics")])
def test_no_topic_is_forgotten_while_the_store_cannot_tell_which_there_are(h: Harness, failure: Exception) -> None:
    told: list[Any] = []
    answers: list[Any] = [failure, []]

    def read_topics() -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    h.control = ControlPlane(h.replicas, [told.append], read_topics)
    h.announce("elsewhere", leader=OTHER, replicas=(OTHER,))
    assert h.control.update_metadata(UpdateMetadataRequest(controller_epoch=2))
    assert (told, list(h.replicas.metadata.topic_names())) == ([], ["elsewhere"])
    assert h.control.update_metadata(UpdateMetadataRequest(controller_epoch=2))
    assert told == [[TopicPartition("elsewhere", 0)]], "it asks again"


def test_no_request_of_the_controller_waits_for_the_store(h: Harness) -> None:
    later: list[Callable[[], None]] = []
    h.control = ControlPlane(h.replicas, (), list, later.append)
    h.announce()
    assert h.control.update_metadata(UpdateMetadataRequest(controller_epoch=2))
    assert list(h.replicas.metadata.topic_names()) == [TOPIC]
    for action in later:
        action()
    assert list(h.replicas.metadata.topic_names()) == []


def test_metadata_of_nothing(h: Harness) -> None:
    assert h.control.update_metadata(UpdateMetadataRequest(controller_epoch=1))


class TestCheckpoints:
    def offsets(self, h: Harness) -> dict[TopicPartition, int]:
        assert isinstance(h.directory, Path)
        return OffsetCheckpoint(h.directory / HIGH_WATERMARK_CHECKPOINT).read()

    def test_written_every_interval_once_the_controller_has_spoken(self, tmp_path: Path) -> None:
        h = Harness(tmp_path, replica_high_watermark_checkpoint_interval_ms=1000)
        h.advance_ms(5000)
        assert self.offsets(h) == {}
        h.lead()
        h.append(b"a", b"b")
        h.advance_ms(1000)
        assert self.offsets(h) == {TP: 2}

    def test_written_at_shutdown(self, h: Harness) -> None:
        h.lead()
        h.advance_ms(0)
        h.append(b"a")
        h.replicas.shutdown()
        assert self.offsets(h) == {TP: 1}

    def test_read_at_the_start(self, h: Harness, tmp_path: Path) -> None:
        h.lead(replicas=BOTH)
        h.append(b"a", b"b")
        h.replicas.get_partition(TP).log.update_high_watermark(1)
        h.close()
        again = Harness(tmp_path)
        again.order(leader=OTHER, replicas=BOTH, epoch=1)
        assert again.replicas.get_partition(TP).log.high_watermark == 1

    def test_a_stopped_broker_writes_no_more(self, tmp_path: Path) -> None:
        h = Harness(tmp_path, replica_high_watermark_checkpoint_interval_ms=1000)
        h.lead()
        h.append(b"a")
        h.replicas.shutdown()
        h.append(b"b")
        h.advance_ms(5000)
        assert self.offsets(h) == {TP: 1}

    def test_only_the_directories_with_news_are_written(self, tmp_path: Path) -> None:
        h = Harness([tmp_path / "a", tmp_path / "b"])
        partitions = [h.lead(partition=number) for number in range(2)]
        files = [partition.log.parent / HIGH_WATERMARK_CHECKPOINT for partition in partitions]
        h.replicas.checkpoint_high_watermarks()
        for number in (1, 0):
            before = [file.stat().st_ino for file in files]
            h.append(b"a", topic_partition=TopicPartition(TOPIC, number))
            h.replicas.checkpoint_high_watermarks()
            assert OffsetCheckpoint(files[number]).read() == {TopicPartition(TOPIC, number): 1}
            assert files[1 - number].stat().st_ino == before[1 - number]

    def test_nothing_is_written_to_a_failed_directory(self, tmp_path: Path) -> None:
        h = Harness([tmp_path / "a", tmp_path / "b"])
        partition = h.lead()
        h.append(b"a")
        h.replicas.checkpoint_high_watermarks()
        lost = partition.log.parent
        h.replicas.directory_failed(lost)
        for name in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
            (lost / name).unlink(missing_ok=True)
        h.replicas.checkpoint_high_watermarks()
        assert not (lost / HIGH_WATERMARK_CHECKPOINT).exists()

    def test_a_partition_that_a_writer_still_knows_is_not_written_to_a_failed_directory(self, h: Harness, tmp_path: Path) -> None:
        partition = h.lead()
        checkpoints = HighWatermarkCheckpoints(h.logs.storage_failed)
        checkpoints.forget(tmp_path)
        checkpoints.write([partition])
        assert not (tmp_path / HIGH_WATERMARK_CHECKPOINT).exists()

    def test_a_directory_that_cannot_be_written_fails(self, h: Harness, tmp_path: Path) -> None:
        partition = h.lead()
        (tmp_path / f"{HIGH_WATERMARK_CHECKPOINT}.tmp").mkdir()
        failed: list[Path] = []
        checkpoints = HighWatermarkCheckpoints(lambda directory, _: failed.append(directory))
        checkpoints.write([partition])
        assert failed == [tmp_path]
        (tmp_path / f"{HIGH_WATERMARK_CHECKPOINT}.tmp").rmdir()
        checkpoints.write([partition])
        assert self.offsets(h) == {TP: 0}, "what was not written is written the next time"

    def test_a_replica_that_comes_back_begins_with_its_last_high_watermark(self, h: Harness) -> None:
        h.lead()
        h.append(b"a", b"b")
        h.replicas.checkpoint_high_watermarks()
        assert h.replicas.state.stop(1, [(TP, 0, False)]) == {TP: 0}
        h.replicas.partitions.remove(TP)
        h.logs.get_log(TP).update_high_watermark(0)
        h.order(leader=OTHER, replicas=BOTH, epoch=1)
        assert h.replicas.get_partition(TP).log.high_watermark == 2

    def test_a_damaged_file_means_zero(self, tmp_path: Path) -> None:
        (tmp_path / HIGH_WATERMARK_CHECKPOINT).write_text("7\nnonsense\n")
        h = Harness(tmp_path)
        assert h.order() == 0

    def test_a_deleted_partition_leaves_the_file(self, h: Harness) -> None:
        h.lead()
        h.append(b"a")
        h.replicas.checkpoint_high_watermarks()
        h.stop_replica()
        h.replicas.checkpoint_high_watermarks()
        assert self.offsets(h) == {}


def test_gauges(h: Harness) -> None:
    h.lead()
    h.order("t", leader=OTHER, replicas=BOTH)
    h.order("u", replicas=BOTH, isr=(BROKER,))
    names = ("LeaderCount", "PartitionCount", "UnderReplicatedPartitions", "UnderMinIsrPartitionCount", "AtMinIsrPartitionCount")
    assert [h.metrics.value("ReplicaManager", name) for name in names] == [2, 3, 1, 0, 2]


def test_a_stopped_broker_drops_what_waits(h: Harness) -> None:
    h.lead(replicas=BOTH, isr=(BROKER,))
    h.append(b"a")
    h.replicas.offsets.delete_records(1000, {TP: 1})
    h.order(replicas=BOTH, version=1)
    h.append(b"a", acks=-1)
    fetch = PartitionFetch(TP, bytes(16), 0, 1, 1 << 20)
    h.replicas.reader.fetch(FetchParams(-1, 500, 1, 1 << 20, FetchIsolation.HIGH_WATERMARK, 12), [fetch])
    kinds = ("Produce", "Fetch", "DeleteRecords")

    def waiting() -> list[object]:
        return [h.metrics.value("DelayedOperationPurgatory", "PurgatorySize", delayedOperation=kind) for kind in kinds]

    assert waiting() == [1, 1, 1]
    h.replicas.shutdown()
    assert waiting() == [0, 0, 0]


def test_where_the_leader_is(h: Harness) -> None:
    h.lead(epoch=4)
    h.announce("far", leader=OTHER, epoch=7)
    assert h.replicas.current_leader(TP) == (BROKER, 4)
    assert h.replicas.current_leader(TopicPartition("far", 0)) == (OTHER, 7)
    assert h.replicas.current_leader(TopicPartition("nowhere", 0)) == (-1, -1)


def test_a_log_whose_settings_could_not_be_read_is_made_at_the_next_order(h: Harness) -> None:
    told: list[Any] = []
    h.replicas.state.set_starved_listener(lambda: told.append(True))
    genuine = h.logs.get_or_create_log

    def expired(*args: Any, **options: Any) -> None:
        raise SessionExpiredError("the ZooKeeper session has expired")

    h.logs.get_or_create_log = expired
    assert h.order() == ErrorCode.REQUEST_TIMED_OUT
    assert told == [True]
    h.logs.get_or_create_log = genuine
    assert h.order() == 0, "its disk has not failed"
    assert h.replicas.get_partition(TP).is_leader


def no_descriptor() -> KafkaStorageError:
    error = KafkaStorageError("cannot make it")
    error.__cause__ = OSError(errno.EMFILE, "Too many open files")
    return error


@pytest.mark.parametrize("error", [no_descriptor(), MemoryError(), OSError(errno.ENOMEM, "no memory"), ZeroDivisionError()])
def test_a_log_that_could_not_be_made_is_made_at_the_next_order(h: Harness, error: Exception) -> None:
    told: list[Any] = []
    h.replicas.state.set_starved_listener(lambda: told.append(True))
    genuine = h.logs.get_or_create_log

    def starved(*args: Any, **options: Any) -> None:
        raise error

    h.logs.get_or_create_log = starved
    assert h.order() == ErrorCode.KAFKA_STORAGE_ERROR
    assert told == [True]
    h.logs.get_or_create_log = genuine
    assert h.order() == ErrorCode.KAFKA_STORAGE_ERROR  # a failed disk would look like that
    assert h.replicas.state.retry_starved()
    assert not h.replicas.state.retry_starved()
    assert h.order() == 0
    assert h.replicas.get_partition(TP).is_leader


def test_a_log_on_a_failed_disk_is_not_tried_again(h: Harness) -> None:
    told: list[Any] = []
    h.replicas.state.set_starved_listener(lambda: told.append(True))

    def fails(*args: Any, **options: Any) -> None:
        raise KafkaStorageError("its directory is offline")

    h.logs.get_or_create_log = fails
    h.logs.directories[0].is_online = False
    assert h.order() == ErrorCode.KAFKA_STORAGE_ERROR
    assert (told, h.replicas.state.retry_starved()) == ([], False)
