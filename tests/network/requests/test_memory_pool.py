import random

import pytest

from tests.support.budget import share_of
from tests.support.cases import case
from tests.support.fake import Fake
from tests.support.network_fakes import FakeTransport, Layer, frame
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.channel_state import MUTED, NOT_MUTED
from twisted_kafka.network.connection.expiry import GRACE_S, SLOW_BYTES_PER_S, WHOLE_REQUEST_S
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.timing.clock import ManualClock


class Waiter(Fake):
    def __init__(self) -> None:
        self.told = 0

    def __call__(self) -> None:
        self.told += 1


def test_whoever_finds_anything_left_gets_all_and_who_does_not_is_told_once() -> None:
    clock = ManualClock()
    pool, waiter, other = MemoryPool(100, clock), Waiter(), Waiter()
    assert pool.try_allocate(99, waiter)
    assert pool.try_allocate(70, waiter), "the largest request must not starve"
    assert (pool.available_bytes, pool.used_bytes) == (-69, 169)
    assert not pool.try_allocate(1, waiter)
    assert not pool.try_allocate(1, waiter)
    assert not pool.try_allocate(1, other)
    clock.advance_ms(5)
    pool.release(69)
    assert (waiter.told, other.told) == (0, 0), "nothing is left yet"
    assert pool.depleted_ns() == 5_000_000
    pool.release(1)
    assert (waiter.told, other.told) == (1, 1)
    clock.advance_ms(5)
    pool.release(99)
    assert (waiter.told, other.told) == (1, 1)
    assert pool.depleted_ns() == 5_000_000
    with pytest.raises(ValueError, match="1 bytes released, 0 allocated"):
        pool.release(1)


def test_the_smallest_pool_has_one_byte() -> None:
    clock = ManualClock()
    for size in (0, -1):
        with pytest.raises(ValueError, match=f"{size} bytes"):
            MemoryPool(size, clock)
    pool = MemoryPool(1, clock)
    assert (pool.available_bytes, pool.used_bytes) == (1, 0)
    assert pool.try_allocate(1, Waiter())
    assert not pool.try_allocate(1, Waiter())
    pool.release(1)
    assert (pool.available_bytes, pool.used_bytes) == (1, 0)


def test_how_long_a_waiter_waits_is_counted() -> None:
    clock = ManualClock()
    clock.advance_ms(1000)
    pool = MemoryPool(10, clock)
    pool.try_allocate(10, Waiter())
    clock.advance_ms(3)
    assert (pool.waited_for_ns(), pool.depleted_ns()) == (0, 0), "nobody waits"
    pool.try_allocate(10, Waiter())
    clock.advance_ms(3)
    pool.try_allocate(10, Waiter())
    clock.advance_ms(4)
    assert (pool.waited_for_ns(), pool.depleted_ns()) == (7_000_000, 7_000_000)
    pool.release(10)
    clock.advance_ms(5)
    assert (pool.waited_for_ns(), pool.depleted_ns()) == (0, 7_000_000)
    pool.try_allocate(10, Waiter())
    pool.try_allocate(10, Waiter())
    clock.advance_ms(2)
    assert (pool.waited_for_ns(), pool.depleted_ns()) == (2_000_000, 9_000_000)


def make_layer(pool_bytes: int) -> tuple[Layer, MemoryPool]:
    clock = ManualClock()
    pool = MemoryPool(pool_bytes, clock)
    return Layer(pool=pool, clock=clock), pool


def feed(channel: KafkaChannel, transport: FakeTransport, data: bytes) -> bytes:
    """Give a channel what it reads, as its transport does; return what it did not."""
    while data and transport.is_reading and not transport.is_closed:
        data = data[transport.read(data) :]
    return data


def test_empty_pool_stops_reading_and_responses_go_on() -> None:
    layer, pool = make_layer(50)
    big, big_transport = layer.connect()
    other, other_transport = layer.connect()
    assert not feed(big, big_transport, frame(1, b"x" * 60))
    assert pool.used_bytes == 72
    rest = feed(other, other_transport, frame(2))
    assert rest == b"", "what one connection was sent at once may be in memory beyond the pool"
    assert layer.processor.is_full
    assert (other.state, other_transport.is_reading) == (MUTED, False)
    third, third_transport = layer.connect()
    assert feed(third, third_transport, frame(3)) == frame(3), "and nothing of any other"
    first = layer.take()
    assert first is not None
    assert layer.take() is None
    layer.answer(first)
    assert big_transport.written, "responses go on"
    assert pool.used_bytes == 72
    first.release_buffer()
    layer.reactor.run_asked()
    assert (pool.used_bytes, layer.processor.is_full) == (12, False)
    assert not feed(third, third_transport, frame(3))
    for expected in (2, 3):
        request = layer.take()
        assert request is not None
        assert request.context.correlation_id == expected
        layer.answer(request)
        request.release_buffer()
        request.release_buffer()
    assert pool.used_bytes == 0
    assert [channel.state for channel in (big, other, third)] == [NOT_MUTED] * 3


