"""A channel between its transport and its processor: what is read, what waits, what is kept in mind of activity."""

import pytest

from tests.support.network_fakes import FakeTransport, Layer, frame
from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.network.connection.channel import FRAME_BYTES, READ_AHEAD_BYTES, KafkaChannel
from twisted_kafka.network.connection.channel_state import MUTED_AND_RESPONSE_PENDING, NOT_MUTED
from twisted_kafka.network.connection.framing import NOT_NOW
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.state_table import IllegalTransitionError
from twisted_kafka.timing.clock import ManualClock


def feed(channel: KafkaChannel, transport: FakeTransport, data: bytes) -> int:
    count = 0
    while count < len(data) and transport.is_reading and not transport.is_closed:
        count += transport.read(data[count:])
    return count


def numbers(layer: Layer) -> list[int]:
    """Answer what there is, one after the other."""
    answered = []
    while (request := layer.take()) is not None:
        answered.append(request.context.correlation_id)
        layer.answer(request)
    return answered


def test_requests_are_handled_one_by_one_in_order() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1) + frame(2))
    channel.dataReceived(frame(3))
    first = layer.take()
    assert first is not None
    assert (channel.in_flight, channel.state, channel.has_waiting_requests) == (first, MUTED_AND_RESPONSE_PENDING, True)
    assert layer.take() is None
    layer.answer(first)
    assert numbers(layer) == [2, 3]
    assert (channel.in_flight, channel.state, channel.has_waiting_requests) == (None, NOT_MUTED, False)
    assert transport.is_reading


def test_a_muted_channel_reads_ahead_up_to_a_limit() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(0))
    body = bytes(READ_AHEAD_BYTES - len(frame(1)) + 4 - FRAME_BYTES)
    channel.dataReceived(frame(1, body)[:-1])
    assert transport.is_reading, "all but the last byte"
    channel.dataReceived(frame(1, body)[-1:])
    assert transport.is_reading, "so much and no more"
    channel.dataReceived(b"\0")
    assert not transport.is_reading
    assert numbers(layer) == [0, 1]
    assert transport.is_reading
    channel.dataReceived(frame(2)[1:])
    assert numbers(layer) == [2]


@pytest.mark.parametrize("small", [bytes(4), b"\0\0\0\2ab"], ids=["empty", "two bytes"])
@pytest.mark.parametrize("has_pool", [False, True])
def test_frames_without_content_are_not_read_ahead_for_ever(small: bytes, has_pool: bool) -> None:
    clock = ManualClock()
    layer = Layer(pool=MemoryPool(10_000, clock) if has_pool else None, clock=clock)
    channel, transport = layer.connect()
    channel.dataReceived(frame(0))
    data = small * (READ_AHEAD_BYTES // len(small))

    def read_ahead() -> int:
        return sum(feed(channel, transport, data) for _ in range(20))

    assert traced_peak_bytes(read_ahead) < 5 * READ_AHEAD_BYTES
    assert not transport.is_reading


def test_many_small_requests_of_one_read_are_answered_in_order() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    data = b"".join(map(frame, range(1000)))
    channel.dataReceived(data[:20_000])
    channel.dataReceived(data[20_000:])
    assert channel.has_waiting_requests
    assert numbers(layer) == list(range(1000))
    assert not channel.has_waiting_requests
    channel.dataReceived(frame(1000))
    assert numbers(layer) == [1000]
    assert not transport.is_closed


def test_an_invalid_size_behind_many_requests_closes_once_they_are_answered() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(b"".join(map(frame, range(100))) + b"\xff" * 8)
    assert numbers(layer)[:32] == list(range(32))
    assert transport.is_closed


def test_a_client_that_stops_sending_gets_all_answers_to_a_large_read() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(b"".join(map(frame, range(100))))
    assert channel.eof_received()
    assert numbers(layer) == list(range(100))
    assert transport.is_closed


def test_a_full_queue_stops_reading_until_there_is_room() -> None:
    layer = Layer(queue_size=1)
    one, _ = layer.connect()
    other, other_transport = layer.connect()
    one.dataReceived(frame(1))
    other.dataReceived(frame(2))
    assert other.get_buffer() is NOT_NOW
    assert not other_transport.is_reading
    first = layer.take()
    assert first is not None
    layer.reactor.run_asked()
    layer.answer(first)
    assert numbers(layer) == [2]
    assert other_transport.is_reading


def test_half_a_request_is_a_sign_of_life() -> None:
    layer = Layer()
    channel, _ = layer.connect()
    for _ in range(3):
        layer.clock.advance_ms(5)
        channel.dataReceived(b"\0")
        assert channel.last_active_ns == layer.clock.monotonic_ns()
    layer.clock.advance_ms(5)
    channel.send_progressed()
    assert channel.last_active_ns == layer.clock.monotonic_ns()


def test_a_client_that_sends_no_more_gets_what_it_has_asked_for() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    assert not channel.eof_received(), "it has asked for nothing"
    channel.dataReceived(frame(1) + frame(2))
    assert channel.eof_received()
    assert not transport.is_reading
    assert numbers(layer) == [1, 2]
    assert transport.is_closed
    assert transport.written


def test_a_channel_is_closed_once_and_tells_nobody_afterwards() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1) + frame(2))
    channel.close()
    assert transport.is_closed
    assert not channel.is_open
    transport.is_closed = False
    transport.is_reading = True
    channel.close()
    channel.pause()
    assert (transport.is_closed, transport.is_reading) == (False, True), "its transport is left alone"
    assert not channel.has_waiting_requests
    assert numbers(layer) == [1]
    assert transport.written == b""
    assert layer.processor.stats.dropped_responses == 1


