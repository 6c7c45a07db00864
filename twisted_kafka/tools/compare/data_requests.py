"""Requests that many scenarios need: records are written, fetched and looked for."""

from typing import Any

from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch, build_message_set
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.talk import Talk

START_MS = 1_790_000_000_000


def records(count: int, start: int = 0) -> list[SimpleRecord]:
    """Return records with different keys, values and times."""
    return [SimpleRecord(START_MS + start + at, b"k%d" % at, b"value %d" % (start + at), ()) for at in range(count)]


def data(version: int, count: int = 3, start: int = 0, compression: Compression = Compression.NONE) -> bytes:
    """A batch as the clients of that time sent it."""
    if version >= 3:
        return build_batch(records(count, start), compression=compression)
    return build_message_set(records(count, start), magic=1 if version == 2 else 0, compression=compression)


def produce(topic: str, batch: bytes | None, partition: int = 0, acks: int = 1, timeout_ms: int = 5000) -> ProduceRequest:
    """Return a request that writes a batch to one partition."""
    entry = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[entry])


def fill(talk: Talk, topic: str, batches: int = 2) -> None:
    """Write batches of three records; the answers are not noted."""
    for at in range(batches):
        talk.ask(produce(topic, data(8, 3, at * 10)), 8, note=False)


def fetch(topic: str, *partitions: FetchPartition, **fields: int) -> FetchRequest:
    """Return a request that fetches from partitions of one topic."""
    settings: dict[str, Any] = {"max_wait_ms": 50, "min_bytes": 1, "max_bytes": 10_000_000} | fields
    return FetchRequest(topics=[FetchTopic(topic=topic, partitions=list(partitions))], **settings)


def by_id(talk: Talk, request: FetchRequest, version: int) -> FetchRequest:
    """Name the topics by id where the version does."""
    if version >= 13:
        for topic in request.topics:
            topic.topic_id = talk.topic_id(topic.topic)
    return request


def list_offsets(topic: str, timestamp: int, partition: int = 0, epoch: int = -1, most: int = 1) -> ListOffsetsRequest:
    """Return a request for the offset at a time of one partition."""
    entry = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch, max_num_offsets=most)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[entry])])
