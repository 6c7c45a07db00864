"""The frames of waiting requests, kept in case an answer fails."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from twisted_kafka.network.requests.request import Request
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.system import machine

SMALL_FRAME_BYTES: Final = 4 * 1024
"""Smaller frames are not counted: a connection, which has one at most, takes more itself."""

KEPT_FRAMES_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of larger frames that are kept. A fetch of 5,000 partitions has 160 KB; fields that nobody knows may have 100 MB."""


class FrameNotKeptError(Exception):
    """An error response would need the request, whose frame has not been kept: too many large ones wait."""


class KeptFrames:
    """Counts the frames of requests that wait. Thread-safe."""

    def __init__(self, max_bytes: int = KEPT_FRAMES_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = machine.Lock()
        self._kept_bytes = 0

    def keep(self, request: Request, request_class: type[Message], until: Future[Any]) -> Callable[[], Message]:
        """Return a function that decodes ``request`` again: its objects would take ten times the memory of its frame.

        The function raises FrameNotKeptError if there is no room for the frame.
        """
        context = request.context
        frame_bytes = len(request.frame)
        if frame_bytes > SMALL_FRAME_BYTES:
            with self._lock:
                if self._kept_bytes + frame_bytes > self._max_bytes:
                    return _not_kept
                self._kept_bytes += frame_bytes
            until.add_done_callback(lambda _: self._release(frame_bytes))
        return partial(request_class.decode, request.frame, context.api_version, request.body_offset)

    def _release(self, frame_bytes: int) -> None:
        with self._lock:
            self._kept_bytes -= frame_bytes


def _not_kept() -> Message:
    raise FrameNotKeptError
