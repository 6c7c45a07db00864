import gc
import random
import socket
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support import network_fakes
from tests.support.cases import case
from tests.support.eventually import WAIT_S
from tests.support.network_fakes import FakeTransport, Layer, frame, lines_of
from twisted_kafka.network.accepting.interfaces import NEW_CONNECTIONS, NoQuotas
from twisted_kafka.network.connection.channel import FRAME_BYTES, READ_AHEAD_BYTES
from twisted_kafka.network.connection.expiry import HALF_CLOSED_S
from twisted_kafka.network.connection.framing import NOT_NOW
from twisted_kafka.network.requests.parker import Parker
from twisted_kafka.network.requests.request import CLOSE_CONNECTION, Request, ThrottlingResponse
from twisted_kafka.network.requests.request_channel import AlreadyAnsweredError
from twisted_kafka.protocol.regions import Part


def test_one_request_in_flight_and_answers_in_order() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1) + frame(2) + frame(3)[:7])
    channel.dataReceived(frame(3)[7:])
    expected = b""
    for correlation_id in (1, 2, 3):
        request = layer.take()
        assert request is not None
        assert layer.take() is None
        assert request.context.correlation_id == correlation_id
        expected += layer.answer(request, b"x" * correlation_id)
    assert transport.written == expected
    assert [r.context.correlation_id for r in layer.observer.completed] == [1, 2, 3]


def test_phases_add_up_to_the_total() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    layer.clock.advance_ms(1)
    request = layer.take()
    assert request is not None
    layer.clock.advance_ms(2)
    request.local_complete_ns = layer.clock.monotonic_ns()
    layer.clock.advance_ms(3)
    layer.channel.send_response(request, [b"\0" * 8], 8)
    layer.clock.advance_ms(4)
    transport.is_stuck = True
    layer.reactor.run_asked()
    layer.clock.advance_ms(5)
    assert not layer.observer.completed
    transport.unstick()
    (done,) = layer.observer.completed
    assert done.phases_ns() == (1_000_000, 2_000_000, 3_000_000, 0, 4_000_000, 5_000_000, 15_000_000)
    assert (done.request_bytes, done.response_bytes) == (12, 8)


def test_one_wake_up_for_many_responses() -> None:
    layer = Layer()
    requests = []
    for number in range(5):
        layer.connect()[0].dataReceived(frame(number))
    for _ in range(5):
        request = layer.take()
        assert request is not None
        requests.append(request)
    for request in requests:
        layer.channel.send_response(request, [b"x"], 1)
    assert len(layer.reactor.asked) == 1
    layer.reactor.run_asked()
    assert len(layer.observer.completed) == 5


def test_answer_is_sent_although_the_next_request_takes_long() -> None:
    layer = Layer()
    for number in range(2):
        layer.connect()[0].dataReceived(frame(number))
    request = layer.take()
    assert request is not None
    layer.channel.send_response(request, [b"x"], 1)
    assert layer.take() is not None  # and this one never comes back
    assert layer.reactor.run_asked() == 1
    assert len(layer.observer.completed) == 1


def test_second_answer_is_an_error_and_changes_nothing() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    first = layer.answer(request)
    with pytest.raises(AlreadyAnsweredError):
        layer.channel.send_no_op(request)
    layer.reactor.run_asked()
    assert transport.written == first
    assert len(layer.observer.completed) == 1


def test_no_op_goes_on_and_close_closes() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1) + frame(2))
    first = layer.take()
    assert first is not None
    layer.channel.send_no_op(first)
    layer.reactor.run_asked()
    second = layer.take()
    assert second is not None
    layer.channel.close_connection(second)
    layer.reactor.run_asked()
    assert transport.is_closed
    assert transport.written == b""
    assert len(layer.observer.completed) == 2
    assert not layer.processor.channels


