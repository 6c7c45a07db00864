"""The files of a log that is being written: their discovery, how far each was read, and what to read next.

A file of this broker is identified by its name without the leading dot of an open file and without the suffix of compression or
Parquet, so its identity does not change when it is closed. A file of Apache Kafka is identified by its inode, because log4j renames
it when it rolls.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from twisted_kafka_spark.records.read import KAFKA_LOG, LINE_SUFFIX, ROLLUP_FOLDER

_SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz", ".parquet")
_CHUNK_BYTES = 2 << 20
_GONE = 10
"""A file that is missing in this many consecutive scans is forgotten: a scan may miss a file that is being renamed."""

Offset = dict[str, list[int]]
"""The bytes and lines read so far, by file. The number of lines is needed if the file is converted to Parquet."""
NOTHING = [0, 0]


class Followed(NamedTuple):
    """An existing file, and how far it was read."""

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
        """Approximately the unread bytes; 0 for a compressed file of which something was read."""
        if not self.is_plain:
            return 0 if self.before != NOTHING else self.size
        return self.size - self.before[0]


def is_plain(path: Path) -> bool:
    """Return whether the bytes of a file are lines."""
    return path.name.endswith(LINE_SUFFIX) or KAFKA_LOG.search(path.name) is not None


def stem(directory: Path, path: Path) -> str:
    """Return the lasting identity of a file; raise FileNotFoundError if it no longer exists."""
    folder = path.parent.relative_to(directory)
    if KAFKA_LOG.search(path.name):
        return str(folder / f"inode={path.stat().st_ino}")
    name = path.name.lstrip(".")
    for suffix in (".zst", ".gz", ".parquet", LINE_SUFFIX):
        name = name.removesuffix(suffix)
    return str(folder / name)


def files(directory: Path) -> dict[str, Path]:
    """Return the files to follow by stem, including open ones; if there are two forms of a file, the original lines are used."""
    found: dict[str, Path] = {}
    for path in sorted(directory.rglob("*"), key=lambda path: (not path.name.endswith(LINE_SUFFIX), str(path))):
        name = path.name.lstrip(".")
        is_unfinished = path.name.startswith(".") and not name.endswith(LINE_SUFFIX)
        if name.startswith("_") or is_unfinished or not (name.endswith(_SUFFIXES) or KAFKA_LOG.search(name)):
            continue
        inner = path.relative_to(directory)
        if any(part.startswith(("_", ".")) for part in inner.parts[:-1]) or ROLLUP_FOLDER.search(str(inner)):
            continue
        try:
            found.setdefault(stem(directory, path), path)
        except FileNotFoundError:
            continue  # renamed meanwhile: the next scan finds it under its new name
    return found


def opened(path: Path) -> Any:
    """Open a compressed file for reading."""
    if path.name.endswith(".gz"):
        return gzip.open(path)
    import pyarrow as pa

    return pa.input_stream(str(path), compression="zstd")


class Scanner:
    """Scans a directory repeatedly, and determines how far to read.

    `most_bytes`: approximately how many bytes are read at a time.
    """

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._missing: dict[str, int] = {}

    def sizes(self) -> dict[str, int]:
        """Return the current size of each file."""
        found = {}
        for name, path in files(self._directory).items():
            try:
                found[name] = path.stat().st_size
            except FileNotFoundError:
                continue
        return found

    def beyond(self, offset: Offset, limits: dict[str, int] | None = None, *, is_bounded: bool = True) -> Offset:
        """Return the offsets of the next complete lines; `limits` restricts the files and how far each may be read."""
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
                    before = NOTHING  # truncated or replaced
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
    """Return how many bytes of each file to read, so that the lines of several brokers are read roughly in the order of time.

    The oldest folders are read first; if a folder exceeds the limit, the same share of each of its files is read.
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
    """Return the end of the last complete line within the next `share` bytes, but at least one line, and the lines until there."""
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
