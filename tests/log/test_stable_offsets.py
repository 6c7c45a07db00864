"""Random transactions against a model: up to where a reader of committed data may read, and what it must skip."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.budget import share_of
from tests.support.logs import NOW_MS, Bench, abort, append, batch, data_of
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.segment import indexes
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import end_transaction_marker

pytestmark = pytest.mark.medium

producers = st.integers(1, 3)


class Transactions(RuleBasedStateMachine):
    """Each batch has one record, so that every offset up to the end is one of the model's."""

    @initialize(segment_bytes=st.sampled_from([200, 100_000]), interval=st.sampled_from([0, 4096]))
    def make(self, segment_bytes: int, interval: int) -> None:
        self.holder = TemporaryDirectory()
        self.bench = Bench(Path(self.holder.name) / "topic-0", segment_bytes=segment_bytes, index_interval_bytes=interval)
        self.log = self.bench.open()
        self.records: list[tuple[str, int]] = []
        """What is at each offset: nothing in particular, a producer's record in a transaction, or its marker."""
        self.sequences: dict[int, int] = {}
        self.mark = 0
        self.start = 0

    def teardown(self) -> None:
        if hasattr(self, "holder"):
            self.holder.cleanup()

    # What the model knows

    def transactions(self) -> list[tuple[int, int, int | None, bool]]:
        """(producer, first offset, offset of the marker or None, is aborted), in the order of the markers."""
        opened: dict[int, int] = {}
        found: list[tuple[int, int, int | None, bool]] = []
        for offset, (kind, producer) in enumerate(self.records):
            if kind == "record":
                opened.setdefault(producer, offset)
            elif kind in ("commit", "abort") and producer in opened:
                found.append((producer, opened.pop(producer), offset, kind == "abort"))
        return found + [(producer, first, None, False) for producer, first in opened.items()]

    def stable(self) -> int:
        unstable = [first for _, first, marker, _ in self.transactions() if marker is None or marker >= self.mark]
        return max(min([self.mark, *unstable]), min(self.start, self.mark))

    # What happens

    @rule()
    def append_plain(self) -> None:
        append(self.log, b"plain")
        self.records.append(("plain", 0))

    @rule(producer=producers, is_alone=st.booleans())
    def append_in_transaction(self, producer: int, is_alone: bool) -> None:
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + 1
        records = batch(b"v", producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        self.log.append_as_leader(records, 0, is_alone=is_alone)
        self.records.append(("record", producer))
        if is_alone:
            self.mark = len(self.records)

    @rule(producer=producers, commit=st.booleans(), is_alone=st.booleans())
    def end(self, producer: int, commit: bool, is_alone: bool) -> None:
        marker = end_transaction_marker(
            commit=commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
        )
        self.log.append_as_leader(bytearray(marker), 0, AppendOrigin.COORDINATOR, is_alone=is_alone)
        self.records.append(("commit" if commit else "abort", producer))
        if is_alone:
            self.mark = len(self.records)

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        self.mark = data.draw(st.integers(self.mark, len(self.records)))
        assert self.log.update_high_watermark(self.mark) == self.mark

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @precondition(lambda self: self.start < self.mark)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        new = data.draw(st.integers(self.start, self.mark))
        assert self.log.increment_log_start_offset(new) == (new > self.start)
        self.start = new

    @precondition(lambda self: self.start < len(self.records))
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(self.start + 1, len(self.records)))
        if not self.knows_all_producers(end):
            return
        # As in Kafka, a reload from a snapshot does not know which of the markers before it were not replicated.
        self.mark = max(self.mark, end)
        self.log.update_high_watermark(self.mark)
        assert self.log.truncate_to(end) == (end < len(self.records))
        del self.records[end:]
        self.mark = min(self.mark, end)
        self.forget_sequences()

    def knows_all_producers(self, end: int) -> bool:
        """Whether a reload up to ``end`` finds everything again: like Kafka, it reads no records below the log start offset."""
        last = {producer: offset for offset, (kind, producer) in enumerate(self.records[:end]) if kind == "record"}
        opened = [first for _, first, marker, _ in self.transactions() if marker is None or marker >= end]
        return all(offset >= self.start for offset in (*last.values(), *opened))

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if not self.knows_all_producers(len(self.records)):
            return
        # As in Kafka, a start that reads a snapshot does not know which of the markers before it were not replicated.
        self.mark = len(self.records)
        self.log.update_high_watermark(self.mark)
        point = self.log.recovery_point
        self.log = (
            self.bench.reopen_clean(self.log) if clean else self.bench.open(recovery_point=point, log_start_offset=self.start)
        )
        assert self.log.high_watermark == self.start
        assert self.log.update_high_watermark(self.mark) == self.mark
        self.forget_sequences()

    def forget_sequences(self) -> None:
        self.sequences = {
            producer: count for producer in range(1, 4) if (count := sum(each == ("record", producer) for each in self.records))
        }

    # What must hold

    @invariant()
    def limits(self) -> None:
        if hasattr(self, "log"):
            log = self.log
            assert (log.log_start_offset, log.log_end_offset) == (self.start, len(self.records))
            assert (log.high_watermark, log.last_stable_offset) == (self.mark, self.stable())

    @invariant()
    def committed_reads(self) -> None:
        if not hasattr(self, "log"):
            return
        for offset in range(self.start, len(self.records) + 1):
            for isolation, limit in zip(FetchIsolation, (len(self.records), self.mark, self.stable()), strict=True):
                read = self.log.read(offset, 1 << 20, isolation)
                assert (len(read.records) > 0) == (offset < limit)
                assert read.fetch_offset.message_offset == offset
                if isolation != FetchIsolation.TXN_COMMITTED:
                    assert read.aborted_transactions is None
            self.check_aborted(self.log, offset)
            self.check_small_read(offset)

    def check_small_read(self, offset: int) -> None:
        """Check that a read tells of each aborted transaction with records in its batches, which have an offset each."""
        read = self.log.read(offset, 200, FetchIsolation.TXN_COMMITTED)
        end = offset + sum(1 for _ in batches(data_of(read.records)))
        within = {
            (producer, first, marker)
            for producer, first, marker, is_aborted in self.transactions()
            if is_aborted and marker is not None and marker >= offset and first < end
        }
        assert end == offset or within <= {tuple(each[:3]) for each in read.aborted_transactions or ()}

    def check_aborted(self, log: UnifiedLog, offset: int) -> None:
        stable = self.stable()
        aborted = [
            (producer, first, marker)
            for producer, first, marker, is_aborted in self.transactions()
            if is_aborted and marker is not None and marker >= offset and first < stable
        ]
        found = [tuple(each[:3]) for each in log.aborted_transactions(offset, stable)]
        assert offset >= stable or set(found) == set(aborted)


@pytest.mark.parametrize("largest", [0, 1 << 20], ids=["uncached", "cached"])
def test_a_read_tells_of_the_aborted_transactions_within_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(indexes, "MAX_CACHED_FILE_BYTES", largest)
    log = Bench(tmp_path / "topic-0", index_interval_bytes=0).open()
    for producer in range(20):
        append(log, b"v", producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
        abort(log, producer)
    log.update_high_watermark(40)
    for _ in ("active", "sealed"):
        for offset, most in ((0, 1), (12, 1), (12, 200), (38, 1 << 20)):
            read = log.read(offset, most, FetchIsolation.TXN_COMMITTED)
            last = [each.base_offset for each in batches(data_of(read.records))][-1]
            told = [each.first_offset for each in read.aborted_transactions or ()]
            within = list(range(offset, last + 1, 2))
            # And perhaps that of the batch of which the read has the begin.
            assert told in (within, [*within, offset + 2 * len(within)]), (offset, most)
        log.roll()


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=share_of(40),
    stateful_step_count=20,
    suppress_health_check=list(HealthCheck),
)