@pytest.mark.parametrize("has_answer", [False, True])
def test_nothing_behind_a_request_that_closes_its_connection_is_handled(has_answer: bool) -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(b"".join(map(frame, range(100))))
    first = layer.take()
    assert first is not None
    parts = [b"\0\0\0\0"] if has_answer else []
    layer.channel.send_response(first, parts, 4 * has_answer, CLOSE_CONNECTION)
    layer.reactor.run_asked()
    channel.dataReceived(frame(100))
    layer.advance_ms(10_000)
    assert layer.take() is None
    assert (transport.is_closed, transport.written) == (True, b"".join(parts))
    assert len(layer.observer.completed) == 1


def test_response_to_a_closed_connection_is_dropped_and_counted_once() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    transport.abortConnection()
    layer.answer(request)
    assert transport.written == b""
    assert layer.processor.stats.dropped_responses == 1
    assert len(layer.observer.completed) == 1


def test_connection_lost_while_sending_completes_the_request() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    transport.is_stuck = True
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    layer.answer(request)
    assert not layer.observer.completed
    transport.abortConnection()
    assert len(layer.observer.completed) == 1


def test_requests_of_a_client_that_has_gone_are_served_before_the_end() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1) + frame(2) + frame(3) + frame(4)[:7])
    assert channel.eof_received()
    assert not transport.is_reading
    for correlation_id in (1, 2, 3):
        request = layer.take()
        assert request is not None
        assert not transport.is_closed
        assert request.context.correlation_id == correlation_id
        layer.channel.send_no_op(request)
        layer.reactor.run_asked()
    assert transport.is_closed
    assert [r.context.correlation_id for r in layer.observer.completed] == [1, 2, 3]


def test_a_client_that_has_gone_with_nothing_under_way_is_closed_at_once() -> None:
    layer = Layer()
    channel, _ = layer.connect()
    channel.dataReceived(frame(1)[:7])
    assert not channel.eof_received()


def test_half_closed_connection_gets_the_answer_under_way() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    assert channel.eof_received()
    assert not transport.is_reading
    layer.advance_ms(HALF_CLOSED_S * 1000 - 1)
    answer = layer.answer(request)
    assert transport.written == answer
    assert transport.is_closed
    layer.advance_ms(2)


def test_half_closed_connection_is_not_kept_for_a_request_that_takes_long() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    assert channel.eof_received()
    layer.advance_ms(HALF_CLOSED_S * 1000)
    assert transport.is_closed
    layer.answer(request)
    assert len(layer.observer.completed) == 1


def test_muted_channel_reads_on_up_to_a_bound() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(0))
    sent = 0
    number = 0
    while transport.is_reading:
        number += 1
        data = frame(number, b"x" * 1000)
        sent += len(data)
        channel.dataReceived(data)
        assert sent < 2 * READ_AHEAD_BYTES
    assert sent > READ_AHEAD_BYTES - number * FRAME_BYTES
    for correlation_id in range(number + 1):
        request = layer.take()
        assert request is not None
        assert request.context.correlation_id == correlation_id
        layer.answer(request)
    assert transport.is_reading


def test_full_queue_stops_reading_and_goes_on_sending() -> None:
    layer = Layer(queue_size=4)
    clients = [layer.connect() for _ in range(8)]
    for number, (channel, _) in enumerate(clients):
        channel.dataReceived(frame(number))
    assert layer.channel.size == 4
    assert layer.processor.is_full
    assert [transport.is_reading for _, transport in clients] == [True] * 4 + [False] * 4
    extra, extra_transport = layer.connect()
    extra.dataReceived(frame(8))
    assert not extra_transport.is_reading
    answered = 0
    while (request := layer.take()) is not None:
        layer.answer(request)
        answered += 1
        layer.reactor.run_asked()
    assert answered == layer.processor.received_requests == 9
    assert layer.processor.before_poll() is None
    assert not layer.processor.is_full
    assert all(transport.is_reading and transport.written for _, transport in [*clients, (extra, extra_transport)])


def test_a_handler_is_woken_for_requests_that_waited_for_room() -> None:
    woken: list[bool] = []

    class Sleeper(Parker):
        def wake(self) -> None:
            woken.append(True)

    layer = Layer(queue_size=1)
    for number in range(2):
        layer.connect()[0].dataReceived(frame(number))
    assert layer.take() is not None
    sleeper = Sleeper()
    layer.channel._parkers[:], layer.channel._idle[:] = [sleeper], [sleeper]
    layer.reactor.run_asked()
    assert layer.channel.size == 1
    assert woken == [True]


