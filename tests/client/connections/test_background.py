"""Work beside a reactor: its outcome comes back on the reactor's thread, and there is not more of it than allowed."""

import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest
from twisted.python.failure import Failure

from tests.support.eventually import eventually
from twisted_kafka.client.connections.background import MAX_TASKS, TooManyTasksError, in_background
from twisted_kafka.system import machine

WAIT_S = 30


class Reactor:
    """Keeps what threads ask for."""

    def __init__(self) -> None:
        self.asked: Queue[tuple[Callable[..., object], tuple[object, ...]]] = Queue()

    def callFromThread(self, what: Callable[..., object], *arguments: object) -> None:
        self.asked.put((what, arguments))

    def turn(self) -> None:
        what, arguments = self.asked.get(timeout=WAIT_S)
        what(*arguments)


def outcome_of(reactor: Reactor, work: Callable[[], object]) -> list[Any]:
    outcome: list[Any] = []
    in_background(reactor, work, "test-work").addBoth(outcome.append)
    return outcome


def test_what_work_returns_or_raises_comes_back_to_the_reactor() -> None:
    reactor = Reactor()
    outcome = outcome_of(reactor, lambda: threading.current_thread().name)
    assert not outcome
    reactor.turn()
    assert outcome == ["test-work"]
    outcome = outcome_of(reactor, lambda: [][1])
    reactor.turn()
    assert isinstance(outcome[0], Failure)
    assert isinstance(outcome[0].value, IndexError)


def test_too_much_fails_at_once() -> None:
    reactor, go_on = Reactor(), threading.Event()
    outcomes: list[list[Any]] = []

    def begin() -> bool:
        """Other tests' threads may not have ended yet."""
        outcomes.append(outcome_of(reactor, lambda: go_on.wait(WAIT_S)))
        return sum(not outcome for outcome in outcomes) == MAX_TASKS

    eventually(begin)
    (refused,) = outcome_of(reactor, lambda: None)
    assert isinstance(refused.value, TooManyTasksError)
    go_on.set()
    for _ in range(MAX_TASKS):
        reactor.turn()
    assert [outcome for outcome in outcomes if outcome == [True]] == [[True]] * MAX_TASKS


def test_what_was_cancelled_comes_too_late() -> None:
    reactor, go_on = Reactor(), threading.Event()
    errors: list[Failure] = []
    working = in_background(reactor, lambda: go_on.wait(WAIT_S), "test-work")
    working.addErrback(errors.append)
    working.cancel()
    assert len(errors) == 1
    go_on.set()
    reactor.turn()
    assert len(errors) == 1


def test_a_thread_that_the_system_does_not_give_leaves_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> None:
        raise RuntimeError("can't start new thread")

    reactor = Reactor()
    with monkeypatch.context() as patched:
        patched.setattr(machine.Thread, "start", none)
        for _ in range(MAX_TASKS + 1):
            (failure,) = outcome_of(reactor, lambda: None)
            assert failure.check(RuntimeError)
    outcome = outcome_of(reactor, lambda: "done")
    reactor.turn()
    assert outcome == ["done"]
