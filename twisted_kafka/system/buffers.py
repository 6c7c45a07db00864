"""Copies, reads and writes of buffers, which may be large.

A read or write at a position of a file is the system's (POSIX), or a seek under a lock (Windows). No module reads or writes such a
file in another way: the file's own position means nothing.
"""

import os
import socket
from collections.abc import Sequence
from typing import Any, Final

from twisted_kafka.system import machine
from twisted_kafka.system.interpreter import EMULATES_C_API
from twisted_kafka.system.platform import HAS_POSITIONS

AnyBuffer = bytes | bytearray | memoryview

COPIED_BYTES: Final = 64 * 1024
"""Most bytes that are copied to be sent in one system call, where the system cannot gather them."""

if HAS_POSITIONS:

    def pread(fd: int, size_bytes: int, position: int) -> bytes:
        """Read with the present ``os.pread``, which simulated disks of tests replace."""
        return os.pread(fd, size_bytes, position)

    def _pwrite(fd: int, data: AnyBuffer, position: int, /) -> int:
        """Write with the present ``os.pwrite``, which simulated disks of tests replace."""
        return os.pwrite(fd, data, position)

else:
    _LOCKS: Final = [machine.Lock() for _ in range(64)]
    """Held from a seek to the end of the transfer: one for each descriptor, shared by every 64th."""

    def pread(fd: int, size_bytes: int, position: int) -> bytes:
        """Read at most ``size_bytes`` at a position; raises OSError."""
        with _LOCKS[fd % len(_LOCKS)]:
            os.lseek(fd, position, os.SEEK_SET)
            return os.read(fd, size_bytes)

    def _pwrite(fd: int, data: AnyBuffer, position: int, /) -> int:
        """Write at a position; return how many bytes were written. Raises OSError."""
        with _LOCKS[fd % len(_LOCKS)]:
            os.lseek(fd, position, os.SEEK_SET)
            return os.write(fd, data)


if EMULATES_C_API:
    from twisted_kafka.system.foreign import copy_into, join, pwrite, receive, to_bytes

    def to_read(view: memoryview) -> bytes | memoryview:
        """Return the bytes in the form that is the fastest to read one by one."""
        return view

else:
    pwrite = _pwrite

    def to_bytes(data: AnyBuffer) -> bytes:
        """Return the content as ``bytes``."""
        return bytes(data)

    def to_read(view: memoryview) -> bytes | memoryview:
        """Return the bytes in the form that is the fastest to read one by one."""
        return bytes(view)

    def receive(connection: socket.socket, max_bytes: int) -> Any:
        """Return the available bytes of a socket, at most ``max_bytes``; valid until the thread's next call. Raises OSError."""
        return connection.recv(max_bytes)

    def join(parts: Sequence[AnyBuffer]) -> AnyBuffer:
        """Return the content of all of them; valid until the thread's next call."""
        return b"".join(parts)

    def copy_into(target: bytearray, data: AnyBuffer, position: int) -> None:
        """Overwrite ``target`` from ``position`` on, where ``data`` fits."""
        target[position : position + len(data)] = data


if hasattr(socket.socket, "sendmsg"):

    def send_gathered(connection: socket.socket, parts: Sequence[AnyBuffer], flags: int) -> int:
        """Send parts of bytes in one system call; return how many bytes the socket took. Raises OSError."""
        return connection.sendmsg(parts, (), flags)

else:  # Windows

    def send_gathered(connection: socket.socket, parts: Sequence[AnyBuffer], flags: int) -> int:
        """Send the first part if it is large, else a copy of the first parts; return how many bytes the socket took."""
        copied: list[AnyBuffer] = []
        left = COPIED_BYTES
        for part in parts:
            if len(part) > left:
                break
            copied.append(part)
            left -= len(part)
        return connection.send(b"".join(copied) if copied else parts[0], flags)


__all__ = ["AnyBuffer", "copy_into", "join", "pread", "pwrite", "receive", "send_gathered", "to_bytes", "to_read"]
