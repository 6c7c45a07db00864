"""A disk that can lose what was not synced, and get full: the real one, with the module ``os`` watched.

Every call that changes a file or a directory below the root is a step, and before a chosen step the machine dies. Then either
everything written so far is kept (the process was killed: what is not synced may still be lost later), or the disk has what a power
failure may leave:

* of a file, each page as it was synced or as it was written last, whatever became of the others, and any size between;
* of a directory, every change of its entries or not, each for itself, but that changes of the same name or the same file keep their
  order. A rename is one change. Syncing a directory makes its own entries durable, not those of its parent, and syncing a file not
  its name.

Threads may work on it: their steps come one after the other, and after the death each thread dies at its next one.
"""

import errno
import itertools
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.support.budget import share_of

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
    "rmdir",
)
PAGE_SIZES = (64, 512, 4096)
"""What reaches the disk as a whole; smaller than any disk's, for the files of tests are small."""

T = TypeVar("T")


class MachineDied(BaseException):
    """Not an Exception: nothing may catch it as an error of the disk."""


class _File:
    """A file by whatever names: ``link`` is one that nobody removes."""

    def __init__(self, link: Path, durable: bytes) -> None:
        self.link = link
        self.durable = durable


class _Directory:
    def __init__(self) -> None:
        self.entries: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}
        self.pending: list[dict[str, _Node | None]] = []
        """Changes since the last sync, in order: what became of which names, None where one was removed."""

    def change(self, names: "dict[str, _Node | None]") -> None:
        self.pending.append(names)
        _apply(self.entries, names)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def left(self, is_kept: Callable[[], bool]) -> "dict[str, _Node]":
        """Return the entries that a power failure leaves."""
        left = dict(self.durable)
        lost: set[object] = set()
        for names in self.pending:
            concerned = {*names, *[left.get(name) for name in names], *names.values()} - {None}
            if concerned & lost or not is_kept():
                lost |= concerned
            else:
                _apply(left, names)
        return left


_Node = _File | _Directory


