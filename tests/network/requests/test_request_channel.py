"""The queue between processors and handlers, pumped by hand: what is taken when, who is woken, and who is waited for."""

import threading
from typing import Any

import pytest

from tests.support.fake import Fake
from twisted_kafka.network.requests.memory_pool import LARGE_BYTES
from twisted_kafka.network.requests.parker import Parker
from twisted_kafka.network.requests.request import (
    CLOSE_CONNECTION,
    END_THROTTLING,
    NO_OP,
    SEND,
    START_THROTTLING,
    Request,
    ThrottlingResponse,
)
from twisted_kafka.network.requests.request_channel import (
    MAX_BUNDLE_BYTES,
    MAX_BUNDLED_REQUESTS,
    AlreadyAnsweredError,
    CallbackRequest,
    RequestBundle,
    RequestChannel,
    ShutdownRequest,
)
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.system.interpreter import HAS_INTERPRETER_LOCK
from twisted_kafka.timing.clock import ManualClock

MS = 1_000_000


class FakeProcessor(Fake):
    def __init__(self) -> None:
        self.responses: list[Any] = []
        self.wakes = self.drained = 0
        self.is_handling = self.is_active = False

    def append_response(self, response: Any) -> None:
        self.responses.append(response)

    def wake_for_responses(self) -> None:
        self.wakes += 1

    def request_queue_drained(self) -> None:
        self.drained += 1

    def check_stall(self) -> bool:
        return self.is_active

    def has_channel(self, connection: Any) -> bool:
        return True


class Setup:
    def __init__(self, queue_size: int = 10, handlers: int = 1) -> None:
        self.clock = ManualClock()
        self.channel = RequestChannel(queue_size, self.clock)
        self.processor = FakeProcessor()
        self.channel.add_processor(self.processor)
        self.parkers = [self.channel.add_handler() for _ in range(handlers)]
        self.made = 0

    def request(self, api_key: int = 0, size: int = 0) -> Request:
        self.made += 1
        context = RequestContext(api_key, 0, self.made, None, ConnectionInfo("c", "L", "PLAINTEXT", "-"))
        return Request(context, bytes(size), 0, self.processor, self.clock.monotonic_ns())

    def send(self, count: int = 1) -> list[bool]:
        return [self.channel.send_request(self.request()) for _ in range(count)]

    def take(self, parker: Parker | None = None) -> Any:
        return self.channel.receive(parker or self.parkers[0], 0)

    def number(self) -> int:
        taken = self.take()
        assert isinstance(taken, Request)
        return taken.context.correlation_id


class Sleeper:
    """A handler that sleeps until it is woken."""

    def __init__(self, setup: Setup, parker: Parker) -> None:
        self.taken: list[Any] = []
        self._channel = setup.channel
        self._thread = threading.Thread(target=self._receive, args=(parker,), daemon=True)
        self._thread.start()
        for _ in range(10_000):
            if parker in setup.channel._idle:
                return
            self._thread.join(0.001)
        raise AssertionError("it does not sleep")

    def _receive(self, parker: Parker) -> None:
        while not self.taken:
            received = self._channel.receive(parker, 20)
            if received is not None:
                self.taken.append(received)

    @property
    def is_asleep(self) -> bool:
        self._thread.join(0.02)
        return self._thread.is_alive()

    def woken(self) -> Any:
        self._thread.join(30)
        return self.taken[0]


# the queue


def test_a_full_queue_takes_no_more_and_says_when_half_of_it_is_free() -> None:
    setup = Setup(queue_size=5)
    assert setup.send(7) == [True] * 5 + [False] * 2
    assert setup.channel.size == 5
    setup.channel.notify_when_drained(setup.processor)
    assert [setup.number() for _ in range(2)] == [1, 2]
    assert setup.processor.drained == 0
    assert setup.number() == 3
    assert setup.processor.drained == 1
    assert [setup.number() for _ in range(2)] == [4, 5]
    assert setup.processor.drained == 1
    setup.channel.notify_when_drained(setup.processor)
    assert setup.processor.drained == 2, "it is half empty already"
    assert setup.take() is None


def test_processor_that_fills_the_queue_when_it_has_room_waits_again() -> None:
    setup = Setup(queue_size=1)

    class Busy(FakeProcessor):
        def request_queue_drained(self) -> None:
            super().request_queue_drained()
            assert self.drained < 5, "the handler does nothing else"
            setup.send()
            setup.channel.notify_when_drained(self)

    busy = Busy()
    setup.send()
    setup.channel.notify_when_drained(busy)
    for count in (1, 2):
        assert setup.number() == count
        assert busy.drained == count


