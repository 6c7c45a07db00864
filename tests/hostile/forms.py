"""The forms in which a hostile client sends a gigabyte. Each is a sequence of connections.

Left out are requests that store something for good, such as topics, groups and offsets: what they store grows with what is sent, in
Apache Kafka too. ACLs, quotas and ``delete.topic.enable`` are for these.
"""

import itertools
import random
import struct
from collections.abc import Callable, Iterator

from tests.hostile.hose import Stream
from tests.hostile.hostile_messages import HostileMessages, crowded, frame
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.wire import varint_bytes
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord

MIB = 1 << 20
LARGEST_FRAME_BYTES = 100 * MIB
"""The default of socket.request.max.bytes."""
STORING = {
    ApiKey.PRODUCE,
    ApiKey.CREATE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.CREATE_ACLS,
    ApiKey.OFFSET_COMMIT,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.JOIN_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.METADATA,
}
"""APIs whose valid requests store something; Metadata creates topics."""
Versions = dict[int, tuple[int, int]]
"""The lowest and highest version by API key."""


def empty_frames(_rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Frames without a byte, behind a fetch that waits."""
    waiting = frame(ApiKey.FETCH, 11, FetchRequest(replica_id=-1, max_wait_ms=30_000, min_bytes=1, topics=[_fetched()]).encode(11))
    return _endlessly(lambda: Stream(itertools.chain([waiting], itertools.repeat(bytes(MIB)))))


def tiny_frames(_rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Frames of two bytes, behind a fetch that waits."""
    waiting = frame(ApiKey.FETCH, 11, FetchRequest(replica_id=-1, max_wait_ms=30_000, min_bytes=1, topics=[_fetched()]).encode(11))
    return _endlessly(lambda: Stream(itertools.chain([waiting], itertools.repeat(b"\0\0\0\2ab" * 20_000))))


def noise(rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Random bytes after a plausible length."""
    block = rng.randbytes(MIB)

    def chunks() -> Iterator[bytes]:
        yield struct.pack(">i", rng.randrange(10, LARGEST_FRAME_BYTES))
        for _ in range(20):
            cut = rng.randrange(MIB)
            yield block[cut:] + block[:cut]

    return _endlessly(lambda: Stream(chunks()))


def unfinished_frames(_rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """The largest frames, of which the last byte never comes."""
    head = struct.pack(">i", LARGEST_FRAME_BYTES) + struct.pack(">hhih", ApiKey.PRODUCE, 7, 1, -1)
    chunks = [head, *[bytes(MIB)] * 99]
    return _endlessly(lambda: Stream(iter(chunks), reads=False, stays=True))


def promised_frames(_rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """The largest frames are announced on many connections, and 64 KiB of each are sent."""
    head = struct.pack(">i", LARGEST_FRAME_BYTES) + struct.pack(">hhih", ApiKey.PRODUCE, 7, 1, -1)
    return _endlessly(lambda: Stream(iter([head + bytes(65_536)]), reads=False, stays=True))


def crowded_arrays(rng: random.Random, apis: Versions) -> Iterator[Stream]:
    """Each API in turn with as many elements as fit into 16 MiB."""
    for key in itertools.cycle(sorted(set(apis) - STORING)):
        low, high = apis[key]
        version = rng.randint(low, high)
        body = crowded(key, version, 16 * MIB)
        if body is not None:
            yield Stream(iter([frame(key, version, body)]))


def crowded_small_arrays(rng: random.Random, apis: Versions) -> Iterator[Stream]:
    """Each API in turn with as many elements as fit into 256 KiB, several requests to a connection."""
    for key in itertools.cycle(sorted(set(apis) - STORING)):
        low, high = apis[key]
        version = rng.randint(low, high)
        body = crowded(key, version, MIB // 4)
        if body is not None:
            yield Stream(iter([frame(key, version, body)] * 4))


def client_ids(rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """A client id of the largest size, of control characters, on a connection of its own."""

    def stream() -> Stream:
        client_id = "".join(rng.choices("\x01\x1b\r\n", k=32_760)) + str(rng.random())[:7]
        return Stream(iter([frame(ApiKey.API_VERSIONS, 0, b"", client_id)]))

    return _endlessly(stream)


def many_client_ids(rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Many client ids on one connection."""
    return _endlessly(lambda: Stream(frame(ApiKey.API_VERSIONS, 0, b"", f"{rng.random()}" + "x" * 32_000) for _ in range(1000)))


def header_tags(rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Tagged fields in the request header, each time others."""

    def requests() -> Iterator[bytes]:
        for _ in range(100):
            tags = b"\1\x07" + b"\x80\xe0\1" + rng.randbytes(28_672)
            header = struct.pack(">hhih", ApiKey.METADATA, 9, 1, 1) + b"f" + tags
            body = MetadataRequest(topics=[]).encode(9)
            yield struct.pack(">i", len(header) + len(body)) + header + body

    return _endlessly(lambda: Stream(requests(), stays=True))


def unknown_topics(rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Produces to topics that do not exist."""
    records = build_batch([SimpleRecord(0, None, b"v")])

    def produce() -> bytes:
        topics = [
            TopicProduceData(
                name=f"{rng.random()}" + "n" * rng.choice((1, 200, 30_000)),
                partition_data=[PartitionProduceData(index=0, records=records)],
            )
            for _ in range(20)
        ]
        return frame(ApiKey.PRODUCE, 7, ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics).encode(7))

    return _endlessly(lambda: Stream(produce() for _ in range(50)))


def topic_lists(rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Metadata of lists of names, each time in another order."""

    def metadata() -> bytes:
        names = ["t0", "t1", *(f"u{rng.randrange(10**6)}" for _ in range(1000))]
        rng.shuffle(names)
        topics = [MetadataRequestTopic(name=name) for name in names]
        return frame(ApiKey.METADATA, 5, MetadataRequest(topics=topics, allow_auto_topic_creation=False).encode(5))

    return _endlessly(lambda: Stream(metadata() for _ in range(100)))


def abandoned_fetches(_rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Fetches that wait for the longest time, of clients that have gone."""
    fetch = FetchRequest(replica_id=-1, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, topics=[_fetched(partitions=2)] * 500)
    return _endlessly(lambda: Stream(iter([frame(ApiKey.FETCH, 11, fetch.encode(11))]), reads=False))


def hostile_values(rng: random.Random, apis: Versions) -> Iterator[Stream]:
    """Valid requests with hostile values, of all APIs that store nothing."""
    messages = HostileMessages(rng, [])
    keys = sorted(set(apis) - STORING)

    def request() -> bytes:
        while True:
            key = rng.choice(keys)
            version = rng.randint(*apis[key])
            try:
                return frame(key, version, messages.draw(key, version).encode(version))
            except (ValueError, TypeError, OverflowError, struct.error):
                continue  # no version has every combination of values

    return _endlessly(lambda: Stream(request() for _ in range(200)))


def unread_answers(_rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Requests for all topics and all settings from clients that read no answer."""
    request = frame(ApiKey.METADATA, 5, MetadataRequest(topics=None, allow_auto_topic_creation=False).encode(5))
    return _endlessly(lambda: Stream(itertools.repeat(request * 2000, 5), reads=False, stays=True))


def waiting_frames(_rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Fetches that wait, each with a megabyte of tagged fields that nobody knows."""
    fetch = FetchRequest(replica_id=-1, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, topics=[_fetched(partitions=2)])
    tags = b"\1" + varint_bytes(99) + varint_bytes(MIB) + bytes(MIB)
    request = frame(ApiKey.FETCH, 12, fetch.encode(12)[:-1] + tags)
    return _endlessly(lambda: Stream(iter([request]), reads=False, stays=True))


def half_frames(_rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Half of a small frame on each of many connections."""
    half = struct.pack(">i", 60_000) + struct.pack(">hhih", ApiKey.PRODUCE, 7, 1, -1) + bytes(30_000)
    return _endlessly(lambda: Stream(iter([half]), reads=False, stays=True))


def software_names(rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Names of client software of the largest size, on connections that stay open."""

    def stream() -> Stream:
        names = ("".join(rng.choices("abc", k=10)) + "n" * 32_700 for _ in range(2))
        body = ApiVersionsRequest(client_software_name=next(names), client_software_version=next(names)).encode(3)
        return Stream(iter([frame(ApiKey.API_VERSIONS, 3, body)]), stays=True)

    return _endlessly(stream)


def compressed_bombs(_rng: random.Random, _apis: Versions) -> Iterator[Stream]:
    """Batches of some kilobytes whose records are as large as a broker decompresses."""
    requests = []
    for codec in (Compression.GZIP, Compression.ZSTD):
        records = build_batch([SimpleRecord(0, None, bytes(48 * MIB))], compression=codec)
        topics = [TopicProduceData(name="t0", partition_data=[PartitionProduceData(index=0, records=records)])]
        requests.append(frame(ApiKey.PRODUCE, 7, ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics).encode(7)))
    return _endlessly(lambda: Stream(iter(requests * 10)))


def sasl_tokens(rng: random.Random, apis: Versions) -> Iterator[Stream]:
    """Handshakes, and then tokens as large as a listener takes before login."""

    def chunks() -> Iterator[bytes]:
        yield frame(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN").encode(1))
        yield from (frame(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=rng.randbytes(500_000)).encode(1)),) * 2

    return _endlessly(lambda: Stream(chunks(), stays=True))


BEFORE_LOGIN: tuple[Callable[[random.Random, Versions], Iterator[Stream]], ...] = (
    empty_frames,
    tiny_frames,
    noise,
    unfinished_frames,
    promised_frames,
    crowded_arrays,
    client_ids,
    many_client_ids,
    header_tags,
    hostile_values,
    half_frames,
    software_names,
    sasl_tokens,
)
FORMS = (
    *BEFORE_LOGIN,
    crowded_small_arrays,
    unknown_topics,
    topic_lists,
    abandoned_fetches,
    unread_answers,
    waiting_frames,
    compressed_bombs,
)


def _endlessly(make: Callable[[], Stream]) -> Iterator[Stream]:
    while True:
        yield make()


def _fetched(partitions: int = 1) -> FetchTopic:
    asked = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000) for number in range(partitions)]
    return FetchTopic(topic="t0", partitions=asked)