def _apply(entries: dict[str, _Node], names: dict[str, _Node | None]) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class CrashDisk:
    """Watches one directory; ``steps`` counts its changes."""

    def __init__(self, root: Path, random_source: random.Random) -> None:
        self.root = Path(os.path.realpath(root))
        self.steps = 0
        self.crash_at = self.fail_at = -1
        self.is_full = False
        self._loses_all = self._keeps_files = False
        self._random = random_source
        self._real: dict[str, Callable[..., Any]] = {}
        self._lock = threading.RLock()
        self._links = self.root.with_name(f"{self.root.name}.links")
        self._settle()

    # What is there

    def _settle(self) -> None:
        """Take everything as it is now for durable."""
        shutil.rmtree(self._links, ignore_errors=True)
        self._links.mkdir()
        self._nodes: dict[int, _Node] = {}
        self._notice_all()
        for node in self._nodes.values():
            if isinstance(node, _Directory):
                node.sync()
            else:
                node.durable = node.link.read_bytes()

    def _directory(self, path: str) -> _Directory:
        inode = os.stat(path).st_ino
        node = self._nodes.get(inode)
        if not isinstance(node, _Directory):
            node = self._nodes[inode] = _Directory()
        return node

    def _notice(self, path: str) -> _Directory:
        """Note what was made in a directory past this watch, as Python's own ``open`` does."""
        directory = self._directory(path)
        with os.scandir(path) as entries:
            found = {entry.name: entry for entry in entries}
        for name in directory.entries.keys() - found.keys():
            directory.change({name: None})
        for name, entry in found.items():
            if entry.is_dir(follow_symlinks=False):
                node: _Node = self._directory(entry.path)
            else:
                node = self._file(entry)
            if directory.entries.get(name) is not node:
                directory.change({name: node})
        return directory

    def _file(self, entry: "os.DirEntry[str]") -> _File:
        node = self._nodes.get(entry.inode())
        if not isinstance(node, _File):
            node = self._nodes[entry.inode()] = _File(self._links / str(entry.inode()), b"")
            os.link(entry.path, node.link)
        return node

    def _notice_all(self) -> None:
        for path, _, _ in os.walk(self.root):
            self._notice(path)

    # Watching

    @contextmanager
    def watched(self, crash_at: int, fail_at: int = -1) -> Iterator[None]:
        """Raise MachineDied before the step of number ``crash_at``, counted from now, and before all later ones.

        From the step of number ``fail_at`` on the disk is full: what needs room raises ENOSPC; if that step is a write, it writes
        half of its data before. Never when they are negative.
        """
        self.steps, self.crash_at, self.fail_at, self.is_full = 0, crash_at, fail_at, False
        self._real = {name: getattr(os, name) for name in WATCHED if hasattr(os, name)}
        for name in self._real:
            setattr(os, name, getattr(self, f"_{name}"))
        try:
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)

    def _concerns(self, path: object) -> str | None:
        try:
            parent, name = os.path.split(os.path.abspath(os.fspath(path)))  # type: ignore[call-overload]
        except TypeError:
            return None
        place = os.path.join(os.path.realpath(parent), name)
        return place if place.startswith(f"{self.root}/") or place == str(self.root) else None

    def _path_of(self, fd: int) -> str | None:
        return self._concerns(os.readlink(f"/proc/self/fd/{fd}").removesuffix(" (deleted)"))

    def _do(self, path: str, act: Callable[[_Directory, str], T], *, needs_room: bool = False) -> T:
        """Take a step that changes ``path``: ``act`` is given its directory and its name there."""
        with self._lock:
            parent, name = os.path.split(path)
            directory = self._notice(parent) if path != str(self.root) and os.path.isdir(parent) else _Directory()
            self.steps += 1
            if 0 <= self.crash_at <= self.steps:
                raise MachineDied
            if needs_room and 0 <= self.fail_at <= self.steps:
                self.is_full = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return act(directory, name)

    # What is called in the place of the module's functions

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def act(directory: _Directory | None = None, name: str = "") -> int:
            return int(self._real["open"](path, flags, mode, dir_fd=dir_fd))

        place = self._concerns(path) if dir_fd is None and flags & os.O_CREAT else None
        return act() if place is None or os.path.exists(path) else self._do(place, act, needs_room=True)

    def _on_fd(name: str, *, needs_room: bool) -> Callable[..., Any]:  # type: ignore[misc]  # noqa: N805 makes the methods below
        def call(self: "CrashDisk", fd: int, *rest: Any) -> Any:
            place = self._path_of(fd)
            if place is None:
                return self._real[name](fd, *rest)
            return self._do(place, lambda *_: self._real[name](fd, *rest), needs_room=needs_room)

        return call

    _posix_fallocate = _on_fd("posix_fallocate", needs_room=True)
    _ftruncate = _on_fd("ftruncate", needs_room=False)

    def _pwrite(self, fd: int, data: Any, position: int) -> int:
        place = self._path_of(fd)
        if place is None:
            return int(self._real["pwrite"](fd, data, position))
        with self._lock:
            if self.steps + 1 == self.fail_at and len(data) > 1:
                data = memoryview(data)[: len(data) // 2]
                return int(self._do(place, lambda *_: self._real["pwrite"](fd, data, position)))
            return int(self._do(place, lambda *_: self._real["pwrite"](fd, data, position), needs_room=True))

    def _truncate(self, path: Any, length: int) -> None:
        place = self._concerns(path)
        if place is None:
            self._real["truncate"](path, length)
        else:
            self._do(place, lambda *_: self._real["truncate"](path, length))

    def _fsync(self, fd: int) -> None:
        place = self._path_of(fd)
        if place is None:
            self._real["fsync"](fd)
            return

        def act(*_: object) -> None:
            if os.path.isdir(f"/proc/self/fd/{fd}"):
                self._notice(place).sync()
                return
            node = self._nodes.get(os.fstat(fd).st_ino)
            if isinstance(node, _File):
                node.durable = node.link.read_bytes()

        self._do(place, act, needs_room=not os.path.isdir(f"/proc/self/fd/{fd}"))

    _fdatasync = _fsync

    def _rename(self, source: Any, target: Any) -> None:
        old, new = self._concerns(source), self._concerns(target)
        if old is None or new is None:
            self._real["rename"](source, target)
            return
        assert os.path.dirname(old) == os.path.dirname(new), "a rename into another directory is not one change"

        def act(directory: _Directory, name: str) -> None:
            self._real["rename"](source, target)
            if name != os.path.basename(new):
                directory.change({name: None, os.path.basename(new): directory.entries[name]})

        self._do(old, act)

    _replace = _rename

    def _remover(name: str) -> Callable[..., Any]:  # type: ignore[misc]  # noqa: N805 makes the methods below
        def call(self: "CrashDisk", path: Any, *, dir_fd: int | None = None) -> None:
            place = self._concerns(path) if dir_fd is None else None
            if place is None or not os.path.lexists(path):
                self._real[name](path, dir_fd=dir_fd)
                return

            def act(directory: _Directory, entry: str) -> None:
                inode = os.stat(path).st_ino
                self._real[name](path)
                directory.change({entry: None})
                if name == "rmdir":
                    del self._nodes[inode]  # the number may be given to another one

            self._do(place, act)

        return call

    _unlink, _rmdir = _remover("unlink"), _remover("rmdir")

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = self._concerns(path) if dir_fd is None else None
        if place is None or os.path.exists(path):
            self._real["mkdir"](path, mode, dir_fd=dir_fd)
            return

        def act(directory: _Directory, name: str) -> None:
            self._real["mkdir"](path, mode)
            self._notice(os.path.dirname(place))

        self._do(place, act, needs_room=True)

    # After the death

    def unsynced(self) -> int:
        """How many changes of directories are not durable."""
        self._notice_all()
        return sum(len(node.pending) for node in self._nodes.values() if isinstance(node, _Directory))

    def lose_power(self, *, loses_all: bool = False, loses: int | None = None) -> None:
        """Leave on the disk what may be left; call it outside ``watched``.

        With ``loses_all`` that is what was synced, with ``loses`` everything but that one of the ``unsynced`` changes.
        """
        self._notice_all()
        self._loses_all, self._keeps_files = loses_all, loses is not None
        numbers = itertools.count()
        is_kept = self._chance() if loses is None else lambda: next(numbers) != loses
        left = self._left_in(self._directory(str(self.root)), is_kept)
        shutil.rmtree(self.root)
        self._write(self.root, left)
        self._settle()

    def keep_everything(self) -> None:
        """The process died, the machine goes on: what was written stays, synced or not."""
        self._notice_all()

    def _chance(self) -> Callable[[], bool]:
        """Return what tells of each change whether it reached the disk: most often some did, sometimes none or all."""
        if self._loses_all:
            return lambda: False
        probability = self._random.choice((0.0, 1.0, 0.1, 0.5, 0.9, 0.5))
        return lambda: self._random.random() < probability

    def _left_in(self, directory: _Directory, is_kept: Callable[[], bool]) -> dict[str, Any]:
        left = directory.left(is_kept)
        return {
            name: self._left_in(node, is_kept) if isinstance(node, _Directory) else self._left_of(node)
            for name, node in sorted(left.items())
        }

    def _left_of(self, file: _File) -> bytes:
        old, new = file.durable, file.link.read_bytes()
        if old == new or self._loses_all:
            return old
        if self._keeps_files:
            return new
        is_kept = self._chance()
        least, most = sorted((len(old), len(new)))
        size = self._random.choice((len(old), len(new), self._random.randint(least, most)))
        page = self._random.choice(PAGE_SIZES)
        pieces = []
        for start in range(0, size, page):
            source = new if is_kept() else old
            pieces.append(source[start : start + page].ljust(page, b"\0"))
        return b"".join(pieces)[:size]

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        path.mkdir()
        for name, each in content.items():
            if isinstance(each, dict):
                self._write(path / name, each)
            else:
                (path / name).write_bytes(each)


def deaths(
    directory: Path,
    prepare: Callable[[Path], None],
    live: Callable[[Path], object],
    *,
    seeds: int = 4,
    first_step: int = 1,
    loses_each: bool = False,
) -> Iterator[Path]:
    """Yield what power failures before each step of ``live`` leave, a share of ``seeds`` for each; ``prepare`` makes the start.

    With ``loses_each``, also what is left without one of the unsynced changes of directories, each in turn. Each time it is a
    directory of its own, in which ``disk`` is the one that fails.
    """
    seeds = share_of(seeds)
    for step in itertools.count(first_step):
        died, unsynced = False, 0
        for seed in itertools.count():
            loses = seed - seeds if seed >= seeds else None
            if loses is not None and not (loses_each and loses < unsynced):
                break
            root = directory / f"{step}-{seed}"
            (root / "disk").mkdir(parents=True)
            prepare(root)
            disk = CrashDisk(root / "disk", random.Random(1000 * step + seed))
            try:
                with disk.watched(step):
                    live(root)
            except MachineDied:
                died = True
            unsynced = disk.unsynced()
            disk.lose_power(loses=loses)
            yield root
        if not died:
            assert step > first_step + 5, "it takes hardly any steps"
            return
