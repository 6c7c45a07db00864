"""Decides which writes reach the disk before a call returns: all, except in directories that are removed with their broker.

A broker in a temporary directory never starts again there, so nobody could read what a sync would save.
"""

import os
from pathlib import Path
from typing import Final

from twisted_kafka.system import machine
from twisted_kafka.system.files import disk

_temporary: frozenset[str] = frozenset()
_lock: Final = machine.Lock()


def mark_temporary(directory: Path) -> None:
    """Sync nothing below this directory from now on."""
    global _temporary
    with _lock:
        _temporary |= {f"{directory}{os.sep}"}


def unmark_temporary(directory: Path) -> None:
    """Forget the directory: it is gone."""
    global _temporary
    with _lock:
        _temporary -= {f"{directory}{os.sep}"}


def has_to_last(path: Path) -> bool:
    """Return whether the file or directory at ``path`` has to survive a power failure."""
    return not (_temporary and f"{path}{os.sep}".startswith(tuple(_temporary)))


def fdatasync(descriptor: int, path: Path) -> None:
    """Make the content of an open file, found at ``path``, durable; raises OSError."""
    if has_to_last(path):
        disk.sync_data(descriptor)


def fsync(descriptor: int, path: Path) -> None:
    """Make an open file or directory, found at ``path``, durable; raises OSError."""
    if has_to_last(path):
        disk.sync(descriptor)
