"""Processor and handlers taking turns: what happens while the processor waits is run within its wait, on one thread."""

import socket
from collections.abc import Callable

import pytest

from tests.network.network_fakes import FakeReactor, Layer, frame
from twisted_kafka.network.loop import processor
from twisted_kafka.network.loop.processor import MAX_EXTRA_POLLS, MAX_WAITS
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RESPONSES_PER_WAKE, STALL_S, Parker


class HookedReactor(FakeReactor):
    """A reactor that tells its processor when it polls, and counts how often it was woken."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks: object = None
        self.woken = 0

    def wakeUp(self) -> None:
        self.woken += 1


class Turn(Parker):
    """Has the handlers' part played while the processor waits."""

    def __init__(self, play: Callable[[], object]) -> None:
        super().__init__()
        self.play = play
        self.waits: list[bool] = []

    def park(self, timeout_s: float) -> bool:
        assert timeout_s == STALL_S
        self.play()
        self.waits.append(super().park(0))
        return self.waits[-1]


class Stage(Layer):
    """A processor and three handlers, the first of which is woken first."""

    def __init__(self) -> None:
        self.hooked = HookedReactor()
        super().__init__(reactor=self.hooked)
        self.handlers = [self.parker, self.channel.add_handler(), self.channel.add_handler()]
        self.channel._idle[:] = self.handlers[::-1]
        self.turn = Turn(lambda: None)
        self.processor._turn = self.turn
        self.processor.after_poll()

    def take_as(self, number: int) -> Request | None:
        """Be a handler that comes for its next request; with none it is idle, as it does not wait here."""
        handler = self.handlers[number]
        request = self.channel.receive(handler, 0)
        if request is None:
            self.channel._idle.append(handler)
        return request  # type: ignore[return-value]

    def answer_as(self, number: int) -> None:
        """Be a handler until nothing is left to do."""
        while (request := self.take_as(number)) is not None:
            self.channel.send_response(request, [b"x"], 1, by_handler=True)

    def request(self) -> None:
        self.connect()[0].dataReceived(frame(1))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_handlers_are_told_when_all_sockets_are_read(stage: Stage) -> None:
    stage.request()
    stage.request()
    assert len(stage.channel._idle) == 3
    stage.turn.play = lambda: stage.answer_as(0)
    assert stage.processor.before_poll() is None
    assert len(stage.observer.completed) == 2
    assert stage.turn.waits == [True]
    assert stage.hooked.woken == 0, "no system call for somebody who waits for his turn"
    assert not stage.hooked.getDelayedCalls()


def test_sockets_are_looked_at_again_while_that_brings_requests(stage: Stage) -> None:
    for _ in range(3):
        stage.connect()
    stage.request()
    assert stage.processor.before_poll() == 0
    stage.request()
    assert stage.processor.before_poll() == 0
    assert len(stage.channel._idle) == 3, "nobody was woken yet"
    stage.turn.play = lambda: stage.answer_as(0)
    assert stage.processor.before_poll() is None
    assert len(stage.observer.completed) == 2, "the last look brought nothing"


def test_sockets_are_looked_at_again_a_few_times_at_most(stage: Stage) -> None:
    stage.connect()
    stage.turn.play = lambda: stage.answer_as(0)
    for _ in range(MAX_EXTRA_POLLS):
        stage.request()
        assert stage.processor.before_poll() == 0
    stage.request()
    assert stage.processor.before_poll() is None
    assert len(stage.observer.completed) == MAX_EXTRA_POLLS + 1
    stage.request()
    assert stage.processor.before_poll() == 0, "the next batch has as many looks"


def test_without_handlers_at_work_nobody_waits_for_them(stage: Stage) -> None:
    assert stage.processor.before_poll() is None
    assert stage.turn.waits == []


def test_turn_ends_when_the_answer_is_to_come_later(stage: Stage) -> None:
    stage.request()

    def park_it() -> None:
        assert stage.take_as(0) is not None
        assert stage.take_as(0) is None

    stage.turn.play = park_it
    assert stage.processor.before_poll() is None
    assert stage.turn.waits == [True]


