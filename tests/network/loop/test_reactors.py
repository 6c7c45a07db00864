import os
import select
import threading
from typing import Any

import pytest
from twisted.internet.base import ReactorBase
from twisted.internet.pollreactor import PollReactor

from twisted_kafka.network.loop import reactors
from twisted_kafka.network.loop.reactors import (
    MAX_FAILURES,
    NoHooks,
    Waker,
    close_reactor,
    make_poll_reactor,
    make_reactor,
    make_select_reactor,
    use_steady_time,
)
from twisted_kafka.timing.clock import ManualClock, SystemClock


def make_main_reactor(_: object) -> Any:
    reactor = PollReactor()  # type: ignore[no-untyped-call]
    use_steady_time(reactor)
    return reactor


@pytest.fixture(params=["eventfd", "pipe"])
def waker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)
    elif not hasattr(os, "eventfd"):
        pytest.skip("no eventfd here")
    made = Waker()
    yield made
    made.connectionLost(None)


def is_due(waker: Waker) -> bool:
    poller = select.poll()
    poller.register(waker, select.POLLIN)
    return bool(poller.poll(0))


def test_waker_is_due_from_the_first_call_until_it_is_read(waker: Waker) -> None:
    assert not is_due(waker)
    waker.doRead()  # nothing is there
    for _ in range(3):
        waker.wakeUp()
    assert is_due(waker)
    waker.doRead()
    assert not is_due(waker)


@pytest.mark.medium
def test_waker_never_blocks_who_calls_it(waker: Waker) -> None:
    for _ in range(100_000):  # more than a pipe holds
        waker.wakeUp()
    while is_due(waker):
        waker.doRead()


def test_closed_waker_has_no_descriptor(waker: Waker) -> None:
    fd = waker.fileno()
    waker.connectionLost(None)
    waker.connectionLost(None)
    assert waker.fileno() == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    waker.wakeUp()  # by a thread that does not know yet


@pytest.mark.parametrize("make", [make_reactor, make_poll_reactor])
def test_another_thread_ends_the_wait_of_a_reactor(make: Any) -> None:
    reactor = make(SystemClock())
    assert (reactor.polls, reactor.waited_ns, reactor.waiting_since_ns) == (0, 0, 0)
    called = threading.Event()
    thread = threading.Thread(target=reactor.run, kwargs={"installSignalHandlers": False})
    thread.start()
    for _ in range(3):  # between these it waits, without end
        called.clear()
        reactor.callFromThread(called.set)
        assert called.wait(30)
    reactor.callFromThread(reactor.stop)
    thread.join(30)
    assert not thread.is_alive()
    close_reactor(reactor)
    reactor.wakeUp()  # by somebody who comes late


class FailingHooks(NoHooks):
    """Fail in the turns that are True; after the last turn, another thread runs the loop."""

    def __init__(self, turns: list[bool]) -> None:
        self.turns = [*turns]

    def handle_requests(self) -> bool:
        if not self.turns:
            return False
        if self.turns.pop(0):
            raise ValueError("as the test wants it")
        return True

    def before_poll(self) -> float | None:
        return 0


def test_without_epoll_and_kqueue_a_reactor_is_on_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EPollReactor", "KQueueReactor"):
        monkeypatch.setattr(reactors, name, None)
    reactor = make_reactor(SystemClock())
    assert isinstance(reactor, PollReactor)
    close_reactor(reactor)


class RecordingHooks:
    """Note what is called; another thread runs the loop after the first turn."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def handle_requests(self) -> bool:
        self.called.append("handle_requests")
        return len(self.called) == 1

    def before_poll(self) -> float | None:
        self.called.append("before_poll")
        return 0

    def may_poll_busily(self) -> bool:
        raise NotImplementedError

    def after_poll(self) -> None:
        self.called.append("after_poll")

    def run_pending(self) -> None:
        self.called.append("run_pending")


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch, is_interrupted: bool) -> None:
    clock = ManualClock()
    clock.advance_ms(5)
    reactor: Any = make_reactor(clock)
    reactor.hooks = hooks = RecordingHooks()

    def poll(timeout_s: float, _: int) -> tuple[()]:
        hooks.called.append(f"poll {timeout_s}")
        assert reactor.waiting_since_ns == clock.monotonic_ns()
        clock.advance_ms(7)
        if is_interrupted:
            raise InterruptedError
        return ()

    monkeypatch.setattr(reactor, "_poll", poll)
    reactor.startRunning(installSignalHandlers=False)
    reactor.mainLoop()
    assert hooks.called == ["handle_requests", "before_poll", "poll 0", "after_poll", "run_pending", "handle_requests"]
    assert (reactor.polls, reactor.waited_ns, reactor.waiting_since_ns) == (1, 7_000_000, 0)
    close_reactor(reactor)


class WaitingHooks(RecordingHooks):
    """Without work, for some turns of the loop; other threads have work until the last two."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.turns = turns

    def handle_requests(self) -> bool:
        self.turns -= 1
        return self.turns >= 0

    def before_poll(self) -> float | None:
        return None

    def may_poll_busily(self) -> bool:
        return self.turns < 2


