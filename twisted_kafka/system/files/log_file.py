"""The log file of a daemon, which other programs may rotate while it is written.

Twisted's own file loses this: after a rename it writes on to the renamed file, and after a truncation it leaves a hole of zeros.
This one appends, and opens its path again once the path names another file or none. So logrotate works both with `create` and
with `copytruncate`, without a signal.
"""

import contextlib
import os
import signal
from pathlib import Path
from typing import IO, BinaryIO, Final, cast

from twisted.logger import FileLogObserver, textFileLogObserver

from twisted_kafka.system import machine

ROTATION_SIGNAL: Final = "SIGUSR1"
"""Twisted's signal for a rotation. Nothing has to be done for it, but without a handler it would end the process."""


class LogFile:
    """Appends text to the file at a path, whichever file that is now."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it; raises OSError."""
        self._path = path
        self._lock = machine.Lock()
        self._file = self._open()

    def _open(self) -> BinaryIO:
        return self._path.open("ab")

    def write(self, text: str) -> None:
        """Append text. If the path cannot be opened again, continue with the open file. Raises OSError if the disk is full."""
        with self._lock:
            if self._is_gone():
                with contextlib.suppress(OSError):
                    fresh = self._open()
                    self._file.close()
                    self._file = fresh
            self._file.write(text.encode("utf-8", "backslashreplace"))
            self._file.flush()

    def flush(self) -> None:
        """Return at once: the kernel has all that was written, with each line."""

    def _is_gone(self) -> bool:
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno()))
        except OSError:
            return True


def log_file_observer(path: Path) -> FileLogObserver:
    """Return an observer that writes events to the file, in Twisted's form. Raises OSError. Called on the main thread."""
    number = getattr(signal, ROTATION_SIGNAL, None)
    if number is not None and signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, lambda *_: None)
    return textFileLogObserver(cast("IO[str]", LogFile(path)))
