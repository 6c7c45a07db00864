"""Reads and writes at a position of a file: the system's where there are any (POSIX), else a seek under a lock (Windows).

As no module reads or writes such a file in another way, its own position means nothing.
"""

import os
import threading
from typing import Final

from twisted_kafka.system.platform import HAS_POSITIONS

AnyBuffer = bytes | bytearray | memoryview

if HAS_POSITIONS:

    def pread(fd: int, size_bytes: int, position: int) -> bytes:
        """Read with the present ``os.pread``, which simulated disks of tests replace."""
        return os.pread(fd, size_bytes, position)

    def pwrite(fd: int, data: AnyBuffer, position: int, /) -> int:
        """Write with the present ``os.pwrite``, which simulated disks of tests replace."""
        return os.pwrite(fd, data, position)

else:
    _LOCKS: Final = [threading.Lock() for _ in range(64)]
    """Held from a seek to the end of the transfer: one for each descriptor, shared by every 64th."""

    def pread(fd: int, size_bytes: int, position: int) -> bytes:
        """Read at most ``size_bytes`` at a position; raises OSError."""
        with _LOCKS[fd % len(_LOCKS)]:
            os.lseek(fd, position, os.SEEK_SET)
            return os.read(fd, size_bytes)

    def pwrite(fd: int, data: AnyBuffer, position: int, /) -> int:
        """Write at a position; return how many bytes were written. Raises OSError."""
        with _LOCKS[fd % len(_LOCKS)]:
            os.lseek(fd, position, os.SEEK_SET)
            return os.write(fd, data)


__all__ = ["pread", "pwrite"]