def test_a_second_request_in_flight_and_a_second_response_are_bugs_that_show() -> None:
    layer = Layer()
    channel, _ = layer.connect()
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    with pytest.raises(IllegalTransitionError):
        channel.request_received(request)
    channel.response_sent()
    with pytest.raises(IllegalTransitionError):
        channel.response_sent()


def test_memory_is_reserved_for_the_next_frame_only() -> None:
    clock = ManualClock()
    pool = MemoryPool(10_000, clock)
    layer = Layer(pool=pool, clock=clock)
    channel, transport = layer.connect()
    big = frame(2, bytes(5000))
    assert feed(channel, transport, frame(1)) == len(frame(1))
    assert pool.used_bytes == len(frame(1)) - 4
    assert not channel.holds_memory
    assert feed(channel, transport, big[:100]) == 100
    assert not transport.is_reading, "with a pool nothing is read ahead"
    assert pool.used_bytes == len(frame(1)) - 4
    request = layer.take()
    assert request is not None
    layer.answer(request)
    request.release_buffer()
    assert transport.is_reading
    assert channel.holds_memory
    assert pool.used_bytes == len(big) - 4
    assert feed(channel, transport, big[100:]) == len(big) - 100
    assert not channel.holds_memory
    assert pool.used_bytes == len(big) - 4
    assert feed(channel, transport, big[:100]) == 100
    transport.abortConnection()
    taken = layer.take()
    assert taken is not None
    taken.release_buffer()
    assert pool.used_bytes == 0


def test_a_closed_channel_holds_no_memory() -> None:
    clock = ManualClock()
    pool = MemoryPool(10_000, clock)
    layer = Layer(pool=pool, clock=clock)
    channel, transport = layer.connect()
    assert feed(channel, transport, frame(1, bytes(5000))[:100]) == 100
    assert channel.holds_memory
    channel.close()
    assert (channel.holds_memory, pool.used_bytes) == (False, 0)
    channel.connectionLost()
    assert pool.used_bytes == 0


def test_nothing_is_read_ahead_after_requests_that_waited_for_memory() -> None:
    clock = ManualClock()
    pool = MemoryPool(100, clock)
    layer = Layer(pool=pool, clock=clock)
    channel, transport = layer.connect()
    assert pool.try_allocate(100, layer.processor.memory_available)
    channel.dataReceived(frame(1) + frame(2) + frame(3))
    assert layer.take() is None
    pool.release(100)
    layer.reactor.run_asked()
    for number in (1, 2, 3, 4):
        request = layer.take()
        assert request is not None
        assert request.context.correlation_id == number
        layer.answer(request)
        request.release_buffer()
        layer.reactor.run_asked()
        assert transport.is_reading == (number >= 3)
        if number == 3:
            channel.dataReceived(frame(4))
            assert transport.is_reading
            channel.dataReceived(frame(5)[:1])
            assert not transport.is_reading
