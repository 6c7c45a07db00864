"""A disk that can lose what was not synced, and get full: the real one, with the module ``os`` watched.

Every call that changes a file or a directory below the root is a step, and before a chosen step the machine dies. Then either
everything written so far is kept (the process was killed: what is not synced may still be lost later), or the disk has what a power
failure may leave (``twisted_kafka/world/machine/durable.py``).

Threads may work on it: their steps come one after the other, and after the death each thread dies at its next one.
"""

import errno
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.support.budget import STRIDE, share_of
from twisted_kafka.world.machine.durable import Directory, DurableTree

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

APART = min(STRIDE, 3)
"""``deaths`` stops the machine at every third step, and in ``make test-all`` at each."""

T = TypeVar("T")


class MachineDied(BaseException):
    """Not an Exception: nothing may catch it as an error of the disk."""


class CrashDisk:
    """Watches one directory; ``steps`` counts its changes."""

    def __init__(self, root: Path, random_source: random.Random) -> None:
        self.root = Path(os.path.realpath(root))
        self.steps = 0
        self.crash_at = self.fail_at = -1
        self.is_full = False
        self._tree = DurableTree(root, random_source)
        self._real: dict[str, Callable[..., Any]] = {}
        self._lock = threading.RLock()

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

    def _do(self, path: str, act: Callable[[Directory, str], T], *, needs_room: bool = False) -> T:
        """Take a step that changes ``path``: ``act`` is given its directory and its name there."""
        with self._lock:
            parent, name = os.path.split(path)
            directory = self._tree.notice(parent) if path != str(self.root) and os.path.isdir(parent) else Directory()
            self.steps += 1
            if 0 <= self.crash_at <= self.steps:
                raise MachineDied
            if needs_room and 0 <= self.fail_at <= self.steps:
                self.is_full = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return act(directory, name)

    # What is called in the place of the module's functions

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def act(directory: Directory | None = None, name: str = "") -> int:
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
            self._tree.synced(place, os.fstat(fd))

        self._do(place, act, needs_room=not os.path.isdir(f"/proc/self/fd/{fd}"))

    _fdatasync = _fsync

    def _rename(self, source: Any, target: Any) -> None:
        old, new = self._concerns(source), self._concerns(target)
        if old is None or new is None:
            self._real["rename"](source, target)
            return
        assert os.path.dirname(old) == os.path.dirname(new), "a rename into another directory is not one change"

        def act(directory: Directory, name: str) -> None:
            self._real["rename"](source, target)
            self._tree.renamed(directory, name, os.path.basename(new))

        self._do(old, act)

    _replace = _rename

    def _remover(name: str) -> Callable[..., Any]:  # type: ignore[misc]  # noqa: N805 makes the methods below
        def call(self: "CrashDisk", path: Any, *, dir_fd: int | None = None) -> None:
            place = self._concerns(path) if dir_fd is None else None
            if place is None or not os.path.lexists(path):
                self._real[name](path, dir_fd=dir_fd)
                return

            def act(directory: Directory, entry: str) -> None:
                inode = os.stat(path).st_ino
                self._real[name](path)
                self._tree.removed(directory, entry, inode)

            self._do(place, act)

        return call

    _unlink, _rmdir = _remover("unlink"), _remover("rmdir")

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = self._concerns(path) if dir_fd is None else None
        if place is None or os.path.exists(path):
            self._real["mkdir"](path, mode, dir_fd=dir_fd)
            return

        def act(directory: Directory, name: str) -> None:
            self._real["mkdir"](path, mode)
            self._tree.notice(os.path.dirname(place))

        self._do(place, act, needs_room=True)

    # After the death

    def unsynced(self) -> int:
        """How many changes of directories are not durable."""
        return self._tree.unsynced()

    def lose_power(self, *, loses_all: bool = False, loses: int | None = None) -> None:
        """Leave on the disk what may be left; call it outside ``watched``.

        With ``loses_all`` that is what was synced, with ``loses`` everything but that one of the ``unsynced`` changes.
        """
        self._tree.lose_power(loses_all=loses_all, loses=loses)

    def keep_everything(self) -> None:
        """The process died, the machine goes on: what was written stays, synced or not."""
        self._tree.keep_everything()


def deaths(
    directory: Path,
    prepare: Callable[[Path], None],
    live: Callable[[Path], object],
    *,
    seeds: int = 4,
    first_step: int = 1,
    loses_each: bool = False,
) -> Iterator[Path]:
    """Yield what power failures before steps of ``live`` leave, a share of ``seeds`` for each; ``prepare`` makes the start.

    With ``loses_each``, also what is left without one of the unsynced changes of directories: a share of them, each in turn. Each
    time it is a directory of its own, in which ``disk`` is the one that fails.
    """
    seeds = share_of(seeds)
    for step in itertools.count(first_step, APART):
        died, unsynced = False, 0
        for seed in itertools.count():
            loses = seed - seeds if seed >= seeds else None
            if loses is not None and not (loses_each and loses < unsynced):
                break
            if loses is not None and (step + loses) % STRIDE:
                continue
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
