"""Bytes that are still in a file: a response is a list of byte strings and these."""

import io
import os
from typing import Self

Buffer = bytes | bytearray | memoryview


class FileRegion:
    """``size_bytes`` bytes of ``file`` from ``position`` on.

    It keeps the open file alive, so the bytes can be sent after the segment that they belong to was deleted.
    """

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: io.FileIO, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def slice(self, start: int, size_bytes: int) -> Self:
        """Return the part of at most ``size_bytes`` bytes that begins ``start`` bytes in."""
        return type(self)(self.file, self.position + start, max(0, min(size_bytes, self.size_bytes - start)))

    def read(self) -> bytes:
        """Read all of it; raises EOFError when the file ends before."""
        chunks = []
        position, left = self.position, self.size_bytes
        while left:
            chunk = os.pread(self.file.fileno(), left, position)
            if not chunk:
                raise EOFError(
                    f"the file ends {left} bytes before the end of the region of {self.size_bytes} bytes at {self.position}"
                )
            chunks.append(chunk)
            position += len(chunk)
            left -= len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


Part = Buffer | FileRegion
