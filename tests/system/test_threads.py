import threading
from collections.abc import Callable

import pytest
from twisted.logger import LogLevel, capturedLogs, formatEvent

from tests.support.no_threads import no_threads
from twisted_kafka.system.threads import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    UNCAUGHT_ERRORS,
    attempt,
    for_each,
    has_no_thread,
    make_pool,
    make_thread,
    repeat,
    submit,
)


class Failing:
    """A step that fails as often as the list says, and then ends its loop."""

    def __init__(self, errors: list[type[BaseException] | None]) -> None:
        self.errors = errors

    def __call__(self) -> bool:
        if not self.errors:
            return False
        error = self.errors.pop(0)
        if error is not None:
            raise error("broken")
        return True


def test_a_loop_goes_on_after_what_a_step_raises_and_says_so() -> None:
    pauses: list[float] = []
    before = UNCAUGHT_ERRORS.count
    step = Failing([ValueError, None, MemoryError, SystemExit, None, OSError])
    with capturedLogs() as events:
        repeat(step, pauses.append, "a loop")
    assert step.errors == []
    assert UNCAUGHT_ERRORS.count - before == 4
    assert [event["log_level"] for event in events] == [LogLevel.critical] * 4
    assert {formatEvent(event) for event in events} == {"Uncaught exception in a loop"}
    assert [event["log_failure"].type for event in events] == [ValueError, MemoryError, SystemExit, OSError]
    assert pauses == [FIRST_PAUSE_S, FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, FIRST_PAUSE_S]


def test_a_loop_that_only_fails_pauses_ever_longer_and_ends_when_the_pause_says_so() -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 12

    with capturedLogs() as events:
        repeat(Failing([ValueError] * 20), pause, "a loop")
    assert len(events) == 12
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S


@pytest.mark.parametrize("raised", [ValueError, SystemExit])
def test_what_a_thread_raises_is_logged_and_counted(raised: type[BaseException]) -> None:
    def run() -> None:
        raise raised("broken")

    def in_a_thread(run: Callable[[], object]) -> None:
        thread = make_thread(run, "kafka-test-thread")
        assert thread.daemon
        thread.start()
        thread.join(30)

    before = UNCAUGHT_ERRORS.count
    with capturedLogs() as events:
        in_a_thread(run)
        in_a_thread(threading.Event().set)
    assert [formatEvent(event) for event in events] == ["Uncaught exception in thread kafka-test-thread"]
    assert UNCAUGHT_ERRORS.count - before == 1


def test_an_attempt_says_whether_it_worked() -> None:
    with capturedLogs() as events:
        assert attempt(lambda: None, "nothing")
        assert not attempt(Failing([KeyError]), "something")
    assert [formatEvent(event) for event in events] == ["Uncaught exception in something"]


def test_work_for_several_threads_is_done_on_the_calling_one_if_there_is_no_other() -> None:
    done: list[tuple[int, bool]] = []

    def act(item: int) -> None:
        done.append((item, threading.current_thread() is threading.main_thread()))

    with no_threads(), capturedLogs() as events:
        for_each(3, "work-", act, range(4))
    assert done == [(item, True) for item in range(4)]
    assert [formatEvent(event) for event in events] == ["work has 1 threads: can't start new thread"]
    done.clear()
    for_each(3, "work-", act, range(40))
    assert sorted(item for item, _ in done) == list(range(40))


def test_no_item_is_begun_after_an_error_which_the_caller_gets() -> None:
    begun: list[int] = []

    def act(item: int) -> None:
        begun.append(item)
        if item == 1:
            raise ValueError("broken")

    with no_threads(), pytest.raises(ValueError, match="broken"):
        for_each(2, "work-", act, range(4))
    assert begun == [0, 1]
    with pytest.raises(ValueError, match="broken"):
        for_each(2, "work-", act, [1, 1])


def test_a_call_without_a_thread_has_failed() -> None:
    with make_pool(1, "pool-") as pool:
        with no_threads():
            failure = submit(pool, lambda: 1).exception(0)
        assert failure is not None
        assert has_no_thread(failure)
        assert submit(pool, lambda: 2).result(30) == 2
    assert not has_no_thread(RuntimeError("something else"))