@pytest.mark.medium
def test_a_connection_that_is_closed_while_the_queue_is_full_is_not_kept() -> None:
    layer = Layer(queue_size=1)
    layer.connect()[0].dataReceived(frame(1))
    channel, transport = layer.connect()
    kept = weakref.ref(transport)
    layer.connect()[0].dataReceived(frame(2))
    assert channel.get_buffer() is NOT_NOW
    transport.abortConnection()
    del channel, transport
    gc.collect()
    assert kept() is None


def test_stalled_handlers_get_help_and_the_next_requests_need_not_wait() -> None:
    layer = Layer()
    woken: list[str] = []

    class Sleeper(Parker):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def wake(self) -> None:
            woken.append(self.name)

    first, second, third = (Sleeper(name) for name in ("first", "second", "third"))
    layer.channel._parkers[:] = [first, second, third]
    layer.channel._idle[:] = [third, second, first]
    channel, _ = layer.connect()
    channel.dataReceived(frame(1))
    assert woken == ["first"]
    slow = layer.channel.receive(first, 0)
    assert slow is not None
    layer.connect()[0].dataReceived(frame(2))
    assert woken == ["first"], "it may be back in a moment"
    layer.channel.check_stalls()
    assert woken == ["first"], "it has just been seen for the first time"
    layer.channel.check_stalls()
    assert woken == ["first", "second"]
    assert layer.channel.receive(second, 0) is not None
    layer.channel._idle.append(second)
    layer.connect()[0].dataReceived(frame(3))
    assert woken == ["first", "second", "second"], "the first is known to be busy"


def test_bad_header_closes_with_one_line_and_others_go_on() -> None:
    layer = Layer()
    good, good_transport = layer.connect()
    rng = random.Random(7)
    for _ in range(200):
        channel, transport = layer.connect()
        junk = rng.randbytes(rng.randrange(1, 60))
        channel.dataReceived(junk)
        if channel.in_flight is not None:
            request = layer.take()
            assert request is not None
            layer.channel.close_connection(request)
            layer.reactor.run_asked()
            assert transport.is_closed
    for bad in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", frame(1, api_key=999), b"\0\0\0\x03abc"):
        channel, transport = layer.connect()
        channel.dataReceived(bad)
        assert transport.is_closed, bad
    good.dataReceived(frame(5))
    request = layer.take()
    assert request is not None
    layer.answer(request)
    assert good_transport.written


def test_idle_and_half_sent_connections_expire_but_not_waiting_ones() -> None:
    layer = Layer(idle_ms=1000)
    _, idle_transport = layer.connect()
    half, half_transport = layer.connect()
    waiting, waiting_transport = layer.connect()
    unread, unread_transport = layer.connect()
    half.dataReceived(frame(1)[:9])
    waiting.dataReceived(frame(2))
    unread_transport.is_stuck = True
    unread.dataReceived(frame(3))
    first, second = layer.take(), layer.take()
    assert first is not None
    assert second is not None
    layer.answer(second)
    for _ in range(12):
        layer.advance_ms(100)
    assert idle_transport.is_closed
    assert half_transport.is_closed
    assert unread_transport.is_closed
    assert not waiting_transport.is_closed
    assert layer.processor.stats.expired_connections_killed == 0  # that counts sessions
    layer.answer(first)
    assert waiting_transport.written


def test_a_connection_may_be_idle_for_so_long_and_no_longer() -> None:
    layer = Layer(idle_ms=1000)
    _, transport = layer.connect()
    layer.clock.advance_ms(999)
    layer.processor.close_idle_connections()
    assert not transport.is_closed
    layer.clock.advance_ms(1)
    layer.processor.close_idle_connections()
    assert transport.is_closed


