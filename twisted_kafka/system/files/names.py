"""Renames and removals of files that this process may have open, and of directories above them.

On Windows another program, such as a virus scanner, or a reader in another thread may have a file open for a moment: the call is
tried again for a second, and then fails. The caller closes its own files before.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from twisted_kafka.system import machine
from twisted_kafka.system.platform import BINARY, KEEPS_OPEN_FILES, NOT_INHERITED

_LONGEST_WAIT_S: Final = 1.0
_FIRST_PAUSE_S: Final = 0.001
_never: Final = machine.Event()

AnyPath = str | Path


def rename(path: AnyPath, target: AnyPath, release: Callable[[], object] = lambda: None) -> None:
    """Rename a file or directory; a file takes the place of another one. Raises OSError.

    ``release`` closes what this process has open, before each attempt on Windows.
    """
    for is_last in _attempts():
        if not KEEPS_OPEN_FILES:
            release()
        try:
            # Windows' own rename does not replace a file.
            (os.rename if KEEPS_OPEN_FILES else os.replace)(path, target)
        except PermissionError:
            if is_last:
                raise
        else:
            return


def replace(path: AnyPath, target: AnyPath) -> None:
    """Rename a file to a name that another one may have; raises OSError."""
    for is_last in _attempts():
        try:
            os.replace(path, target)
        except PermissionError:
            if is_last:
                raise
        else:
            return


def remove(path: AnyPath) -> None:
    """Remove a file; raises OSError."""
    for is_last in _attempts():
        try:
            os.unlink(path)
        except PermissionError:
            if is_last:
                raise
        else:
            return


def _attempts() -> Iterator[bool]:
    """Yield whether it is the last attempt, after a pause that doubles."""
    pause_s = _FIRST_PAUSE_S
    while not KEEPS_OPEN_FILES and pause_s < _LONGEST_WAIT_S:
        yield False
        _never.wait(pause_s)
        pause_s *= 2
    yield True


def open_descriptor(path: AnyPath, flags: int, mode: int = 0o644) -> int:
    """Return a descriptor as ``os.open`` does, of bytes on each platform, which programs do not inherit; raises OSError."""
    return os.open(path, flags | BINARY | NOT_INHERITED, mode)
