"""Requests in this broker's access log, read back from the latest one: who did what, and what failed."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from twisted_kafka.console.cluster.texts import finds_api
from twisted_kafka.console.queries.bounds import Bounds, Budget
from twisted_kafka.timing.clock import IClock

BOUNDS: Final = Bounds(200_000, 64 * 1024 * 1024, 3.0)
"""Most lines, bytes and time of one query."""
MOST_FOUND: Final = 500
"""Most requests that one query returns."""

_BLOCK_BYTES: Final = 256 * 1024
_MOST_LINE_BYTES: Final = 1024 * 1024
"""The access log has no longer lines."""
_FILES: Final = ("node-*.jsonl", ".node-*.jsonl")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines a caller asks for. Texts count as parts of the field, without letters' case; an empty one counts for nothing."""

    api: str = ""
    """As ``finds_api`` takes it."""
    principal: str = ""
    client: str = ""
    topic: str = ""
    """A topic, or the group's id, or a resource."""
    only_errors: bool = False
    slower_ms: float = 0.0
    before: str = ""
    """Only lines with an earlier ``time``: the last one of an earlier answer goes on from there."""

    def takes(self, line: dict[str, Any]) -> bool:
        """Whether a line is wanted."""
        return (
            finds_api(self.api, str(line.get("api") or ""))
            and _has(line.get("principal"), self.principal)
            and _has(f"{line.get('client_id') or ''} {line.get('software') or ''}", self.client)
            and (not self.only_errors or line.get("error") is not None)
            and (line.get("total_us") or 0) >= self.slower_ms * 1_000
            and (not self.before or str(line.get("time", "")) < self.before)
            and (not self.topic or any(_has(each, self.topic) for each in _named(line)))
        )


@dataclass(frozen=True, slots=True)
class Logged:
    """Lines of the access log, the latest first."""

    items: tuple[dict[str, Any], ...]
    scanned: int
    stopped: str
    """Why the search ended; empty if it reached the oldest line."""


def _has(text: object, part: str) -> bool:
    return part.casefold() in str(text or "").casefold()


def _named(line: dict[str, Any]) -> Iterator[object]:
    for each in line.get("topics") or ():
        if isinstance(each, dict):
            yield each.get("topic")
    yield line.get("group_id")
    for each in line.get("resources") or ():
        if isinstance(each, dict):
            yield each.get("name")


def logged(directory: Path, clock: IClock, wanted: LogFilter, count: int = 100, bounds: Bounds = BOUNDS) -> Logged:
    """Return the latest lines that are wanted. Files that were compressed or converted since are not read.

    Raises OSError if the directory cannot be read.
    """
    count = min(count, MOST_FOUND)
    budget = Budget(bounds, clock)
    found: list[dict[str, Any]] = []
    for path in _files(directory):
        for text in _lines_backwards(path):
            budget.spend(len(text))
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict) and wanted.takes(line):
                found.append(line)
            if len(found) == count:
                return Logged(tuple(found), budget.records, f"after {count} requests that match")
            if budget.stopped:
                return Logged(tuple(found), budget.records, budget.stopped)
    return Logged(tuple(found), budget.records, "")


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files, the latest first: by hour, and within it by the time of the last line."""
    for day in sorted(directory.glob("date=*"), reverse=True):
        for hour in sorted(day.glob("hour=*"), reverse=True):
            found = []
            for pattern in _FILES:
                for path in hour.glob(pattern):
                    try:
                        found.append((path.stat().st_mtime, path))
                    except FileNotFoundError:  # it was renamed: the next query finds it
                        continue
            yield from (path for _, path in sorted(found, reverse=True))


def _lines_backwards(path: Path) -> Iterator[bytes]:
    """Yield the complete lines of a file, the last first, with at most a block and a line in memory."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        closed = path.with_name(path.name.removeprefix("."))
        if closed == path or not closed.exists():
            return
        file = closed.open("rb")
    with file:
        yield from _backwards(file)


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    position = file.seek(0, os.SEEK_END)
    rest = b""
    is_end = True
    while position > 0:
        start = max(0, position - _BLOCK_BYTES)
        file.seek(start)
        data = file.read(position - start) + rest
        position = start
        first, *lines = data.split(b"\n")
        if is_end and lines:
            lines.pop()  # empty, or a line that is being written
            is_end = False
        yield from (line for line in reversed(lines) if line)
        rest = first if len(first) <= _MOST_LINE_BYTES else b""
    if rest and not is_end:
        yield rest
