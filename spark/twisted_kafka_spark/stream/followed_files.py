"""The files of a log while it is written: which there are, how far each was read, and what comes next.

A file of this broker's is known by its name without the leading dot of an open one and without what follows the name when it is
compressed or turned into Parquet, so that it is the same file after it was closed. Apache Kafka's is known by its number in the
file system, for log4j gives it another name when it begins a new one.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz", ".parquet")
_PLAIN = ".jsonl"
_KAFKA_LOG = re.compile(r"\.log(\.\d{4}-\d\d-\d\d(-\d\d)?|\.\d+)?$")
_CHUNK_BYTES = 2 << 20
_GONE = 10
"""A file that was missing so often, one look after the other, is forgotten: one that is being renamed may be missed once."""

Offset = dict[str, list[int]]
"""By file: bytes and lines read so far. The lines are for a file that is Parquet the next time."""
NOTHING = [0, 0]


class Followed(NamedTuple):
    """A file that is there, and how far it was read."""

    name: str
    path: Path
    size: int
    before: list[int]

    @property
    def is_plain(self) -> bool:
        """Whether its bytes are lines."""
        return is_plain(self.path)

    @property
    def new_bytes(self) -> int:
        """About how much of it was not read; of a compressed one that may have been read, nothing."""
        if not self.is_plain:
            return 0 if self.before != NOTHING else self.size
        return self.size - self.before[0]


def is_plain(path: Path) -> bool:
    """Tell whether the bytes of a file are lines."""
    return path.name.endswith(_PLAIN) or _KAFKA_LOG.search(path.name) is not None


def stem(directory: Path, path: Path) -> str:
    """Return the name by which a file is known as long as it lives; raise FileNotFoundError when that ends just now."""
    folder = path.parent.relative_to(directory)
    if _KAFKA_LOG.search(path.name):
        return str(folder / f"inode={path.stat().st_ino}")
    name = path.name.lstrip(".")
    for suffix in (".zst", ".gz", ".parquet", _PLAIN):
        name = name.removesuffix(suffix)
    return str(folder / name)


def files(directory: Path) -> dict[str, Path]:
    """Return the files to follow by stem, open ones too; where there are two forms of one, the lines as they were written."""
    found: dict[str, Path] = {}
    for path in sorted(directory.rglob("*"), key=lambda path: (not path.name.endswith(_PLAIN), str(path))):
        name = path.name.lstrip(".")
        is_unfinished = path.name.startswith(".") and not name.endswith(_PLAIN)
        if name.startswith("_") or is_unfinished or not (name.endswith(_SUFFIXES) or _KAFKA_LOG.search(name)):
            continue
        if any(part.startswith(("_", ".", "grain=")) for part in path.relative_to(directory).parts[:-1]):
            continue
        try:
            found.setdefault(stem(directory, path), path)
        except FileNotFoundError:
            continue  # renamed just now: it is there under its other name the next time
    return found


def opened(path: Path) -> Any:
    """Open a compressed file for reading."""
    if path.name.endswith(".gz"):
        return gzip.open(path)
    import pyarrow as pa

    return pa.input_stream(str(path), compression="zstd")


class Look:
    """Looks at a directory again and again, and says how far to read.

    `most_bytes`: what is read at a time, about.
    """

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._missing: dict[str, int] = {}

    def sizes(self) -> dict[str, int]:
        """Return how large each file is now."""
        found = {}
        for name, path in files(self._directory).items():
            try:
                found[name] = path.stat().st_size
            except FileNotFoundError:
                continue
        return found

    def beyond(self, offset: Offset, limits: dict[str, int] | None = None, *, is_bounded: bool = True) -> Offset:
        """Return how far whole lines go; `limits`: read no other files than these, and no more of each than this."""
        reached = dict(offset)
        there = self._there(offset, limits)
        for followed, share in _shared(there, self._most_bytes if is_bounded else None):
            try:
                after = _after(followed, share)
            except FileNotFoundError:
                continue
            if after[1] != followed.before[1]:
                reached[followed.name] = after
        self._forget(reached, {each.name for each in there})
        return reached

    def _there(self, offset: Offset, limits: dict[str, int] | None) -> list[Followed]:
        found = []
        for name, path in files(self._directory).items():
            if limits is not None and name not in limits:
                continue
            before = offset.get(name, NOTHING)
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                continue
            if is_plain(path):
                if size < before[0]:
                    before = NOTHING  # cut or written anew
                if limits is not None:
                    size = max(before[0], min(size, limits[name]))
            found.append(Followed(name, path, size, before))
        return found

    def _forget(self, offset: Offset, there: set[str]) -> None:
        self._missing = {name: self._missing.get(name, 0) + 1 for name in offset if name not in there}
        for name, times in self._missing.items():
            if times >= _GONE:
                del offset[name]


def _shared(there: Iterable[Followed], most_bytes: int | None) -> list[tuple[Followed, int]]:
    """Say how many bytes of each file to read, so that the lines of several brokers come in about the order of their times.

    The oldest folders come first, and of one with more than is left the same part of each file.
    """
    folders: dict[str, list[Followed]] = {}
    for followed in sorted(there):
        folders.setdefault(str(followed.path.parent), []).append(followed)
    shares: list[tuple[Followed, int]] = []
    left = most_bytes
    for _, group in sorted(folders.items()):
        whole = sum(each.new_bytes for each in group)
        for each in group:
            if left is None or whole <= left:
                shares.append((each, each.new_bytes))
            elif each.new_bytes:
                shares.append((each, max(1, each.new_bytes * left // whole)))
        if left is not None and whole >= left:
            break
        left = left - whole if left is not None else None
    return shares


def _after(followed: Followed, share: int) -> list[int]:
    if followed.is_plain:
        return _whole_lines(followed, share)
    if followed.path.name.endswith(".parquet"):
        from pyarrow import parquet

        return [followed.before[0], parquet.ParquetFile(followed.path).metadata.num_rows]
    lines = size = 0
    with opened(followed.path) as file:
        while data := file.read(_CHUNK_BYTES):
            lines += data.count(b"\n")
            size += len(data)
    return [size, lines]


def _whole_lines(followed: Followed, share: int) -> list[int]:
    """Return where the last whole line within the next `share` bytes ends, at least one line, and the lines until there."""
    start, lines = followed.before
    end = position = start
    with followed.path.open("rb") as file:
        file.seek(start)
        while position < followed.size and (position < start + share or end == start):
            wanted = start + share - position if position < start + share else _CHUNK_BYTES
            data = file.read(min(wanted, _CHUNK_BYTES, followed.size - position))
            if not data:
                break
            newline = data.rfind(b"\n")
            if newline >= 0:
                end = position + newline + 1
                lines += data.count(b"\n")
            position += len(data)
    return [end, lines]
