"""Records sent in one format and read in another; topics that are gone."""

from twisted_kafka.protocol.messages.administration.topics import DeleteTopicsRequest
from twisted_kafka.protocol.messages.coordinators.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest
from twisted_kafka.protocol.messages.list_offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import ProduceRequest
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch, build_message_set
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.data_requests import START_MS, data, fetch, list_offsets, produce, records
from twisted_kafka.tools.compare.scenarios.coordinators.groups import commit
from twisted_kafka.tools.compare.talk import Talk, scenario

CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
WHOLE = 1_000_000
MOST_FETCHES = 30


def consumed(talk: Talk, version: int, topic: str, offset: int = 0) -> None:
    """Note the records that a consumer gets, fetch after fetch, whatever came in one answer, and the error that ends it."""
    topic_id = talk.topic_id(topic)
    got: list[object] = []
    for _ in range(MOST_FETCHES):
        request = fetch(topic, FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=WHOLE), min_bytes=0)
        if version >= 13:
            request.topics[0].topic_id = topic_id
        answer = talk.ask(request, version, note=False).responses[0].partitions[0]
        read = [
            (batch.magic, int(batch.compression), record)
            for batch in batches(answer.records or b"")
            for record in plain_records(batch)
            if record[0] >= offset  # type: ignore[operator]
        ]
        if answer.error_code or not read:
            got.append((answer.error_code, answer.high_watermark))
            break
        got += read
        offset = read[-1][2][0] + 1  # type: ignore[operator]
    talk.answers.append((f"consumed v{version} records", got))


def plain_records(batch: object) -> list[tuple[object, ...]]:
    return [
        (record.offset, record.timestamp_ms, record.key, record.value, list(record.headers))
        for record in batch.records()  # type: ignore[attr-defined]
    ]


@scenario(FetchRequest)
def any_format_is_read_by_any_version(talk: Talk, version: int) -> None:
    for codec in CODECS:
        topic = talk.create(f"t{int(codec)}")
        for sent_with in (0, 2, 3, 1, 8):
            talk.ask(produce(topic, data(sent_with, 4, sent_with * 10, codec)), sent_with, note=False)
        consumed(talk, version, topic)
        consumed(talk, version, topic, 2)
        consumed(talk, version, topic, 13)
    mixed = talk.create("mixed")
    for codec in (*CODECS, Compression.ZSTD, Compression.GZIP):
        talk.ask(produce(mixed, data(8, 3, compression=codec)), 8, note=False)
    consumed(talk, version, mixed)
    consumed(talk, version, mixed, 13)


@scenario(FetchRequest)
def headers_times_and_nothing(talk: Talk, version: int) -> None:
    topic = talk.create("t", message_timestamp_type="LogAppendTime")
    talk.ask(produce(topic, data(8)), 8, note=False)
    request = fetch(topic, FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=WHOLE))
    if version >= 13:
        request.topics[0].topic_id = talk.topic_id(topic)
    answer = talk.ask(request, version, note=False).responses[0].partitions[0]
    stamped = [
        (record.offset, record.timestamp_ms > START_MS, record.timestamp_ms > 0, batch.attributes)
        for batch in batches(answer.records)
        for record in batch.records()
    ]
    talk.answers.append(("stamped", stamped))
    strange = talk.create("strange")
    odd = [
        SimpleRecord(START_MS, None, None, (("h", b"v"), ("h", None))),
        SimpleRecord(START_MS - 5, b"", b"", ()),
        SimpleRecord(START_MS + 5, b"k" * 300, "\N{SNOWMAN}".encode(), (("", b""),)),
    ]
    for codec in (Compression.NONE, Compression.GZIP):
        talk.ask(produce(strange, build_batch(odd, compression=codec)), 8, note=False)
    consumed(talk, version, strange)


@scenario(ProduceRequest)
def message_sets(talk: Talk, version: int) -> None:
    """Several messages, wrong ones among them, as the old versions sent them."""
    magic = 1 if version == 2 else 0
    if version >= 3:
        return
    for codec in CODECS:
        topic = talk.create(f"t{int(codec)}")
        one = build_message_set(records(2), magic=magic, compression=codec)
        other = build_message_set(records(2, 10), magic=magic, compression=codec)
        talk.ask(produce(topic, one + other), version)
        talk.ask(produce(topic, one + other[:-2]), version)
        broken = bytearray(one + other)
        broken[-1] ^= 1
        talk.ask(produce(topic, bytes(broken)), version)
        broken[-1] ^= 1
        broken[12] ^= 1
        talk.ask(produce(topic, bytes(broken)), version)
        talk.ask(produce(topic, build_message_set(records(2), magic=1 - magic, compression=codec)), version)
        talk.ask(produce(topic, one + build_message_set(records(2), magic=1 - magic, compression=codec)), version)
        talk.ask(produce(topic, build_batch(records(2), compression=codec)), version)
        stamped = talk.create(f"stamped{int(codec)}", message_timestamp_type="LogAppendTime")
        talk.ask(produce(stamped, one), version)
        keyed = talk.create(f"keyed{int(codec)}", cleanup_policy="compact")
        keyless = [SimpleRecord(START_MS, key, b"v", ()) for key in (b"k", None, b"l")]
        talk.ask(produce(keyed, build_message_set(keyless, magic=magic, compression=codec)), version)
        consumed(talk, 11, topic)


