"""Checks one partition's directory: segments, indexes, epochs, producer snapshots."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from twisted_kafka.log.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    UNFINISHED_SUFFIXES,
    is_foreign,
    offset_of_name,
)
from twisted_kafka.log.leader_epoch import LEADER_EPOCH_CHECKPOINT
from twisted_kafka.log.partition_metadata import PARTITION_METADATA
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.protocol.records.batch import RecordBatch
from twisted_kafka.tools.offline.log_files import (
    Item,
    items,
    leader_epochs,
    offset_index,
    producer_snapshot,
    segment_batches,
    size_of,
    time_index,
    transaction_index,
)

ERROR: Final = "error"
NOTE: Final = "note"
MAX_FINDINGS_OF_A_FILE: Final = 10
"""Further findings are only counted: a damaged file often has an error in every entry."""


class Finding(NamedTuple):
    """An observation about a file; ``severity`` is ERROR or NOTE."""

    severity: str
    path: Path
    what: str


def error(path: Path, what: object) -> Finding:
    """Return a finding of damage."""
    return Finding(ERROR, path, str(what))


def note(path: Path, what: object) -> Finding:
    """Return a finding that the next start repairs."""
    return Finding(NOTE, path, str(what))


class _Place(NamedTuple):
    """The facts about a batch that indexes contain."""

    last_offset: int
    max_timestamp_ms: int


class PartitionCheck:
    """One pass over a partition's files. The offsets are set by ``findings``."""

    def __init__(self, directory: Path, *, was_clean: bool, with_records: bool) -> None:
        self._directory = directory
        self._was_clean = was_clean
        self._with_records = with_records
        self.first_offset = 0
        self.end_offset = 0

    def findings(self) -> Iterator[Finding]:
        """Check the files; yield errors and notes."""
        found = sorted(path.name for path in self._directory.iterdir())
        for name in filter(is_foreign, found):
            yield note(self._directory / name, "is not named after an offset: not checked, and no broker reads it")
        names = [name for name in found if not is_foreign(name)]
        for name in names:
            if name.endswith(UNFINISHED_SUFFIXES):
                yield note(self._directory / name, "was left by an unfinished operation: the next start completes or deletes it")
        segments = [self._directory / name for name in names if name.endswith(LOG_SUFFIX)]
        if segments:
            self.first_offset = self.end_offset = offset_of_name(segments[0].name)
        for path, following in itertools.zip_longest(segments, segments[1:]):
            limit = None if following is None else offset_of_name(following.name)
            yield from self._segment(path, limit)
        yield from self._metadata()
        for name in names:
            if name.endswith(SNAPSHOT_SUFFIX):
                yield from _only_errors(self._directory / name, producer_snapshot(self._directory / name))

    def _segment(self, path: Path, limit: int | None) -> Iterator[Finding]:
        base_offset = offset_of_name(path.name)
        if base_offset < self.end_offset:
            yield error(path, f"begins at {base_offset}, but the previous segment ends at {self.end_offset}")
        places: dict[int, _Place] = {}
        yield from _few(path, self._batches(path, base_offset, limit, places))
        stem = path.name.removesuffix(LOG_SUFFIX)
        yield from self._indexes(stem, base_offset, places, is_active=limit is None)

    def _batches(self, path: Path, base_offset: int, limit: int | None, places: dict[int, _Place]) -> Iterator[Finding]:
        end, next_offset, epoch = 0, base_offset, -1
        with path.open("rb") as file:
            try:
                for batch in segment_batches(file):
                    yield from self._batch(path, batch, next_offset, limit)
                    if batch.magic >= 2:
                        if batch.partition_leader_epoch < epoch:
                            yield error(path, f"at {batch.position}: leader epoch {batch.partition_leader_epoch} follows {epoch}")
                        epoch = batch.partition_leader_epoch
                    places[batch.position] = _Place(batch.last_offset, batch.max_timestamp_ms)
                    end, next_offset = batch.position + batch.size_bytes, batch.last_offset + 1
            except KafkaError as problem:
                yield self._torn(path, f"after position {end}: {problem}", limit)
            else:
                left = size_of(file) - end
                if left > 0:
                    yield self._torn(path, f"{left} bytes after position {end} are not a complete batch", limit)
        self.end_offset = max(self.end_offset, next_offset)

    def _torn(self, path: Path, what: str, limit: int | None) -> Finding:
        return error(path, what) if self._was_clean or limit is not None else note(path, f"{what}: recovery truncates it")

    def _batch(self, path: Path, batch: RecordBatch, next_offset: int, limit: int | None) -> Iterator[Finding]:
        where = f"batch at {batch.position}, offsets {batch.base_offset} to {batch.last_offset}"
        if not batch.is_valid():
            yield error(path, f"{where}: its CRC does not match")
            return
        if batch.base_offset < next_offset:
            yield error(path, f"{where}: offset {next_offset} was expected")
        if limit is not None and batch.last_offset >= limit:
            yield error(path, f"{where}: the next segment begins at {limit}")
        if self._with_records:
            try:
                offsets = [record.offset for record in batch.records()]
            except KafkaError as problem:
                yield error(path, f"{where}: {problem}")
                return
            if any(later <= earlier for earlier, later in itertools.pairwise(offsets)):
                yield error(path, f"{where}: the offsets of its records are not increasing")
            if offsets and not batch.base_offset <= offsets[0] <= offsets[-1] <= batch.last_offset:
                yield error(path, f"{where}: its records have offsets {offsets[0]} to {offsets[-1]}")

    def _indexes(self, stem: str, base_offset: int, places: dict[int, _Place], *, is_active: bool) -> Iterator[Finding]:
        # After a crash the index of the active segment may be incomplete or missing: recovery rebuilds it.
        severity = NOTE if is_active and not self._was_clean else ERROR
        for suffix, check in ((INDEX_SUFFIX, _offset_index), (TIME_INDEX_SUFFIX, _time_index)):
            path = self._directory / (stem + suffix)
            if not path.exists():
                yield note(path, "is missing: it is rebuilt")
                continue
            found = (Finding(severity, path, what) for what in check(path, base_offset, places))
            yield from _few(path, found)
        path = self._directory / (stem + TRANSACTION_INDEX_SUFFIX)
        if path.exists():
            yield from _only_errors(path, transaction_index(path))

    def _metadata(self) -> Iterator[Finding]:
        path = self._directory / LEADER_EPOCH_CHECKPOINT
        if path.exists():
            entries = list(leader_epochs(path))
            yield from _only_errors(path, entries)
            epochs = [(item["epoch"], item["start_offset"]) for item in entries if item["kind"] != "error"]
            if any(later[0] <= earlier[0] or later[1] < earlier[1] for earlier, later in itertools.pairwise(epochs)):
                yield error(path, "epochs and offsets are not increasing")
        path = self._directory / PARTITION_METADATA
        if path.exists():
            yield from _only_errors(path, items(path))
        else:
            yield note(path, "is missing: the next start writes it")