def test_a_processor_that_is_gone_is_neither_woken_nor_told() -> None:
    setup = Setup(queue_size=2)
    other = FakeProcessor()
    setup.channel.add_processor(other)
    setup.send(2)
    for processor in (setup.processor, other):
        setup.channel.notify_when_drained(processor)
    setup.channel.remove_processor(other)
    assert [setup.number(), setup.number(), setup.take()] == [1, 2, None]
    assert (setup.processor.drained, other.drained) == (1, 0)
    other.is_active = True
    setup.parkers[0].busy_since_ns = 0
    setup.channel.remove_handler(setup.parkers[0])
    assert not setup.channel.check_stalls(), "nobody is there to be watched"


def test_times_of_a_request_that_is_taken() -> None:
    setup = Setup()
    setup.send()
    setup.clock.advance_ms(5)
    request = setup.take()
    assert request.dequeued_ns == setup.clock.monotonic_ns() == setup.parkers[0].busy_since_ns
    setup.clock.advance_ms(5)
    setup.channel.send_response(request, [b"abc"], 3)
    assert request.local_complete_ns == request.response_ready_ns == setup.clock.monotonic_ns()
    assert (request.parts, request.response_bytes, request.response_kind) == ([b"abc"], 3, SEND)
    setup.send()
    later = setup.take()
    later.local_complete_ns = 7
    setup.clock.advance_ms(5)
    setup.channel.send_response(later, [b""], 0)
    assert (later.local_complete_ns, later.response_ready_ns) == (7, setup.clock.monotonic_ns())


def test_callbacks_come_before_requests_and_shutdown_after_them() -> None:
    setup = Setup(queue_size=1)
    setup.send()
    setup.channel.send_shutdown_request()
    request = setup.request()
    setup.channel.send_callback(lambda: 1, request)
    setup.channel.send_callback(lambda: 2, request)
    callbacks = [setup.take(), setup.take()]
    assert all(isinstance(each, CallbackRequest) and each.request is request for each in callbacks)
    assert [each.function() for each in callbacks] == [1, 2]
    assert setup.parkers[0].busy_since_ns
    assert isinstance(setup.take(), Request)
    assert isinstance(setup.take(), ShutdownRequest)
    assert setup.parkers[0].busy_since_ns == 0
    assert setup.take() is None


# who is woken


def test_an_idle_handler_is_woken_if_no_other_is_awake() -> None:
    setup = Setup(handlers=2)
    first = Sleeper(setup, setup.parkers[0])
    setup.send()
    setup.channel.wake_handler()
    assert first.is_asleep, "the other one is awake and takes it"
    assert setup.take(setup.parkers[1]).context.correlation_id == 1
    setup.send()
    setup.channel.wake_handler()
    assert first.is_asleep, "the other one is on a request, and not for long"
    setup.clock.advance_ms(1)
    assert setup.channel.check_stalls()
    assert first.is_asleep, "it has been seen for the first time"
    assert setup.channel.check_stalls()
    assert first.woken().context.correlation_id == 2


def test_the_last_one_that_fell_asleep_is_woken_first_and_nobody_for_nothing() -> None:
    setup = Setup(handlers=2)
    sleepers = [Sleeper(setup, parker) for parker in setup.parkers]
    setup.channel.wake_handler()
    assert all(sleeper.is_asleep for sleeper in sleepers)
    setup.send()
    setup.channel.wake_handler()
    assert sleepers[1].woken().context.correlation_id == 1
    assert sleepers[0].is_asleep
    assert setup.take(setup.parkers[1]) is None, "it has finished"
    setup.channel.send_shutdown_request()
    assert isinstance(sleepers[0].woken(), ShutdownRequest)


def test_each_request_is_watched_also_after_one_that_was_stalled() -> None:
    setup = Setup(handlers=2)
    idle = Sleeper(setup, setup.parkers[0])
    watched: list[bool] = []
    setup.channel.watch = lambda now_ns: watched.append(setup.channel.check_stalls())
    for count in (1, 2):
        setup.clock.advance_ms(5)
        setup.send()
        assert setup.channel.receive(setup.parkers[1]) is not None
        assert watched == [True] * count
        assert [setup.channel.check_stalls() for _ in range(2)] == [True, False], "nobody watches it now that it is stalled"
    setup.send()
    setup.channel.wake_handler()
    assert isinstance(idle.woken(), Request)


