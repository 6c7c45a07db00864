import contextlib
import io
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.python.failure import Failure

from tests.support.eventually import WAIT_S
from tests.support.network_fakes import EventsReactor, Layer, frame, lines_of
from twisted_kafka.network.connection import transport
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.framing import FIRST_ALLOCATION_BYTES
from twisted_kafka.network.connection.transport import KafkaTransport
from twisted_kafka.network.log_rate_limit import INTERVAL_NS, LINES
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.protocol.regions import FileRegion, Part
from twisted_kafka.server.request_handler import KafkaRequestHandler


class Pair:
    def __init__(self, first: bytes = b"", *, is_gone: bool = False, layer: Layer | None = None) -> None:
        self.client, server = socket.socketpair()
        self.client.sendall(first)
        if is_gone:
            self.client.shutdown(socket.SHUT_RDWR)
        self.client.settimeout(WAIT_S)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        self.layer = layer or Layer(max_request_bytes=10_000_000)
        self.reactor = EventsReactor()
        self.channel = KafkaChannel(ConnectionInfo("c", "L", "PLAINTEXT", "-"), self.layer.processor, 10_000_000)
        self.transport = KafkaTransport(server, self.channel, self.reactor)  # type: ignore[arg-type]
        self.channel.transport = self.transport
        self.layer.processor.add_channel(self.channel)

    def receive_all(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if self.transport in self.reactor.writers:
                assert self.transport.doWrite() is None
            data += self.client.recv(65536)
        return data


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.client.close()
    made.transport.abortConnection()


def test_parts_and_regions_arrive_whole_and_in_order(pair: Pair, tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tmp_path / "segment.log"
    content = rng.randbytes(700_000)
    path.write_bytes(content)
    file = io.FileIO(path)
    parts: list[Part] = [b"head"]
    expected = b"head"
    for number in range(150):
        small = rng.randbytes(rng.randrange(0, 300))
        parts.append(memoryview(small) if number % 2 else bytearray(small))
        expected += small
        if number % 50 == 7:
            start, size = rng.randrange(100_000), rng.choice((0, 10, 500_000))
            parts.append(FileRegion(file, start, size))
            expected += content[start : start + size]
    assert not pair.transport.send(parts, len(expected))
    assert pair.receive_all(len(expected)) == expected
    file.close()


def test_a_large_region_is_sent_to_its_end_and_no_further(pair: Pair, tmp_path: Path) -> None:
    content = random.Random(8).randbytes(600_000)
    (tmp_path / "segment.log").write_bytes(content)
    with io.FileIO(tmp_path / "segment.log") as file:
        assert not pair.transport.send([b"head", FileRegion(file, 1000, 500_000), b"tail"], 500_008)
        assert pair.receive_all(500_008) == b"head" + content[1000:501_000] + b"tail"
    assert pair.transport not in pair.reactor.writers


def test_a_handler_loads_what_a_slow_client_has_not_read_yet(pair: Pair, tmp_path: Path) -> None:
    content = random.Random(9).randbytes(600_000)
    (tmp_path / "segment.log").write_bytes(content)
    loaded: list[tuple[int, int]] = []

    class Region(FileRegion):
        def load(self) -> None:
            loaded.append((self.position, self.size_bytes))
            if len(loaded) == 2:
                raise OSError("the disk is gone")

    handler = KafkaRequestHandler(pair.layer.channel, lambda request: None, "handler")
    pair.channel.dataReceived(frame(1))
    request = pair.layer.take()
    assert request is not None
    with io.FileIO(tmp_path / "segment.log") as file:
        pair.layer.channel.send_response(request, [b"head", Region(file, 0, 600_000)], 600_004)
        pair.layer.reactor.run_asked()
        data = pair.client.recv(100_000)
        pair.layer.clock.advance_ms(999)
        assert pair.transport.doWrite() is None
        assert loaded == []
        for times in (1, 2):
            pair.layer.clock.advance_ms(1000)
            data += pair.client.recv(100_000)
            assert pair.transport.doWrite() is None
            assert pair.transport not in pair.reactor.writers, "it waits for a handler"
            assert handler.step(pair.layer.parker, 0) == 1
            assert len(loaded) == times
            pair.layer.reactor.run_asked()
            assert pair.transport in pair.reactor.writers
            assert pair.transport.doWrite() is None
        assert sum(loaded[0]) == 600_000, "to the end of the region"
        assert data + pair.receive_all(600_004 - len(data)) == b"head" + content


def test_small_response_is_gone_at_once(pair: Pair) -> None:
    assert pair.transport.send([b"x" * 100], 100)
    assert pair.client.recv(1000) == b"x" * 100
    assert pair.transport.send([b"x" * 100, memoryview(b"y")], 101)
    assert pair.client.recv(1000) == b"x" * 100 + b"y"
    assert not pair.reactor.writers


def test_partial_send_of_one_part_goes_on(pair: Pair) -> None:
    data = random.Random(4).randbytes(2_000_000)
    assert not pair.transport.send([data], len(data))
    assert pair.receive_all(len(data)) == data
    while pair.transport in pair.reactor.writers:
        pair.transport.doWrite()


def test_region_beyond_the_files_end_closes_the_connection(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "short.log"
    path.write_bytes(b"abc")
    with io.FileIO(path) as file:
        lines = lines_of(lambda: pair.transport.send([FileRegion(file, 1, 10)], 10))
    assert not pair.channel.is_open
    assert "the file ends before position 11" in lines[0]


def test_big_request_is_received_into_place(pair: Pair) -> None:
    body = random.Random(5).randbytes(1_500_000)
    header = b"\0\x12\0\0\0\0\0\x01\0\x02me"
    stream = (len(header) + len(body)).to_bytes(4, "big") + header + body
    pair.client.settimeout(0)
    position = 0
    while (request := pair.layer.take()) is None:
        if position < len(stream):
            with contextlib.suppress(BlockingIOError):
                position += pair.client.send(stream[position : position + 200_000])
        assert pair.transport.doRead() is None
    assert bytes(request.frame) == header + body
    assert not memoryview(request.frame).readonly


def test_hostile_size_costs_little(pair: Pair) -> None:
    pair.client.send((9_999_999).to_bytes(4, "big") + b"abc")
    assert pair.transport.doRead() is None
    view = pair.channel.get_buffer()
    assert view is not None
    assert len(view) <= FIRST_ALLOCATION_BYTES


def test_end_of_stream_and_reset(pair: Pair) -> None:
    pair.client.close()
    assert pair.transport.doRead() is CONNECTION_DONE
    other = Pair()
    other.transport.send([b"unread"], 6)
    other.client.close()  # which resets the connection
    assert other.transport.doRead() is CONNECTION_LOST
    other.transport.abortConnection()


def test_what_a_client_says_at_once_is_read_without_waiting_for_the_reactor() -> None:
    made = Pair(frame(7))
    request = made.layer.take()
    assert request is not None
    assert request.context.correlation_id == 7
    assert made.transport in made.reactor.readers
    made.client.close()
    made.transport.abortConnection()


def test_client_that_went_before_its_turn_is_forgotten() -> None:
    made = Pair(is_gone=True)
    assert not made.channel.is_open
    assert not made.reactor.readers
    assert not made.layer.processor.channels


def test_channel_hears_of_its_end_once(pair: Pair) -> None:
    stats = pair.layer.processor.stats
    for _ in range(2):
        pair.transport.connectionLost(Failure(ConnectionDone()))  # type: ignore[no-untyped-call]
    assert stats.connections_closed == 1
    assert not pair.reactor.readers
    assert pair.client.recv(1) == b""


def test_aborted_connection_is_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as client:
        made = Pair()
        made.transport.abortConnection()
        server, _ = listening.accept()
        transport = KafkaTransport(server, made.channel, made.reactor)  # type: ignore[arg-type]
        transport.connectionLost(Failure(ConnectionAborted()))  # type: ignore[no-untyped-call]
        client.settimeout(WAIT_S)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


class BrokenDisk(io.FileIO):
    """A file that can be opened, and not be read: the memory at address 0 of this process."""

    def __init__(self) -> None:
        super().__init__("/proc/self/mem")


def send_from_broken_disk(pair: Pair) -> list[str]:
    return lines_of(lambda: pair.transport.send([b"head", FileRegion(BrokenDisk(), 0, 100)], 104))


@pytest.mark.parametrize("has_sendfile", [True, False])
def test_a_file_that_cannot_be_read_is_named_in_the_log(pair: Pair, monkeypatch: pytest.MonkeyPatch, has_sendfile: bool) -> None:
    """Apache Kafka takes it for a client that went away, and says nothing (KAFKA-16304)."""
    monkeypatch.setattr(transport, "_HAS_SENDFILE", has_sendfile)
    lines = send_from_broken_disk(pair)
    assert lines == [line for line in lines if "Closing connection c of L: cannot read /proc/self/mem: " in line]
    assert len(lines) == 1
    assert not pair.channel.is_open


def test_lines_about_files_that_cannot_be_read_are_limited() -> None:
    first = Pair()
    pairs = [first, *[Pair(layer=first.layer) for _ in range(2 * LINES)]]
    assert len([line for each in pairs for line in send_from_broken_disk(each)]) == LINES
    first.layer.clock.advance_ms(INTERVAL_NS // 1_000_000)
    (line,) = send_from_broken_disk(Pair(layer=first.layer))
    assert f"({LINES + 1} similar lines were suppressed before this one)" in line


def test_a_client_that_goes_away_is_not_taken_for_a_broken_disk(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(100))
    pair.client.close()
    with io.FileIO(path) as file:
        assert lines_of(lambda: pair.transport.send([FileRegion(file, 0, 100)], 100)) == []
    assert not pair.channel.is_open


@pytest.mark.parametrize("parts", [[b"x"], [b"x", b"y"], [memoryview(b"x")]])
def test_a_response_to_a_client_that_is_gone_is_not_sent(pair: Pair, parts: list[Part]) -> None:
    pair.client.close()
    assert not pair.transport.send(parts, sum(map(len, parts)))
    assert not pair.channel.is_open
    assert not pair.reactor.writers


def test_a_response_waits_behind_the_one_that_is_being_sent(pair: Pair) -> None:
    first, second = random.Random(6).randbytes(500_000), b"second"
    assert not pair.transport.send([first], len(first))
    assert not pair.transport.send([second], len(second))
    assert pair.receive_all(len(first) + len(second)) == first + second


def test_one_connection_does_not_take_all_of_a_turn(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "TURN_BYTES", 1000)
    parts = [bytes([number]) * 600 for number in range(5)]
    monkeypatch.setattr(transport, "GATHERED_PARTS", 1)
    assert not pair.transport.send(parts, 3000)
    assert len(pair.client.recv(10_000)) == 1200
    assert pair.transport in pair.reactor.writers
    assert pair.transport.doWrite() is None
    assert pair.transport in pair.reactor.writers
    assert pair.transport.doWrite() is None
    assert pair.transport not in pair.reactor.writers
    assert pair.client.recv(10_000) == b"".join(parts[2:])


def test_a_response_waits_behind_one_whose_turn_is_over(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "TURN_BYTES", 100)
    monkeypatch.setattr(transport, "GATHERED_PARTS", 1)
    assert not pair.transport.send([b"1" * 100, b"2" * 200], 300)
    assert not pair.transport.send([b"3"], 1), "although the socket has room"
    assert pair.transport in pair.reactor.writers
    assert pair.receive_all(301) == b"1" * 100 + b"2" * 200 + b"3"


def test_progress_is_a_sign_of_life_and_its_lack_is_not(pair: Pair) -> None:
    data = bytes(2_000_000)
    pair.transport.send([data], len(data))
    clock = pair.layer.clock
    clock.advance_ms(5)
    before = pair.channel.last_active_ns
    assert pair.transport.doWrite() is None
    assert pair.channel.last_active_ns == before, "the socket took nothing"
    while pair.client.recv(65536, socket.MSG_DONTWAIT) and pair.channel.last_active_ns == before:
        assert pair.transport.doWrite() is None
    assert pair.channel.last_active_ns == clock.monotonic_ns()


def test_an_aborted_connection_is_closed_once_and_writes_no_more(pair: Pair) -> None:
    data = bytes(2_000_000)
    pair.transport.send([data], len(data))
    pair.transport.abortConnection()
    pair.transport.abortConnection()
    assert pair.layer.processor.stats.connections_closed == 1
    assert not pair.reactor.readers
    assert not pair.reactor.writers
    assert pair.transport.doWrite() is None


def test_a_response_to_a_full_socket_is_sent_from_its_first_byte(pair: Pair) -> None:
    pair.transport.socket.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += pair.transport.socket.send(bytes(1000))
    assert not pair.transport.send([b"response"], 8)
    assert pair.receive_all(sent + 8) == bytes(sent) + b"response"