def _offset_index(path: Path, base_offset: int, places: dict[int, _Place]) -> Iterator[str]:
    last = -1
    for entry in offset_index(path, base_offset):
        offset, position = entry["offset"], entry["position"]
        if offset <= last:
            yield f"offset {offset} follows {last}"
        last = offset
        place = places.get(position)
        if place is None:
            yield f"offset {offset} points to position {position}, where no batch begins"
        elif offset > place.last_offset:
            yield f"offset {offset} points to position {position}, whose batch ends at offset {place.last_offset}"


def _time_index(path: Path, base_offset: int, places: dict[int, _Place]) -> Iterator[str]:
    # An entry guarantees that no record up to its offset has a later timestamp.
    batches = sorted(places.values())
    last_timestamp_ms, last_offset, at, latest_ms = -1, -1, 0, -1
    for entry in time_index(path, base_offset):
        timestamp_ms, offset = entry["timestamp_ms"], entry["offset"]
        if timestamp_ms < last_timestamp_ms or offset < last_offset:
            yield f"({timestamp_ms}, {offset}) follows ({last_timestamp_ms}, {last_offset})"
        last_timestamp_ms, last_offset = timestamp_ms, offset
        while at < len(batches) and batches[at].last_offset <= offset:
            latest_ms = max(latest_ms, batches[at].max_timestamp_ms)
            at += 1
        if latest_ms > timestamp_ms:
            yield f"has timestamp {timestamp_ms} for offset {offset}, but an earlier record has timestamp {latest_ms}"


def _only_errors(path: Path, found: Iterable[Item]) -> Iterator[Finding]:
    for item in found:
        if item["kind"] == "error":
            yield error(path, item["problem"])


def _few(path: Path, found: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the first findings of a file and the number of the others."""
    yield from itertools.islice(found, MAX_FINDINGS_OF_A_FILE)
    more = sum(1 for _ in found)
    if more:
        yield error(path, f"{more} more findings")
