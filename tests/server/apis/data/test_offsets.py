from pathlib import Path
from typing import Any

import pytest

from tests.support.replica_apis import Apis
from tests.support.replication_harness import OTHER, TOPIC
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError
from twisted_kafka.protocol.messages.list_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition

T0 = 1_700_000_000_000
LATEST, EARLIEST, MAX, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


@pytest.fixture
def apis(tmp_path: Path) -> Apis:
    apis = Apis(tmp_path)
    apis.lead(epoch=2)
    apis.append(b"a", batch_options={"timestamp_ms": T0})
    apis.append(b"b", batch_options={"timestamp_ms": T0 + 1000})
    return apis


def list_offset(
    apis: Apis,
    version: int,
    timestamp: int,
    *,
    topic: str = TOPIC,
    epoch: int = -1,
    times: int = 1,
    replica: int = -1,
    **fields: Any,
) -> ListOffsetsPartitionResponse:
    partition = ListOffsetsPartition(timestamp=timestamp, current_leader_epoch=epoch)
    if version == 0:
        partition.max_num_offsets = 10
    request = ListOffsetsRequest(
        replica_id=replica, topics=[ListOffsetsTopic(name=topic, partitions=[partition] * times)], **fields
    )
    return apis.call(request, version).topics[0].partitions[0]


def found(apis: Apis, version: int, timestamp: int, **how: Any) -> tuple[int, int, int, int]:
    answer = list_offset(apis, version, timestamp, **how)
    return answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch


@pytest.mark.parametrize("version", range(1, 10))
def test_each_version(apis: Apis, version: int) -> None:
    epoch = 2 if version >= 4 else -1
    assert found(apis, version, LATEST) == (0, 2, -1, epoch)
    assert found(apis, version, EARLIEST) == (0, 0, -1, epoch)
    assert found(apis, version, T0 + 1) == (0, 1, T0 + 1000, epoch)
    assert found(apis, version, T0 + 5000) == (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "first", "expected"),
    [(MAX, 7, (0, 1, T0 + 1000, 2)), (EARLIEST_LOCAL, 8, (0, 0, -1, 2)), (LATEST_TIERED, 9, (0, -1, -1, -1)), (-6, 10, None)],
)
def test_specials_are_known_from_their_version_on(
    apis: Apis, timestamp: int, first: int, expected: tuple[int, int, int, int] | None
) -> None:
    for version in range(1, 10):
        answer = found(apis, version, timestamp)
        assert answer == (expected if version >= first else (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1))


def test_version_0_lists_starts_of_segments(apis: Apis) -> None:
    assert list_offset(apis, 0, LATEST).old_style_offsets == [2, 0]
    assert list_offset(apis, 0, EARLIEST).old_style_offsets == [0]
    assert list_offset(apis, 0, MAX).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list_offset(apis, 0, LATEST, topic="nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_errors(apis: Apis) -> None:
    apis.announce("far", leader=OTHER)
    assert found(apis, 5, LATEST, topic="nowhere")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found(apis, 5, LATEST, topic="far")[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert found(apis, 5, LATEST, epoch=1)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert found(apis, 5, LATEST, epoch=3)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert found(apis, 5, LATEST, times=2)[0] == ErrorCode.INVALID_REQUEST
    with pytest.raises(InvalidRequestError):
        list_offset(apis, 5, LATEST, isolation_level=3)


@pytest.mark.parametrize(("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)])
def test_a_leader_that_does_not_know_yet(apis: Apis, version: int, code: ErrorCode) -> None:
    apis.lead("r", replicas=(1, OTHER))
    apis.append(b"a", topic_partition=apis.replicas.get_partition(TopicPartition("r", 0)).topic_partition)
    apis.lead("r", replicas=(1, OTHER), epoch=1, version=1)
    assert found(apis, version, LATEST, topic="r")[0] == code


@pytest.mark.parametrize("version", range(5))
def test_the_end_of_an_epoch(apis: Apis, version: int) -> None:
    def end(topic: Any, epoch: Any, current: int = -1) -> Any:
        partition = OffsetForLeaderPartition(leader_epoch=epoch, current_leader_epoch=current)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[partition])])
        answer = apis.call(request, version).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert end(TOPIC, 2) == (0, 2 if version >= 1 else -1, 2)
    assert end(TOPIC, 3) == (0, -1, -1)
    assert end("nowhere", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    if version >= 2:
        assert end(TOPIC, 2, current=1) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)


@pytest.mark.parametrize("version", range(3))
def test_deleting_records(apis: Apis, version: int) -> None:
    def delete(offset: Any, topic: str = TOPIC) -> Any:
        partition = DeleteRecordsPartition(offset=offset)
        request = DeleteRecordsRequest(timeout_ms=1000, topics=[DeleteRecordsTopic(name=topic, partitions=[partition])])
        answer = apis.call(request, version).topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    assert delete(1) == (0, 1)
    assert delete(-1) == (0, 2)
    assert delete(3) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(0, "nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert apis.context.topics == [("nowhere", (0,), 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
