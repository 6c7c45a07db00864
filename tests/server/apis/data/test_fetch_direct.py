import itertools
from typing import Any

from tests.cases import case
from twisted_kafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import PartitionFetch, PartitionRead
from twisted_kafka.server.apis.data.fetch_direct import FetchedResponse, OneFetch, by_topic, read_one, size_of

VERSIONS = range(4, 18)
IDS = {bytes(range(16)): "größe"}
TOPIC_ID = next(iter(IDS))
PARTITION = {
    "partition": 7,
    "current_leader_epoch": 5,
    "fetch_offset": 1 << 40,
    "last_fetched_epoch": 4,
    "log_start_offset": 3,
    "partition_max_bytes": 1 << 20,
}


def partition(version: int, **fields: Any) -> FetchPartition:
    values = PARTITION | fields
    for name, since in (("current_leader_epoch", 9), ("last_fetched_epoch", 12), ("log_start_offset", 5)):
        if version < since:
            values[name] = -1
    return FetchPartition(**values)


def topic(version: int, *partitions: Any, name: str = "größe", topic_id: bytes = TOPIC_ID, **fields: Any) -> FetchTopic:
    named = {"topic_id": topic_id} if version >= 13 else {"topic": name}
    return FetchTopic(**named, partitions=list(partitions) or [partition(version)], **fields)


def frame_of(version: int, *topics: Any, **fields: Any) -> bytes:
    values: dict[str, Any] = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 25,
        "isolation_level": 1,
        "topics": list(topics),
    }
    if version >= 7:
        values |= {"session_id": 77, "session_epoch": 9}
    if version >= 11:
        values["rack_id"] = "rack-ä"
    return b"head" + FetchRequest(**(values | fields)).encode(version)


def read(frame: bytearray | bytes | memoryview, version: int) -> OneFetch | None:
    return read_one(frame, version, 4, IDS.get)


def test_it_reads_what_the_decoder_reads() -> None:
    for version, kind, topics in itertools.product(VERSIONS, [bytes, bytearray, memoryview], [0, 1]):
        with case(version=version, kind=kind, topics=topics):
            frame = frame_of(version, *[topic(version)] * topics)
            message = FetchRequest.decode(frame, version, 4)
            one = read(kind(frame), version)
            for name in ("replica_id", "max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch"):
                assert getattr(one, name) == getattr(message, name)
            assert len(one.fetches) == topics
            for fetch in one.fetches:
                asked = message.topics[0].partitions[0]
                for name in ("partition", "fetch_offset", "log_start_offset", "current_leader_epoch", "last_fetched_epoch"):
                    assert getattr(fetch, name) == getattr(asked, name)
                assert fetch.max_bytes == asked.partition_max_bytes
                assert fetch.topic_id == message.topics[0].topic_id
                assert fetch.topic_partition == TopicPartition("größe", 7)


def test_an_unknown_topic_id_is_a_fetch_without_a_topic() -> None:
    for version in [13, 17]:
        with case(version=version):
            one = read(frame_of(version, topic(version, topic_id=b"?" * 16)), version)
            assert one.fetches[0].topic_partition is None
            assert one.fetches[0].topic_id == b"?" * 16


