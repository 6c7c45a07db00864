"""Work that may block, beside a reactor."""

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from twisted_kafka.system import machine
from twisted_kafka.system.threads import start_limited

MAX_TASKS: Final = 4
"""So much may be done at a time, by all reactors together; the next fails at once."""

_free = machine.BoundedSemaphore(MAX_TASKS)


class TooManyTasksError(Exception):
    """As many tasks as may be done at a time hang."""


def in_background(reactor: Any, work: Callable[[], object], name: str) -> "Deferred[object]":
    """Call ``work`` on a new thread with this name; return a Deferred of its result.

    Cancelling the Deferred does not end the thread, which does not keep the process alive either.
    """
    done: Deferred[object] = Deferred()

    def run() -> None:
        try:
            found = work()
        except BaseException:  # noqa: BLE001 the Deferred has it
            failure = Failure()  # type: ignore[no-untyped-call]
            reactor.callFromThread(done.errback, failure)
        else:
            reactor.callFromThread(done.callback, found)

    try:
        if not start_limited(_free, run, name):
            done.errback(TooManyTasksError(f"{MAX_TASKS} others take long"))
    except RuntimeError as error:
        done.errback(error)
    return done
