"""What hostile and broken clients send: the right error code or a closed connection, one log line, everyone else served on."""

import random
import select
import socket
import struct
from collections.abc import Callable, Iterator
from functools import partial

import crc32c
import pytest

from tests.support.budget import patient
from tests.support.clients.clients import read_confluent, send_confluent
from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

TIMEOUT_S = patient(30)
TOPIC = "good"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    broker = ServedBroker(tmp_path_factory.mktemp("bad") / "data", "socket.request.max.bytes=20000000")
    broker.start()
    send_confluent(broker.bootstrap, TOPIC, [b"x" * 1000] * 1000)
    yield broker
    assert broker.stop() == 0


@pytest.fixture
def connection(broker: ServedBroker) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S) as connected:
        yield connected


def frame(key: int, version: int, body: bytes = b"", flexible: bool = False) -> bytes:
    head = struct.pack(">hhih", key, version, 1, 3) + b"bad" + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body


def is_closed(connection: socket.socket) -> bool:
    """Whether the broker closes the connection without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def answer(connection: socket.socket) -> bytes:
    size = struct.unpack(">i", read(connection, 4))[0]
    return read(connection, size)


def read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        assert chunk, "closed"
        data += chunk
    return data


def serves(broker: ServedBroker) -> bool:
    """Whether a well-behaved client still gets what it asks for."""
    return len(read_confluent(broker.bootstrap, TOPIC, 1000)) == 1000


def told_since(broker: ServedBroker, before: int) -> str:
    return broker.output.read_text()[before:]


def is_told(broker: ServedBroker, before: int, address: str) -> bool:
    return address in told_since(broker, before)


BAD_FRAMES = {
    "negative size": struct.pack(">i", -5) + b"x" * 10,
    "giant size": struct.pack(">i", 2_000_000_000) + b"x" * 100,
    "size above the limit": struct.pack(">i", 20_000_001) + b"x" * 100,
    "header that stops short": struct.pack(">i", 3) + b"\0\3\0",
    "empty frame": struct.pack(">i", 0),
    "client id that is not UTF-8": struct.pack(">ihhih", 13, 3, 1, 1, 3) + b"\xff\xfe\xfd",
}
BAD_REQUESTS = {
    "unknown API": frame(4242, 0),
    "negative API": frame(-7, 0),
    "version too new": frame(3, 99, b"\0\0\0\0"),
    "negative version": frame(3, -1, b"\0\0\0\0"),
    "body that stops short": frame(3, 1, struct.pack(">ih", 1, 50) + b"abc"),
    "array length that lies": frame(3, 1, struct.pack(">i", 2_000_000_000)),
}


@pytest.mark.parametrize("nonsense", [BAD_FRAMES, BAD_REQUESTS], ids=["frames", "requests"])
def test_nonsense_closes_its_connection_with_one_line(
    start_broker: Callable[..., ServedBroker], nonsense: dict[str, bytes]
) -> None:
    broker = start_broker("socket.request.max.bytes=20000000")  # of its own: it tells of ten such connections in ten seconds
    eventually(lambda: "listens on" in broker.output.read_text())
    for what, data in nonsense.items():
        before = len(broker.output.read_text())
        with socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S) as connection:
            connection.sendall(data)
            assert is_closed(connection), what
            address = f"127.0.0.1:{connection.getsockname()[1]}"
        eventually(partial(is_told, broker, before, address), partial(str, what))
        lines = [line for line in told_since(broker, before).splitlines() if line.strip()]
        assert len(lines) == 1, (what, lines)
    send_confluent(broker.bootstrap, TOPIC, [b"x"])
    assert read_confluent(broker.bootstrap, TOPIC, 1) == [b"x"]


@pytest.mark.slow
def test_random_bytes(broker: ServedBroker) -> None:
    dice = random.Random(5)
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S) as connection:
            body = dice.randbytes(dice.randrange(200))
            connection.sendall(struct.pack(">i", len(body)) + body)
            connection.shutdown(socket.SHUT_WR)
            assert is_closed(connection) or read(connection, 3)
    assert serves(broker)


def test_half_a_frame_then_silence_disturbs_nobody(broker: ServedBroker, connection: socket.socket) -> None:
    connection.sendall(frame(3, 1, struct.pack(">i", -1))[:7])
    assert serves(broker)
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    assert not poller.poll(100)


def test_client_that_never_reads_is_bounded(broker: ServedBroker, connection: socket.socket) -> None:
    entry = FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2_000_000)])
    body = FetchRequest(topics=[entry], max_wait_ms=0, min_bytes=0, max_bytes=2_000_000).encode(4)
    connection.setblocking(False)
    sent = 0
    request = frame(1, 4, body)
    try:
        for _ in range(200_000):
            sent += connection.send(request)
    except BlockingIOError:
        pass
    assert sent < 100_000_000
    before = resident_bytes(broker)
    assert serves(broker)
    assert resident_bytes(broker) - before < 50_000_000


def resident_bytes(broker: ServedBroker) -> int:
    assert broker.process is not None
    with open(f"/proc/{broker.process.pid}/statm") as told:
        return int(told.read().split()[1]) * 4096


def produced(connection: socket.socket, topic: str, batch: bytes, version: int = 8) -> ErrorCode:
    entry = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request: Message = ProduceRequest(acks=1, timeout_ms=5000, topic_data=[entry])
    connection.sendall(frame(0, version, request.encode(version)))
    told = ProduceResponse.decode(answer(connection), version, 4)
    return ErrorCode(told.responses[0].partition_responses[0].error_code)


def batch(count: int = 2) -> bytearray:
    return bytearray(build_batch([SimpleRecord(1_790_000_000_000, None, b"value", ()) for _ in range(count)]))


def signed(data: bytearray) -> bytes:
    """Put the right CRC into a batch that was tampered with."""
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def test_batches_that_would_poison_consumers_are_refused(broker: ServedBroker, connection: socket.socket) -> None:
    flipped = batch()
    flipped[-2] ^= 1
    assert produced(connection, TOPIC, bytes(flipped)) == ErrorCode.CORRUPT_MESSAGE
    codec = batch()
    codec[22] = 6
    assert produced(connection, TOPIC, signed(codec)) != ErrorCode.NONE
    for lie in (1, 3, 1_000_000, -1):
        lying = batch()
        lying[57:61] = lie.to_bytes(4, "big", signed=True)
        assert produced(connection, TOPIC, signed(lying)) != ErrorCode.NONE, lie
    length = batch()
    length[61] = 0x7F
    assert produced(connection, TOPIC, signed(length)) != ErrorCode.NONE
    assert produced(connection, TOPIC, bytes(batch()[:40])) != ErrorCode.NONE
    assert produced(connection, "a/b", bytes(batch())) != ErrorCode.NONE
    assert produced(connection, "no-such-topic", bytes(batch())) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert serves(broker)