@scenario(ProduceRequest, since=3)
def times_out_of_range(talk: Talk, version: int) -> None:
    topic = talk.create("t", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    for start in (0, START_MS, 4_000_000_000_000):
        late = [SimpleRecord(start + at, b"k", b"v", ()) for at in range(2)]
        talk.ask(produce(topic, build_batch(late)), version)
    none = [SimpleRecord(-1, b"k", b"v", ())]
    talk.ask(produce(topic, build_batch(none)), version)


@scenario(ProduceRequest, since=3)
def codecs_of_the_topic(talk: Talk, version: int) -> None:
    for name in ("gzip", "snappy", "lz4", "zstd", "uncompressed", "producer"):
        topic = talk.create(name, compression_type=name)
        for codec in (Compression.NONE, Compression.GZIP, Compression.LZ4):
            talk.ask(produce(topic, data(version, compression=codec)), version)
        consumed(talk, 11, topic)
        consumed(talk, 9, topic)
        consumed(talk, 3, topic)


@scenario(ProduceRequest, since=3)
def several_partitions_at_once(talk: Talk, version: int) -> None:
    topic, other = talk.create("t", 2), talk.create("u")
    request = produce(topic, data(version))
    request.topic_data += produce(other, data(version)).topic_data
    for partition, sent in ((1, data(version)[:-1]), (5, data(version))):
        request.topic_data[0].partition_data += produce(topic, sent, partition).topic_data[0].partition_data
    talk.ask(request, version)
    request.topic_data[0].partition_data[0].records, request.topic_data[1].name = data(version), "no." + other
    talk.ask(request, version)
    request = produce(topic, data(version))
    request.topic_data += produce(topic, data(version), partition=1).topic_data
    talk.ask(request, version)
    request = produce(topic, data(version))
    request.topic_data[0].partition_data *= 2
    talk.ask(request, version)
    talk.ask(ProduceRequest(acks=1, topic_data=[]), version)
    request = produce(topic, data(version), acks=0)
    talk.send(request, version)
    talk.ask(produce(topic, data(version)), version)
    talk.send(produce("no." + topic, data(version), acks=0), version)
    talk.receive(ProduceRequest, version)  # an error with acks=0 closes the connection


def gone_from_the_leader(talk: Talk, topic: str) -> None:
    """Wait until the replica is gone: Apache Kafka answers the deletion before."""
    end = list_offsets(topic, -1)
    talk.until(lambda: talk.ask(end, 5, note=False).topics[0].partitions[0].error_code, f"{topic} is not deleted")


@scenario(MetadataRequest)
def deleted_topic(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    topic_id = talk.topic_id(topic)
    talk.ask(produce(topic, data(8)), 8, note=False)
    talk.ask(commit(2, talk.topic("group"), topic), 2, note=False)
    talk.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 4)
    if version >= 4:
        missing = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        talk.ask(missing, version)
    if version >= 12:
        talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)]), version)
    if version < 12:
        return
    gone_from_the_leader(talk, topic)
    talk.ask(produce(topic, data(8)), 8)
    talk.ask(fetch(topic, FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=WHOLE)), 12)
    request = fetch(topic, FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=WHOLE))
    request.topics[0].topic_id = topic_id
    talk.ask(request, 13)
    talk.ask(list_offsets(topic, -1), 5)
    entry = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    talk.ask(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[entry])]), 2)
    wanted = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    talk.ask(OffsetFetchRequest(group_id=talk.topic("group"), topics=wanted), 5)
    talk.create("t")
    talk.answers.append(("another id", talk.topic_id(topic) != topic_id))
    talk.ask(OffsetFetchRequest(group_id=talk.topic("group"), topics=wanted), 5)
    request.topics[0].topic_id = talk.topic_id(topic)
    talk.ask(request, 13)
