"""Directories of embedded brokers that have none of their own: gone with the broker, whatever ended its process.

A process that is killed cannot remove its directory, so the next embedded broker of the same user does. A file in the directory is
locked (flock) as long as its broker lives; the kernel drops the lock with the last process that has the file open, so a number that
another process got meanwhile does not matter.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

from twisted_kafka.system.durability import mark_temporary, unmark_temporary
from twisted_kafka.system.forks import close_in_children

PREFIX: Final = "twisted-kafka-"
OWNED_FILE: Final = ".owned"


def make_temporary_directory(owner: object) -> tuple[Path, Callable[[], object]]:
    """Return a new directory and a function that removes it. The end of ``owner`` or of the program removes it at the latest.

    Directories of processes that were killed are removed first.
    """
    _remove_orphans(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    mark_temporary(directory)
    return directory, weakref.finalize(owner, _remove, directory, _own(directory), os.getpid())


class _Lock:
    """A descriptor that keeps a file locked."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        close_in_children(self, _Lock.release)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _own(directory: Path) -> _Lock:
    # Named only when it is locked: a file of that name without a lock is an orphan's.
    unnamed = directory / f"{OWNED_FILE}.new"
    descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unnamed.rename(directory / OWNED_FILE)
    return _Lock(descriptor)


def _remove(directory: Path, lock: _Lock, process_id: int) -> None:
    # A forked process also finalizes this broker when it ends, but the directory is not its own.
    if os.getpid() == process_id:
        shutil.rmtree(directory, ignore_errors=True)
        unmark_temporary(directory)
        lock.release()


def _remove_orphans(where: Path) -> None:
    for directory in where.glob(f"{PREFIX}*"):
        # Whatever is wrong with one of them, it is not this broker's business.
        with contextlib.suppress(OSError):
            if directory.lstat().st_uid == os.geteuid():
                _remove_if_orphan(directory)


def _remove_if_orphan(directory: Path) -> None:
    """Remove the directory unless its broker lives; raises OSError."""
    descriptor = os.open(directory / OWNED_FILE, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory)
    finally:
        os.close(descriptor)
