"""Reads and writes of files that are completed or fail: no caller sees a part.

A system call may transfer less than it was asked for. The kernel returns the bytes before an unreadable block, and EIO only for a
read that begins at it; a nearly full disk takes the bytes for which it has room. No other module calls these functions of ``os``
for a file (``tests/test_house_rules.py``).
"""

import errno
import os
import stat
import sys
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any, Final, Protocol

from twisted_kafka.system.buffers import AnyBuffer, pread, pwrite
from twisted_kafka.system.platform import HAS_POSITIONS

_CAN_LOAD: Final = sys.platform == "linux" and hasattr(os, "sendfile")


class OpenFile(Protocol):
    """An open file, with its path for error messages."""

    @property
    def name(self) -> Any: ...
    def fileno(self) -> int: ...


class ShortFileError(OSError):
    """A file ends before bytes that its size, or an index of it, promises."""


def read_at(file: OpenFile, size_bytes: int, position: int) -> bytes:
    """Return exactly ``size_bytes`` from ``position`` on.

    Raises ShortFileError if the file ends before, and OSError; both name the file and the position.
    """
    try:
        data = pread(file.fileno(), size_bytes, position)
    except OSError as error:
        raise _unreadable(file, position, error) from error
    return data if len(data) == size_bytes else _read_rest(file, data, size_bytes, position)


def _read_rest(file: OpenFile, begun: bytes, size_bytes: int, position: int) -> bytes:
    parts, done = [begun], len(begun)
    while done < size_bytes:
        try:
            part = pread(file.fileno(), size_bytes - done, position + done)
        except OSError as error:
            raise _unreadable(file, position + done, error) from error
        if not part:
            raise _short(file, position + done, position + size_bytes)
        parts.append(part)
        done += len(part)
    return b"".join(parts)


def read_into(file: OpenFile, memory: memoryview, position: int) -> None:
    """Fill ``memory`` with the bytes from ``position`` on; raises as ``read_at``."""
    if not (HAS_POSITIONS and hasattr(os, "preadv")):
        memory[:] = read_at(file, len(memory), position)
        return
    done, size = 0, len(memory)
    while done < size:
        try:
            count = os.preadv(file.fileno(), [memory[done:]], position + done)
        except OSError as error:
            raise _unreadable(file, position + done, error) from error
        if not count:
            raise _short(file, position + done, position + size)
        done += count


def read_whole(path: Path) -> bytes:
    """Return the content of a file; raises as ``read_at``."""
    with FileIO(path) as file:
        return read_at(file, os.fstat(file.fileno()).st_size, 0)


def read_bounded(path: Path, max_bytes: int, *, may_wait: bool = True) -> bytes:
    """Return the content of a file that somebody else has named. Raises OSError, also for one with more than ``max_bytes``.

    Unless it ``may_wait``, a pipe or a device is refused: it may have its first byte, or its last one, never.
    """
    if not may_wait and not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    parts, left = [], max_bytes + 1
    with FileIO(path) as file:
        while left and (part := file.read(left)):
            parts.append(part)
            left -= len(part)
    if not left:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes", str(path))
    return b"".join(parts)


def load(file: OpenFile, position: int, end: int) -> None:
    """Let the system read a part of the file into its page cache; raises as ``read_at`` does.

    Only Linux can do it without a copy; elsewhere nothing happens. Costs 15 us for a megabyte that is in the cache already.
    """
    if not _CAN_LOAD:
        return
    while position < end:
        try:
            count = os.sendfile(_null().fileno(), file.fileno(), position, end - position)
        except OSError as error:
            raise _unreadable(file, position, error) from error
        if not count:
            raise _short(file, position, end)
        position += count


@cache
def _null() -> FileIO:
    return FileIO(os.devnull, "w")


def write_at(fd: int, data: AnyBuffer, position: int) -> None:
    """Write all of ``data`` at ``position``; raises OSError, and then a part may be written."""
    written = pwrite(fd, data, position)
    size = len(data)
    if written == size:
        return
    view = memoryview(data)
    while written < size:
        count = pwrite(fd, view[written:], position + written)
        if not count:
            raise OSError(errno.EIO, f"the system writes nothing at byte {position + written}")
        written += count


def _unreadable(file: OpenFile, position: int, error: OSError) -> OSError:
    return OSError(error.errno, f"{error.strerror} at byte {position}", str(file.name))


def _short(file: OpenFile, end: int, wanted: int) -> ShortFileError:
    return ShortFileError(errno.EIO, f"the file ends at byte {end}, before byte {wanted}", str(file.name))
