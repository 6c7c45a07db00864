"""Requests with many elements: how many one may have, and that only one of them is handled at a time."""

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from twisted_kafka.interpreter import HAS_INTERPRETER_LOCK, IS_PYPY
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.server.request_handler import release_frame

SMALL_ELEMENTS: Final = 2_000
"""A request with more elements in its arrays is a large one."""

MOST_ELEMENTS: Final = 100_000
"""Most elements of a request. An element and its answer take about a kilobyte while the request is handled.

Kafka's clients stay below a tenth of it: a consumer's or an administrator's request has an element for each topic and partition.
"""

MOST_BROKER_ELEMENTS: Final = 1_000_000
"""Most elements of a controller's request to a broker of its cluster."""

SWITCH_S: Final = 0.000_5
"""How long another thread waits for the interpreter lock while a large request is handled; otherwise ten times as long."""

COLLECTED_OBJECTS: Final = 1_000_000
"""How many objects are made before the collector looks at them while a large request is handled: more than one request makes."""

STUCK_NS: Final = 2_000_000_000
"""A large request that takes longer waits for a disk or another server: others need not wait for it."""

MOST_AT_ONCE: Final = 4
"""Most large requests at a time, all but the last of which are stuck."""


class LargeRequests:
    """Handles large requests one after another, so that their memory does not add up, and handlers are left for other requests."""

    def __init__(self, channel: RequestChannel, now_ns: Callable[[], int]) -> None:
        self._channel = channel
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Request, Callable[[], object]]] = deque()
        self._running = 0
        self._last_start_ns = 0

    def handle(self, request: Request, handle: Callable[[], object]) -> None:
        """Call ``handle`` now, or on a handler's thread after other large requests. The frame is kept until then."""
        request.is_kept = True
        self.run(request, handle)

    def run(self, request: Request, step: Callable[[], object]) -> None:
        """Call ``step``, which goes on with a large request, likewise."""
        with self._lock:
            self._waiting.append((request, step))
            if self._running and not self._is_stuck():
                return
            self._running += 1
            self._last_start_ns = self._now_ns()
        self._run_next()

    def _is_stuck(self) -> bool:
        return self._running < MOST_AT_ONCE and self._now_ns() - self._last_start_ns > STUCK_NS

    def _run_next(self) -> None:
        with self._lock:
            if not self._waiting:  # others were faster, while one of them seemed to be stuck
                self._running -= 1
                return
            request, step = self._waiting.popleft()
            self._last_start_ns = self._now_ns()
        try:
            with _MAKING_WAY:
                step()
        finally:
            release_frame(request)
            with self._lock:
                following = self._waiting[0][0] if self._waiting else None
                if following is None:
                    self._running -= 1
            if following is not None:
                self._channel.send_callback(self._run_next, following)


class _MakingWay:
    """Lets other threads run early and without long pauses while any large request is handled.

    A thread that has slept waits for the interpreter lock for ``SWITCH_S`` each time. The collector would look at the request's
    objects again and again with the lock held, for a quarter of a second in all; they are in no cycles. Brokers share it, as they
    share the interpreter. The collector still runs: a request may wait for long.
    """

    def __init__(self) -> None:
        self._is_needed = HAS_INTERPRETER_LOCK and not IS_PYPY
        self._lock = threading.Lock()
        self._count = 0
        self._switch_s = 0.0
        self._threshold: tuple[int, int, int] = (0, 0, 0)

    def __enter__(self) -> None:
        if not self._is_needed:
            return
        with self._lock:
            self._count += 1
            if self._count > 1:
                return
            self._switch_s, self._threshold = sys.getswitchinterval(), gc.get_threshold()
            sys.setswitchinterval(min(SWITCH_S, self._switch_s))
            youngest, *older = self._threshold
            if youngest:  # otherwise it collects nothing
                gc.set_threshold(max(youngest, COLLECTED_OBJECTS), *older)

    def __exit__(self, *exception: object) -> None:
        if not self._is_needed:
            return
        with self._lock:
            self._count -= 1
            if not self._count:
                sys.setswitchinterval(self._switch_s)
                gc.set_threshold(*self._threshold)


_MAKING_WAY: Final = _MakingWay()