def test_other_requests_are_left_to_the_decoder() -> None:
    for version in VERSIONS:
        with case(version=version):
            both = [partition(version), partition(version, partition=8)]
            others = [
                frame_of(version, topic(version), topic(version)),
                frame_of(version, topic(version, *both)),
                frame_of(version, topic(version)) + b"\0",
            ]
            if version >= 7:
                forgotten = ForgottenTopic(**({"topic_id": TOPIC_ID} if version >= 13 else {"topic": "a"}), partitions=[1])
                others.append(frame_of(version, topic(version), forgotten_topics_data=[forgotten]))
            if version < 13:
                others.append(frame_of(version, topic(version, name="")))
            if version == 12:
                others.append(frame_of(version, topic(version, name="n" * 127)))
            if version >= 12:
                tags = {99: b"x"}
                others += [
                    frame_of(version, topic(version), cluster_id="here"),
                    frame_of(version, topic(version), unknown_tagged_fields=tags),
                    frame_of(version, topic(version, unknown_tagged_fields=tags)),
                    frame_of(version, topic(version, partition(version, unknown_tagged_fields=tags))),
                    frame_of(version, topic(version), rack_id="r" * 200)[:-1] + b"\1",
                ]
            if version >= 15:
                others.append(frame_of(version, topic(version), replica_state=ReplicaState(replica_id=1, replica_epoch=1)))
            if version >= 17:
                others.append(frame_of(version, topic(version, partition(version, replica_directory_id=b"d" * 16))))
            assert [read(frame, version) for frame in others] == [None] * len(others)


def test_broken_requests_are_left_to_the_decoder() -> None:
    for version in VERSIONS:
        with case(version=version):
            frame = frame_of(version, topic(version))
            assert [read(frame[:end], version) for end in range(len(frame))] == [None] * len(frame)
            if version < 13:
                assert read(frame.replace("ö".encode(), b"\xff\xff"), version) is None
            if version >= 11:
                assert read(frame.replace("ä".encode(), b"\xff\xff"), version) is None


def region(size_bytes: int) -> FileRegion:
    with open(__file__, "rb", buffering=0) as file:
        return FileRegion(file, 0, size_bytes)


def answers(
    version: int, count: int, records: FileRegion | bytes, aborted: Any
) -> tuple[list[tuple[PartitionFetch, PartitionRead]], list[FetchableTopicResponse]] | tuple[list[Any], list[Any]]:
    """Return partitions in the order of their topics, and the message that says the same."""
    names = ["größe", "größe", "second", "größe"][:count]
    news: list[Any] = []
    topics: list[Any] = []
    for index, name in enumerate(names):
        topic_id = name.encode().ljust(16, b"!")[:16] if version >= 13 else bytes(16)
        result = PartitionRead(0, 1 << 41, 1 << 40, 17)
        result.records = records
        result.size_bytes = len(records)
        result.aborted_transactions = aborted
        news.append((PartitionFetch(TopicPartition(name, index), topic_id, index, 5, 6), result))
        if not topics or names[index - 1] != name:
            topics.append(FetchableTopicResponse(**({"topic_id": topic_id} if version >= 13 else {"topic": name}), partitions=[]))
        data = PartitionData(partition_index=index, high_watermark=1 << 41, last_stable_offset=1 << 40, records=records)
        data.log_start_offset = 17 if version >= 5 else -1
        data.aborted_transactions = aborted
        topics[-1].partitions.append(data)
    return news, topics


def test_it_writes_what_the_encoder_writes() -> None:
    for version, count, aborted, size in itertools.product(VERSIONS, range(5), [None, []], [0, 1, 126, 127, 100_000]):  # type: ignore[var-annotated]
        with case(version=version, count=count, aborted=aborted, size=size):
            news, topics = answers(version, count, b"r" * size, aborted)
            message = FetchResponse(responses=topics, session_id=99 if version >= 7 else 0)
            written = FetchedResponse(99, by_topic(news)).encode_parts(version, b"head")
            assert written == message.encode_parts(version, b"head")
            assert size_of(version, by_topic(news)) == sum(map(len, written))  # the head is as long as the size prefix


def test_regions_of_files_stay_what_they_are() -> None:
    for version in VERSIONS:
        with case(version=version):
            records = region(1000)
            news, topics = answers(version, 2, records, None)
            written = FetchedResponse(99, by_topic(news)).encode_parts(version, b"head")
            message = FetchResponse(responses=topics, session_id=99 if version >= 7 else 0)
            assert written == message.encode_parts(version, b"head")
            assert written.count(records) == 2