def test_late_answer_wakes_the_reactor(stage: Stage) -> None:
    stage.request()
    late: list[Request] = []

    def park_it() -> None:
        while (request := stage.take_as(0)) is not None:
            late.append(request)

    stage.turn.play = park_it
    assert stage.processor.before_poll() is None
    stage.channel.send_response(late[0], [b"x"], 1)
    assert stage.hooked.woken == 1
    stage.processor.after_poll()
    stage.processor.run_pending()
    assert len(stage.observer.completed) == 1


def test_blocked_handler_holds_up_the_sockets_once_and_others_take_its_place(stage: Stage) -> None:
    stage.request()

    def block() -> None:
        assert stage.take_as(0) is not None
        stage.clock.advance_ms(1)

    stage.turn.play = block
    assert stage.processor.before_poll() is None, "the sockets are waited for as if nobody was at work"
    assert stage.turn.waits == [False]
    assert stage.processor.before_poll() is None
    assert stage.turn.waits == [False]
    stage.request()
    stage.turn.play = lambda: stage.answer_as(1)
    assert stage.processor.before_poll() == 0, "a look for requests of others"
    assert stage.processor.before_poll() is None
    assert stage.turn.waits == [False, True]
    assert len(stage.observer.completed) == 1


def test_blocked_handler_that_comes_back_is_heard_at_once(stage: Stage) -> None:
    stage.request()
    blocked: list[Request] = []

    def block() -> None:
        request = stage.take_as(0)
        assert request is not None
        blocked.append(request)
        stage.clock.advance_ms(1)

    stage.turn.play = block
    assert stage.processor.before_poll() is None
    stage.channel.send_response(blocked[0], [b"x"], 1, by_handler=True)
    stage.channel._queue.append(blocked[0])  # so that the handler goes on
    assert stage.take_as(0) is not None
    assert stage.hooked.woken == 1


def test_slow_batch_is_sent_while_it_lasts(stage: Stage) -> None:
    for _ in range(MAX_WAITS + 2):
        stage.request()

    def handle_one_slowly() -> None:
        request = stage.take_as(0)
        assert request is not None
        stage.channel.send_response(request, [b"x"], 1, by_handler=True)
        stage.clock.advance_ms(0.9)

    stage.turn.play = handle_one_slowly
    assert stage.processor.before_poll() == 0, "a look at the sockets, then it is the handler's turn again"
    assert len(stage.observer.completed) == MAX_WAITS
    assert len(stage.channel._idle) == 2, "one that gets on needs no help"


def test_many_answers_end_the_turn(stage: Stage) -> None:
    for _ in range(RESPONSES_PER_WAKE + 2):
        stage.request()

    def handle_some() -> None:
        for _ in range(RESPONSES_PER_WAKE + 1):
            request = stage.take_as(0)
            assert request is not None
            stage.channel.send_response(request, [b"x"], 1, by_handler=True)

    stage.turn.play = handle_some
    assert stage.processor.before_poll() == 0
    assert stage.turn.waits == [True]


def test_new_connection_ends_the_turn(stage: Stage) -> None:
    stage.request()
    here, there = socket.socketpair()

    def connect() -> None:
        assert stage.take_as(0) is not None
        assert stage.processor.accept(here, ("127.0.0.1", 1))
        list(stage.processor.new_connections.make_channels(stage.processor))

    stage.turn.play = connect
    stage.processor.before_poll()
    assert stage.turn.waits == [True]
    here.close()
    there.close()


def test_being_woken_twice_is_being_woken_once(stage: Stage) -> None:
    stage.request()

    def wake_twice() -> None:
        assert stage.take_as(0) is not None
        for _ in range(2):
            stage.processor._wake_pending = False  # as if both had looked at the same time
            stage.processor.request_queue_drained()

    stage.turn.play = wake_twice
    stage.processor.before_poll()
    assert stage.turn.waits == [True]


def test_with_threads_that_run_at_once_sockets_are_waited_for_beside(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "TAKES_TURNS", False)
    stage.request()
    assert stage.processor.before_poll() == STALL_S
    assert stage.turn.waits == []
    assert stage.take_as(0) is not None
    stage.clock.advance_ms(1)
    assert stage.processor.before_poll() is None, "it is blocked: there is nothing to look after"
