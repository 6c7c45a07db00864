"""What a power failure leaves of a directory: files and names that were synced, and any part of the rest.

* Of a file, each page is as it was synced or as it was written last, whatever became of the others. The size is any between.
* Of a directory, each change of its entries is there or not. Changes of the same name or the same file keep their order. A rename
  is one change.
* Syncing a directory makes its own entries durable, not those of its parent. Syncing a file does not make its name durable.
"""

import itertools
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

PAGE_SIZES: Final = (64, 512, 4096)
"""The bytes that reach the disk as a whole; smaller than any disk's, because the files of tests are small."""
NAMES_NS: Final = 30_000_000_000
"""A change of a directory is durable after this time without a sync, too (Linux writes dirty inodes after 30 s)."""


class File:
    """A file, whatever its names are. ``link`` is a name that nobody removes."""

    def __init__(self, inode: int, link: Path) -> None:
        self.inode = inode
        self.link = link
        self.durable = b""

    def sync(self) -> None:
        """Make the content durable."""
        self.durable = self.link.read_bytes()


class Directory:
    """The entries of a directory: those of now, and the durable ones."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[tuple[int, dict[str, Node | None]]] = []
        """Changes since the last sync, in order, with their times: the new node of each name, None for a removed one."""

    def change(self, names: "dict[str, Node | None]", at_ns: int) -> None:
        """Change names at once."""
        self.pending.append((at_ns, names))
        _apply(self.entries, names)

    def sync(self) -> "set[File]":
        """Make all changes durable; return the files that have no name any more."""
        return self._settle(len(self.pending))

    def expire(self, before_ns: int) -> "set[File]":
        """Make old changes durable; return the files that have no name any more."""
        old = next((number for number, (at_ns, _) in enumerate(self.pending) if at_ns >= before_ns), len(self.pending))
        return self._settle(old)

    def _settle(self, count: int) -> "set[File]":
        concerned: set[Node] = set()
        for _, names in self.pending[:count]:
            concerned |= {node for name in names for node in (self.durable.get(name), names[name]) if node is not None}
            _apply(self.durable, names)
        del self.pending[:count]
        left = {node for _, names in self.pending for node in names.values()} | {*self.durable.values(), *self.entries.values()}
        return {node for node in concerned - left if isinstance(node, File)}

    def left(self, is_kept: Callable[[], bool]) -> "dict[str, Node]":
        """Return the entries that a power failure leaves."""
        left = dict(self.durable)
        lost: set[object] = set()
        for _, names in self.pending:
            concerned = {*names, *[left.get(name) for name in names], *names.values()} - {None}
            if concerned & lost or not is_kept():
                lost |= concerned
            else:
                _apply(left, names)
        return left


Node = File | Directory


def _apply(entries: dict[str, Node], names: dict[str, Node | None]) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class DurableTree:
    """Everything below one directory of the system."""

    def __init__(
        self,
        root: Path,
        random: Random,
        *,
        now_ns: Callable[[], int] = lambda: 0,
        is_always_durable: Callable[[str], bool] = str.isspace,
    ) -> None:
        """Take everything that is there for durable. ``is_always_durable`` returns it for the name of a file that another
        library syncs by itself.
        """
        self.root = Path(os.path.realpath(root))
        self._random = random
        self._now_ns = now_ns
        self._is_always_durable = is_always_durable
        self._links = self.root.with_name(f"{self.root.name}.links")
        self._loses_all = self._keeps_files = False
        self._linked = 0
        self._nodes: dict[int, Node] = {}
        self.settle()

    def settle(self) -> None:
        """Take everything as it is now for durable."""
        shutil.rmtree(self._links, ignore_errors=True)
        self._links.mkdir()
        self._nodes.clear()
        self._notice_all()
        for node in list(self._nodes.values()):
            node.sync()

    def close(self) -> None:
        """Forget everything."""
        shutil.rmtree(self._links, ignore_errors=True)

    # Noticing

    def _directory(self, path: str) -> Directory:
        inode = os.stat(path).st_ino
        node = self._nodes.get(inode)
        if not isinstance(node, Directory):
            node = self._nodes[inode] = Directory()
        return node

    def notice(self, path: str) -> Directory:
        """Note the names in a directory that were made since the last time, as Python's own ``open`` does."""
        directory = self._directory(path)
        now_ns = self._now_ns()
        with os.scandir(path) as entries:
            found = {entry.name: entry for entry in entries}
        for name in directory.entries.keys() - found.keys():
            directory.change({name: None}, now_ns)
        for name, entry in sorted(found.items()):
            node = self._directory(entry.path) if entry.is_dir(follow_symlinks=False) else self._file(entry)
            if directory.entries.get(name) is not node:
                directory.change({name: node}, now_ns)
        if now_ns:
            self._drop(directory.expire(now_ns - NAMES_NS))
        return directory

    def _file(self, entry: "os.DirEntry[str]") -> File:
        inode = entry.inode()
        node = self._nodes.get(inode)
        if not isinstance(node, File):
            self._linked += 1
            node = self._nodes[inode] = File(inode, self._links / str(self._linked))
            os.link(entry.path, node.link)
        return node

    def _drop(self, files: set[File]) -> None:
        """Forget files without a name."""
        for file in files:
            del self._nodes[file.inode]
            file.link.unlink()

    def _notice_all(self) -> None:
        for path, _, _ in os.walk(self.root):
            self.notice(path)

    def moved(self, inodes: Mapping[int, int]) -> None:
        """Note that a copy has taken the place of everything, with these inodes for the old ones."""
        self._nodes = {inodes[old]: node for old, node in self._nodes.items() if old in inodes}
        for inode, node in self._nodes.items():
            if isinstance(node, File):
                node.inode = inode

    # Changes

    def synced(self, path: str, status: os.stat_result) -> None:
        """Note that the file or directory at ``path`` was synced."""
        if os.path.isdir(path):
            self._drop(self.notice(path).sync())
            return
        node = self._nodes.get(status.st_ino)
        if node is None and os.path.exists(path):
            self.notice(os.path.dirname(path))
            node = self._nodes.get(status.st_ino)
        if isinstance(node, File):
            node.sync()

    def renamed(self, directory: Directory, name: str, target: str) -> None:
        """Note one rename within a directory that was noticed before it."""
        if name != target:
            directory.change({name: None, target: directory.entries[name]}, self._now_ns())

    def removed(self, directory: Directory, name: str, inode: int) -> None:
        """Note that a file or directory was removed from a directory that was noticed before."""
        directory.change({name: None}, self._now_ns())
        if isinstance(self._nodes.get(inode), Directory):
            del self._nodes[inode]  # the number may be given to another one

    # After a power failure

    def unsynced(self) -> int:
        """Return how many changes of directories are not durable."""
        self._notice_all()
        return sum(len(node.pending) for node in self._nodes.values() if isinstance(node, Directory))

    def keep_everything(self) -> None:
        """Note all files and names: the process died, and the machine goes on, so every write stays, synced or not."""
        self._notice_all()

    def lose_power(self, target: Path | None = None, *, loses_all: bool = False, loses: int | None = None) -> None:
        """Leave on the disk what may be left, or write that to another directory.

        With ``loses_all`` only synced files and names are left, with ``loses`` everything but that one of the ``unsynced`` changes.
        """
        self._notice_all()
        self._loses_all, self._keeps_files = loses_all, loses is not None
        numbers = itertools.count()
        is_kept = self._chance() if loses is None else lambda: next(numbers) != loses
        left = self._left_in(self._directory(str(self.root)), is_kept)
        if target is None:
            shutil.rmtree(self.root)
        _write(target or self.root, left)
        if target is None:
            self.settle()

    def _chance(self) -> Callable[[], bool]:
        """Return a function that draws whether a change reached the disk: mostly some did, sometimes none or all."""
        if self._loses_all:
            return lambda: False
        probability = self._random.choice((0.0, 1.0, 0.1, 0.5, 0.9, 0.5))
        return lambda: self._random.random() < probability

    def _left_in(self, directory: Directory, is_kept: Callable[[], bool]) -> dict[str, Any]:
        left = directory.left(is_kept)
        return {
            name: self._left_in(node, is_kept) if isinstance(node, Directory) else self._left_of(node, name)
            for name, node in sorted(left.items())
        }

    def _left_of(self, file: File, name: str) -> bytes:
        old, new = file.durable, file.link.read_bytes()
        if self._is_always_durable(name):
            return new
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


def _write(path: Path, content: dict[str, Any]) -> None:
    path.mkdir()
    for name, each in content.items():
        if isinstance(each, dict):
            _write(path / name, each)
        else:
            (path / name).write_bytes(each)