def test_the_thread_polls_before_it_sleeps_if_the_last_wait_was_short_and_nobody_else_has_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    reactor: Any = make_reactor(clock)
    reactor.hooks = hooks = WaitingHooks(turns=5)
    waits = iter(
        [(-1, 0.05, True), (-1, 0.05, True), (-1, 0.05, True), (0, 0.05, False), (0, 0.04, True), (0, 0.2, False), (-1, 5, True)]
    )

    def poll(timeout_s: float, _: int) -> list[tuple[int, int]]:
        expected_s, takes_ms, has_events = next(waits)
        assert timeout_s == expected_s
        clock.advance_ms(takes_ms)
        return [(-5, 0)] if has_events else []

    monkeypatch.setattr(reactor, "_poll", poll)
    reactor.startRunning(installSignalHandlers=False)
    reactor.mainLoop()
    assert next(waits, None) is None
    assert hooks.called == ["after_poll", "run_pending"] * 5
    assert reactor.waited_ns == 5_440_000, "also the time in which it polled"
    close_reactor(reactor)


class StoppingHooks(NoHooks):
    """Stop the loop in its second turn."""

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor
        self.turns = 0

    def handle_requests(self) -> bool:
        self.turns += 1
        if self.turns == 2:
            self.reactor.stop()
        return True


def test_a_loop_that_is_stopped_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reactor: Any = make_reactor(SystemClock())
    reactor.hooks = StoppingHooks(reactor)
    reactor.callLater(1000, print)
    waits: list[float] = []

    def poll(timeout_s: float, _: int) -> tuple[()]:
        waits.append(timeout_s)
        return ()

    monkeypatch.setattr(reactor, "_poll", poll)
    reactor.startRunning(installSignalHandlers=False)
    reactor.mainLoop()
    assert waits[0] > 0
    assert waits[1:] == [0]
    assert reactor.polls == 2
    close_reactor(reactor)


LAST = MAX_FAILURES - 1


@pytest.mark.parametrize(
    ("turns", "left"), [([True], 0), ([True] * LAST + [False] + [True] * LAST, 0), ([True] * (MAX_FAILURES + 2), 2)]
)
def test_a_loop_goes_on_until_it_has_failed_too_often_in_a_row(turns: list[bool], left: int) -> None:
    reactor: Any = make_reactor(SystemClock())
    reactor.hooks = hooks = FailingHooks(turns)
    reactor.startRunning(installSignalHandlers=False)
    if left:
        with pytest.raises(ValueError, match="as the test wants it"):
            reactor.mainLoop()
    else:
        reactor.mainLoop()
    assert len(hooks.turns) == left
    close_reactor(reactor)


@pytest.mark.parametrize("make", [make_reactor, make_poll_reactor, make_select_reactor, make_main_reactor])
def test_a_wall_clock_that_is_set_back_delays_no_call(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wall_s = 1_700_000_000.0
    monkeypatch.setattr(ReactorBase, "seconds", staticmethod(lambda: wall_s))
    reactor = make(SystemClock())
    called: list[str] = []
    reactor.callLater(0, called.append, "called")
    wall_s -= 3600
    reactor.runUntilCurrent()
    close_reactor(reactor)
    assert called == ["called"]


def test_a_reactor_that_has_calls_keeps_its_clock() -> None:
    reactor = PollReactor()  # type: ignore[no-untyped-call]
    call = reactor.callLater(0, lambda: None)
    use_steady_time(reactor)
    assert reactor.seconds() >= call.getTime()
    close_reactor(reactor)
