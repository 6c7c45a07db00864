"""What a platform offers to write files durably. macOS has neither ``fdatasync`` nor ``posix_fallocate``, and its ``fsync`` leaves
data in the drive's cache: ``F_FULLFSYNC`` empties it (fcntl(2) of macOS)."""

import errno
import fcntl
import os
from typing import Final

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
_NOT_OFFERED: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY, errno.ENOSYS)
"""What a file system answers that has no ``F_FULLFSYNC``, such as one of a network."""

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


def reserve(descriptor: int, size_bytes: int) -> None:
    """Make a file at least ``size_bytes`` long, with blocks on the disk where the platform can; raises OSError."""
    if _HAS_FALLOCATE:
        os.posix_fallocate(descriptor, 0, size_bytes)
    elif os.fstat(descriptor).st_size < size_bytes:
        os.ftruncate(descriptor, size_bytes)
