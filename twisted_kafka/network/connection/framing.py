"""Splits a byte stream into frames: a size of four bytes, then that many bytes. No I/O here.

Small frames are sliced from the read data. A large frame has a buffer (``get_buffer``) that the transport reads into directly.
The buffer grows with the bytes that have arrived, so a size alone allocates no memory. On PyPy it is one that is used again, and
produce requests of a kilobyte have one too.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.system import machine
from twisted_kafka.system.buffers import copy_into
from twisted_kafka.system.interpreter import LEAST_REUSED_BYTES, REUSED_BUFFER_BYTES

SIZE_BYTES = 4

FIRST_ALLOCATION_BYTES = 4 * 1024
"""A larger frame's buffer starts with this many free bytes: a client that sent only a size holds no more."""

GROWTH = 4
"""Factor by which a full buffer grows, up to the size of its frame."""

WHOLE_AT_BYTES = 64 * 1024
"""A frame with this many received bytes gets its whole buffer: unwritten pages take no memory."""

LEAST_STEP_BYTES = 1024
"""The sizes of buffers that are used again differ by this much at least."""

LEAST_KEPT = 4
"""A buffer is only kept if there is room for this many of its size."""

NOT_NOW: Final = memoryview(b"")
"""Returned in place of a buffer when nothing should be read now."""

_size_at = Struct(">i").unpack_from
_api_key_at = Struct(">h").unpack_from
_PRODUCE = int(ApiKey.PRODUCE)

_NOTHING: Sequence[Buffer] = ()


