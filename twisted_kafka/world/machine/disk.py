"""The disk of a broker: real files whose system calls may be slow, fail, or transfer a part. A power failure loses some writes.

``Substitution`` replaces the functions of ``os`` by those of ``hooks``: calls on a thread whose process has a disk reach it.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

from twisted_kafka.system.files import disk
from twisted_kafka.world.machine.durable import DurableTree
from twisted_kafka.world.machine.scheduler import Scheduler

TROUBLES: Final = ("full", "slow", "stalled", "failing", "short", "bad block")

SLOW_NS: Final = (5_000_000, 200_000_000)
"""How long a call to a slow disk takes."""
LOOK_NS: Final = 10_000_000
"""How often a call to a stalled disk looks whether the disk works again."""
FAILING_SHARE: Final = 0.3
"""The share of the calls to a failing disk that end with EIO (0 to 1)."""
SHORT_SHARE: Final = 0.5
"""The share of short transfers while a disk makes them (0 to 1)."""
BLOCK_BYTES: Final = 4096

_READS: Final = ("pread", "preadv", "sendfile")
_NEED_ROOM: Final = ("posix_fallocate",)
_SYNCS: Final = ("sync", "sync_data")
_NAMES: Final = ("rename", "replace", "unlink", "remove", "rmdir", "mkdir")

Real = Callable[..., Any]


class Disk:
    """The file system with one directory. Without a trouble, it only notes which files and names are durable."""

    def __init__(self, scheduler: Scheduler, root: Path, random: Random, is_always_durable: Callable[[str], bool]) -> None:
        """``is_always_durable`` returns it for the name of a file that another library syncs."""
        self.troubles: dict[str, int] = {}
        """How many faults of each kind of ``TROUBLES`` are in force."""
        self.bad: set[tuple[int, int]] = set()
        """Blocks that cannot be read: inodes and numbers."""
        self._scheduler = scheduler
        self._random = random
        self._tree = DurableTree(root, random, now_ns=lambda: scheduler.now_ns, is_always_durable=is_always_durable)

    def close(self) -> None:
        """Forget the durable files and names."""
        self._tree.close()

    def lose_power(self, target: Path) -> None:
        """Write what a power failure leaves to a new directory."""
        self._tree.lose_power(target)

    def moved(self, inodes: Mapping[int, int]) -> None:
        """Note that a copy has taken the place of all files, with these inodes for the old ones."""
        self._tree.moved(inodes)
        self.bad = {(inodes[old], block) for old, block in self.bad if old in inodes}

    # Troubles

    def begin(self, trouble: str) -> str:
        """Let the disk have a trouble until ``end``; return the place of a bad block, for the trace."""
        self.troubles[trouble] = self.troubles.get(trouble, 0) + 1
        return self._spoil_a_block() if trouble == "bad block" else ""

    def end(self, trouble: str) -> None:
        """Let it be over."""
        self.troubles[trouble] -= 1
        if not self.troubles[trouble]:
            del self.troubles[trouble]
        if trouble == "bad block":
            self.bad.clear()

    def _spoil_a_block(self) -> str:
        paths = [path for path in sorted(self._tree.root.rglob("*.log")) if path.stat().st_size]
        if not paths:
            return ""
        path = self._random.choice(paths)
        status = path.stat()
        block = self._random.randrange((status.st_size + BLOCK_BYTES - 1) // BLOCK_BYTES)
        self.bad.add((status.st_ino, block))
        return f"{path.relative_to(self._tree.root)} at byte {block * BLOCK_BYTES}"

    def _suffer(self) -> None:
        """Let a call take its time, and perhaps fail."""
        scheduler, troubles = self._scheduler, self.troubles
        if "slow" in troubles:
            scheduler.wait(self._random.randint(*SLOW_NS))
        while "stalled" in troubles:
            scheduler.wait(LOOK_NS)
        if "failing" in troubles and self._random.random() < FAILING_SHARE:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _share(self, size_bytes: int) -> int:
        """Return how much a call transfers."""
        is_short = "short" in self.troubles and size_bytes > 1 and self._random.random() < SHORT_SHARE
        return self._random.randint(1, size_bytes) if is_short else size_bytes

    def _readable(self, fd: int, position: int, size_bytes: int) -> int:
        """Return how many bytes a read may get. Raises OSError if it begins in a bad block."""
        size_bytes = self._share(size_bytes)
        if not self.bad or not size_bytes:
            return size_bytes
        inode, first = os.fstat(fd).st_ino, position // BLOCK_BYTES
        for block in range(first, (position + size_bytes - 1) // BLOCK_BYTES + 1):
            if (inode, block) in self.bad:
                if block == first:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return block * BLOCK_BYTES - position
        return size_bytes

    # Calls

    def _concerns(self, path: str) -> bool:
        return path.startswith(f"{self._tree.root}{os.sep}")

    def read(self, name: str, real: Real, arguments: tuple[Any, ...]) -> Any:
        """``pread``, ``preadv`` or ``sendfile``."""
        if not self.troubles:
            return real(*arguments)
        self._suffer()
        if name == "pread":
            fd, size_bytes, position = arguments
            return real(fd, self._readable(fd, position, size_bytes), position)
        if name == "preadv":
            fd, (view, *_), position = arguments
            return real(fd, [view[: self._readable(fd, position, len(view))]], position)
        out, fd, position, size_bytes = arguments
        return real(out, fd, position, self._readable(fd, position, size_bytes))

    def write(self, real: Real, fd: int, data: Any, position: int) -> int:
        """``pwrite``."""
        if not self.troubles:
            return int(real(fd, data, position))
        self._suffer()
        if "full" in self.troubles:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(real(fd, memoryview(data)[: self._share(len(data))], position))

    def reserve(self, real: Real, arguments: tuple[Any, ...]) -> Any:
        """``posix_fallocate``."""
        self._suffer()
        if "full" in self.troubles:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    def open(self, real: Real, path: Any, flags: int, mode: int, more: dict[str, Any]) -> int:
        """``open``; a full disk has room for no new file."""
        if "full" in self.troubles and flags & os.O_CREAT and self._concerns(os.fspath(path)) and not os.path.exists(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))
        return int(real(path, flags, mode, **more))

    def sync(self, real: Real, fd: int) -> None:
        """``fsync`` or ``fdatasync``. The call of the system is left out: the files are in memory."""
        self._suffer()
        path = path_of(fd)
        if path is None or not (self._concerns(path) or path == str(self._tree.root)):
            real(fd)
            return
        self._tree.synced(path, os.fstat(fd))

    def change_names(self, name: str, real: Real, path: Any, arguments: tuple[Any, ...], more: dict[str, Any]) -> Any:
        """Rename, remove or make a file or directory."""
        self._suffer()
        place = os.path.abspath(os.fspath(path))
        if more.get("dir_fd") is not None or not self._concerns(place) or not os.path.isdir(os.path.dirname(place)):
            return real(path, *arguments, **more)
        parent, entry = os.path.split(place)
        directory = self._tree.notice(parent)
        inode = os.lstat(place).st_ino if os.path.lexists(place) else 0
        result = real(path, *arguments, **more)
        if name in ("rename", "replace"):
            target = os.path.abspath(os.fspath(arguments[0]))
            if os.path.dirname(target) == parent:
                self._tree.renamed(directory, entry, os.path.basename(target))
            else:
                self._tree.notice(parent)
                self._tree.notice(os.path.dirname(target))
        elif name == "mkdir":
            self._tree.notice(parent)
        else:
            self._tree.removed(directory, entry, inode)
        return result


def path_of(fd: int) -> str | None:
    """Return the path of an open file; None if the system does not say."""
    try:
        if sys.platform == "linux":
            return os.readlink(f"/proc/self/fd/{fd}").removesuffix(" (deleted)")
        return fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode()  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        return None


def hooks(scheduler: Scheduler) -> Iterable[tuple[Any, str, Real]]:
    """Return functions of ``os`` and ``system.files.disk`` for threads with a disk: module, name, and replacement."""

    def disk_here() -> Disk | None:
        actor = scheduler.actor_here()
        found: Disk | None = getattr(actor.owner, "disk", None) if actor is not None else None
        if found is not None:
            scheduler.check_alive()
        return found

    def hook(name: str, real: Real) -> Real:
        def read(*arguments: Any) -> Any:
            own = disk_here()
            return real(*arguments) if own is None else own.read(name, real, arguments)

        def write(fd: int, data: Any, position: int) -> int:
            own = disk_here()
            return int(real(fd, data, position)) if own is None else own.write(real, fd, data, position)

        def reserve(*arguments: Any) -> Any:
            own = disk_here()
            return real(*arguments) if own is None else own.reserve(real, arguments)

        def open_(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
            own = disk_here()
            return int(real(path, flags, mode, **more)) if own is None else own.open(real, path, flags, mode, more)

        def sync(fd: int) -> None:
            own = disk_here()
            if own is None:
                real(fd)
            else:
                own.sync(real, fd)

        def change_names(path: Any, *arguments: Any, **more: Any) -> Any:
            own = disk_here()
            return real(path, *arguments, **more) if own is None else own.change_names(name, real, path, arguments, more)

        if name in _READS:
            return read
        if name == "open":
            return open_
        return write if name == "pwrite" else reserve if name in _NEED_ROOM else sync if name in _SYNCS else change_names

    names = (*_READS, "pwrite", *_NEED_ROOM, "open", *_NAMES)
    places = [(os, name) for name in names if hasattr(os, name)] + [(disk, name) for name in _SYNCS]
    return [(module, name, hook(name, getattr(module, name))) for module, name in places]
