import itertools
from typing import Any

from tests.cases import case
from twisted_kafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from twisted_kafka.server.apis.data.produce_direct import AppendedResponse, read_one

VERSIONS = range(3, 12)


def topic(name: str = "topic", *partitions: Any, **fields: Any) -> TopicProduceData:
    data = partitions or (PartitionProduceData(index=3, records=b"r" * 200),)
    return TopicProduceData(name=name, partition_data=list(data), **fields)


def frame_of(version: int, *topics: Any, **fields: Any) -> bytes:
    request = ProduceRequest(acks=1, timeout_ms=1234, topic_data=list(topics), **fields)
    return b"head" + request.encode(version)


def test_it_reads_what_the_decoder_reads() -> None:
    for version, kind, size in itertools.product(VERSIONS, [bytes, bytearray, memoryview], [0, 1, 126, 127, 128, 20_000]):
        with case(version=version, kind=kind, size=size):
            frame = frame_of(version, topic("größe", PartitionProduceData(index=7, records=b"x" * size)))
            one = read_one(kind(frame), version, 4)
            assert (one.acks, one.timeout_ms, one.topic, one.index, bytes(one.records)) == (1, 1234, "größe", 7, b"x" * size)


def test_the_records_are_a_part_of_the_frame() -> None:
    for version in VERSIONS:
        with case(version=version):
            frame = bytearray(frame_of(version, topic()))
            read_one(frame, version, 4).records[0] = ord("!")
            assert ProduceRequest.decode(frame, version, 4).topic_data[0].partition_data[0].records[:2] == b"!r"


def test_other_requests_are_left_to_the_decoder() -> None:
    for version in VERSIONS:
        with case(version=version):
            two = [PartitionProduceData(index=index, records=b"r") for index in (0, 1)]
            others = [
                frame_of(version),
                frame_of(version, topic("a"), topic("b")),
                frame_of(version, topic("a", *two)),
                frame_of(version, TopicProduceData(name="a", partition_data=[])),
                frame_of(version, topic("a", PartitionProduceData(index=0, records=None))),
                frame_of(version, topic(""), transactional_id=None),
                frame_of(version, topic(), transactional_id="mine"),
                frame_of(version, topic(), transactional_id=""),
                frame_of(version, topic()) + b"\0",
            ]
            if version >= 9:
                others += [
                    frame_of(version, topic("n" * 127)),
                    frame_of(version, topic(), unknown_tagged_fields={1: b"x"}),
                    frame_of(version, topic("a", unknown_tagged_fields={1: b"x"})),
                    frame_of(version, topic("a", PartitionProduceData(index=0, records=b"r", unknown_tagged_fields={1: b"x"}))),
                ]
            assert [read_one(frame, version, 4) for frame in others] == [None] * len(others)


def test_broken_requests_are_left_to_the_decoder() -> None:
    for version in VERSIONS:
        with case(version=version):
            frame = frame_of(version, topic())
            assert [read_one(frame[:end], version, 4) for end in range(len(frame))] == [None] * len(frame)
            assert read_one(frame.replace(b"topic", b"t\xffpic"), version, 4) is None


def test_it_writes_what_the_encoder_writes() -> None:
    for version in VERSIONS:
        with case(version=version):
            start = 17 if version >= 5 else -1
            partition = PartitionProduceResponse(index=3, base_offset=1 << 40, log_append_time_ms=99, log_start_offset=start)
            message = ProduceResponse(responses=[TopicProduceResponse(name="größe", partition_responses=[partition])])
            response = AppendedResponse("größe", 3, 1 << 40, 99, 17)
            assert response.encode_parts(version, b"head") == message.encode_parts(version, b"head")
            message.throttle_time_ms = 1 << 30
            assert response.throttled(1 << 30).encode_parts(version, b"head") == message.encode_parts(version, b"head")