class FrameBuffers:
    """Keeps buffers of frames that nobody reads any more, to be filled again: at most ``max_bytes``. Thread-safe.

    A produce request of at least ``least_bytes`` is copied to a buffer even if it has arrived with others. The handlers of other
    requests give no buffers back. A new one for each of them would be costly on PyPy: while a major collection is in progress,
    an object that may not move starts its next step, of some milliseconds.
    """

    def __init__(self, max_bytes: int, least_bytes: int) -> None:
        self.least_bytes = least_bytes
        self._max_bytes = max_bytes
        self._kept: defaultdict[int, list[bytearray]] = defaultdict(list)
        self._lock = machine.Lock()
        self.kept_bytes = 0
        """The size of the buffers that it keeps."""

    def size_for(self, frame_bytes: int) -> int:
        """Return the size of the buffer for a frame: one of few sizes, at most a quarter larger than a frame of some kilobytes."""
        if not self._max_bytes:
            return frame_bytes
        step = max(LEAST_STEP_BYTES, 1 << max(0, frame_bytes.bit_length() - 3))
        return -(-frame_bytes // step) * step

    def take(self, frame_bytes: int) -> bytearray | None:
        """Return a buffer for a frame of this size, if one is kept."""
        size = self.size_for(frame_bytes)
        with self._lock:
            kept = self._kept.get(size)
            if not kept:
                return None
            self.kept_bytes -= size
            return kept.pop()

    def give_back(self, frame: Buffer) -> None:
        """Keep the buffer of a frame of which no part is used from now on."""
        buffer = frame.obj if type(frame) is memoryview else frame
        if type(buffer) is not bytearray:
            return
        size = len(buffer)
        if size * LEAST_KEPT > self._max_bytes or size != self.size_for(size):
            return
        with self._lock:
            if self.kept_bytes + size > self._max_bytes:
                # Of all sizes, since clients may have changed to another one.
                self._kept.clear()
                self.kept_bytes = 0
            self._kept[size].append(buffer)
            self.kept_bytes += size


FRAME_BUFFERS: Final = FrameBuffers(REUSED_BUFFER_BYTES, LEAST_REUSED_BYTES)
"""Those of all connections. A frame gets there if its handler keeps no part of it (``RequestContext.is_frame_free``)."""


class InvalidReceiveError(Exception):
    """A frame size that is negative or too large: nothing further can be read (Kafka: InvalidReceiveException)."""


class FrameReader:
    """Assembles the frames of one connection. ``max_bytes`` is the key ``socket.request.max.bytes``."""

    __slots__ = (
        "_buffer",
        "_buffers",
        "_head",
        "_is_over",
        "_later_bytes",
        "_max_bytes",
        "_most_cut",
        "_most_sliced_bytes",
        "_size",
        "held_bytes",
        "uncut",
    )

    def __init__(self, max_bytes: int, buffers: FrameBuffers = FRAME_BUFFERS, most_cut: int | None = None) -> None:
        """Without ``most_cut``, ``feed`` returns all frames that are complete, and nothing is ever ``uncut``."""
        self._most_cut = most_cut
        self._max_bytes = self._later_bytes = max_bytes
        self._is_over: Callable[[], bool] | None = None
        self._buffers = buffers
        self._most_sliced_bytes = min(max_bytes, buffers.least_bytes - 1)
        self._head = b""  # an incomplete size
        self._buffer: bytearray | None = None  # of the incomplete frame
        self._size = 0
        self.uncut = b""
        """The bytes that were fed and are not cut into frames yet."""
        self.held_bytes = 0
        """Bytes held of an incomplete frame, or of frames that are not cut yet."""

    def limit_until(self, max_bytes: int, is_over: Callable[[], bool]) -> None:
        """Take no frames larger than ``max_bytes`` until ``is_over`` returns True. It is called for larger ones only."""
        self._max_bytes = min(max_bytes, self._later_bytes)
        self._most_sliced_bytes = min(self._max_bytes, self._buffers.least_bytes - 1)
        self._is_over = is_over

    def feed(self, data: bytes) -> Sequence[Buffer]:
        """Add bytes, of which it keeps copies; return frames that are now complete, of small ones at most ``most_cut``.

        ``cut`` returns the next ones while something is ``uncut``. Raises InvalidReceiveError.
        """
        if self._buffer is not None:
            return self._feed_buffer(data)
        if self._head:
            data = self._head + data
            self._head = b""
            self.held_bytes = 0
        elif self.uncut:
            self._keep_uncut(self.uncut + data, 0)
            return _NOTHING
        available = len(data) - SIZE_BYTES
        if available >= 0:
            (size,) = _size_at(data)
            if size == available and 0 <= size <= self._most_sliced_bytes:
                return (data[SIZE_BYTES:],)
        return self._cut(data, 0)

    def cut(self) -> Sequence[Buffer]:
        """Return the next frames of the data fed before. Raises InvalidReceiveError."""
        data, self.uncut = self.uncut, b""
        self.held_bytes = 0
        return self._cut(data, 0)

    def get_buffer(self) -> memoryview | None:
        """Return the free part of a large frame's buffer, or None. Release the view before any other call."""
        buffer = self._buffer
        if buffer is None:
            return None
        return memoryview(buffer)[self.held_bytes : self._size]

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory: the buffer of an incomplete frame may be four times as large as its received part."""
        buffer = self._buffer
        return self.held_bytes if buffer is None else len(buffer)

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
                self._buffer = _grown(buffer, self._next_bytes(len(buffer)))
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
                self._begin(size, memoryview(data)[position:])
                return frames
            frame_end = position + size
            if size < self._buffers.least_bytes or _api_key_at(data, position)[0] != _PRODUCE:
                frames.append(data[position:frame_end])
            else:
                frames.append(self._copied(memoryview(data)[position:frame_end]))
            position = frame_end
            if len(frames) == self._most_cut and end - position >= SIZE_BYTES:
                self._keep_uncut(data, position)
                return frames
        self._head = data[position:]
        self.held_bytes = end - position
        return frames

    def _keep_uncut(self, data: bytes, position: int) -> None:
        # Only cutting shows whether a frame is complete, so the kept data may be less than a frame.
        self.uncut = data[position:]
        self.held_bytes = len(self.uncut)

    def _copied(self, data: memoryview) -> Buffer:
        buffer = self._buffers.take(len(data))
        if buffer is None:
            buffer = bytearray(self._buffers.size_for(len(data)))
        copy_into(buffer, data, 0)
        return buffer if len(buffer) == len(data) else memoryview(buffer)[: len(data)]

    def _begin(self, size: int, data: memoryview) -> None:
        self._size = size
        self.held_bytes = len(data)
        buffer = self._buffers.take(size)
        if buffer is None:
            next_bytes = len(data) + FIRST_ALLOCATION_BYTES
            self._buffer = _grown(data, next_bytes if next_bytes < size else self._buffers.size_for(size))
        else:
            self._buffer = buffer
            copy_into(buffer, data, 0)

    def drop(self) -> None:
        """Forget an incomplete frame: the connection is closed, but its channel may still be referenced."""
        self._buffer = None
        self._head = self.uncut = b""
        self.held_bytes = 0

    def _next_bytes(self, held_bytes: int) -> int:
        """Return the size of the next buffer. The one that the whole frame fits into has a size that is kept."""
        if held_bytes >= WHOLE_AT_BYTES:
            return self._buffers.size_for(self._size)
        size_bytes = max(FIRST_ALLOCATION_BYTES, held_bytes * GROWTH)
        return size_bytes if size_bytes < self._size else self._buffers.size_for(self._size)

    def _feed_buffer(self, data: bytes) -> Sequence[Buffer]:
        position = 0
        while self._buffer is not None:
            held = self.held_bytes
            count = min(self._size - held, len(self._buffer) - held, len(data) - position)
            copy_into(self._buffer, memoryview(data)[position : position + count], held)
            position += count
            frames = self.buffer_updated(count)
            if frames:
                return [*frames, *self._cut(data, position)]
            if position == len(data):
                break
        return _NOTHING

    def _check(self, size: int) -> None:
        if self._is_over is not None and self._is_over():
            self._is_over = None
            self._max_bytes = self._later_bytes
            self._most_sliced_bytes = min(self._max_bytes, self._buffers.least_bytes - 1)
        if 0 <= size <= self._max_bytes:
            return
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
