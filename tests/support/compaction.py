"""A compacted log under random writes, with a simple model of what has to be in it."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import Bench, data_of
from twisted_kafka.log.cleaner import offset_map as cleaner_offset_map
from twisted_kafka.log.cleaner.cleaner import Cleaner, CleanerLimits
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.records.batch import Record, batches
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord

LIMITS = CleanerLimits(1 << 20, 0.9, 1 << 14)
RETENTION_MS = 1000
PRODUCERS = 4


def unhindered(size_bytes: int) -> None:
    """Never wait."""


def clean(log: UnifiedLog, bench: Bench, first_dirty: int = 0, limits: CleanerLimits = LIMITS) -> int:
    """Compact all that can be, as the manager would choose; returns up to where."""
    bound = min(log.last_stable_offset, log.segments.active.base_offset)
    uncleanable = log.segments.floor(bound).base_offset
    if uncleanable <= first_dirty:
        return first_dirty
    return Cleaner(bench.clock, limits).clean(log, first_dirty, uncleanable, unhindered)[0]


def committed(log: UnifiedLog) -> list[Record]:
    """What a consumer of committed data reads from the log's start."""
    found = []
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        data = log.read(offset, 1 << 20, FetchIsolation.TXN_COMMITTED, True)
        aborted: dict[int, list[Any]] = {transaction.producer_id: [] for transaction in data.aborted_transactions}
        for transaction in data.aborted_transactions:
            aborted[transaction.producer_id].append(transaction)
        whole = list(batches(data_of(data.records)))
        if not whole:
            break
        for batch in whole:
            assert batch.is_valid()
            assert batch.last_offset >= offset
            is_aborted = batch.is_transactional and any(
                each.first_offset <= batch.base_offset <= each.last_offset for each in aborted.get(batch.producer_id, ())
            )
            if not batch.is_control and not is_aborted:
                found += [record for record in batch.records() if record.offset >= offset]
            offset = batch.last_offset + 1
    return found


class Writer:
    """Writes random batches to a log and knows what they were."""

    def __init__(self, directory: Path, seed: int, segment_bytes: int | None = None) -> None:
        self.draw = random.Random(seed)
        self.bench = Bench(
            directory,
            segment_bytes=segment_bytes or self.draw.choice([1000, 4000]),
            cleanup_policy=("compact",),
            delete_retention_ms=RETENTION_MS,
        )
        self.log = self.bench.open()
        self.keys = [b"%d" % number * self.draw.choice([1, 5, 40]) for number in range(self.draw.randint(1, 30))]
        self.records: dict[int, tuple[bytes, bytes | None]] = {}
        self.decided: set[int] = set()
        """Offsets of records that are committed."""
        self.pending: dict[int, list[int]] = {}
        self.sequences = dict.fromkeys(range(PRODUCERS), 0)
        self.first_dirty = 0
        self.vectorised_from_bytes = self.draw.choice([0, 1 << 60])

    def write(self) -> None:
        """Append one batch, or end a transaction."""
        draw, log = self.draw, self.log
        producer = draw.randint(-1, PRODUCERS - 1)
        records = [self._record() for _ in range(draw.randint(1, 5))]
        options: dict[str, object] = {"compression": draw.choice(list(Compression)) if draw.random() < 0.3 else Compression.NONE}
        transactional = producer >= PRODUCERS // 2
        if transactional and producer in self.pending and draw.random() < 0.4:
            self.end(producer, commit=draw.random() < 0.6)
            return
        if producer >= 0:
            options |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequences[producer]}
            options |= {"is_transactional": transactional}
            self.sequences[producer] += len(records)
        first = log.append_as_leader(bytearray(build_batch(records, **options)), 0).first_offset  # type: ignore[arg-type]
        offsets = range(first, first + len(records))
        self.records |= dict(zip(offsets, [(record.key, record.value) for record in records], strict=True))
        if transactional:
            self.pending.setdefault(producer, []).extend(offsets)
        else:
            self.decided.update(offsets)
        log.update_high_watermark(log.log_end_offset)

    def _record(self) -> SimpleRecord:
        value = None if self.draw.random() < 0.2 else self.draw.randbytes(self.draw.randint(0, 60))
        return SimpleRecord(self.bench.clock.wall_ms(), self.draw.choice(self.keys), value)

    def end(self, producer: int, *, commit: bool) -> None:
        """End a producer's transaction."""
        offsets = self.pending.pop(producer)
        marker = end_transaction_marker(
            commit=commit, coordinator_epoch=0, timestamp_ms=self.bench.clock.wall_ms(), producer_id=producer, producer_epoch=0
        )
        self.log.append_as_leader(bytearray(marker), 0, AppendOrigin.COORDINATOR)
        self.log.update_high_watermark(self.log.log_end_offset)
        if commit:
            self.decided.update(offsets)

    def clean(self) -> None:
        """Compact, with a table that is at times too small for all keys."""
        limits = LIMITS._replace(map_bytes=self.draw.choice([1 << 20, 24 * 11, 224 * 7]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cleaner_offset_map, "VECTORISED_FROM_BYTES", self.vectorised_from_bytes)
            end = clean(self.log, self.bench, self.first_dirty, limits)
        assert end >= self.first_dirty
        self.first_dirty = end

    def reopen(self, *, cleanly: bool) -> None:
        """Restart; whatever the last life had in memory only is gone."""
        before = self.log.producer_state.producers
        if cleanly:
            self.log = self.bench.reopen_clean(self.log)
        else:
            self.log.close_handles()
            self.log = self.bench.open(recovery_point=self.log.recovery_point)
        self.log.update_high_watermark(self.log.log_end_offset)
        after = self.log.producer_state.producers
        for producer, entry in before.items():
            assert after[producer].last_sequence == entry.last_sequence, producer
            assert after[producer].transaction_first_offset == entry.transaction_first_offset

    def check(self) -> None:
        """The last record of each key is there, nothing is there that was not written, or was aborted."""
        stable = self.log.last_stable_offset
        found = committed(self.log)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        for record in found:
            assert self.records[record.offset] == (record.key, record.value)
            assert record.offset in self.decided
        latest = {self.records[offset][0]: offset for offset in sorted(self.decided) if offset < stable}
        there = set(offsets)
        for key, offset in latest.items():
            if self.records[offset][1] is not None:
                assert offset in there, (key, offset)
            else:
                newest = max((each for each in there if self.records[each][0] == key), default=None)
                assert newest in (None, offset), (key, offset, newest)


def run(directory: Path, seed: int, steps: int = 60) -> Writer:
    """Do random things to a log, and check it after each."""
    writer = Writer(directory, seed)
    draw = writer.draw
    for _ in range(steps):
        what = draw.random()
        if what < 0.75:
            for _ in range(draw.randint(1, 6)):
                writer.write()
        elif what < 0.88:
            writer.clean()
        elif what < 0.92:
            writer.bench.clock.advance_ms(draw.choice([10, RETENTION_MS * 2]))
        elif what < 0.96:
            writer.bench.scheduler.run_due()
            writer.log.roll()
        else:
            writer.reopen(cleanly=draw.random() < 0.5)
        writer.check()
    return writer


def last_values(log: UnifiedLog) -> dict[bytes | None, tuple[int, bytes | None]]:
    """Return the last offset and value of each key, without those that a tombstone removed."""
    found = {record.key: (record.offset, record.value) for record in committed(log)}
    return {key: last for key, last in found.items() if last[1] is not None}
