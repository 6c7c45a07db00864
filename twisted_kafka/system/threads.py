"""The threads of the broker, each with a last ``except``: nothing that a thread raises disappears, and no loop ends with it.

No other module makes threads (``tests/test_house_rules.py``).
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Final, TypeVar

from twisted.logger import Logger

from twisted_kafka.system import machine

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 10.0
"""A step that keeps failing is repeated after a pause that doubles from the first to the longest."""

A = TypeVar("A")
T = TypeVar("T")

_log = Logger()


class UncaughtErrors:
    """Counts exceptions that only a thread's last ``except`` caught, for all brokers of the process (``UncaughtErrorsCount``)."""

    def __init__(self) -> None:
        self._lock = machine.Lock()
        self.count = 0

    def note(self, what: str) -> None:
        """Log and count the exception that is being handled; ``what`` names the code that raised it."""
        with self._lock:
            self.count += 1
        _log.failure("Uncaught exception in {what}", what=what)


UNCAUGHT_ERRORS: Final = UncaughtErrors()

_AS_PROGRAM: Final = "or start the broker as a program of its own, as `twisted-kafka test-server` does"


def why_not_real() -> str | None:
    """Return one line with advice if gevent or eventlet has replaced the threads of this process; None otherwise.

    Greenlets take turns on one thread. A broker that waits for another of its threads would block that one forever.
    """
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None:
        patched = [name for name in ("threading", "select", "queue") if gevent.is_module_patched(name)]
        if patched:
            advice = "gevent.monkey.patch_all(thread=False, select=False, queue=False)"
            return f"gevent has patched {', '.join(patched)}, and a broker needs Python's own: use {advice}, {_AS_PROGRAM}"
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return f"eventlet has patched threads, and a broker needs Python's own: leave out thread and select, {_AS_PROGRAM}"
    return None


def has_no_thread(error: BaseException) -> bool:
    """Return whether an exception says that the system has no thread to give."""
    return isinstance(error, RuntimeError) and "start new thread" in str(error)


def attempt(action: Callable[[], object], what: str) -> bool:
    """Call ``action``; if it raises an Exception, log and count that and return False."""
    try:
        action()
    except Exception:  # noqa: BLE001 nobody else catches it
        UNCAUGHT_ERRORS.note(what)
        return False
    return True


def repeat(step: Callable[[], bool], pause: Callable[[float], object], what: str) -> None:
    """Call ``step`` until it returns False.

    An exception is logged and counted, and the next call follows after ``pause(seconds)``. If ``pause`` returns True, the loop
    ends, even if each call fails: ``Event.wait`` is such a function.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            if not step():
                return
            pause_s = FIRST_PAUSE_S
        except BaseException:  # noqa: BLE001 what a thread catches last
            UNCAUGHT_ERRORS.note(what)
            if pause(pause_s):
                return
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def make_thread(run: Callable[[], object], name: str, *, is_daemon: bool = True) -> machine.Thread:
    """Make a thread that calls ``run`` once started. An exception of ``run`` is logged and counted."""
    return machine.Thread(target=_run, args=(run, name), name=name, daemon=is_daemon)


def start_limited(free: machine.BoundedSemaphore, run: Callable[[], object], name: str) -> bool:
    """Start a thread with a permit of ``free``, which it gives back as it ends; return False if there is no permit.

    Raises RuntimeError if the system has no thread to give.
    """
    if not free.acquire(blocking=False):
        return False

    def run_and_release() -> None:
        try:
            run()
        finally:
            free.release()

    try:
        make_thread(run_and_release, name).start()
    except BaseException:
        free.release()
        raise
    return True


def _run(run: Callable[[], object], name: str) -> None:
    try:
        run()
    except BaseException:  # noqa: BLE001 what a thread catches last
        UNCAUGHT_ERRORS.note(f"thread {name}")


def make_pool(count: int, name_prefix: str) -> machine.ThreadPoolExecutor:
    """Make a pool of up to ``count`` threads. A task's exception is only in its future, so ask each future for its result."""
    return machine.ThreadPoolExecutor(count, thread_name_prefix=name_prefix)


def submit(pool: machine.ThreadPoolExecutor, action: Callable[[], T]) -> "Future[T]":
    """Run ``action`` on a thread of ``pool``. If the system has no thread to give, the future has failed."""
    try:
        return pool.submit(action)
    except RuntimeError as error:
        failed: Future[T] = Future()
        failed.set_exception(error)
        return failed


def for_each(count: int, name_prefix: str, action: Callable[[A], object], items: Iterable[A]) -> None:
    """Call ``action`` with each item, on the calling thread and ``count - 1`` others, or as many as the system has to give.

    After an exception no further call begins. It is raised when the calls under way have returned.
    """
    left = deque(items)
    errors: list[BaseException] = []

    def work() -> None:
        while left and not errors:
            try:
                item = left.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                action(item)
            except BaseException as error:  # noqa: BLE001 the calling thread raises it
                errors.append(error)

    others: list[machine.Thread] = []
    try:
        for number in range(min(count, len(left)) - 1):
            thread = make_thread(work, f"{name_prefix}{number}")
            thread.start()
            others.append(thread)
    except RuntimeError as error:
        _log.warn("{name} has {count} threads: {error}", name=name_prefix.rstrip("-"), count=len(others) + 1, error=error)
    work()
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]


def thread_cpu_ns() -> int:
    """Return the processor time of the calling thread."""
    return time.thread_time_ns()