def test_frame_is_paid_for_before_its_bytes_are_collected() -> None:
    layer, pool = make_layer(1000)
    first, first_transport = layer.connect()
    second, second_transport = layer.connect()
    data = frame(1, b"x" * 5000)
    assert not feed(first, first_transport, data[:100])
    assert pool.used_bytes == len(data) - 4
    feed(second, second_transport, data[:100])
    assert not second_transport.is_reading
    assert not feed(first, first_transport, data[100:]), "what has its memory goes on, or nobody ever would"
    request = layer.take()
    assert request is not None
    layer.answer(request)
    request.release_buffer()
    layer.reactor.run_asked()
    assert second_transport.is_reading
    second_transport.abortConnection()
    assert pool.used_bytes == 0


def test_refused_frames_give_their_memory_back() -> None:
    layer, pool = make_layer(1000)
    for bad in (frame(1, api_key=999), b"\0\0\0\x03abc", b"\xff\xff\xff\xff", b"\0\0\1\0" + b"half a frame"):
        channel, transport = layer.connect()
        feed(channel, transport, bad)
        transport.abortConnection()
    while (request := layer.take()) is not None:
        layer.channel.close_connection(request)
        request.release_buffer()
    assert pool.used_bytes == 0


def test_every_byte_comes_back_whatever_fails() -> None:
    for seed in range(share_of(300)):
        with case(seed=seed):
            whatever_fails(seed)


def whatever_fails(seed: int) -> None:
    rng = random.Random(seed)
    layer, pool = make_layer(rng.choice((30, 200, 2000)))
    clients = [(*layer.connect(), [0]) for _ in range(5)]
    unsent = {channel: b"" for channel, _, _ in clients}
    taken = []
    for _ in range(600):
        channel, transport, sent = rng.choice(clients)
        step = rng.randrange(12)
        if step < 4:
            if not unsent[channel]:
                unsent[channel] = frame(sent[0], rng.randbytes(rng.choice((0, 10, 300))), api_key=rng.choice((18,) * 20 + (999,)))
                sent[0] += 1
            if transport.is_reading and not transport.is_closed:
                unsent[channel] = unsent[channel][transport.read(unsent[channel][: rng.randrange(1, 200)]) :]
        elif step < 7 and (request := layer.take()) is not None:
            taken.append(request)
        elif step < 10 and taken:
            request = taken.pop(rng.randrange(len(taken)))
            if rng.random() < 0.1:
                layer.channel.close_connection(request)
            else:
                layer.channel.send_response(request, [b"x"], 1)
            request.release_buffer()
        elif step == 10:
            layer.reactor.run_asked()
        elif rng.random() < 0.1:
            transport.abortConnection()
    for _, transport, _ in clients:
        transport.abortConnection()
    while (request := layer.take()) is not None:
        taken.append(request)
    for request in taken:
        if request.claim():
            layer.channel.abandon(request)
        request.release_buffer()
    while layer.reactor.run_asked():
        pass
    assert pool.used_bytes == 0
    assert not layer.processor.channels


@pytest.mark.parametrize("is_dripping", [False, True])
def test_who_hardly_sends_may_not_keep_others_waiting_for_memory(is_dripping: bool) -> None:
    layer, pool = make_layer(1000)
    slow, slow_transport = layer.connect()
    announced = frame(1, b"x" * 500)
    feed(slow, slow_transport, announced[:100])
    for second in range(30):
        layer.advance_ms(1000)
        feed(slow, slow_transport, announced[100 + second : 101 + second] * is_dripping)
    assert not slow_transport.is_closed, "nobody waits"
    late, late_transport = layer.connect()
    feed(late, late_transport, announced[:100] * 2)
    assert pool.available_bytes < 0
    waiting, _ = layer.connect()
    waiting.dataReceived(frame(3))
    assert layer.take() is None
    for second in range(9):
        layer.advance_ms(1000)
        assert feed(slow, slow_transport, announced[130 + second : 131 + second] * is_dripping) == b""
    assert not slow_transport.is_closed
    layer.advance_ms(1000)
    layer.advance_ms(1000)
    assert slow_transport.is_closed
    layer.reactor.run_asked()
    request = layer.take()
    assert request is not None, "there is memory again"
    assert request.context.connection is waiting.connection


