"""The platform's functions for durable writes, and for locks of files.

macOS has neither ``fdatasync`` nor ``posix_fallocate``, and its ``fsync`` leaves data in the drive's cache: ``F_FULLFSYNC`` empties
it (fcntl(2) of macOS). Windows syncs only files that are open for writing, and no directories.
"""

import errno
import os
import shutil
import struct
import sys
from pathlib import Path
from typing import Any, Final

from twisted_kafka.system.platform import SYNC_FLAGS, SYNCS_DIRECTORIES

try:
    import fcntl
except ImportError:  # Windows
    fcntl: Any = None  # type: ignore[no-redef]

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
_NOT_OFFERED: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY, errno.ENOSYS)
"""The errors of a file system without ``F_FULLFSYNC``, such as a network file system."""

_HAS_FDATASYNC: Final = hasattr(os, "fdatasync")
_HAS_FALLOCATE: Final = hasattr(os, "posix_fallocate")


def sync(descriptor: int) -> None:
    """Make a file or directory durable; raises OSError."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Make a file's content and size durable; raises OSError."""
    if _HAS_FDATASYNC:
        os.fdatasync(descriptor)
    else:
        sync(descriptor)


def sync_path(path: Path) -> None:
    """Make the file at a path durable; raises OSError."""
    descriptor = os.open(path, SYNC_FLAGS)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync_names(directory: Path) -> None:
    """Make the names in a directory durable; raises OSError."""
    if not SYNCS_DIRECTORIES:
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def space_bytes(path: Path) -> tuple[int, int]:
    """Return the size of the file system with a path, and how much of it this process may use; raises OSError."""
    space = shutil.disk_usage(path)
    return space.total, space.free


def reserve(descriptor: int, size_bytes: int) -> None:
    """Make a file at least ``size_bytes`` long, with blocks on the disk where the platform can; raises OSError."""
    if _HAS_FALLOCATE:
        os.posix_fallocate(descriptor, 0, size_bytes)
    elif os.fstat(descriptor).st_size < size_bytes:
        os.ftruncate(descriptor, size_bytes)


_LINUX_LOCK: Final = struct.Struct("hhqqi")
_MACOS_LOCK: Final = struct.Struct("qqihh")
"""``struct flock``: its kind and the pid are in different places."""


def lock_holder(descriptor: int) -> int | None:
    """Return the process that has locked an open file with ``lockf``; None if none has, or if the platform does not say."""
    try:
        if sys.platform == "linux":
            found = fcntl.fcntl(descriptor, fcntl.F_GETLK, _LINUX_LOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
            kind, *_, pid = _LINUX_LOCK.unpack(found[: _LINUX_LOCK.size])
        elif sys.platform == "darwin":
            found = fcntl.fcntl(descriptor, fcntl.F_GETLK, _MACOS_LOCK.pack(0, 0, 0, fcntl.F_WRLCK, 0))
            _, _, pid, kind, _ = _MACOS_LOCK.unpack(found[: _MACOS_LOCK.size])
        else:
            return None
    except OSError:
        return None
    return None if kind == fcntl.F_UNLCK else pid