def test_processors_may_come_while_others_go() -> None:
    setup = Setup()
    channel = setup.channel
    gone, come = FakeProcessor(), FakeProcessor()
    channel.add_processor(gone)

    class Interrupted(list[Any]):
        """Lets another thread add a processor while it is copied."""

        def __iter__(self) -> Any:
            adding.start()
            adding.join(0.05)
            return super().__iter__()

    adding = threading.Thread(target=channel.add_processor, args=(come,))
    channel._processors = Interrupted(channel._processors)
    channel.remove_processor(gone)
    adding.join(30)
    assert channel._processors == [setup.processor, come]


def test_a_callback_wakes_an_idle_handler() -> None:
    setup = Setup()
    sleeper = Sleeper(setup, setup.parkers[0])
    setup.channel.send_callback(lambda: 5, setup.request())
    assert sleeper.woken().function() == 5


def test_a_handler_that_has_ended_leaves_its_requests_to_the_others() -> None:
    setup = Setup(handlers=2)
    sleeper = Sleeper(setup, setup.parkers[0])
    setup.send()
    setup.channel.remove_handler(setup.parkers[1])
    assert sleeper.woken().context.correlation_id == 1


# who is watched


def test_handlers_are_watched_while_one_is_awake_and_not_stalled() -> None:
    setup = Setup(handlers=2)
    channel = setup.channel
    sleeper = Sleeper(setup, setup.parkers[0])
    setup.send()
    setup.take(setup.parkers[1])
    assert [channel.check_stalls() for _ in range(3)] == [True, False, False]
    setup.clock.advance_ms(5)
    setup.send()
    assert setup.take(setup.parkers[1]) is not None
    assert channel.check_stalls(), "stalled is the earlier request, not the handler"
    assert setup.take(setup.parkers[1]) is None, "it has finished"
    channel.send_shutdown_request()
    assert isinstance(sleeper.woken(), ShutdownRequest)


def test_nothing_is_watched_when_all_handlers_sleep_unless_a_network_thread_handles_requests() -> None:
    setup = Setup()
    sleeper = Sleeper(setup, setup.parkers[0])
    assert not setup.channel.check_stalls()
    setup.processor.is_active = True
    assert setup.channel.check_stalls()
    setup.send()
    setup.channel.wake_handler()
    assert isinstance(sleeper.woken(), Request)


def test_a_handler_leaves_requests_to_a_network_thread_that_handles_them() -> None:
    setup = Setup()
    setup.processor.is_handling = True
    setup.send()
    sleeper = Sleeper(setup, setup.parkers[0])
    assert sleeper.is_asleep
    assert setup.channel.claim_idle(setup.clock.monotonic_ns()) is setup.parkers[0]
    assert setup.number() == 1
    setup.channel.release_idle(setup.parkers[0], setup.clock.monotonic_ns())
    setup.processor.is_handling = False
    setup.send()
    setup.channel.wake_handler()
    assert sleeper.woken().context.correlation_id == 2


@pytest.mark.skipif(not HAS_INTERPRETER_LOCK, reason="threads do not contend")
def test_a_handler_that_has_finished_leaves_requests_to_another_one_that_is_at_work() -> None:
    setup = Setup(handlers=2)
    finished, at_work = setup.parkers
    setup.send(3)
    assert setup.take(at_work).context.correlation_id == 1
    sleeper = Sleeper(setup, finished)
    assert sleeper.is_asleep, "requests wait, but two threads would contend for the interpreter lock"
    assert setup.take(at_work).context.correlation_id == 2
    setup.clock.advance_ms(1)
    assert setup.channel.check_stalls()
    assert sleeper.is_asleep
    assert setup.channel.check_stalls()
    assert sleeper.woken().context.correlation_id == 3, "the other one is stuck"


def test_a_place_is_claimed_once_and_only_of_a_handler_that_sleeps() -> None:
    setup = Setup()
    assert setup.channel.claim_idle(setup.clock.monotonic_ns()) is None
    sleeper = Sleeper(setup, setup.parkers[0])
    setup.clock.advance_ms(3)
    assert setup.channel.claim_idle(setup.clock.monotonic_ns()) is setup.parkers[0]
    assert setup.channel.claim_idle(setup.clock.monotonic_ns()) is None
    setup.clock.advance_ms(5)
    assert setup.channel.idle_ns() == 3 * MS
    setup.channel.release_idle(setup.parkers[0], setup.clock.monotonic_ns())
    setup.clock.advance_ms(7)
    assert setup.channel.idle_ns() == 10 * MS
    setup.channel.send_shutdown_request()
    assert isinstance(sleeper.woken(), ShutdownRequest)


