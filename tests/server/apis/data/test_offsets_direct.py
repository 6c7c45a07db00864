import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.cases import case
from tests.replication.harness import TOPIC
from tests.server.apis.replica_apis import Apis
from twisted_kafka.log.results import TimestampAndOffset
from twisted_kafka.protocol.errors import InvalidRequestError
from twisted_kafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from twisted_kafka.server.apis.data.offsets_direct import FoundResponse, read_one

VERSIONS = range(1, 10)


def topic(version: int, name: str = "größe", *partitions: Any, **fields: Any) -> ListOffsetsTopic:
    values: dict[str, Any] = {"partition_index": 7, "timestamp": 1 << 40}
    if version >= 4:
        values["current_leader_epoch"] = 5
    return ListOffsetsTopic(name=name, partitions=list(partitions) or [ListOffsetsPartition(**values)], **fields)


def frame_of(version: int, *topics: Any, **fields: Any) -> bytes:
    if version >= 2:
        fields.setdefault("isolation_level", 1)
    return b"head" + ListOffsetsRequest(replica_id=-1, topics=list(topics), **fields).encode(version)


def test_it_reads_what_the_decoder_reads() -> None:
    for version, kind, name in itertools.product(VERSIONS, [bytes, bytearray, memoryview], ["größe", "n" * 126]):
        with case(version=version, kind=kind, name=name):
            one = read_one(kind(frame_of(version, topic(version, name))), version, 4)
            assert (one.replica_id, one.topic, one.index, one.timestamp) == (-1, name, 7, 1 << 40)
            assert one.isolation_level == (1 if version >= 2 else 0)
            assert one.leader_epoch == (5 if version >= 4 else -1)


def test_other_requests_are_left_to_the_decoder() -> None:
    for version in VERSIONS:
        with case(version=version):
            two = [ListOffsetsPartition(partition_index=index) for index in (0, 1)]
            others = [
                frame_of(version),
                frame_of(version, topic(version, "a"), topic(version, "b")),
                frame_of(version, topic(version, "a", *two)),
                frame_of(version, ListOffsetsTopic(name="a", partitions=[])),
                frame_of(version, topic(version, "")),
                frame_of(version, topic(version)) + b"\0",
            ]
            if version >= 6:
                others += [
                    frame_of(version, topic(version, "n" * 127)),
                    frame_of(version, topic(version), unknown_tagged_fields={1: b"x"}),
                    frame_of(version, topic(version, unknown_tagged_fields={1: b"x"})),
                    frame_of(version, topic(version, "a", ListOffsetsPartition(unknown_tagged_fields={1: b"x"}))),
                ]
            assert [read_one(frame, version, 4) for frame in others] == [None] * len(others)


def test_broken_requests_are_left_to_the_decoder() -> None:
    for version in VERSIONS:
        with case(version=version):
            frame = frame_of(version, topic(version))
            assert [read_one(frame[:end], version, 4) for end in range(len(frame))] == [None] * len(frame)
            assert read_one(frame.replace("ö".encode(), b"\xff\xff"), version, 4) is None


def test_it_writes_what_the_encoder_writes() -> None:
    for version, found in itertools.product(VERSIONS, [TimestampAndOffset(1 << 41, 1 << 40, 6), None]):
        with case(version=version, found=found):
            partition = ListOffsetsPartitionResponse(partition_index=3)
            if found is not None:
                partition.timestamp, partition.offset = found.timestamp_ms, found.offset
                partition.leader_epoch = found.leader_epoch if version >= 4 else -1
            message = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="größe", partitions=[partition])])
            response = FoundResponse("größe", 3, found)
            assert response.encode_parts(version, b"head") == message.encode_parts(version, b"head")
            if version >= 2:
                message.throttle_time_ms = 1 << 30
            assert response.throttled(1 << 30).encode_parts(version, b"head") == message.encode_parts(version, b"head")


@pytest.mark.parametrize(
    ("timestamp", "fields", "is_direct"),
    [
        (0, {}, True),
        (-1, {}, True),
        (-2, {"isolation_level": 1}, True),
        (-3, {}, False),
        (-1, {"current_leader_epoch": 9}, False),
        (-1, {"name": "unknown"}, False),
        (-1, {"isolation_level": 2}, False),
    ],
)
def test_errors_are_left_to_the_other_way(tmp_path: Path, timestamp: int, fields: dict[str, Any], is_direct: bool) -> None:
    apis = Apis(tmp_path)
    apis.lead(epoch=2)
    apis.append(b"a")
    asked = ListOffsetsPartition(timestamp=timestamp, current_leader_epoch=fields.get("current_leader_epoch", -1))
    topics = [ListOffsetsTopic(name=fields.get("name", TOPIC), partitions=[asked])]
    request = ListOffsetsRequest(replica_id=-1, topics=topics, isolation_level=fields.get("isolation_level", 0))
    try:
        answer = apis.start(request, 5)
    except InvalidRequestError:
        answer = None
    assert isinstance(answer, FoundResponse) is is_direct
    assert apis.context.topics is None or len(apis.context.topics) == 1
