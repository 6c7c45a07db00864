"""What a system call may do besides all or nothing: transfer a part, and fail at an unreadable block.

Both act on the functions of ``os`` by which files are read and written; writes that go elsewhere, as SQLite's, are not concerned.
"""

import errno
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BLOCK_BYTES = 512


class BadBlocks:
    """Blocks of files that cannot be read.

    A read gets the bytes before a bad block, and EIO only if it begins in one, as from the kernel. The blocks belong to the file,
    which may be renamed. Writing to them is possible, and does not make them readable.
    """

    def __init__(self) -> None:
        self._bad: dict[int, set[int]] = {}
        self.errors = 0
        """How many reads failed."""

    def add(self, path: Path, position: int) -> None:
        """Let the block at ``position`` in a file be bad."""
        self._bad.setdefault(os.stat(path).st_ino, set()).add(position // BLOCK_BYTES)

    def _readable(self, fd: int, position: int, size_bytes: int) -> int:
        """Return how much a read gets; raises OSError."""
        bad = self._bad and self._bad.get(os.fstat(fd).st_ino)
        if not bad or not size_bytes:
            return size_bytes
        first = position // BLOCK_BYTES
        for block in range(first, (position + size_bytes - 1) // BLOCK_BYTES + 1):
            if block in bad:
                if block == first:
                    self.errors += 1
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return block * BLOCK_BYTES - position
        return size_bytes

    @contextmanager
    def watched(self) -> Iterator["BadBlocks"]:
        """Let reads meet the blocks."""
        pread, preadv, sendfile = os.pread, os.preadv, os.sendfile
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pread", lambda fd, size, at: pread(fd, self._readable(fd, at, size), at))
            patch.setattr(os, "preadv", lambda fd, views, at: preadv(fd, [views[0][: self._readable(fd, at, len(views[0]))]], at))
            patch.setattr(os, "sendfile", lambda out, fd, at, size: sendfile(out, fd, at, self._readable(fd, at, size)))
            yield self


def transfer_parts(patch: pytest.MonkeyPatch, seed: int = 0) -> None:
    """Let each read and write of a file transfer all or a part, at random."""
    draw = random.Random(seed)
    pread, preadv, sendfile, pwrite = os.pread, os.preadv, os.sendfile, os.pwrite

    def part(size_bytes: int) -> int:
        return draw.randint(1, size_bytes) if size_bytes and draw.random() < 0.5 else size_bytes

    def write(fd: int, data: Any, position: int) -> int:
        return pwrite(fd, memoryview(data)[: part(len(data))], position)

    patch.setattr(os, "pread", lambda fd, size, at: pread(fd, part(size), at))
    patch.setattr(os, "preadv", lambda fd, views, at: preadv(fd, [views[0][: part(len(views[0]))]], at))
    patch.setattr(os, "sendfile", lambda out, fd, at, size: sendfile(out, fd, at, part(size)))
    patch.setattr(os, "pwrite", write)
