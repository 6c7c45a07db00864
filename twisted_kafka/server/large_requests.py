"""Requests with many elements: how many one may have, and that only one of them is handled at a time."""

import gc
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.server.request_handler import release_frame
from twisted_kafka.system import machine
from twisted_kafka.system.interpreter import HAS_INTERPRETER_LOCK, IS_PYPY

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

STUCK_NS: Final = 5_000_000_000
"""A large request that takes longer waits for a disk or another server: others need not wait for it."""

MOST_AT_ONCE: Final = 4
"""Most large requests at a time, all but the last of which are stuck ..."""

ABANDONED_NS: Final = 30_000_000_000
"""... and one that takes longer than this does not count."""


class LargeRequests:
    """Handles large requests one after another, so that their memory does not add up, and handlers are left for other requests."""

    def __init__(self, channel: RequestChannel, now_ns: Callable[[], int]) -> None:
        self._channel = channel
        self._now_ns = now_ns
        self._lock = machine.Lock()
        self._waiting: deque[tuple[Request, Callable[[], Future[Any] | None]]] = deque()
        self._starts_ns: dict[object, int] = {}  # of the requests in progress

    def handle(self, request: Request, handle: Callable[[], Future[Any] | None]) -> None:
        """Call ``handle`` now, or on a handler's thread after other large requests. The frame is kept until then.

        If it returns a future, the next request waits for that.
        """
        request.is_kept = True
        with self._lock:
            self._waiting.append((request, handle))
        self._begin()

    def answer(self, request: Request, answer: Callable[[], None]) -> None:
        """Call ``answer``, which makes the late answer to a large request, likewise, but before requests that wait."""
        with self._lock:
            self._waiting.appendleft((request, answer))
        self._begin()

    def _begin(self) -> None:
        turn = object()
        with self._lock:
            if not self._may_begin():
                return
            self._starts_ns[turn] = self._now_ns()
        self._run_next(turn)

    def _may_begin(self) -> bool:
        now_ns = self._now_ns()
        starts_ns = [start_ns for start_ns in self._starts_ns.values() if now_ns - start_ns < ABANDONED_NS]
        return not starts_ns or (len(starts_ns) < MOST_AT_ONCE and now_ns - max(starts_ns) > STUCK_NS)

    def _run_next(self, turn: object) -> None:
        with self._lock:
            if not self._waiting:  # others were faster, while one of them seemed to be stuck
                del self._starts_ns[turn]
                return
            request, step = self._waiting.popleft()
            self._starts_ns[turn] = self._now_ns()
        unfinished: Future[Any] | None = None
        try:
            with _MAKING_WAY:
                unfinished = step()
        finally:
            release_frame(request)
            if unfinished is None:
                self._end(turn)
            else:
                unfinished.add_done_callback(lambda _: self._end(turn))

    def _end(self, turn: object) -> None:
        with self._lock:
            following = self._waiting[0][0] if self._waiting else None
            if following is None:
                del self._starts_ns[turn]
        if following is not None:
            self._channel.send_callback(partial(self._run_next, turn), following)


class _MakingWay:
    """Lets other threads run early and without long pauses while any large request is handled.

    A thread that has slept waits for the interpreter lock for ``SWITCH_S`` each time. The collector would look at the request's
    objects again and again with the lock held, for a quarter of a second in all; they are in no cycles. Brokers share it, as they
    share the interpreter. The collector still runs: a request may wait for long.
    """

    def __init__(self) -> None:
        self._is_needed = HAS_INTERPRETER_LOCK and not IS_PYPY
        self._lock = machine.Lock()
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
