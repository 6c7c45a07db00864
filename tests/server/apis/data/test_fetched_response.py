import itertools
from typing import Any

from tests.support.cases import case
from twisted_kafka.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import PartitionFetch, PartitionRead
from twisted_kafka.server.apis.data.fetched_response import FetchedResponse, by_topic, size_of

VERSIONS = range(4, 19)


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
