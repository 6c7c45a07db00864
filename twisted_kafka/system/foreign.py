"""C functions without CPython's C API: by the backend of cffi, which is a part of PyPy.

PyPy compiles such a call into the loop around it, and passes the address of the bytes. Its own functions copy a buffer that is not
``bytes`` byte by byte: a megabyte takes half a millisecond. Callers use the functions of `twisted_kafka.system.buffers`.
"""

import os
import socket
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from twisted_kafka.system import machine

_cffi: Any = import_module("_cffi_backend")  # has no types

LONG: Final = _cffi.new_primitive_type("long")
INT: Final = _cffi.new_primitive_type("int")
UINT32: Final = _cffi.new_primitive_type("uint32_t")
SIZE: Final = _cffi.new_primitive_type("size_t")
BYTES: Final = _cffi.new_pointer_type(_cffi.new_primitive_type("unsigned char"))
_ARRAY: Final = _cffi.new_array_type(BYTES, None)

IN_PLACE_BYTES: Final = 64 * 1024
"""Larger ``bytes`` are passed by address, smaller ones copied: the collector may move those, or keep an unmoved copy for a while.

A ``bytearray`` does not move any more once its address was taken, which costs more than a copy of up to ``SMALL_BYTES``.
"""

SMALL_BYTES: Final = 1024


def load_function(library: str | None, name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of a shared library, None being the process itself. Raises OSError and AttributeError.

    An argument of the type ``BYTES`` is ``bytes``, or an ``address``.
    """
    return _cffi.load_library(library, 0).load_function(_cffi.new_function_type(arguments, result), name)


def address(data: bytes | bytearray | memoryview) -> Any:
    """Return the address of a buffer, valid as long as the address exists."""
    return _cffi.from_buffer(_ARRAY, data)


def argument(data: bytes | bytearray | memoryview) -> Any:
    """Return what to pass to a C function for a buffer that it reads: its address, or ``bytes``."""
    kind = type(data)
    if kind is bytes:
        return data
    size = len(data)
    if size < SMALL_BYTES:
        return bytes(data)
    if kind is bytearray or not data.readonly or size > IN_PLACE_BYTES:  # type: ignore[union-attr]
        return address(data)
    return bytes(data)


def _checked(result: int) -> int:
    """Return the result of a system call; raise its OSError if it is negative."""
    if result < 0:
        number = _cffi.get_errno()
        raise OSError(number, os.strerror(number))
    return result


_pwrite = load_function(None, "pwrite", LONG, INT, BYTES, SIZE, LONG)


def pwrite(fd: int, data: "bytes | bytearray | memoryview", position: int, /) -> int:
    """Write as ``os.pwrite`` does, without a copy."""
    source = data if machine.is_simulated else argument(data)
    if type(source) is bytes or machine.is_simulated:
        return os.pwrite(fd, source, position)
    return _checked(_pwrite(fd, source, len(data), position))


_recv = load_function(None, "recv", LONG, INT, BYTES, SIZE, INT)


class _Memory(machine.local):
    """The buffers of one thread, for received bytes and for joining."""

    def __init__(self) -> None:
        self.received: Any = b""
        self.joined = bytearray()


_memory = _Memory()


def receive(connection: socket.socket, max_bytes: int) -> Any:
    """Receive as ``connection.recv`` does, which allocates ``max_bytes`` for each call.

    The result is not ``bytes``, but its slices are; it is valid until the thread's next call. On a simulated machine, C knows no
    sockets, and all threads share this memory.
    """
    if machine.is_simulated:
        return connection.recv(max_bytes)
    memory = _memory.received
    if len(memory) < max_bytes:
        memory = _memory.received = _cffi.newp(_ARRAY, max_bytes)
    return _cffi.buffer(memory, _checked(_recv(connection.fileno(), memory, max_bytes, 0)))


def to_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """Copy as ``bytes`` does."""
    source = argument(data)
    if type(source) is bytes:
        return source
    copied: bytes = _cffi.buffer(source, len(data))[:]
    return copied


def join(parts: "Sequence[bytes | bytearray | memoryview]") -> bytes | bytearray | memoryview:
    """Join as ``bytes.join`` does, in memory that is valid until the thread's next call."""
    if machine.is_simulated:
        return b"".join(parts)
    size = sum(map(len, parts))
    joined = _memory.joined
    if len(joined) < size:
        joined = _memory.joined = bytearray(size)
    position = 0
    for part in parts:
        copy_into(joined, part, position)
        position += len(part)
    return memoryview(joined)[:size]


def copy_into(target: bytearray, data: bytes | bytearray | memoryview, position: int) -> None:
    """Overwrite ``target`` from ``position`` on. Raises IndexError if ``data`` does not fit there."""
    size = len(data)
    if position < 0 or position + size > len(target):
        raise IndexError(f"{size} bytes at {position} do not fit into {len(target)}")
    with memoryview(target)[position:] as view:
        _cffi.memmove(view, argument(data), size)


def _malloc_trim() -> Any:
    try:
        return load_function(None, "malloc_trim", INT, SIZE)
    except AttributeError:  # another C library than glibc
        return lambda keep_bytes: 0


_trim = _malloc_trim()


def return_freed_memory() -> None:
    """Give the system the pages that the C library keeps although nothing in them is used. Without glibc it does nothing."""
    _trim(0)
