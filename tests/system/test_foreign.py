"""C functions without CPython's C API behave as the functions that they replace."""

import ctypes
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.fake import Fake
from twisted_kafka.system import buffers, machine

pytest.importorskip("_cffi_backend", reason="a part of PyPy; on CPython it comes with cffi")

from twisted_kafka.system import foreign

READ_BYTES = 64 * 1024
SIZES = (0, 1, foreign.IN_PLACE_BYTES, foreign.IN_PLACE_BYTES + 1, 1_000_000)


def content(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(b"_" + data))[1:]])
def test_bytes_of_any_size_are_copied_and_written(kind: type[memoryview], size: int, tmp_path: Path) -> None:
    data = content(size)
    assert foreign.to_bytes(kind(data)) == data
    with (tmp_path / "file").open("w+b") as file:
        assert foreign.pwrite(file.fileno(), kind(data), 3) == size
        file.seek(0)
        assert file.read() == (bytes(3) + data if size else b"")


@pytest.mark.parametrize("join", [foreign.join, buffers.join])
def test_buffers_of_any_kind_are_joined(join: Callable[[list[Any]], bytes]) -> None:
    data = content(100)
    assert join([data, bytearray(b"x"), memoryview(data)[10:], memoryview(bytearray(data))]) == data + b"x" + data[10:] + data
    assert join([]) == b""


def test_a_simulated_machine_has_sockets_and_files_that_c_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    class Simulated(Fake):
        def recv(self, size_bytes: int) -> bytes:
            return b"received"[:size_bytes]

    written: list[object] = []
    monkeypatch.setattr(machine, "is_simulated", True)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: written.append((fd, data, position)) or len(data))
    first, second = foreign.receive(Simulated(), 4), foreign.join([b"a", b"b"])
    foreign.receive(Simulated(), 8)
    foreign.join([b"c"])
    assert (first, second) == (b"rece", b"ab"), "another thread has not changed them"
    data = bytearray(2 * foreign.IN_PLACE_BYTES)
    assert foreign.pwrite(1_000_000, data, 7) == len(data)
    assert written == [(1_000_000, data, 7)]


def test_what_was_freed_between_used_memory_is_returned() -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
    blocks = [libc.malloc(60_000) for _ in range(1000)]
    for block in blocks:
        ctypes.memset(block, 1, 60_000)
    for block in blocks[::2]:
        libc.free(block)
    try:
        before = resident_bytes()
        foreign.return_freed_memory()
        assert before - resident_bytes() > 20_000_000
    finally:
        for block in blocks[1::2]:
            libc.free(block)


def test_a_write_that_fails_raises_the_systems_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with pytest.raises(OSError, match="Illegal seek") as caught:
            foreign.pwrite(writer, memoryview(content(100_000)), 0)
    finally:
        os.close(writer)
    assert caught.value.errno == errno.ESPIPE


@pytest.mark.parametrize("copy_into", [foreign.copy_into, buffers.copy_into])
@pytest.mark.parametrize("size", SIZES)
def test_bytes_are_copied_into_a_buffer(copy_into: type, size: int) -> None:
    data = content(size)
    target = bytearray(b"." * (size + 5))
    copy_into(target, data, 2)
    copy_into(target, memoryview(target)[:2], 3 + size)
    assert target == b".." + data + b"..."


@pytest.mark.parametrize(("size", "position"), [(4, 7), (11, 0), (1, -1)])
def test_nothing_is_written_outside_of_a_buffer(size: int, position: int) -> None:
    target = bytearray(10)
    with pytest.raises(IndexError):
        foreign.copy_into(target, b"x" * size, position)
    assert target == bytes(10)


@pytest.mark.parametrize("module", [foreign, buffers])
def test_what_a_socket_has_is_received(module: ModuleType) -> None:
    ours, other = socket.socketpair()
    ours.setblocking(False)
    try:
        with pytest.raises(BlockingIOError):
            module.receive(ours, READ_BYTES)
        for data in (b"a", content(READ_BYTES)):
            other.sendall(data)
            assert module.receive(ours, READ_BYTES) == data
        other.sendall(content(READ_BYTES + 7))
        assert [len(module.receive(ours, READ_BYTES)) for _ in range(2)] == [READ_BYTES, 7]
        other.close()
        assert module.receive(ours, READ_BYTES) == b""
    finally:
        ours.close()
        other.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        module.receive(ours, READ_BYTES)