def test_a_thread_that_keeps_a_place_is_counted_in_it() -> None:
    setup = Setup()
    place, keeper = setup.parkers[0], Parker()
    place.parked_ns, keeper.parked_ns = 4, 9
    setup.channel.replace(place, keeper)
    assert setup.channel.idle_ns() == 4
    further = Parker()
    keeper.parked_ns = 5
    setup.channel.replace(keeper, further)
    assert setup.channel.idle_ns() == 9
    setup.channel.remove_handler(further)
    assert setup.channel.idle_ns() == 9
    assert not setup.channel.is_busy


def test_a_handler_that_has_slept_for_nothing_is_awake() -> None:
    setup = Setup()
    assert setup.channel.receive(setup.parkers[0], 0.001) is None
    setup.clock.advance_ms(5)
    assert setup.channel.idle_ns() == 0
    assert setup.channel.claim_idle(setup.clock.monotonic_ns()) is None


# how long handlers sleep


def test_the_time_that_handlers_sleep() -> None:
    setup = Setup(handlers=2)
    setup.clock.advance_ms(100)
    assert setup.channel.idle_ns() == 0
    sleepers = [Sleeper(setup, parker) for parker in setup.parkers]
    setup.clock.advance_ms(30)
    assert setup.channel.idle_ns() == 60 * MS
    setup.channel.send_shutdown_request()
    assert isinstance(sleepers[1].woken(), ShutdownRequest)
    setup.channel.remove_handler(setup.parkers[1])
    setup.clock.advance_ms(10)
    assert setup.channel.idle_ns() == 70 * MS
    setup.channel.send_shutdown_request()
    assert isinstance(sleepers[0].woken(), ShutdownRequest)
    setup.clock.advance_ms(10)
    assert setup.channel.idle_ns() == 70 * MS


# responses


def test_a_request_is_answered_once() -> None:
    setup = Setup()
    request = setup.request()
    setup.channel.send_response(request, [b"abc"], 3)
    for again in (setup.channel.send_no_op, setup.channel.close_connection):
        with pytest.raises(AlreadyAnsweredError, match="request 1 of c"):
            again(request)
    assert setup.processor.responses == [request]
    claimed = setup.request()
    assert claimed.claim()
    setup.channel.abandon(claimed)
    assert (claimed.response_kind, claimed.response_bytes) == (CLOSE_CONNECTION, 0)


def test_kinds_of_responses() -> None:
    setup = Setup()
    nothing, closing = setup.request(), setup.request()
    setup.channel.send_no_op(nothing)
    setup.channel.close_connection(closing)
    assert [(each.response_kind, each.response_bytes) for each in (nothing, closing)] == [(NO_OP, 0), (CLOSE_CONNECTION, 0)]
    throttled = setup.request()
    setup.channel.start_throttling(throttled)
    setup.channel.end_throttling(throttled)
    started, ended = setup.processor.responses[2:]
    assert isinstance(started, ThrottlingResponse)
    assert (started.response_kind, ended.response_kind) == (START_THROTTLING, END_THROTTLING)
    assert started.context is ended.context is throttled.context
    assert setup.processor.wakes == 4


# bundles


def send_all(setup: Setup, *requests: Request) -> None:
    setup.channel.bundled = {BUNDLED}
    for request in requests:
        assert setup.channel.send_request(request)


def taken(setup: Setup) -> list[Any]:
    """The correlation ids of all that is taken, a list for each time."""
    found = []
    while (received := setup.take()) is not None:
        requests = received.requests if isinstance(received, RequestBundle) else [received]
        found.append([each.context.correlation_id for each in requests])
    return found


BUNDLED, OTHER = 7, 8


def test_requests_of_such_an_api_are_taken_at_once_until_another_comes() -> None:
    setup = Setup(queue_size=100)
    send_all(setup, *[setup.request(key) for key in (BUNDLED, BUNDLED, OTHER, OTHER, BUNDLED, BUNDLED, BUNDLED, OTHER, BUNDLED)])
    assert taken(setup) == [[1, 2], [3], [4], [5, 6, 7], [8], [9]]


