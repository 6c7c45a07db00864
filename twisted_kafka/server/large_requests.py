"""Requests with many elements: how many one may have, and that only one of them is handled at a time."""

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from twisted_kafka.interpreter import HAS_INTERPRETER_LOCK, IS_PYPY
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.server.request_handler import release_frame

SMALL_ELEMENTS: Final = 2_000
"""A request with more elements in its arrays is a large one."""

MOST_ELEMENTS: Final = 100_000
"""Most elements of a request. An element with what is answered about it takes about a kilobyte while it is handled.

Kafka's clients stay below a tenth of it: a consumer's or an administrator's request has an element for each topic and partition.
"""

MOST_BROKER_ELEMENTS: Final = 1_000_000
"""Most elements of a controller's request to a broker of its cluster."""

SWITCH_S: Final = 0.000_5
"""How long another thread waits for the interpreter lock while a large request is handled; it is ten times as much otherwise."""


class LargeRequests:
    """Handles large requests one after another, so that their memory does not add up, and handlers are left for other requests."""

    def __init__(self, channel: RequestChannel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Request, Callable[[], object]]] = deque()
        self._is_busy = False

    def handle(self, request: Request, handle: Callable[[], object]) -> None:
        """Call ``handle`` now, or on a handler's thread after other large requests. The frame is kept until then."""
        request.is_kept = True
        self.run(request, handle)

    def run(self, request: Request, step: Callable[[], object]) -> None:
        """Call ``step``, which goes on with a large request, likewise."""
        with self._lock:
            self._waiting.append((request, step))
            if self._is_busy:
                return
            self._is_busy = True
        self._run_next()

    def _run_next(self) -> None:
        with self._lock:
            request, step = self._waiting.popleft()
        try:
            with _making_way():
                step()
        finally:
            release_frame(request)
            with self._lock:
                following = self._waiting[0][0] if self._waiting else None
                self._is_busy = following is not None
            if following is not None:
                self._channel.send_callback(self._run_next, following)


@contextmanager
def _making_way() -> Iterator[None]:
    """Let other threads run early and without long pauses meanwhile.

    A thread that has slept waits for the interpreter lock for ``SWITCH_S`` each time. The collector would look at the request's
    objects again and again with the lock held, for a quarter of a second in all; they are in no cycles, and go without it.
    """
    if IS_PYPY or not HAS_INTERPRETER_LOCK:
        yield
        return
    was_collecting, switch_s = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(min(SWITCH_S, switch_s))
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
        if was_collecting:
            gc.enable()
