import errno
from pathlib import Path
from typing import Any

import pytest

from tests.replication.harness import BROKER, OTHER, TOPIC, TP, Harness
from twisted_kafka.log.checkpoints import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from twisted_kafka.protocol.errors import ErrorCode, KafkaStorageError
from twisted_kafka.protocol.messages.inter_broker import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataRequest,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.control_plane import ControlPlane

BOTH = (BROKER, OTHER)


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def stop(h: Harness, *, epoch: int = -2, delete: bool = True, controller_epoch: int = 1) -> int:
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=epoch, delete_partition=delete)
    response = h.control.stop_replica(
        StopReplicaRequest(
            controller_epoch=controller_epoch,
            topic_states=[StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])],
        )
    )
    return response.error_code or response.partition_errors[0].error_code


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
    assert stop(h, controller_epoch=4) == ErrorCode.STALE_CONTROLLER_EPOCH
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
    assert h.changes[-1] == ([], [TP])


def test_deleting(h: Harness) -> None:
    partition = h.lead()
    h.append(b"a")
    assert stop(h) == 0
    assert h.logs.deleted == [TP]
    assert h.append(b"a").error == ErrorCode.NOT_LEADER_OR_FOLLOWER  # until the metadata say that it is gone
    assert not partition.is_leader
    assert h.changes[-1] == ([], [TP])
    assert h.metrics.value("BrokerTopicMetrics", "BytesInPerSec", topic=TOPIC) in (None, 0)


def test_stopping_without_deleting_keeps_the_log(h: Harness) -> None:
    h.lead(replicas=BOTH)
    assert stop(h, epoch=0, delete=False) == 0
    assert h.logs.deleted == []
    assert h.replicas.get_partition(TP) is not None


def test_stopping_by_an_old_leader_epoch_is_fenced(h: Harness) -> None:
    h.lead(epoch=5)
    assert stop(h, epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
    assert h.replicas.online_leader(TP) is not None


def test_a_log_that_is_left_over_is_deleted_too(h: Harness) -> None:
    h.logs.get_or_create_log(TP)
    assert stop(h) == 0
    assert h.logs.deleted == [TP]


def test_deleted_partitions_are_told(h: Harness) -> None:
    told: list[Any] = []
    h.control = ControlPlane(h.replicas, [told.append])
    h.lead()
    h.announce(leader=-2)
    assert told == [[TP]]


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

    def test_a_damaged_file_means_zero(self, tmp_path: Path) -> None:
        (tmp_path / HIGH_WATERMARK_CHECKPOINT).write_text("7\nnonsense\n")
        h = Harness(tmp_path)
        assert h.order() == 0

    def test_a_deleted_partition_leaves_the_file(self, h: Harness) -> None:
        h.lead()
        h.append(b"a")
        h.replicas.checkpoint_high_watermarks()
        stop(h)
        h.replicas.checkpoint_high_watermarks()
        assert self.offsets(h) == {}


def test_gauges(h: Harness) -> None:
    h.lead()
    h.order("t", leader=OTHER, replicas=BOTH)
    h.order("u", replicas=BOTH, isr=(BROKER,))
    names = ("LeaderCount", "PartitionCount", "UnderReplicatedPartitions", "UnderMinIsrPartitionCount", "AtMinIsrPartitionCount")
    assert [h.metrics.value("ReplicaManager", name) for name in names] == [2, 3, 1, 0, 2]


def test_where_the_leader_is(h: Harness) -> None:
    h.lead(epoch=4)
    h.announce("far", leader=OTHER, epoch=7)
    assert h.replicas.current_leader(TP) == (BROKER, 4)
    assert h.replicas.current_leader(TopicPartition("far", 0)) == (OTHER, 7)
    assert h.replicas.current_leader(TopicPartition("nowhere", 0)) == (-1, -1)


def test_a_log_that_no_file_descriptor_was_left_for_is_made_at_the_next_order(h: Harness) -> None:
    told: list[Any] = []
    h.replicas.state.set_starved_listener(lambda: told.append(True))
    genuine = h.logs.get_or_create_log

    def starved(*args: Any, **options: Any) -> None:
        raise KafkaStorageError("cannot make it") from OSError(errno.EMFILE, "Too many open files")

    h.logs.get_or_create_log = starved
    assert h.order() == ErrorCode.KAFKA_STORAGE_ERROR
    assert told == [True]
    h.logs.get_or_create_log = genuine
    assert h.order() == ErrorCode.KAFKA_STORAGE_ERROR  # a failed disk would look like that
    assert h.replicas.state.retry_starved()
    assert not h.replicas.state.retry_starved()
    assert h.order() == 0
    assert h.replicas.get_partition(TP).is_leader
