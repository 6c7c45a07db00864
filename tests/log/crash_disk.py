"""A disk that can lose what was not synced, and get full: the real one, with the module ``os`` watched.

Every call that changes a file, a name or a directory below the root is a step, and before a chosen step the machine dies. Then
either everything written so far is kept (the process was killed), or the disk has what a power failure may leave: of each file what
was synced at least, perhaps more, perhaps torn; of names, what was synced and a beginning of the changes since, for file systems
write those in order.
"""

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WATCHED = (
    "pwrite",
    "ftruncate",
    "truncate",
    "posix_fallocate",
    "fsync",
    "fdatasync",
    "open",
    "rename",
    "replace",
    "unlink",
    "mkdir",
)

FileId = tuple[int, int]
"""A file's inode, and how many files had that before."""

Change = tuple[str, str, str | FileId]
"""(create, path, file), (mkdir, path, ""), (rename, from, to) or (unlink, path, "")."""


class MachineDied(BaseException):
    """Not an Exception: nothing may catch it as an error of the disk."""


class CrashDisk:
    """Watches one directory; ``steps`` counts its changes."""

    def __init__(self, root: Path, random_source: random.Random) -> None:
        self.root = root
        self.steps = 0
        self.crash_at = self.fail_at = -1
        self.is_full = False
        self._random = random_source
        self._real: dict[str, Callable[..., Any]] = {}
        self._earlier: dict[int, int] = {}
        self._settle()

    def _id(self, path: str | int) -> FileId:
        inode = os.stat(path).st_ino
        return inode, self._earlier.get(inode, 0)

    def _settle(self) -> None:
        """Take everything as it is now for durable."""
        self._names = {path: self._id(path) for path in self._files()}
        self._directories = set(self._walk(only_directories=True))
        self._durable = {inode: Path(path).read_bytes() for path, inode in self._names.items()}
        self._gone: dict[FileId, bytes] = {}
        self._seen = dict(self._names)
        self._pending: list[Change] = []

    def _walk(self, *, only_directories: bool = False) -> Iterator[str]:
        for parent, directories, files in os.walk(self.root):
            directories.sort()
            for name in directories if only_directories else sorted(files):
                yield os.path.join(parent, name)

    def _files(self) -> list[str]:
        return list(self._walk())

    @contextmanager
    def watched(self, crash_at: int, fail_at: int = -1) -> Iterator[None]:
        """Raise MachineDied before the step of number ``crash_at``, counted from now, and before all later ones.

        From the step of number ``fail_at`` on the disk is full: what needs room raises ENOSPC. Never when they are negative.
        """
        self.steps, self.crash_at, self.fail_at, self.is_full = 0, crash_at, fail_at, False
        self._real = {name: getattr(os, name) for name in WATCHED}
        for name in WATCHED:
            setattr(os, name, getattr(self, f"_{name}"))
        try:
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)

    def _concerns(self, path: object) -> str | None:
        try:
            name = os.path.realpath(os.fspath(path))  # type: ignore[call-overload]
        except TypeError:
            return None
        return name if name.startswith(str(self.root)) else None

    def _path_of(self, fd: int) -> str | None:
        return self._concerns(os.readlink(f"/proc/self/fd/{fd}"))

    def _step(self, *, needs_room: bool = False) -> None:
        self._notice_new_files()
        self.steps += 1
        if 0 <= self.crash_at <= self.steps:
            raise MachineDied
        if needs_room and 0 <= self.fail_at <= self.steps:
            self.is_full = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _notice_new_files(self) -> None:
        # Python's own open() makes files past this watch.
        current: dict[str, FileId] | None = None
        for path in self._files():
            inode = self._id(path)
            if self._seen.get(path) != inode:
                if current is None:
                    current = self._applied(len(self._pending))[0]
                if current.get(path) != inode:
                    self._pending.append(("create", path, inode))
                self._seen[path] = inode

    def _applied(self, count: int) -> tuple[dict[str, FileId], set[str]]:
        names, directories = dict(self._names), set(self._directories)
        for kind, path, other in self._pending[:count]:
            if kind == "create":
                assert isinstance(other, tuple)
                names[path] = other
            elif kind == "mkdir":
                directories.add(path)
            elif kind == "unlink":
                names.pop(path, None)
            else:
                target = str(other)
                for old in [name for name in names if name == path or name.startswith(path + "/")]:
                    names[target + old[len(path) :]] = names.pop(old)
                for old in [name for name in directories if name == path or name.startswith(path + "/")]:
                    directories.discard(old)
                    directories.add(target + old[len(path) :])
        return names, directories

    # What is called in the place of the module's functions

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is None and flags & os.O_CREAT and self._concerns(path) and not os.path.exists(path):
            self._step(needs_room=True)
        return int(self._real["open"](path, flags, mode, dir_fd=dir_fd))

    def _on_fd(name: str, *, needs_room: bool) -> Callable[..., Any]:  # type: ignore[misc]  # noqa: N805 makes the methods below
        def call(self: "CrashDisk", fd: int, *rest: Any) -> Any:
            if self._path_of(fd):
                self._step(needs_room=needs_room)
            return self._real[name](fd, *rest)

        return call

    _pwrite, _posix_fallocate = _on_fd("pwrite", needs_room=True), _on_fd("posix_fallocate", needs_room=True)
    _ftruncate = _on_fd("ftruncate", needs_room=False)

    def _truncate(self, path: Any, length: int) -> None:
        if self._concerns(path):
            self._step()
        self._real["truncate"](path, length)

    def _fsync(self, fd: int) -> None:
        path = self._path_of(fd)
        if path is None:
            self._real["fsync"](fd)
            return
        self._step(needs_room=not os.path.isdir(path))
        if os.path.isdir(path):
            self._names, self._directories = self._applied(len(self._pending))
            self._pending.clear()
        elif os.fstat(fd).st_nlink:
            self._durable[self._id(fd)] = Path(f"/proc/self/fd/{fd}").read_bytes()

    _fdatasync = _fsync

    def _rename(self, source: Any, target: Any) -> None:
        old, new = self._concerns(source), self._concerns(target)
        if old and new:
            self._step()
            self._keep_content(new)
            self._pending.append(("rename", old, new))
        self._real["rename"](source, target)

    _replace = _rename

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        name = self._concerns(path) if dir_fd is None else None
        if name and os.path.exists(path):
            self._step()
            self._keep_content(name)
            self._pending.append(("unlink", name, ""))
        self._real["unlink"](path, dir_fd=dir_fd)

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        name = self._concerns(path) if dir_fd is None else None
        if name and not os.path.exists(path):
            self._step(needs_room=True)
            self._pending.append(("mkdir", name, ""))
        self._real["mkdir"](path, mode, dir_fd=dir_fd)

    def _keep_content(self, path: str) -> None:
        if os.path.isfile(path):
            file = self._id(path)
            self._gone[file] = Path(path).read_bytes()
            self._earlier[file[0]] = file[1] + 1  # the number may be given to another file

    # After the death

    def lose_power(self) -> None:
        """Leave on the disk what may be left; call it outside ``watched``."""
        self._notice_new_files()
        contents = {self._id(path): Path(path).read_bytes() for path in self._files()}
        names, directories = self._applied(self._random.randint(0, len(self._pending)))
        left = {path: self._left_of(inode, contents) for path, inode in names.items()}
        shutil.rmtree(self.root)
        self.root.mkdir()
        for directory in sorted(directories):
            os.makedirs(directory, exist_ok=True)
        for path, data in left.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(path).write_bytes(data)
        self._settle()

    def keep_everything(self) -> None:
        """The process died, the machine goes on: what was written stays, and from now on counts as synced."""
        self._settle()

    def _left_of(self, file: FileId, contents: dict[FileId, bytes]) -> bytes:
        durable = self._durable.get(file, b"")
        current = contents.get(file, self._gone.get(file, durable))
        if not current.startswith(durable):
            return self._random.choice((durable, current))
        size = self._random.randint(len(durable), len(current))
        left = current[:size]
        if size > len(durable) and self._random.random() < 0.3:
            # The size reached the disk, the last block did not.
            zeros = self._random.randint(1, size - len(durable))
            left = left[: size - zeros] + bytes(zeros)
        return left