def test_a_client_has_some_time_and_then_a_rate_to_keep() -> None:
    layer, _ = make_layer(100)
    slow, transport = layer.connect()
    feed(slow, transport, frame(1, bytes(2 * SLOW_BYTES_PER_S))[: SLOW_BYTES_PER_S + 4])
    layer.connect()[0].dataReceived(frame(2))
    layer.clock.advance_ms(GRACE_S * 1000 + 1000)
    layer.processor.close_slow_holders()
    assert not transport.is_closed
    layer.clock.advance_ms(1)
    layer.processor.close_slow_holders()
    assert transport.is_closed


def test_memory_goes_to_those_that_wait_and_not_to_a_newcomer() -> None:
    clock = ManualClock()
    layer = Layer(pool=MemoryPool(1000, clock, least_bytes=500), clock=clock)

    def ask(number: int) -> FakeTransport:
        channel, transport = layer.connect()
        feed(channel, transport, frame(number, bytes(1000)))
        return transport

    ask(0)
    waiting = [ask(number) for number in range(1, 20)]
    handled = []
    for number in range(20):
        request = layer.take()
        assert request is not None
        handled.append(request.context.correlation_id)
        request.release_buffer()
        if number < 5:
            ask(100 + number)
        layer.answer(request)
    assert handled == list(range(20))
    assert all(transport.written for transport in waiting)
    assert layer.take() is not None


@pytest.mark.parametrize(("pace", "is_kept"), [(0.9, False), (1.1, True)])
def test_the_largest_request_may_take_a_minute_while_others_wait(pace: float, is_kept: bool) -> None:
    clock = ManualClock()
    pool = MemoryPool(1_000_000, clock, least_bytes=100_000)
    layer = Layer(pool=pool, clock=clock, max_request_bytes=100_000_000)
    size = 2 * WHOLE_REQUEST_S * SLOW_BYTES_PER_S
    slow, transport = layer.connect()
    feed(slow, transport, frame(1, bytes(size))[:10])
    waiting, waiting_transport = layer.connect()
    feed(waiting, waiting_transport, frame(2, bytes(600_000)))
    assert not waiting_transport.is_reading
    for second in range(WHOLE_REQUEST_S - 10):
        layer.clock.advance_ms(1000)
        if second >= GRACE_S:
            feed(slow, transport, bytes(int(pace * size / WHOLE_REQUEST_S)))
        layer.processor.close_slow_holders()
    assert transport.is_closed is not is_kept


@pytest.mark.parametrize("is_announced", [False, True])
def test_large_requests_wait_for_memory_and_small_ones_do_not(is_announced: bool) -> None:
    clock = ManualClock()
    pool = MemoryPool(1000, clock, least_bytes=500)
    layer = Layer(pool=pool, clock=clock)
    for number in range(2):
        channel, transport = layer.connect()
        feed(channel, transport, frame(number, bytes(600))[: 100 if is_announced else 1000])
    assert pool.available_bytes < 0
    waiting, waiting_transport = layer.connect()
    feed(waiting, waiting_transport, frame(5, bytes(600)))
    assert not waiting_transport.is_reading
    small, small_transport = layer.connect()
    small.dataReceived(frame(6, bytes(400)) + frame(7))
    if is_announced:
        for holder in list(layer.processor.channels.values())[:2]:
            holder.close()
    for expected in [6] if is_announced else [0, 1, 6]:
        request = layer.take()
        assert request is not None
        assert request.context.correlation_id == expected
        request.release_buffer()
        layer.answer(request)
    left = [request.context.correlation_id for _ in range(2) if (request := layer.take()) is not None]
    assert sorted(left) == [5, 7]
    assert small_transport.written


def test_an_upload_that_takes_long_is_not_idle() -> None:
    layer = Layer(idle_ms=1000)
    channel, transport = layer.connect()
    data = frame(1, b"x" * 30)
    for at in range(len(data) - 1):
        feed(channel, transport, data[at : at + 1])
        layer.advance_ms(500)
        assert not transport.is_closed
    for _ in range(3):
        layer.advance_ms(500)
    assert transport.is_closed
