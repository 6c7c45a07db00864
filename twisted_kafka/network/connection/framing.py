"""Splits a byte stream into frames: a size of four bytes, then that many bytes. No I/O here.

Small frames are sliced from what was read. A large frame has a buffer (``get_buffer``) that the transport reads into directly.
The buffer grows with the bytes that have arrived, so a size alone allocates no memory. On PyPy it is one that is used again.
"""

import threading
from collections.abc import Sequence
from struct import Struct
from typing import Final

from twisted_kafka.buffers import copy_into
from twisted_kafka.interpreter import REUSED_BUFFER_BYTES
from twisted_kafka.protocol.regions import Buffer

SIZE_BYTES = 4

FIRST_ALLOCATION_BYTES = 16 * 1024
"""Least bytes that the buffer of a larger frame starts with: a client that sent a size alone holds no more."""

GROWTH = 4
"""Factor by which a full buffer grows, up to the size of its frame."""

NOT_NOW: Final = memoryview(b"")
"""Returned in place of a buffer when nothing should be read now."""

_size_at = Struct(">i").unpack_from

_NOTHING: Sequence[Buffer] = ()


class FrameBuffers:
    """Keeps buffers of frames that nobody reads any more, to be filled again: at most ``max_bytes``. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: list[bytearray] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> bytearray | None:
        """Return a buffer of at least ``size`` bytes, and not many more, if there is one."""
        with self._lock:
            kept = self._kept
            for index in range(len(kept) - 1, -1, -1):
                if size <= len(kept[index]) <= size * GROWTH:
                    return kept.pop(index)
        return None

    def give_back(self, frame: Buffer) -> None:
        """Keep the buffer of a frame of which no part is used from now on."""
        buffer = frame.obj if type(frame) is memoryview else frame
        if type(buffer) is not bytearray or len(buffer) * GROWTH > self._max_bytes:
            return
        with self._lock:
            kept = self._kept
            kept.append(buffer)
            while self.kept_bytes > self._max_bytes:
                del kept[0]

    @property
    def kept_bytes(self) -> int:
        """The size of the buffers that it keeps."""
        return sum(map(len, self._kept))


FRAME_BUFFERS: Final = FrameBuffers(REUSED_BUFFER_BYTES)
"""Those of all connections. A frame gets there if its handler keeps no part of it (``RequestContext.is_frame_free``)."""


class InvalidReceiveError(Exception):
    """A frame size that is negative or too large: nothing further can be read (Kafka: InvalidReceiveException)."""


class FrameReader:
    """Assembles the frames of one connection. ``max_bytes`` is the key ``socket.request.max.bytes``."""

    __slots__ = ("_buffer", "_buffers", "_head", "_max_bytes", "_size", "held_bytes")

    def __init__(self, max_bytes: int, buffers: FrameBuffers = FRAME_BUFFERS) -> None:
        self._max_bytes = max_bytes
        self._buffers = buffers
        self._head = b""  # an incomplete size
        self._buffer: bytearray | None = None  # of the incomplete frame
        self._size = 0
        self.held_bytes = 0
        """Bytes held of an incomplete frame."""

    def feed(self, data: bytes) -> Sequence[Buffer]:
        """Add bytes; return the frames that are now complete. Raises InvalidReceiveError."""
        if self._buffer is not None:
            return self._feed_buffer(data)
        if self._head:
            data = self._head + data
            self._head = b""
            self.held_bytes = 0
        available = len(data) - SIZE_BYTES
        if available >= 0:
            (size,) = _size_at(data)
            if size == available and 0 <= size <= self._max_bytes:
                return (data[SIZE_BYTES:],)
        return self._cut(data, 0)

    def get_buffer(self) -> memoryview | None:
        """Return the free part of a large frame's buffer, or None. Release the view before any other call."""
        buffer = self._buffer
        if buffer is None:
            return None
        return memoryview(buffer)[self.held_bytes : self._size]

    @property
    def frame_bytes(self) -> int:
        """The size of the incomplete frame once it is known, else 0."""
        return self._size if self._buffer is not None else 0

    def buffer_updated(self, count: int) -> Sequence[Buffer]:
        """Account for ``count`` bytes read into ``get_buffer()``; return the frame if it is complete."""
        self.held_bytes += count
        buffer = self._buffer
        assert buffer is not None, "there is no buffer"
        if self.held_bytes < self._size:
            if self.held_bytes == len(buffer):
                self._buffer = _grown(buffer, min(self._size, len(buffer) * GROWTH))
            return _NOTHING
        self._buffer = None
        self.held_bytes = 0
        return (buffer if len(buffer) == self._size else memoryview(buffer)[: self._size],)

    def _cut(self, data: bytes, position: int) -> Sequence[Buffer]:
        frames: list[Buffer] = []
        end = len(data)
        while end - position >= SIZE_BYTES:
            (size,) = _size_at(data, position)
            if not 0 <= size <= self._max_bytes:
                self._check(size)
            position += SIZE_BYTES
            if end - position < size:
                self._begin(size, data[position:])
                return frames
            frames.append(data[position : position + size])
            position += size
        self._head = data[position:]
        self.held_bytes = end - position
        return frames

    def _begin(self, size: int, data: bytes) -> None:
        self._size = size
        self.held_bytes = len(data)
        buffer = self._buffers.take(size)
        if buffer is None:
            self._buffer = _grown(data, min(size, max(FIRST_ALLOCATION_BYTES, GROWTH * len(data))))
        else:
            self._buffer = buffer
            copy_into(buffer, data, 0)

    def _feed_buffer(self, data: bytes) -> Sequence[Buffer]:
        position = 0
        while self._buffer is not None:
            held = self.held_bytes
            count = min(self._size - held, len(self._buffer) - held, len(data) - position)
            copy_into(self._buffer, data[position : position + count], held)
            position += count
            frames = self.buffer_updated(count)
            if frames:
                return [*frames, *self._cut(data, position)]
            if position == len(data):
                break
        return _NOTHING

    def _check(self, size: int) -> None:
        if size < 0:
            raise InvalidReceiveError(f"Invalid receive (size = {size})")
        raise InvalidReceiveError(f"Invalid receive (size = {size} larger than {self._max_bytes}){_hint(size)}")


def _hint(size: int) -> str:
    """Recognize the usual misconfigurations in four bytes that are not a valid size."""
    first = size.to_bytes(SIZE_BYTES, "big")
    if first.startswith(b"\x16\x03"):
        return ": the client speaks TLS, but this listener is plain text: set its security.protocol to PLAINTEXT, or the listener's"
    if first in (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI"):
        return ": the client speaks HTTP, but this listener speaks the Kafka protocol"
    return ""


def _grown(data: Buffer, size: int) -> bytearray:
    # A new buffer: extending one by a megabyte takes a millisecond, this a tenth of that.
    buffer = bytearray(size)
    copy_into(buffer, data, 0)
    return buffer
