"""Requests with records."""

from tests.support.oracle.talk import Talk
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch, build_message_set
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord

START_MS = 1_790_000_000_000


def records(count: int, start: int = 0) -> list[SimpleRecord]:
    return [SimpleRecord(START_MS + start + at, b"k%d" % at, b"value %d" % (start + at), ()) for at in range(count)]


def data(version: int, count: int = 3, start: int = 0, compression: Compression = Compression.NONE) -> bytes:
    """A batch as the clients of that time sent it."""
    if version >= 3:
        return build_batch(records(count, start), compression=compression)
    return build_message_set(records(count, start), magic=1 if version == 2 else 0, compression=compression)


def produce(topic: str, batch: bytes | None, partition: int = 0, acks: int = 1, timeout_ms: int = 5000) -> ProduceRequest:
    entry = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[entry])


def fill(talk: Talk, topic: str, batches: int = 2) -> None:
    for at in range(batches):
        talk.ask(produce(topic, data(8, 3, at * 10)), 8, note=False)
