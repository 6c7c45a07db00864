"""Frames out of bytes: four bytes of size, then so many bytes. It knows no sockets.

Small frames are cut from what was read. For a big one the reader tells where its bytes go (``wanted``), so that they can
be received straight into place; that place grows with what has arrived, so a size alone costs no memory.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from twisted_kafka.protocol.regions import Buffer

SIZE_BYTES = 4

FIRST_ALLOCATION_BYTES = 256 * 1024
"""A big frame's buffer begins with at most so much."""

GROWTH = 4
"""A buffer that is full gets so many times as large, at most as large as its frame."""

NOT_NOW: Final = memoryview(b"")
"""Where the next bytes go when none are to be read at present."""

_size_at = Struct(">i").unpack_from

_NOTHING: Sequence[Buffer] = ()


class InvalidReceiveError(Exception):
    """A size that no frame may have: the connection cannot be read any further (Kafka: InvalidReceiveException)."""


class FrameReader:
    """Collects the frames of one connection; ``max_bytes`` is the key ``socket.request.max.bytes``."""

    __slots__ = ("_buffer", "_head", "_max_bytes", "_size", "held_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._head = b""  # fewer bytes than a size takes
        self._buffer: bytearray | None = None  # of the frame under way
        self._size = 0
        self.held_bytes = 0
        """How much of a frame that is not complete it holds."""

    def feed(self, data: bytes) -> Sequence[Buffer]:
        """Take bytes; return the frames that are complete now. Raises InvalidReceiveError."""
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

    def wanted(self) -> memoryview | None:
        """Return where the next bytes of a big frame go; None when there is none. Release it before anything else."""
        buffer = self._buffer
        if buffer is None:
            return None
        return memoryview(buffer)[self.held_bytes :]

    @property
    def frame_bytes(self) -> int:
        """The size of the frame under way once it is known, else 0."""
        return self._size if self._buffer is not None else 0

    def received(self, count: int) -> Sequence[Buffer]:
        """Note that ``count`` bytes were put where ``wanted`` said; return the frame when it is complete."""
        self.held_bytes += count
        buffer = self._buffer
        assert buffer is not None, "nothing was wanted"
        if self.held_bytes < self._size:
            if self.held_bytes == len(buffer):
                self._buffer = _grown(buffer, min(self._size, len(buffer) * GROWTH))
            return _NOTHING
        self._buffer = None
        self.held_bytes = 0
        return (buffer,)

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
        self._buffer = _grown(data, min(size, max(FIRST_ALLOCATION_BYTES, GROWTH * len(data))))

    def _feed_buffer(self, data: bytes) -> Sequence[Buffer]:
        position = 0
        while self._buffer is not None:
            with memoryview(self._buffer) as view:
                held = self.held_bytes
                count = min(len(view) - held, len(data) - position)
                view[held : held + count] = data[position : position + count]
            position += count
            frames = self.received(count)
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
    """Say what the client may have meant by four bytes that are no size: the usual mistakes in settings."""
    first = size.to_bytes(SIZE_BYTES, "big")
    if first.startswith(b"\x16\x03"):
        return ": the client speaks TLS, but this listener is plain text: set its security.protocol to PLAINTEXT, or the listener's"
    if first in (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI"):
        return ": the client speaks HTTP, but this is a listener of Kafka's protocol"
    return ""


def _grown(data: Buffer, size: int) -> bytearray:
    # A new one, rather than one that is extended: extending by a megabyte costs a millisecond, this a tenth of it.
    buffer = bytearray(size)
    buffer[: len(data)] = data
    return buffer
