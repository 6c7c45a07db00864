"""The threads of a stress: each repeats a step until the time is over, with random numbers of its own, and all begin at once."""

import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

Step = Callable[[random.Random], object]

SWITCH_S: Final = 1e-6
"""Threads change as often as the interpreter lock allows."""

STUCK_S: Final = 60.0
"""A thread that does not end in this time hangs."""


@contextmanager
def restless() -> Iterator[None]:
    """Let threads change as often as possible."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


class Crew:
    """Threads for one scenario. ``random`` is for its set-up."""

    def __init__(self, seed: int, seconds: float) -> None:
        self.random = random.Random(seed)
        self._seconds = seconds
        self._workers: list[threading.Thread] = []
        self._servers: list[threading.Thread] = []
        self._begin = threading.Event()
        self._must_end = threading.Event()
        self._end_s = 0.0
        self._errors: list[BaseException] = []

    def add(self, step: Step, count: int = 1) -> None:
        """Let ``count`` threads repeat a step."""
        for _ in range(count):
            own = random.Random(self.random.random())
            self._workers.append(
                threading.Thread(target=self._attempt, args=(lambda own=own: self._repeat(step, own),), daemon=True)
            )

    def add_server(self, run: Callable[[], object], count: int = 1) -> None:
        """Let ``count`` threads call ``run``, which returns after ``close`` of ``run`` below has been called."""
        self._servers += [threading.Thread(target=self._attempt, args=(run,), daemon=True) for _ in range(count)]

    def run(self, close: Callable[[], object] = bool) -> None:
        """Run all threads. Raises the first exception of a thread, and AssertionError if one hangs."""
        for thread in (*self._servers, *self._workers):
            thread.start()
        self._end_s = time.monotonic() + self._seconds
        self._begin.set()
        self._join(self._workers)
        close()
        self._join(self._servers)
        if self._errors:
            raise self._errors[0]

    def _join(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(STUCK_S)
            if thread.is_alive() and not self._errors:
                stack = "".join(traceback.format_stack(sys._current_frames()[thread.ident or 0]))
                self._errors.append(AssertionError(f"a thread hangs:\n{stack}"))
                self._must_end.set()

    def _repeat(self, step: Step, own: random.Random) -> None:
        self._begin.wait()
        while time.monotonic() < self._end_s and not self._must_end.is_set():
            step(own)

    def _attempt(self, run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 the main thread raises it
            self._errors.append(error)
            self._must_end.set()


def wait_for(holds: Callable[[], bool], what: str) -> None:
    """Return when a condition holds. Raises AssertionError if it does not for ``STUCK_S``."""
    end_s = time.monotonic() + STUCK_S
    while not holds():
        assert time.monotonic() < end_s, what
        time.sleep(0.001)
