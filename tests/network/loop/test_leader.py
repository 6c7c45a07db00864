"""The network thread handles requests, and hands its loop over when one takes long; threads are pumped by hand."""

import socket
import threading
from collections.abc import Callable

import pytest

from tests.network.loop.schedule import HookedReactor
from tests.support.network_fakes import EventsReactor, Layer, frame
from twisted_kafka.network.loop.network_thread import NetworkThread
from twisted_kafka.network.loop.processor import MAX_REQUESTS_PER_ROUND, MAX_ROUND_NS
from twisted_kafka.network.requests.memory_pool import LARGE_BYTES
from twisted_kafka.network.requests.parker import Parker
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import SHUTDOWN
from twisted_kafka.protocol.errors import FatalExitError
from twisted_kafka.server.request_handler import KafkaRequestHandler


class Loop:
    """The role of the network thread."""

    name = "network-thread"

    def run(self, parker: Parker) -> None:
        raise NotImplementedError


class SleepingThread(Parker):
    """An idle handler's thread; ``woken`` counts how often it was woken."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.thread = threading.Thread(name=name)
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


class Stage(Layer):
    """A processor and idle handlers."""

    def __init__(self, handlers: int = 2) -> None:
        self.hooked = HookedReactor()
        super().__init__(reactor=self.hooked)
        self.channel.remove_handler(self.parker)
        self.leader = self.processor.leader
        self.leader.role = Loop()
        self.leader.thread = threading.Thread(name="network-thread")
        self.fatal: list[str] = []
        self.sleeping = [self.add_idle(f"handler-{number}") for number in range(handlers)]
        self.act: Callable[[Request], object] = self.respond
        self.asked_for_watch = 0
        self.channel.watch = self.count_watch
        self.processor.after_poll()

    def count_watch(self, now_ns: int) -> None:
        self.asked_for_watch += 1

    def add_idle(self, name: str) -> SleepingThread:
        thread = SleepingThread(name)
        thread.role = KafkaRequestHandler(self.channel, lambda request: self.act(request), name, self.fatal.append)  # type: ignore[arg-type]
        self.channel._parkers = [*self.channel._parkers, thread]
        thread.parked_since_ns = self.clock.monotonic_ns()
        self.channel._idle.append(thread)
        return thread

    def respond(self, request: Request) -> None:
        self.channel.send_response(request, [b"x"], 1)

    def request(self, count: int = 1) -> None:
        for _ in range(count):
            self.connect()[0].dataReceived(frame(1))

    @property
    def answered(self) -> int:
        return len(self.observer.completed)

    def stall(self) -> None:
        """Have the stall watch find the same request twice."""
        self.channel.check_stalls()
        self.channel.check_stalls()


def take_next_role(thread: Parker) -> None:
    thread.role, thread.next_role = thread.next_role, None


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_request_is_handled_and_answered_before_the_next_poll_and_nobody_is_woken(stage: Stage) -> None:
    stage.request(3)
    assert stage.answered == 0
    assert stage.processor.handle_requests()
    assert stage.answered == 3
    assert [each.woken for each in stage.sleeping] == [0, 0]
    assert not stage.hooked.is_woken
    assert stage.channel._idle == stage.sleeping
    assert stage.processor.before_poll() is None
    assert stage.leader.busy_since_ns == 0


def test_it_may_poll_busily_while_all_handlers_sleep_and_nothing_is_queued(stage: Stage) -> None:
    assert stage.processor.may_poll_busily()
    stage.request()
    assert not stage.processor.may_poll_busily()
    assert stage.processor.handle_requests()
    assert stage.processor.may_poll_busily()
    assert stage.channel.claim_idle(0) is not None
    assert not stage.processor.may_poll_busily(), "a handler is awake"


def test_a_round_is_bounded_and_the_next_one_follows_without_waiting(stage: Stage) -> None:
    stage.request(MAX_REQUESTS_PER_ROUND + 1)
    assert stage.processor.handle_requests()
    assert stage.answered == MAX_REQUESTS_PER_ROUND
    assert stage.processor.before_poll() == 0
    assert stage.processor.handle_requests()
    assert stage.answered == MAX_REQUESTS_PER_ROUND + 1
    assert stage.processor.before_poll() is None


def test_slow_requests_end_the_round(stage: Stage) -> None:
    def respond_slowly(request: Request) -> None:
        stage.respond(request)
        stage.clock.advance_ms(1.6)

    stage.act = respond_slowly
    stage.request(5)
    assert stage.processor.handle_requests()
    assert MAX_ROUND_NS == 3_000_000
    assert stage.answered == 3


def test_without_an_idle_handler_requests_wait_and_the_sockets_are_polled() -> None:
    stage = Stage(handlers=0)
    stage.request()
    assert stage.processor.handle_requests()
    assert stage.answered == 0
    assert stage.channel.size == 1
    assert stage.processor.before_poll() is None


def test_large_request_is_left_to_a_handlers_thread_in_its_turn(stage: Stage) -> None:
    stage.request()
    stage.connect()[0].dataReceived(frame(2, b"x" * LARGE_BYTES))
    stage.request()
    assert stage.processor.handle_requests()
    assert stage.answered == 1
    assert stage.processor.before_poll() is None
    assert [each.woken for each in stage.sleeping] == [0, 1]
    assert stage.processor.handle_requests()
    assert stage.answered == 1
    assert stage.processor.before_poll() is None
    assert [each.woken for each in stage.sleeping] == [0, 1]
    handler = stage.sleeping[1].role
    assert isinstance(handler, KafkaRequestHandler)
    assert handler.step(stage.sleeping[1])
    stage.processor.after_poll()
    stage.processor.run_pending()
    assert stage.answered == 2
    assert stage.processor.handle_requests()
    assert stage.answered == 3


def test_watch_is_asked_for_before_a_request_is_handled(stage: Stage) -> None:
    stage.processor.handle_requests()
    assert stage.asked_for_watch == 0, "nothing is to be handled"
    asked: list[int] = []
    stage.act = lambda request: asked.append(stage.asked_for_watch)
    stage.request(2)
    stage.processor.handle_requests()
    assert asked == [1, 2]


def test_stalled_thread_exchanges_roles_with_the_idle_handler(stage: Stage) -> None:
    loop, handler = stage.leader.role, stage.sleeping[1].role
    answered_after: list[int] = []

    def block(request: Request) -> None:
        stage.stall()
        assert (stage.leader.next_role, stage.sleeping[1].next_role) == (handler, loop)
        # From here the other thread runs the loop.
        take_next_role(stage.sleeping[1])
        stage.processor.leader = stage.sleeping[1]
        stage.act = stage.respond
        stage.request()
        assert stage.processor.handle_requests()
        answered_after.append(stage.answered)
        stage.processor.before_poll()
        stage.respond(request)

    stage.act = block
    stage.request()
    assert not stage.processor.handle_requests()
    assert answered_after == [1]
    assert [each.woken for each in stage.sleeping] == [0, 1]
    assert [each.thread.name for each in (stage.leader, stage.sleeping[1]) if each.thread] == ["handler-1", "network-thread"]
    assert stage.channel._parkers == [stage.sleeping[0], stage.leader]
    assert stage.hooked.is_woken, "the response of the stalled thread wakes the loop"
    stage.processor.after_poll()
    stage.processor.run_pending()
    assert stage.answered == 2


def test_stalled_thread_has_lost_the_loop_even_if_a_later_leader_has_the_same_follower(stage: Stage) -> None:
    first, second, third = stage.leader, stage.sleeping[1], stage.sleeping[0]
    is_blocked, may_return = threading.Event(), threading.Event()

    def block(request: Request) -> None:
        is_blocked.set()
        assert may_return.wait(30)
        stage.respond(request)

    still_leads: list[bool] = []
    thread = threading.Thread(target=lambda: still_leads.append(stage.processor.handle_requests()))
    stage.act = block
    stage.request()
    thread.start()
    assert is_blocked.wait(30)
    stage.stall()
    take_next_role(second)
    stage.processor.leader = second

    stage.act = lambda request: stage.stall()
    stage.request()
    assert not stage.processor.handle_requests()
    take_next_role(second)
    stage.channel.release_idle(second, 0)
    take_next_role(third)
    stage.processor.leader = third

    def let_the_first_return(request: Request) -> None:
        may_return.set()
        thread.join(30)
        assert stage.processor.is_handling

    stage.act = let_the_first_return
    stage.request()
    assert stage.processor.handle_requests()
    assert still_leads == [False]
    assert first.next_role is not None
    assert stage.channel._idle == [second]


def test_roles_are_not_exchanged_for_requests_that_follow_one_another_quickly(stage: Stage) -> None:
    watched: list[bool] = []

    def look(request: Request) -> None:
        stage.clock.advance_ms(0.1)
        stage.respond(request)
        watched.append(stage.channel.check_stalls())

    stage.act = look
    stage.request(4)
    assert stage.processor.handle_requests()
    assert watched == [True] * 4
    assert [each.woken for each in stage.sleeping] == [0, 0]
    assert not stage.channel.check_stalls(), "there is nothing left to watch"


def test_roles_are_not_exchanged_between_two_requests(stage: Stage) -> None:
    watched: list[bool] = []

    def look(now_ns: int) -> None:
        assert stage.leader.busy_since_ns == 0, "a request has just been taken"
        watched.append(stage.channel.check_stalls())

    stage.channel.watch = look
    stage.request(3)
    assert stage.processor.handle_requests()
    assert watched == [True] * 3
    assert [each.woken for each in stage.sleeping] == [0, 0]


def test_with_the_last_handler_in_a_stalled_request_the_loop_goes_on_and_requests_wait() -> None:
    stage = Stage(handlers=1)

    def block(request: Request) -> None:
        stage.stall()
        take_next_role(stage.sleeping[0])
        stage.processor.leader = stage.sleeping[0]
        stage.request()
        assert stage.processor.handle_requests()
        assert stage.processor.before_poll() is None
        assert stage.channel.size == 1

    stage.act = block
    stage.request()
    assert not stage.processor.handle_requests()
    handler = stage.leader.next_role
    assert isinstance(handler, KafkaRequestHandler)
    stage.act = stage.respond
    assert handler.step(stage.leader)
    assert stage.hooked.is_woken


def test_handler_leaves_the_queue_to_a_network_thread_that_handles_requests(stage: Stage) -> None:
    coming_back = SleepingThread("coming-back")
    stage.channel._parkers = [*stage.channel._parkers, coming_back]
    received: list[object] = []

    def handle(request: Request) -> None:
        received.append(stage.channel.receive(coming_back, 0.001))
        stage.respond(request)

    stage.act = handle
    stage.request(2)
    assert stage.processor.handle_requests()
    assert received == [None, None]
    assert stage.answered == 2
    stage.request()
    assert stage.channel.receive(coming_back, 0.001) is not None, "no network thread is handling requests"


def test_handler_that_is_to_end_is_ended_by_the_thread_in_its_place(stage: Stage) -> None:
    stage.channel._queue.append(SHUTDOWN)
    assert stage.processor.handle_requests()
    handler = stage.sleeping[1].role
    assert isinstance(handler, KafkaRequestHandler)
    assert handler.has_ended
    assert [each.woken for each in stage.sleeping] == [0, 1]
    assert stage.channel._idle == stage.sleeping[:1]


def test_fatal_error_ends_the_handler_and_not_the_loop(stage: Stage) -> None:
    def fail(request: Request) -> None:
        raise FatalExitError("the log cannot be trusted")

    stage.act = fail
    stage.request(2)
    assert stage.processor.handle_requests()
    assert stage.fatal == ["Fatal error in handler-1: FatalExitError: the log cannot be trusted"]
    assert stage.sleeping[1].woken == 1
    assert stage.channel.size == 1
    stage.act = stage.respond
    assert stage.processor.handle_requests()
    assert stage.answered == 1


def test_error_outside_of_a_request_ends_the_round_and_not_the_loop(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.request()
    with monkeypatch.context() as broken:
        broken.setattr(stage.channel, "receive", lambda *_: 1 / 0)
        assert stage.processor.handle_requests()
    assert stage.channel._idle == stage.sleeping
    assert stage.processor.handle_requests()
    assert stage.answered == 1


def test_whatever_goes_wrong_in_a_round_the_place_is_returned(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def exit_(*_: object) -> None:
        raise SystemExit

    stage.request()
    with monkeypatch.context() as broken:
        broken.setattr(stage.channel, "receive", exit_)
        assert stage.processor.handle_requests()
    assert not stage.processor.is_handling
    assert stage.channel._idle == stage.sleeping


def test_thread_that_has_lost_the_loop_goes_on_as_a_handler_which_takes_large_requests_too(stage: Stage) -> None:
    def block(request: Request) -> None:
        stage.stall()
        stage.respond(request)

    stage.act = block
    stage.request(2)
    assert not stage.processor.handle_requests()
    assert stage.channel.size == 1


def test_end_of_the_loop_leaves_the_queue_to_the_handlers(stage: Stage) -> None:
    stage.processor.leave_queue()
    assert [each.woken for each in stage.sleeping] == [0, 0]
    stage.request()
    network_thread = NetworkThread(stage.processor, stage.hooked, "network-thread")  # type: ignore[arg-type]
    network_thread._is_reactor_started = True
    network_thread.run(Parker())
    assert [each.woken for each in stage.sleeping] == [0, 1]


def test_a_loop_that_has_failed_leaves_the_queue_to_the_handlers(stage: Stage) -> None:
    stage.request()
    stage.processor.abandon_connections()
    assert [each.woken for each in stage.sleeping] == [0, 1]
    assert stage.channel.size == 1


def test_time_in_requests_is_the_handlers_and_not_the_network_threads(stage: Stage) -> None:
    def respond_slowly(request: Request) -> None:
        stage.clock.advance_ms(5)
        stage.respond(request)

    stage.act = respond_slowly
    stage.clock.advance_ms(10)
    stage.request()
    waited_ns = stage.processor.waited_ns()
    idle_ns = stage.channel.idle_ns()
    assert stage.processor.handle_requests()
    assert stage.processor.waited_ns() - waited_ns == 5_000_000
    assert stage.channel.idle_ns() - idle_ns == 5_000_000, "of two handlers one was idle"
    stage.clock.advance_ms(10)
    assert stage.channel.idle_ns() - idle_ns == 25_000_000
    stage.request()
    assert stage.processor.handle_requests()
    assert stage.processor.waited_ns() - waited_ns == 10_000_000


class SocketsReactor(HookedReactor, EventsReactor):
    """A reactor with hooks, counters and sockets."""

    def __init__(self) -> None:
        HookedReactor.__init__(self)
        EventsReactor.__init__(self)
        self.polls = self.waited_ns = self.waiting_since_ns = 0


def test_what_was_counted_with_one_reactor_goes_on_with_the_next(stage: Stage) -> None:
    def respond_slowly(request: Request) -> None:
        stage.clock.advance_ms(5)
        stage.respond(request)

    stage.act = respond_slowly
    for turn in range(3):
        reactor = SocketsReactor()
        stage.processor.attach(reactor)
        stage.request()
        stage.processor.handle_requests()
        reactor.polls, reactor.waited_ns = 3, 1000
        assert stage.processor.polls() == 3 * (turn + 1)
        assert stage.processor.waited_ns() == (5_000_000 + 1000) * (turn + 1)
        reactor.waiting_since_ns = stage.clock.monotonic_ns()
        stage.clock.advance_ms(7)
        assert stage.processor.waited_ns() == (5_000_000 + 1000) * (turn + 1) + 7_000_000
        reactor.waiting_since_ns = 0


def test_a_new_reactor_is_woken_and_has_the_new_connections(stage: Stage) -> None:
    stage.processor.check_connections()
    stage.processor.attach(reactor := SocketsReactor())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        ours, peer = listening.accept()
    ours.setblocking(False)
    assert stage.processor.accept(ours, peer)
    assert reactor.is_woken
    assert stage.processor.before_poll() == 0
    stage.processor.run_pending()
    assert [reader.fileno() for reader in reactor.readers] == [ours.fileno()]  # type: ignore[attr-defined]
    stage.processor.abandon_connections()
    theirs.close()