def test_shutdown_answers_what_is_under_way() -> None:
    layer = Layer()
    busy, busy_transport = layer.connect()
    _, idle_transport = layer.connect()
    busy.dataReceived(frame(1) + frame(2))
    request = layer.take()
    assert request is not None
    layer.processor.begin_shutdown()
    layer.reactor.run_asked()
    assert idle_transport.is_closed
    assert not busy_transport.is_closed
    assert not busy_transport.is_reading
    _, late_transport = layer.connect()
    assert late_transport.is_closed
    layer.answer(request)
    assert busy_transport.written
    assert busy_transport.is_closed
    assert layer.take() is None


def test_shutdown_does_not_wait_for_an_answer_that_nobody_gives() -> None:
    layer = Layer()
    waiting, waiting_transport = layer.connect()
    answered, answered_transport = layer.connect()
    for channel in (waiting, answered):
        channel.dataReceived(frame(1))
    dropped, request = layer.take(), layer.take()
    assert dropped is not None
    assert request is not None
    layer.processor.begin_shutdown()
    layer.channel.send_response(request, [b"abcd"], 4)
    layer.processor.give_up_unanswered()
    layer.reactor.run_asked()
    assert (waiting_transport.is_closed, waiting_transport.written) == (True, b"")
    assert answered_transport.written
    assert layer.observer.completed == [request]


class BrokenTransport(FakeTransport):
    """Fails at what is told."""

    broken = ""

    def _use(self, what: str) -> None:
        if what == self.broken:
            raise ValueError(f"cannot {what}")

    def send(self, parts: Sequence[Part], size_bytes: int) -> bool:
        self._use("send")
        return super().send(parts, size_bytes)

    def resumeProducing(self) -> None:
        self._use("resume")
        super().resumeProducing()

    def abortConnection(self) -> None:
        super().abortConnection()
        self._use("close")


@pytest.mark.parametrize("broken", ["send", "resume", "close"])
def test_a_connection_that_fails_is_closed_with_a_line_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    monkeypatch.setattr(network_fakes, "FakeTransport", BrokenTransport)
    layer = Layer(queue_size=2)
    clients = [layer.connect() for _ in range(4)]
    for number, (channel, _) in enumerate(clients):
        channel.dataReceived(frame(number))
    transports: list[Any] = [transport for _, transport in clients]
    transports[2].broken = broken
    requests = [layer.take() for _ in range(2)]

    def answer() -> None:
        for request in requests:
            assert request is not None
            layer.channel.send_response(request, [b"x"], 1)
        layer.reactor.run_asked()
        while (request := layer.take()) is not None:
            layer.answer(request)

    lines = lines_of(answer)
    assert [len(transport.written) for transport in transports if transport is not transports[2]] == [1, 1, 8]
    if broken != "close":
        assert len(lines) == 1
        assert transports[2].is_closed
    assert len(layer.observer.completed) == 4
    assert lines_of(layer.processor.abandon_connections) == (
        ["Connection 127.0.0.1:9092-127.0.0.1:5000-2 could not be closed cleanly"] if broken == "close" else []
    )
    assert not layer.processor.channels
    assert all(transport.is_closed for transport in transports)


@pytest.mark.medium
def test_random_interleavings_answer_everything_once_and_in_order() -> None:
    for seed in range(20):
        with case(seed=seed):
            interleave(seed)


def interleave(seed: int) -> None:
    rng = random.Random(seed)
    layer = Layer(queue_size=3)
    clients = [layer.connect() for _ in range(6)]
    streams = [b"".join(frame(n, rng.randbytes(rng.randrange(30))) for n in range(10)) for _ in clients]
    taken = []
    for _ in range(3000):
        step = rng.randrange(5)
        if step == 0:
            index = rng.randrange(len(clients))
            channel, transport = clients[index]
            if transport.is_reading and streams[index]:
                cut = rng.randrange(1, 40)
                channel.dataReceived(streams[index][:cut])
                streams[index] = streams[index][cut:]
        elif step == 1 and (request := layer.take()) is not None:
            taken.append(request)
        elif step == 2 and taken:
            done = taken.pop(rng.randrange(len(taken)))
            data = done.context.correlation_id.to_bytes(1, "big")
            layer.channel.send_response(done, [data], 1)
        elif step == 3:
            layer.reactor.run_asked()
        else:
            layer.advance_ms(1)
    assert [transport.written for _, transport in clients] == [bytes(range(10))] * len(clients)
    assert len(layer.observer.completed) == 60
    assert layer.channel.size == 0