def test_a_bundle_is_bounded_in_number_and_in_bytes() -> None:
    setup = Setup(queue_size=100)
    send_all(setup, *[setup.request(BUNDLED) for _ in range(MAX_BUNDLED_REQUESTS + 3)])
    assert [len(each) for each in taken(setup)] == [MAX_BUNDLED_REQUESTS, 3]
    half = MAX_BUNDLE_BYTES // 2
    send_all(setup, *[setup.request(BUNDLED, half) for _ in range(2)], *[setup.request(BUNDLED, half + 1) for _ in range(2)])
    assert [len(each) for each in taken(setup)] == [2, 1, 1]
    send_all(setup, *[setup.request(BUNDLED, size) for size in (half // 2, half // 4, half, half // 4, 1)])
    assert [len(each) for each in taken(setup)] == [4, 1]


def test_a_large_request_is_in_no_bundle() -> None:
    setup = Setup()
    send_all(setup, setup.request(BUNDLED), setup.request(BUNDLED, LARGE_BYTES + 1), setup.request(BUNDLED))
    assert taken(setup) == [[1]], "it is for a handler's own thread"
    assert setup.channel.receive(setup.parkers[0], 1).context.correlation_id == 2
    assert taken(setup) == [[3]]


def test_the_end_of_a_handler_and_a_callback_stay_where_they_are() -> None:
    setup = Setup()
    send_all(setup, setup.request(BUNDLED), setup.request(BUNDLED))
    setup.channel.send_shutdown_request()
    setup.channel.send_request(setup.request(BUNDLED))
    assert isinstance(setup.take(), RequestBundle)
    assert isinstance(setup.take(), ShutdownRequest)
    called = setup.request(BUNDLED)
    setup.channel.send_callback(lambda: None, called)
    assert isinstance(setup.take(), CallbackRequest)
    assert setup.number() == 3


def test_parts_that_are_put_back_come_first_and_their_time_in_the_queue_goes_on() -> None:
    setup = Setup(queue_size=5)
    send_all(setup, *[setup.request(BUNDLED) for _ in range(5)])
    setup.clock.advance_ms(1)
    bundle = setup.take()
    assert [each.dequeued_ns - each.received_ns for each in bundle.requests] == [MS] * 5
    send_all(setup, setup.request(OTHER))
    setup.channel.put_back([RequestBundle([each], number, []) for number, each in enumerate(bundle.requests[2:])])
    setup.clock.advance_ms(2)
    assert setup.channel.size == 4
    assert taken(setup) == [[3], [4], [5], [6]]
    assert [each.dequeued_ns - each.received_ns for each in bundle.requests] == [MS, MS, 3 * MS, 3 * MS, 3 * MS]


def test_a_bundle_makes_room_in_a_full_queue() -> None:
    setup = Setup(queue_size=4)
    send_all(setup, *[setup.request(BUNDLED) for _ in range(4)])
    setup.channel.notify_when_drained(setup.processor)
    assert setup.processor.drained == 0
    setup.take()
    assert setup.processor.drained == 1


def beside_a_sleeper() -> tuple[Setup, Sleeper, Any]:
    """Return a setup whose first handler has just taken the returned bundle of two requests, while the other sleeps."""
    setup = Setup(handlers=2)
    sleeper = Sleeper(setup, setup.parkers[1])
    setup.clock.advance_ms(1)
    send_all(setup, setup.request(BUNDLED), setup.request(BUNDLED))
    return setup, sleeper, setup.take()


def test_parts_that_a_stalled_handler_puts_back_wake_another_one() -> None:
    setup, sleeper, bundle = beside_a_sleeper()
    assert setup.channel.check_stalls()
    assert not setup.channel.check_stalls(), "nobody looks again"
    setup.channel.put_back([RequestBundle(bundle.requests[1:], 2, [])])
    assert sleeper.woken().requests == bundle.requests[1:]


def test_parts_that_are_put_back_wake_nobody_while_their_handler_is_not_stalled() -> None:
    setup, sleeper, bundle = beside_a_sleeper()
    put_back = RequestBundle(bundle.requests[1:], 2, [])
    setup.channel.put_back([put_back])
    assert sleeper.is_asleep
    assert setup.take() is put_back
    assert setup.take() is None, "it has finished"
    setup.channel.send_shutdown_request()
    assert isinstance(sleeper.woken(), ShutdownRequest)


def test_a_request_that_is_looked_at_by_a_stalled_handler_wakes_another_one() -> None:
    setup = Setup(handlers=2)
    sleeper = Sleeper(setup, setup.parkers[1])
    setup.clock.advance_ms(1)

    class Large(Request):
        def __getattribute__(self, name: str) -> object:
            if name != "is_large":
                return super().__getattribute__(name)
            setup.channel.check_stalls()
            setup.channel.check_stalls()
            return True

    made = setup.request(BUNDLED)
    large = Large(made.context, b"", 0, setup.processor, 0)
    send_all(setup, setup.request(BUNDLED), large)
    assert isinstance(setup.take(), Request)
    assert sleeper.woken() is large
