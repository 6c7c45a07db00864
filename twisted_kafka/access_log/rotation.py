"""The files of the access log: their names, when they are rolled, and recovery after a crash.

``<directory>/date=YYYY-MM-DD/hour=HH/node-<id>-<seq>.jsonl``, in UTC. While a file is being written its name starts with a dot, so
that a reader of the directory does not mistake it for a complete one. (Spark ignores such names.)
"""

import errno
import os
from pathlib import Path
from typing import Final

from twisted.logger import Logger

from twisted_kafka.system.files.names import open_descriptor
from twisted_kafka.system.numbers import INT32_MAX, decimal

_log = Logger()

_TAIL_BYTES: Final = 1 << 16
"""How much of a file is read at a time, from its end, to find its last complete line."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""The disk is full: lines are dropped, counted and logged until there is space."""


class LogFiles:
    """Writes lines to the file of their hour. Rolls it when the hour is over and at a maximum size and age.

    Not thread-safe: used on the writer's thread only.
    """

    def __init__(self, directory: Path, node_id: int, *, roll_bytes: int, roll_ms: int) -> None:
        self._directory = directory
        self._node_id = node_id
        self._roll_bytes = roll_bytes
        self._roll_ms = roll_ms
        self._descriptor = -1
        self._open_path: Path | None = None
        self._hour = ""
        self._size_bytes = 0
        self._opened_ms = 0

    def prepare(self) -> None:
        """Make the directory; raises OSError if that fails or it is not writable."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno not in _FULL:
                raise
        else:
            if not os.access(self._directory, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self._directory))

    def write(self, hour: str, data: bytes, now_ms: int) -> None:
        """Append complete lines of the hour ``YYYY-MM-DDTHH``; raises OSError."""
        if self._open_path is not None and hour != self._hour:
            self.close()
        if self._open_path is None:
            self._open(hour, now_ms)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, memoryview(data)[written:])
        except OSError:
            if written:
                self._undo()
            raise
        self._size_bytes += written
        if self._size_bytes >= self._roll_bytes:
            self.close()

    def _undo(self) -> None:
        """Cut an incomplete line off, which would corrupt the next one. If that fails, leave the file to the next start."""
        try:
            os.ftruncate(self._descriptor, self._size_bytes)
        except OSError:
            self._open_path = None
            os.close(self._descriptor)
            self._descriptor = -1
            raise

    def roll_if_due(self, hour: str, now_ms: int) -> None:
        """Close the file if its hour is over or it has reached the maximum age."""
        if self._open_path is not None and (hour != self._hour or now_ms - self._opened_ms >= self._roll_ms):
            self.close()

    def close(self) -> None:
        """Close the file, if one is open, and rename it to its final name."""
        if self._open_path is None:
            return
        path, self._open_path = self._open_path, None
        os.close(self._descriptor)
        self._descriptor = -1
        path.rename(path.with_name(path.name[1:]))

    def recover(self) -> int:
        """Close the files that a crash has left open, without their incomplete last lines; return how many there were."""
        found = sorted(self._directory.glob(f"date=*/hour=*/.node-{self._node_id}-*.jsonl"))
        for path in found:
            try:
                if _trim(path):
                    path.rename(_free_name(path.parent, path.name[1:]))
                else:
                    path.unlink()
            except OSError as error:
                _log.warn("Access log: cannot recover {path} of an earlier run: {error}", path=str(path), error=error)
        return len(found)

    def _open(self, hour: str, now_ms: int) -> None:
        day, _, hour_of_day = hour.partition("T")
        folder = self._directory / f"date={day}" / f"hour={hour_of_day}"
        folder.mkdir(parents=True, exist_ok=True)
        sequence = _next_sequence(folder, self._node_id)
        while True:
            path = folder / f".node-{self._node_id}-{sequence:06}.jsonl"
            try:
                self._descriptor = open_descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
                break
            except FileExistsError:
                sequence += 1
        self._open_path, self._hour, self._size_bytes, self._opened_ms = path, hour, 0, now_ms


def _next_sequence(folder: Path, node_id: int) -> int:
    prefix = f"node-{node_id}-"
    names = [name.lstrip(".") for name in os.listdir(folder)]
    numbers = [decimal(name[len(prefix) :].partition(".")[0], INT32_MAX) for name in names if name.startswith(prefix)]
    return max((number for number in numbers if number is not None), default=0) + 1


def _free_name(folder: Path, name: str) -> Path:
    path = folder / name
    stem, suffix = path.stem, path.suffix
    number = 1
    while path.exists():
        path = folder / f"{stem}-{number}{suffix}"
        number += 1
    return path


def _trim(path: Path) -> int:
    """Truncate the file after its last newline; return the remaining size."""
    with path.open("r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _TAIL_BYTES)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)
        return end
