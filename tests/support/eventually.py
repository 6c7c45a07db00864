"""Waiting for what other threads and processes do.

A wait ends as soon as its condition holds. Its bound is long, for the machine may be busy: only a failure waits for it.
"""

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from tests.support.budget import patient

WAIT_S = patient(30.0)
PAUSE_S = 0.01

LIBRDKAFKA_CLOSING = "librdkafka-closing-"
"""The name of threads that close a consumer of librdkafka, which may never return. Who starts one waits for it with a bound."""

T = TypeVar("T")


def eventually(
    condition: Callable[[], T], what: Callable[[], object] | None = None, wait_s: float = WAIT_S, pause_s: float = PAUSE_S
) -> T:
    """Return what ``condition`` returns once it is true; raise AssertionError with what ``what`` returns after ``wait_s``.

    ``pause_s`` is the time between two looks: longer for a condition that takes long to look at.
    """
    pause = threading.Event()
    for _ in range(int(wait_s / pause_s)):
        if value := condition():
            return value
        pause.wait(pause_s)
    raise AssertionError(f"not within {wait_s} s" + (f": {what()}" if what else ""))


def join(threads: Iterable[threading.Thread], wait_s: float = WAIT_S) -> None:
    """Wait for threads to end; raise AssertionError with the names of those that do not."""
    left = list(threads)
    eventually(lambda: not [each for each in left if each.is_alive()], lambda: [each for each in left if each.is_alive()], wait_s)
