"""Reads and writes on a system that transfers as little as it may."""

import errno
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import pytest

from twisted_kafka.system.files import file_io
from twisted_kafka.system.files.file_io import ShortFileError, load, read_at, read_into, read_whole, write_at

DATA = bytes(range(50))
BAD_AT = 30


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of a system that transfers seven bytes at most, and cannot read from BAD_AT on."""
    pread, preadv, sendfile, pwrite = os.pread, os.preadv, os.sendfile, os.pwrite

    def left(position: int, size_bytes: int) -> int:
        if position >= BAD_AT:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return min(size_bytes, 7, BAD_AT - position)

    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, left(at, size), at))
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: preadv(fd, [views[0][: left(at, len(views[0]))]], at))
    monkeypatch.setattr(os, "sendfile", lambda out, fd, at, size: sendfile(out, fd, at, left(at, size)))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:7], at))
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return path


def into(file: FileIO, size_bytes: int, position: int) -> bytes:
    memory = bytearray(size_bytes)
    read_into(file, memoryview(memory), position)
    return bytes(memory)


@pytest.mark.parametrize("read", [read_at, into])
class TestReading:
    def test_a_read_is_completed(self, path: Path, read: Callable[..., bytes]) -> None:
        with FileIO(path) as file:
            for position, size_bytes in ((0, 30), (3, 20), (29, 1), (5, 0)):
                assert read(file, size_bytes, position) == DATA[position : position + size_bytes]

    def test_what_cannot_be_read_is_an_error_with_file_and_position(self, path: Path, read: Callable[..., bytes]) -> None:
        with FileIO(path) as file:
            for position in (0, 29, 30, 40):
                with pytest.raises(OSError, match=f"Input/output error at byte {max(position, 30)}: '{path}'") as caught:
                    read(file, 31, position)
                assert caught.value.errno == errno.EIO
                assert not isinstance(caught.value, ShortFileError)

    def test_the_end_of_the_file_is_an_error_of_its_own(self, path: Path, read: Callable[..., bytes]) -> None:
        os.truncate(path, 10)
        with FileIO(path) as file:
            for position in (0, 10, 20):
                with pytest.raises(
                    ShortFileError, match=f"ends at byte {max(position, 10)}, before byte {position + 11}: '{path}'"
                ):
                    read(file, 11, position)


def test_without_preadv_memory_is_filled_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "preadv")
    with FileIO(path) as file:
        assert into(file, 20, 2) == DATA[2:22]


def test_a_whole_file(path: Path) -> None:
    with pytest.raises(OSError, match="at byte 30"):
        read_whole(path)
    os.truncate(path, 30)
    assert read_whole(path) == DATA[:30]


@pytest.mark.skipif(not file_io._CAN_LOAD, reason="a platform that cannot")
def test_loading_is_completed_or_fails(path: Path) -> None:
    with FileIO(path) as file:
        load(file, 0, 30)
        with pytest.raises(OSError, match=f"at byte 30: '{path}'"):
            load(file, 0, 31)
        os.truncate(path, 10)
        with pytest.raises(ShortFileError, match="ends at byte 10, before byte 20"):
            load(file, 0, 20)


def test_a_write_is_completed(path: Path) -> None:
    with FileIO(path, "r+") as file:
        write_at(file.fileno(), b"x" * 20, 5)
    assert path.read_bytes() == DATA[:5] + b"x" * 20 + DATA[25:]


def test_a_write_that_takes_nothing_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 0)
    with FileIO(path, "r+") as file, pytest.raises(OSError, match="writes nothing at byte 5"):
        write_at(file.fileno(), b"x" * 20, 5)
