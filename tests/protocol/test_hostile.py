"""Hostile bytes raise one error, never hang, and take no more memory than a small multiple of the frame."""

import contextlib
import random
import struct
from collections.abc import Iterable

import pytest

from tests.protocol import samples, vectors
from tests.support.budget import STRIDE, share_of
from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.protocol.compiler.codec import MalformedMessageError, Message, TooManyElementsError
from twisted_kafka.protocol.compiler.wire import varint_bytes
from twisted_kafka.protocol.messages.administration.acls import DescribeAclsResponse
from twisted_kafka.protocol.messages.administration.quotas import AlterClientQuotasRequest
from twisted_kafka.protocol.messages.administration.topics import CreatePartitionsRequest
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

# Python objects are large. The worst element of all messages has four bytes on the wire (three empty arrays and no tags) and takes
# 288 bytes; lists grow by an eighth more than they need.
MEMORY_FACTOR = 110
MUTATIONS = share_of(150_000)


def frames(max_bytes: int) -> list[tuple[type[Message], int, bytes]]:
    """Return the frames of the vectors that have at most ``max_bytes`` bytes."""
    found = []
    for vector in vectors.load():
        data = bytes.fromhex(vector["hex"])
        if len(data) <= max_bytes:
            cls, version, _ = vectors.resolve(vector)
            found.append((cls, version, data))
    return found


@pytest.mark.medium
def test_every_truncation_is_refused() -> None:
    for number, (cls, version, data) in enumerate(frames(160)):
        for size in range(number % STRIDE, len(data), STRIDE):
            with pytest.raises(MalformedMessageError):
                cls.decode(data[:size], version)


@pytest.mark.parametrize(
    ("message", "version", "elements"),
    [
        (MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 50), 9, 50),
        (MetadataRequest(topics=[MetadataRequestTopic(name="t" * 2560)] * 5), 1, 5 + 5 * 10),
        (FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()] * 9)] * 3), 11, 3 + 27),
        (FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[0] * 80)]), 11, 1 + 10),
        (ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=bytes(9999))])]), 9, 2),
        (JoinGroupRequest(protocols=[JoinGroupRequestProtocol(metadata=bytes(25_600))]), 5, 1 + 100),
        (HeartbeatRequest(unknown_tagged_fields=dict.fromkeys(range(7), b"")), 4, 7),
    ],
)
def test_the_elements_of_all_arrays_are_counted(message: Message, version: int, elements: int) -> None:
    data = message.encode(version)
    for view in (data, memoryview(data)):
        assert type(message).decode(view, version, 0, elements).encode(version) == data
        with pytest.raises(TooManyElementsError, match="too many elements"):
            type(message).decode(view, version, 0, elements - 1)


