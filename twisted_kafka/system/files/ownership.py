"""Marks a directory as that of a living process, however the process ends.

POSIX: a file in it is locked (flock); the kernel drops the lock with the last process that has the file open. Windows: the file is
open, and cannot be removed before it is closed.
"""

import os
from pathlib import Path
from typing import Final

from twisted_kafka.system.files.names import open_descriptor
from twisted_kafka.system.forks import close_in_children

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

OWNED_FILE: Final = ".owned"


class Ownership:
    """The mark of a directory, until it is released."""

    def __init__(self, directory: Path) -> None:
        """Mark the directory; raises OSError."""
        self._descriptor = _claim(directory)
        close_in_children(self, Ownership.release)

    def release(self) -> None:
        """Give the directory up; does nothing the second time."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def release_before_removal(self) -> None:
        """Give the directory up if the platform does not remove it otherwise."""
        if fcntl is None:
            self.release()


def _claim(directory: Path) -> int:
    if fcntl is None:
        return open_descriptor(directory / OWNED_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    # Named only when it is locked: a file of that name without a lock is an orphan's.
    unnamed = directory / f"{OWNED_FILE}.new"
    descriptor = open_descriptor(unnamed, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unnamed.rename(directory / OWNED_FILE)
    return descriptor


def take_over(directory: Path) -> int | None:
    """Return a descriptor that keeps other processes from taking the directory over, None where none is needed.

    Raises OSError if the directory is not marked, if its owner lives, or if it belongs to another user.
    """
    if fcntl is None:
        os.unlink(directory / OWNED_FILE)  # fails while the owner has it open
        return None
    if directory.lstat().st_uid != os.geteuid():
        raise PermissionError(f"{directory} belongs to another user")
    descriptor = os.open(directory / OWNED_FILE, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
