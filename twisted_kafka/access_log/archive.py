"""Archiving of closed files: they are compressed or converted to Parquet, and deleted after the retention time.

This runs on a thread of its own, because neither the request path nor the writer may wait for it. The new file is written under a
name with a leading dot and renamed before the old file is deleted. After a crash both files may exist; readers know that they have
the same lines, and the next start converts again.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from twisted.logger import Logger

from twisted_kafka.protocol.records import zstd_frames
from twisted_kafka.system import machine
from twisted_kafka.system.files import disk
from twisted_kafka.system.interpreter import HAS_CODEC_EXTENSIONS
from twisted_kafka.system.threads import attempt, make_thread, repeat
from twisted_kafka.timing.clock import IClock

JSONL: Final = "jsonl"
ZSTD: Final = "zstd"
PARQUET: Final = "parquet"
SUFFIXES: Final = {JSONL: ".jsonl", ZSTD: ".jsonl.zst", PARQUET: ".parquet"}

_SETTLE_MS: Final = 60_000
"""A file is not converted for this long after it was closed, so that readers that follow it by offset reach its end."""
_CHECK_INTERVAL_S: Final = 20.0
_RETRY_MS: Final = 60_000
"""How long a file is left alone that could not be converted; twice as long after each further failure."""
_RETRY_MAX_MS: Final = 24 * 3_600_000
_STOP_TIMEOUT_S: Final = 30.0
_ZSTD_LEVEL: Final = 3
_CHUNK_BYTES: Final = 1 << 20
_HOUR_MS: Final = 3_600_000

_log = Logger()


class Archive:
    """Converts closed files of one broker, and deletes those beyond the retention time or size."""

    def __init__(
        self, directory: Path, node_id: int, clock: IClock, *, form: str, retention_hours: int, retention_bytes: int
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._form = form
        self._retention_ms = retention_hours * _HOUR_MS if retention_hours >= 0 else -1
        self._retention_bytes = retention_bytes
        self._name = re.compile(rf"^node-{node_id}-\d+(-\d+)?(\.jsonl|\.jsonl\.zst|\.parquet)$")
        self._unfinished = re.compile(rf"^\.node-{node_id}-\d+(-\d+)?(\.jsonl\.zst|\.parquet)$")
        self._refused: dict[Path, tuple[int, int]] = {}
        """For files that could not be converted: when to try again, and how long after that."""
        self._stopping = machine.Event()
        self._thread = make_thread(self._run, "kafka-access-log-archive")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the current file."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT_S)

    def recover(self) -> None:
        """Delete incomplete files that a crash has left. Their lines are still in the original files."""
        for path in self._directory.glob("date=*/hour=*/.node-*"):
            if self._unfinished.match(path.name):
                path.unlink(missing_ok=True)

    def run_once(self) -> None:
        """Convert closed files that are old enough, then delete files beyond the retention."""
        now_ms = self._clock.wall_ms()
        if self._form != JSONL:
            for path, stat in self._closed():
                if self._stopping.is_set():
                    return
                if path.suffix == ".jsonl" and self._may_convert(path, stat, now_ms):
                    self._convert(path, now_ms)
        self._delete(now_ms)

    def _may_convert(self, path: Path, stat: os.stat_result, now_ms: int) -> bool:
        not_before_ms, _ = self._refused.get(path, (0, 0))
        return now_ms >= not_before_ms and now_ms - stat.st_mtime_ns // 1_000_000 >= _SETTLE_MS

    def _run(self) -> None:
        attempt(self.recover, "recovering the access log's archive")
        repeat(self._step, self._stopping.wait, "the access log's archive")

    def _step(self) -> bool:
        try:
            self.run_once()
        except OSError as error:
            _log.warn("Access log: {error}", error=error)
        return not self._stopping.wait(_CHECK_INTERVAL_S)

    def _closed(self) -> list[tuple[Path, os.stat_result]]:
        """Return the closed files, the oldest first, except files that somebody deletes meanwhile."""
        found = []
        for path in sorted(self._directory.glob("date=*/hour=*/node-*")):
            if self._name.match(path.name):
                with suppress(FileNotFoundError):
                    found.append((path, path.stat()))
        return found

    def _convert(self, path: Path, now_ms: int) -> None:
        made = path.with_name(path.name.removesuffix(".jsonl") + SUFFIXES[self._form])
        unfinished = made.with_name("." + made.name)
        try:
            changed_ns = path.stat().st_mtime_ns
            _CONVERTERS[self._form](path, unfinished)
            os.utime(unfinished, ns=(changed_ns, changed_ns))  # keeps the age of the lines
            unfinished.rename(made)
            path.unlink()
        except Exception as error:  # noqa: BLE001 one file keeps neither the others nor the retention from their turn
            with suppress(OSError):
                unfinished.unlink()
            _, pause_ms = self._refused.get(path, (0, _RETRY_MS))
            self._refused[path] = now_ms + pause_ms, min(2 * pause_ms, _RETRY_MAX_MS)
            _log.warn("Access log: {path} could not be converted: {error!r}", path=str(path), error=error)
        else:
            self._refused.pop(path, None)

    def _delete(self, now_ms: int) -> None:
        kept = self._closed()
        size_bytes = sum(stat.st_size for _, stat in kept)
        failures: list[OSError] = []
        for path, stat in kept:  # sorted by name, which is by time
            is_old = 0 <= self._retention_ms < now_ms - stat.st_mtime_ns // 1_000_000
            is_too_much = 0 <= self._retention_bytes < size_bytes
            if not is_old and not is_too_much:
                continue
            size_bytes -= stat.st_size
            try:
                path.unlink(missing_ok=True)
            except OSError as error:  # one file keeps no newer one
                failures.append(error)
                continue
            self._refused.pop(path, None)
            for folder in (path.parent, path.parent.parent):
                try:
                    folder.rmdir()
                except OSError:
                    break  # not empty
        if failures:
            _log.warn("Access log: {count} files could not be deleted: {error}", count=len(failures), error=failures[0])


def _to_zstd(path: Path, made: Path) -> None:
    with path.open("rb") as source, made.open("wb") as target:
        if HAS_CODEC_EXTENSIONS:
            import zstandard

            compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
            compressor.copy_stream(source, target, size=path.stat().st_size, read_size=_CHUNK_BYTES)
        else:
            while chunk := source.read(_CHUNK_BYTES):
                target.write(zstd_frames.compress(chunk, _ZSTD_LEVEL))  # a frame each
        target.flush()
        disk.sync(target.fileno())


def _to_parquet(path: Path, made: Path) -> None:
    """Convert lines to rows with the same field names, one row group per block of lines, so that memory is bounded."""
    import pyarrow as pa
    from pyarrow import json as arrow_json
    from pyarrow import parquet

    from twisted_kafka.access_log.parquet_schema import arrow_schema

    schema = arrow_schema()
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        reading = arrow_json.ReadOptions(use_threads=False, block_size=16 * _CHUNK_BYTES)
        blocks = arrow_json.open_json(path, reading, options)
        with blocks, parquet.ParquetWriter(made, schema, compression="zstd") as writer:
            for block in blocks:
                writer.write_batch(block)
    except pa.ArrowInvalid as error:
        raise ValueError(str(error)) from error
    with made.open("rb") as written:
        disk.sync(written.fileno())


_CONVERTERS: Final[dict[str, Callable[[Path, Path], None]]] = {ZSTD: _to_zstd, PARQUET: _to_parquet}