class CountingQuotas(NoQuotas):
    """Allows ``limit`` connections."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.closed: list[tuple[str, str]] = []

    def dec(self, listener_name: str, address: str) -> None:
        self.count -= 1
        self.closed.append((listener_name, address))

    def claim_excess(self, listener_name: str) -> bool:
        return self.count > self.limit


def test_each_connection_is_given_back_to_the_quotas_once() -> None:
    layer = Layer()
    quotas = layer.processor.settings.quotas = CountingQuotas(9)
    channel, transport = layer.connect()
    transport.abortConnection()
    layer.processor.process_disconnected(channel)
    assert quotas.closed == [("PLAINTEXT", "127.0.0.1")]


def test_excess_connections_are_closed_least_recently_used_first_and_one_each_turn() -> None:
    layer = Layer()
    quotas = layer.processor.settings.quotas = CountingQuotas(1)
    transports = []
    for _ in range(3):
        transports.append(layer.connect()[1])
        layer.advance_ms(1)
        quotas.count += 1
    transports[0].channel.dataReceived(frame(1))
    layer.processor.check_connections()
    closed = []
    while layer.reactor.run_asked():
        closed.append([transport.is_closed for transport in transports])
    assert closed == [[False, True, False], [False, True, True], [False, True, True]]
    assert layer.processor.before_poll() is None, "there is nothing more to do"


def test_a_full_processor_tells_the_acceptor_when_it_has_room() -> None:
    told: list[bool] = []
    layer = Layer()
    pairs = [socket.socketpair() for _ in range(NEW_CONNECTIONS + 1)]
    taken = [layer.processor.accept(ours, ("127.0.0.1", 1), lambda: told.append(True)) for ours, _ in pairs]
    assert taken == [True] * NEW_CONNECTIONS + [False]
    for ours, _ in pairs:
        ours.close()  # so that none of them is set up: there is no reactor
    layer.reactor.run_asked()
    assert told == [True]
    for _, theirs in pairs:
        theirs.close()


def test_a_connection_that_comes_while_a_whole_turn_of_others_is_set_up_is_next() -> None:
    layer = Layer()

    class Lost:
        """A socket whose client has gone; meanwhile another one came."""

        following: "Lost | None" = None
        is_closed = False

        def getsockname(self) -> object:
            if self.following is not None:
                layer.processor.accept(self.following, ("127.0.0.1", 1))  # type: ignore[arg-type]
            raise OSError("gone")

        def close(self) -> None:
            self.is_closed = True

    came = [Lost() for _ in range(NEW_CONNECTIONS)]
    came[0].following = last = Lost()
    for each in came:
        assert layer.processor.accept(each, ("127.0.0.1", 1))  # type: ignore[arg-type]
    layer.processor.after_poll()
    layer.reactor.run_asked()
    assert not last.is_closed
    while layer.reactor.run_asked():
        pass
    assert last.is_closed


def test_a_response_that_is_appended_while_the_thread_ends_is_completed() -> None:
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    request = layer.take()
    assert request is not None
    transport.abortConnection()

    class Interrupted(deque[Request | ThrottlingResponse]):
        def append(self, response: Request | ThrottlingResponse) -> None:
            layer.processor.end()
            super().append(response)

    layer.processor._responses = Interrupted()
    layer.channel.send_no_op(request)
    assert layer.observer.completed == [request]


@pytest.mark.parametrize(("delay_ms", "is_draining"), [(10_000, False), (0, False), (10_000, True)])
def test_a_connection_whose_authentication_failed_is_closed_after_the_delay(delay_ms: int, is_draining: bool) -> None:
    layer = Layer()
    layer.processor.settings.failed_authentication_delay_ms = delay_ms
    channel, transport = layer.connect()
    if is_draining:
        channel.dataReceived(frame(1))  # which keeps it open
        layer.processor.begin_shutdown()
        layer.reactor.run_asked()
    channel.close_after_failed_authentication()
    assert layer.processor.stats.failed_authentications == 1
    assert transport.is_closed == (is_draining or not delay_ms)
    assert not transport.is_reading
    layer.advance_ms(9_995)
    assert transport.is_closed == (is_draining or not delay_ms)
    layer.advance_ms(5)
    assert transport.is_closed


def test_an_observer_that_fails_troubles_neither_the_client_nor_the_other_observers() -> None:
    layer = Layer()
    layer.processor._observers = (lambda request: 1 / 0, layer.observer.request_completed)  # type: ignore[assignment]
    channel, transport = layer.connect()
    channel.dataReceived(frame(1) + frame(2))
    for count in (1, 2):
        request = layer.take()
        assert request is not None
        assert lines_of(lambda: layer.answer(request)) == ["An observer of completed requests failed"]  # noqa: B023
        assert len(layer.observer.completed) == count
    assert len(transport.written) == 16


def test_all_connections_are_closed_at_once_also_those_that_were_just_accepted() -> None:
    layer = Layer(queue_size=1, idle_ms=1000)
    clients = [layer.connect() for _ in range(3)]
    for number, (channel, _) in enumerate(clients):
        channel.dataReceived(frame(number))
    ours, theirs = socket.socketpair()
    quotas = layer.processor.settings.quotas = CountingQuotas(9)
    assert layer.processor.accept(ours, ("127.0.0.1", 1))
    layer.processor.close_all()
    layer.reactor.run_asked()
    assert all(transport.is_closed for _, transport in clients)
    assert len(quotas.closed) == 4
    theirs.settimeout(WAIT_S)
    assert theirs.recv(1) == b""
    theirs.close()
    assert layer.reactor.getDelayedCalls() == [], "nobody looks for idle ones any more"
    request = layer.take()
    assert request is not None
    layer.reactor.run_asked()
    assert layer.take() is None, "those that waited for room are gone"
    layer.answer(request)
    assert layer.observer.completed == [request]


def test_a_connection_whose_reading_cannot_be_resumed_after_a_response_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_fakes, "FakeTransport", BrokenTransport)
    layer = Layer()
    channel, transport = layer.connect()
    channel.dataReceived(frame(1))
    channel.pause()
    transport.broken = "resume"
    request = layer.take()
    assert request is not None
    (line,) = lines_of(lambda: layer.answer(request))
    assert line.endswith("its next request could not be processed")
    assert transport.is_closed
    assert len(transport.written) == 8


def test_a_response_to_nobody_does_not_hold_up_the_others() -> None:
    layer = Layer()
    clients = [layer.connect() for _ in range(3)]
    for number, (channel, _) in enumerate(clients):
        channel.dataReceived(frame(number))
    clients[0][1].abortConnection()
    for _ in clients:
        request = layer.take()
        assert request is not None
        layer.channel.send_response(request, [b"x"], 1)
    assert layer.reactor.run_asked() == 1
    assert [transport.written for _, transport in clients] == [b"", b"x", b"x"]
    assert len(layer.observer.completed) == 3


def test_responses_that_are_queued_when_the_thread_ends_are_completed() -> None:
    layer = Layer()
    for number in range(2):
        layer.connect()[0].dataReceived(frame(number))
    requests = [layer.take() for _ in range(2)]
    for request in requests:
        assert request is not None
        layer.channel.send_no_op(request)
    layer.processor.end()
    assert layer.observer.completed == requests
    assert layer.processor.response_queue_size == 0


@pytest.mark.parametrize(("idle_ms", "is_closed"), [(1, True), (0, False), (-1, False)])
def test_a_limit_of_idle_time_is_at_least_a_millisecond(idle_ms: int, is_closed: bool) -> None:
    layer = Layer(idle_ms=idle_ms)
    _, transport = layer.connect()
    for _ in range(3):
        layer.advance_ms(1)
    assert transport.is_closed == is_closed
