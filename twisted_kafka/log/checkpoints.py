"""Checkpoint files: small text files that are replaced atomically.

An offset checkpoint has a line with version 0, a line with the number of entries, and a line ``topic partition offset`` per entry.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from twisted_kafka.log.files import MAX_OFFSET, write_atomically
from twisted_kafka.protocol.topic_partition import MAX_PARTITION, TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.files.file_io import read_whole
from twisted_kafka.system.numbers import decimal

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"

_VERSION = "0"
_Entry = TypeVar("_Entry")


class MalformedCheckpointError(ValueError):
    """A checkpoint file is malformed."""


def write_entries(path: Path, lines: Iterable[str], *, sync: bool = True) -> None:
    """Replace the checkpoint at ``path``; raises OSError."""
    entries = list(lines)
    text = "\n".join([_VERSION, str(len(entries)), *entries]) + "\n"
    write_atomically(path, text.encode(), sync=sync)


def read_entries(path: Path, parse: Callable[[str], _Entry]) -> list[_Entry]:
    """Read the checkpoint at ``path``; a missing or empty file has no entries.

    Raises OSError, and MalformedCheckpointError with the file and line.
    """
    try:
        text = read_whole(path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise MalformedCheckpointError(f"{path} is not text: {error}") from error
    lines = text.splitlines()
    if not lines:
        return []
    if not text.endswith("\n"):
        raise MalformedCheckpointError(f"{path}, line {len(lines)}: the last line is incomplete")
    if lines[0].strip() != _VERSION:
        raise MalformedCheckpointError(f"{path}: version {lines[0][:20]!r} is unknown, expected {_VERSION}")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        try:
            entries.append(parse(line))
        except ValueError as error:
            raise MalformedCheckpointError(f"{path}, line {number}: {line[:100]!r}: {error}") from error
    if len(lines) < 2 or lines[1].strip() != str(len(entries)):
        raise MalformedCheckpointError(f"{path}, line 2: the number of entries is wrong, there are {len(entries)}")
    return entries


class OffsetCheckpoint:
    """An offset per partition, in one file of a log directory; thread-safe."""

    __slots__ = ("_lock", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = machine.Lock()

    def read(self) -> dict[TopicPartition, int]:
        """Return the offsets; raises MalformedCheckpointError, OSError."""
        with self._lock:
            return dict(read_entries(self.path, _parse_offset))

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file; raises OSError."""
        lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        with self._lock:
            write_entries(self.path, lines)


def _parse_offset(line: str) -> tuple[TopicPartition, int]:
    topic, partition, offset = line.split()
    return TopicPartition(topic, parse_number(partition, MAX_PARTITION)), parse_number(offset, MAX_OFFSET)


def parse_number(text: str, most: int) -> int:
    """Return a number from 0 to ``most``; raises ValueError, also for a text that is a number only for Python."""
    number = decimal(text, most)
    if number is None:
        raise ValueError(f"{text!r} is not a number from 0 to {most}")
    return number
