"""What the connections of a processor hold together: the one that has been silent for the longest time is closed."""

from io import FileIO
from pathlib import Path

import pytest

from tests.support.network_fakes import FakeTransport, Layer, frame, lines_of
from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.network.connection.channel import READ_BYTES, KafkaChannel
from twisted_kafka.network.connection.held_bytes import FAR_TOO_MUCH, NOTE_BYTES, STUCK_NS, HeldBytes
from twisted_kafka.network.loop.processor import HELD_BYTES, READ_AHEAD_TOTAL_BYTES, UNSENT_BYTES
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.request_context import ResourceKind
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.timing.clock import ManualClock

PARTIAL = 60_000


def _begin(layer: Layer) -> FakeTransport:
    """Connect a client that sends most of a request and then nothing."""
    layer.clock.advance_ms(1)
    _, transport = layer.connect()
    data = frame(1, bytes(PARTIAL))[:PARTIAL]
    while data:
        data = data[transport.read(data) :]
    return transport


def test_incomplete_requests_close_the_longest_silent_connections() -> None:
    layer = Layer()
    active, active_transport = layer.connect()
    active.dataReceived(frame(7)[:5])
    count = HELD_BYTES // PARTIAL + 5
    begun: list[FakeTransport] = []
    lines = lines_of(lambda: begun.extend(_begin(layer) for _ in range(count // 2)))
    active.dataReceived(frame(7)[5:7])
    lines += lines_of(lambda: begun.extend(_begin(layer) for _ in range(count // 2)))
    closed = [transport.is_closed for transport in begun]
    assert closed == sorted(closed, reverse=True), "the first ones"
    assert 0 < sum(closed) < 10
    assert len(lines) == sum(closed)
    assert not active_transport.is_closed
    active.dataReceived(frame(7)[7:])
    assert layer.take() is not None


def test_nothing_is_read_ahead_while_much_is_held() -> None:
    layer = Layer()
    busy, busy_transport = layer.connect()
    busy.dataReceived(frame(1))
    busy.dataReceived(frame(2))
    assert busy_transport.is_reading
    for _ in range(READ_AHEAD_TOTAL_BYTES // PARTIAL + 1):
        _begin(layer)
    busy.dataReceived(frame(3))
    assert not busy_transport.is_reading
    for number in (1, 2, 3):
        request = layer.take()
        assert request is not None
        assert request.context.correlation_id == number
        layer.answer(request)
    assert busy_transport.is_reading


@pytest.mark.medium
def test_many_clients_may_begin_a_large_request_at_once() -> None:
    clock = ManualClock()
    pool = MemoryPool(200_000, clock, least_bytes=PARTIAL)
    layer = Layer(pool=pool, clock=clock)
    data = frame(1, bytes(180_000))
    count = 3 * HELD_BYTES // (2 * READ_BYTES)
    left = {}
    for _ in range(count):
        _, transport = layer.connect()
        left[transport] = data[transport.read(data) :]
    assert not any(transport.is_closed for transport in left)
    assert sum(transport.is_reading for transport in left) == 2
    for transport, rest in left.items():
        while rest:
            assert transport.is_reading
            rest = rest[transport.read(rest) :]
        request = layer.take()
        assert request is not None
        request.release_buffer()
        layer.answer(request)
        assert transport.written


@pytest.mark.medium
def test_the_whole_buffer_of_an_incomplete_request_is_held() -> None:
    layer = Layer()
    data = frame(1, bytes(PARTIAL))
    begun = []
    for _ in range(HELD_BYTES // 16_384 + 10):
        layer.clock.advance_ms(1)
        _, transport = layer.connect()
        begun.append(transport)
        transport.read(data[:14])
        sent = transport.read(data[14:4_200])  # fills the first buffer: the next one is four times as large
        transport.read(data[14 + sent : 4_300])
    assert 0 < sum(transport.is_closed for transport in begun) < 20


@pytest.mark.medium
def test_what_is_held_is_forgotten_with_its_connection_and_once_it_is_handled() -> None:
    layer = Layer()
    for _ in range(3 * HELD_BYTES // PARTIAL):
        transport = _begin(layer)
        transport.abortConnection()
    for number in range(3 * HELD_BYTES // PARTIAL):
        channel, transport = layer.connect()
        channel.dataReceived(frame(number) + frame(number, bytes(PARTIAL)))
        for _ in range(2):
            request = layer.take()
            assert request is not None
            layer.answer(request)
        assert not transport.is_closed


@pytest.mark.parametrize("is_file", [False, True])
def test_clients_that_do_not_read_their_responses_are_closed_the_longest_silent_first(is_file: bool, tmp_path: Path) -> None:
    layer = Layer()
    path = tmp_path / "segment"
    path.write_bytes(bytes(1_000_000))
    transports = []
    with FileIO(path) as file:
        for number in range(2 * UNSENT_BYTES // 1_000_000):
            layer.clock.advance_ms(STUCK_NS // 1_000_000 + 1)
            channel, transport = layer.connect()
            transport.is_stuck = True
            transports.append(transport)
            channel.dataReceived(frame(number))
            request = layer.take()
            assert request is not None
            part = FileRegion(file, 0, 1_000_000) if is_file else bytes(1_000_000)
            layer.channel.send_response(request, [part], 1_000_000)
            layer.reactor.run_asked()
    closed = [transport.is_closed for transport in transports]
    if is_file:
        assert not any(closed)
        return
    assert closed == sorted(closed, reverse=True)
    assert sum(closed) * 1_000_000 == pytest.approx(len(closed) * 1_000_000 - UNSENT_BYTES, abs=2_000_000)
    for transport in transports:
        if not transport.is_closed:
            transport.unstick()
    assert layer.processor.stats.responses == closed.count(False)


def _answer_slow_reader(layer: Layer, size_bytes: int) -> FakeTransport:
    channel, transport = layer.connect()
    transport.is_stuck = True
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    layer.channel.send_response(request, [bytes(size_bytes)], size_bytes)
    layer.reactor.run_asked()
    return transport


def test_clients_that_are_slow_are_closed_only_if_they_hold_far_too_much() -> None:
    layer = Layer()
    transports = [_answer_slow_reader(layer, 1_000_000) for _ in range(FAR_TOO_MUCH * UNSENT_BYTES // 1_000_000)]
    assert not any(transport.is_closed for transport in transports)
    for transport in transports[1:]:
        layer.clock.advance_ms(STUCK_NS // 1_000_000)
        transport.channel.send_progressed()
    more = [_answer_slow_reader(layer, 1_000_000) for _ in range(2)]
    assert [transport.is_closed for transport in transports] == [True] * 2 + [False] * (len(transports) - 2)
    assert not any(transport.is_closed for transport in more)


def test_a_single_response_may_be_larger_than_the_limit() -> None:
    layer = Layer()
    slow = _answer_slow_reader(layer, (FAR_TOO_MUCH + 1) * UNSENT_BYTES)
    layer.clock.advance_ms(60_000)
    assert not slow.is_closed
    other = _answer_slow_reader(layer, 10)
    assert slow.is_closed
    assert not other.is_closed


def test_the_total_is_the_sum_of_what_was_noted_last() -> None:
    layer = Layer()
    held = HeldBytes(100)
    (one, _), (other, _) = layer.connect(), layer.connect()
    assert [held.note(one, 60), held.note(other, 41), held.note(one, 59), held.note(other, 0)] == [False, True, False, False]
    assert held.total_bytes == 59


@pytest.mark.medium
def test_notes_of_unread_responses_count_too() -> None:
    layer = Layer()
    for number in range(40):
        layer.clock.advance_ms(STUCK_NS // 1_000_000 + 1)
        channel, transport = layer.connect()
        transport.is_stuck = True
        channel.dataReceived(frame(number))
        request = layer.take()
        assert request is not None
        for each in range(UNSENT_BYTES // NOTE_BYTES // 20):
            request.context.note_resource(ResourceKind.GROUP, f"g{each}")
        layer.channel.send_response(request, [b"x"], 1)
        layer.reactor.run_asked()
    assert len(layer.processor.channels) in (19, 20)


def test_a_closed_channel_that_somebody_holds_has_no_buffer() -> None:
    layer = Layer()
    held: list[KafkaChannel] = []

    def begin() -> None:
        for _ in range(50):
            channel, transport = layer.connect()
            data = frame(1, bytes(PARTIAL))[:PARTIAL]
            while data:
                data = data[transport.read(data) :]
            channel.close()
            held.append(channel)

    assert traced_peak_bytes(begin) < 10 * PARTIAL
