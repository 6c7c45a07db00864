"""Copies, reads and writes of buffers, which may be large."""

import os
import socket
from collections.abc import Sequence
from typing import Any

from twisted_kafka.system.interpreter import EMULATES_C_API

AnyBuffer = bytes | bytearray | memoryview

if EMULATES_C_API:
    from twisted_kafka.system.foreign import copy_into, join, pwrite, receive, to_bytes

    def to_read(view: memoryview) -> bytes | memoryview:
        """Return the bytes in the form that is the fastest to read one by one."""
        return view

else:

    def pwrite(fd: int, data: AnyBuffer, position: int, /) -> int:
        """Write with the present ``os.pwrite``, which simulated disks of tests replace."""
        return os.pwrite(fd, data, position)

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


__all__ = ["copy_into", "join", "pwrite", "receive", "to_bytes", "to_read"]