def mutate(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not out:
            break
        place = rng.randrange(len(out))
        kind = rng.randrange(5)
        if kind == 0:
            out[place] = rng.randrange(256)
        elif kind == 1:
            out[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[place : place + rng.randrange(1, 5)]
        elif kind == 3:
            out[place:place] = rng.randbytes(rng.randrange(1, 5))
        else:
            out[place : place + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"))
    return bytes(out)


def run_mutations(count: int, seed: int) -> None:
    rng = random.Random(seed)
    known = frames(2000)
    refused = 0
    for _ in range(count):
        cls, version, data = known[rng.randrange(len(known))]
        mutated = mutate(data, rng)
        try:
            message = cls.decode(mutated, version)
        except MalformedMessageError:
            refused += 1
            continue
        again = message.encode(version)
        assert cls.decode(again, version).encode(version) == again
    assert 0 < refused < count


@pytest.mark.medium
def test_mutations_are_refused_or_decode() -> None:
    run_mutations(MUTATIONS, 1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_million_mutations_are_refused_or_decode() -> None:
    run_mutations(1_000_000, 2)


@pytest.mark.medium
def test_random_bytes() -> None:
    rng = random.Random(3)
    for cls, version in samples.every_version():
        for size in (0, 1, 3, 20, 200):
            data = rng.randbytes(size)
            with contextlib.suppress(MalformedMessageError):
                cls.decode(data, version)


def peak_bytes(cls: type[Message], version: int, data: bytes) -> int:
    def decode() -> None:
        with contextlib.suppress(MalformedMessageError):
            cls.decode(data, version)

    return traced_peak_bytes(decode)


def hostile_bodies() -> Iterable[tuple[type[Message], int, bytes]]:
    huge = struct.pack(">i", 0x7FFFFFFF)
    yield MetadataRequest, 0, huge
    yield MetadataRequest, 9, varint_bytes(2**32 - 1) + b"\0" * 10
    yield ProduceRequest, 8, struct.pack(">hhi", -1, 1, 1) + huge
    yield JoinGroupRequest, 0, b"\x7f\xff" + bytes(100)
    yield FetchRequest, 12, bytes(25) + varint_bytes(2**31 - 1)
    yield HeartbeatRequest, 4, b"\x01\0\0\0\0\x01\0" + varint_bytes(2**31) + b"\0" * 100
    body = 50_000
    # As many of the smallest elements as fit: topics without partitions, empty names, tags without content.
    yield MetadataRequest, 0, struct.pack(">i", body // 2) + bytes(body)
    yield FetchRequest, 4, bytes(17) + struct.pack(">i", body // 6) + bytes(body)
    yield FetchRequest, 12, bytes(25) + varint_bytes(body // 3 + 1) + b"\x01\x01\0" * (body // 3) + b"\x01\x01\0"
    yield DescribeAclsResponse, 2, bytes(6) + b"\0" + varint_bytes(body // 5 + 1) + b"\0\x01\0\x01\0" * (body // 5) + b"\0"
    yield AlterClientQuotasRequest, 1, varint_bytes(body // 3 + 1) + b"\x01\x01\0" * (body // 3) + b"\0\0"
    assignments = varint_bytes(body // 2 + 1) + b"\x01\0" * (body // 2) + b"\0"
    yield CreatePartitionsRequest, 3, b"\x02\x01\0\0\0\x01" + assignments + bytes(6)
    tags = b"".join(varint_bytes(tag) + b"\0" for tag in range(20_000))
    yield HeartbeatRequest, 4, b"\x01\0\0\0\0\x01\0" + varint_bytes(20_000) + tags


@pytest.mark.slow
def test_memory_stays_within_a_small_multiple_of_the_frame() -> None:
    for cls, version, data in hostile_bodies():
        cls.decode(cls().encode(version), version)  # compile outside of the measurement
        peak = peak_bytes(cls, version, data)
        assert peak <= len(data) * MEMORY_FACTOR + 20_000, (cls, version, len(data), peak / len(data))


@pytest.mark.medium
def test_the_memory_of_every_message_is_bounded_by_its_frame() -> None:
    rng = random.Random(4)
    patterns = [bytes(20_000), b"\x01" * 20_000, b"\x02" * 20_000, b"\x00\x01" * 10_000, b"\xff" * 20_000, rng.randbytes(20_000)]
    for cls, version in samples.every_version():
        if version not in (cls.VERSIONS[0], cls.VERSIONS[1]):
            continue
        cls.decode(cls().encode(version), version)
        for data in patterns:
            peak = peak_bytes(cls, version, data)
            assert peak <= len(data) * MEMORY_FACTOR + 20_000, (cls, version, data[:4], peak / len(data))


@pytest.mark.parametrize(
    ("version", "data", "why"),
    [
        (0, b"\xff\xfe\0\0", "negative length"),
        (0, b"\xff\xff\0\0\0\0", "null"),
        (4, b"\0\0\0\0\0\x01\0\0", "null"),
        (0, b"\0\x02\xc3\x28\0\0\0\0\0\0", "not UTF-8"),
        (4, b"\xff\xff\xff\xff\xff\x01", "longer than 5 bytes"),
        (4, b"\x81\x80\x80\x80\x10" + bytes(20), "too long"),
        (3, b"\0\0\0\0\0\0\0\0\xff\xfe", "negative length"),
        (4, b"\x01\0\0\0\0\x01\0\x02\x05\0\x05\0", "follows tag 5"),
        (4, b"\x01\0\0\0\0\x01\0\x02\x05\0\x04\0", "follows tag 5"),
        (4, b"\x01\0\0\0\0\x01\0\x01\x05\x09", "has 9 bytes"),
        (4, b"\x01\0\0\0\0\x01\0\x05\0", "more tagged fields"),
    ],
)
def test_malformed_messages_are_refused(version: int, data: bytes, why: str) -> None:
    with pytest.raises(MalformedMessageError, match=why):
        HeartbeatRequest.decode(data, version)


def test_a_known_tag_must_take_its_declared_size() -> None:
    start = FetchRequest().encode(12)[:-1]
    with pytest.raises(MalformedMessageError, match="its value has 2"):
        FetchRequest.decode(start + b"\x01\0\x03\x02ab", 12)
    assert FetchRequest.decode(start + b"\x01\0\x02\x02a", 12).cluster_id == "a"
