"""Regions of files: a response is a list of byte strings and file regions."""

import io
from typing import Self

from twisted_kafka.system.files.file_io import load, read_at

Buffer = bytes | bytearray | memoryview


class FileRegion:
    """``size_bytes`` bytes of ``file`` from ``position`` on.

    It keeps the file open, so the bytes can still be sent after their segment has been deleted.
    """

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: io.FileIO, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def slice(self, start: int, size_bytes: int) -> Self:
        """Return the part of at most ``size_bytes`` bytes that begins at ``start``, relative to the region."""
        return type(self)(self.file, self.position + start, max(0, min(size_bytes, self.size_bytes - start)))

    def load(self) -> None:
        """Let the system read the region into its page cache, so that sending it does not wait for the disk.

        Raises OSError, or ShortFileError if the file ends before the region does; the caller can still send the response's other
        partitions.
        """
        load(self.file, self.position, self.position + self.size_bytes)

    def read(self) -> bytes:
        """Read the whole region; raises OSError, ShortFileError if the file ends before its end."""
        return read_at(self.file, self.size_bytes, self.position)


Part = Buffer | FileRegion
