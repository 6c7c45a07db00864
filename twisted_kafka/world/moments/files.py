"""Copies of a directory and of the descriptors of its open files, so that two processes do not write the same file."""

import fcntl
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from twisted_kafka.system.files.file_io import read_at
from twisted_kafka.world.machine.disk import path_of

_DESCRIPTORS: Final = "/dev/fd"
_NAMELESS: Final = "nameless"
_ONLY_ONCE: Final = os.O_CREAT | os.O_EXCL | os.O_TRUNC


class OpenFile(NamedTuple):
    """A descriptor of a file in the directory."""

    fd: int
    name: str
    """The path within the directory, or in the folder of the files that no name leads to any more."""
    is_nameless: bool
    flags: int
    position: int


class SavedFiles:
    """What a directory had at one moment."""

    def __init__(self, directory: Path, target: Path) -> None:
        """Copy ``directory`` to ``target``, which must not exist. Raises OSError."""
        self._directory = directory
        self._target = target
        (target / _NAMELESS).mkdir(parents=True)
        self._inodes = copy_tree(directory, target / "files")
        self._open = [found for name in os.listdir(_DESCRIPTORS) if (found := self._look_at(int(name))) is not None]

    def _look_at(self, fd: int) -> OpenFile | None:
        path = path_of(fd)
        if path is None or not path.startswith(f"{self._directory}{os.sep}"):
            return None
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return None
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        is_nameless = not os.path.exists(path) or os.stat(path).st_ino != status.st_ino
        if is_nameless:
            name = str(fd)
            self._save_nameless(fd, name, status.st_size if flags & os.O_ACCMODE != os.O_WRONLY else 0)
        else:
            name = os.path.relpath(path, self._directory)
        return OpenFile(fd, name, is_nameless, flags, os.lseek(fd, 0, os.SEEK_CUR))

    def _save_nameless(self, fd: int, name: str, size_bytes: int) -> None:
        with open(fd, "rb", closefd=False) as file:
            (self._target / _NAMELESS / name).write_bytes(read_at(file, size_bytes, 0))

    def remove(self) -> None:
        """Remove the copy, and its parent with the last one."""
        shutil.rmtree(self._target, ignore_errors=True)
        with suppress(OSError):
            self._target.parent.rmdir()

    def restore(self) -> Mapping[int, int]:
        """Make the directory again, and let the descriptors of this process lead there; return the new inode for each old one."""
        copies = copy_tree(self._target / "files", self._directory)
        for each in self._open:
            place = self._directory / each.name
            if each.is_nameless:
                place = Path(shutil.copyfile(self._target / _NAMELESS / each.name, self._directory / f"{_NAMELESS}-{each.name}"))
            fd = os.open(place, each.flags & ~_ONLY_ONCE)
            os.lseek(fd, each.position, os.SEEK_SET)
            os.dup2(fd, each.fd, inheritable=os.get_inheritable(each.fd))
            os.close(fd)
            if each.is_nameless:
                place.unlink()
        return {old: copies[saved] for old, saved in self._inodes.items()}


def copy_tree(source: Path, target: Path) -> dict[int, int]:
    """Copy a directory, keeping files with several names; return the inode of each copy by that of the original."""
    copies: dict[int, str] = {}
    for place, folders, names in os.walk(source):
        folder = os.path.normpath(os.path.join(target, os.path.relpath(place, source)))
        os.mkdir(folder)
        copies[os.stat(place).st_ino] = folder
        for name in (*folders, *names):
            path, copy = os.path.join(place, name), os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                os.symlink(os.readlink(path), copy)
            elif status.st_ino in copies:
                os.link(copies[status.st_ino], copy)
            elif stat.S_ISREG(status.st_mode):
                copies[status.st_ino] = shutil.copy2(path, copy)
    return {inode: os.stat(copy).st_ino for inode, copy in copies.items()}
