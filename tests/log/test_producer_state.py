import os
import random
from pathlib import Path
from typing import Any

import pytest

import twisted_kafka.log.validation.types
from tests.support.logs import NOW_MS, Bench, append, batch, contents
from twisted_kafka.log.batch_headers import BatchHeader, advance_sequence, retreat_sequence
from twisted_kafka.log.producer_state import producer_state_manager
from twisted_kafka.log.producer_state.producer_snapshot import CorruptSnapshotError, decode_snapshot, encode_snapshot
from twisted_kafka.log.producer_state.producer_state_manager import (
    BUMPED_EPOCH,
    NO_OFFSET,
    OpenOffsets,
    ProducerBatch,
    ProducerEntry,
    ProducerStateManager,
    marker_guard,
)
from twisted_kafka.log.results import AbortedTransaction, FetchIsolation, LogAppendInfo
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from twisted_kafka.protocol.records.builder import control_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import ControlRecordType

CLIENT = AppendOrigin.CLIENT
LARGEST = 2**31 - 1


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "topic-0", segment_bytes=2048)


@pytest.fixture
def log(bench: Bench) -> UnifiedLog:
    return bench.open()


def produce(
    log: UnifiedLog,
    sequence: int,
    count: int = 1,
    *,
    producer: int = 7,
    epoch: int = 0,
    transactional: bool = False,
    timestamp_ms: int = NOW_MS,
    guard: Any = None,
    origin: Any = CLIENT,
) -> LogAppendInfo:
    data = batch(
        *[b"v"] * count,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
        timestamp_ms=timestamp_ms,
    )
    return log.append_as_leader(data, 0, origin, guard)


def end(
    log: UnifiedLog, *, commit: Any, producer: int = 7, epoch: int = 0, coordinator_epoch: int = 0, guard: Any = None
) -> LogAppendInfo:
    data = end_transaction_marker(
        commit=commit, producer_id=producer, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp_ms=NOW_MS
    )
    return log.append_as_leader(bytearray(data), 0, AppendOrigin.COORDINATOR, guard)


def test_a_repeated_batch_gets_the_offsets_of_the_first_time(log: UnifiedLog) -> None:
    produce(log, 0, 3)
    append(log, b"other")
    produce(log, 3, 2)
    again = produce(log, 0, 3)
    assert (again.first_offset, again.last_offset, again.is_duplicate) == (0, 2, True)
    assert again.log_append_time_ms == again.max_timestamp_ms > 0
    assert produce(log, 3, 2).first_offset == 4
    assert log.log_end_offset == 6


def test_only_the_last_five_batches_are_remembered(log: UnifiedLog) -> None:
    for sequence in range(7):
        produce(log, sequence)
    assert [produce(log, sequence).first_offset for sequence in range(2, 7)] == [2, 3, 4, 5, 6]
    with pytest.raises(OutOfOrderSequenceError):
        produce(log, 1)


@pytest.mark.parametrize("sequence", [0, 1, 4, 99])
def test_a_gap_or_a_step_back_is_refused(log: UnifiedLog, sequence: int) -> None:
    produce(log, 0, 3)
    with pytest.raises(OutOfOrderSequenceError):
        produce(log, sequence)
    assert log.log_end_offset == 3


def test_a_producer_of_an_impossible_epoch_is_refused(log: UnifiedLog) -> None:
    with pytest.raises(InvalidProducerEpochError):
        produce(log, 0, epoch=-2)
    produce(log, 0, epoch=-1)


def test_an_unknown_producer_may_begin_anywhere(log: UnifiedLog) -> None:
    assert produce(log, 55).first_offset == 0
    assert produce(log, 56).first_offset == 1


def test_a_new_epoch_begins_at_zero_and_fences_the_old(log: UnifiedLog) -> None:
    produce(log, 0, 5)
    with pytest.raises(OutOfOrderSequenceError):
        produce(log, 5, epoch=1)
    produce(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        produce(log, 5, epoch=0)
    assert produce(log, 1, epoch=1).first_offset == 6


def test_sequences_wrap(log: UnifiedLog) -> None:
    produce(log, LARGEST - 1, 4)
    assert produce(log, 2).first_offset == 4
    assert produce(log, LARGEST - 1, 4).first_offset == 0
    assert (advance_sequence(LARGEST - 1, 1), advance_sequence(LARGEST, 1)) == (LARGEST, 0)
    assert (retreat_sequence(5, 5), retreat_sequence(5, 6)) == (0, LARGEST)
    assert retreat_sequence(0, 1) == LARGEST
    assert retreat_sequence(advance_sequence(LARGEST - 3, 10), 10) == LARGEST - 3


@pytest.mark.parametrize("stop", ["clean", "crash", "crash without snapshots"])
def test_the_state_survives_a_restart(log: UnifiedLog, bench: Bench, stop: str) -> None:
    for sequence in range(40):
        produce(log, sequence)
    if stop == "clean":
        again = bench.reopen_clean(log)
        assert produce(again, 39).is_duplicate
    else:
        for name in os.listdir(log.dir):
            if name.endswith(".snapshot") and stop != "crash":
                os.unlink(log.dir / name)
        again = bench.open()
        assert [produce(again, sequence).is_duplicate for sequence in range(35, 40)] == [True] * 5
    with pytest.raises(OutOfOrderSequenceError):
        produce(again, 41)
    assert not produce(again, 40).is_duplicate


def test_a_damaged_snapshot_is_passed_over(log: UnifiedLog, bench: Bench) -> None:
    for sequence in range(40):
        produce(log, sequence)
    log.flush()
    log.close()
    path = log.dir / "00000000000000000040.snapshot"
    path.write_bytes(path.read_bytes()[:-1])
    again = bench.open(was_clean=True)
    assert not path.exists()
    assert produce(again, 39).is_duplicate


def test_batches_without_a_producer_are_no_producers(log: UnifiedLog, bench: Bench) -> None:
    for sequence in range(3):
        append(log, b"x")
        produce(log, sequence)
    log.flush()
    log.close()
    for path in log.dir.glob("*.snapshot"):
        path.unlink()
    assert list(bench.open(was_clean=True).producer_state.producers) == [7]


def test_truncation_takes_the_state_back(log: UnifiedLog) -> None:
    for sequence in range(40):
        produce(log, sequence)
    log.write_out()
    log.truncate_to(17)
    assert not [path.name for path in log.dir.glob("*.snapshot") if int(path.name[:20]) > 17]
    assert produce(log, 16).is_duplicate
    assert produce(log, 17).first_offset == 17


def test_followers_take_the_state_over(log: UnifiedLog, tmp_path: Path) -> None:
    for sequence in range(3):
        produce(log, sequence)
    follower = Bench(tmp_path / "other" / "topic-0")
    follower.directory.parent.mkdir()
    copy = follower.open()
    copy.append_as_follower(log.read(0, 10_000, FetchIsolation.LOG_END).records.read())
    assert produce(copy, 2).is_duplicate
    assert produce(copy, 3).first_offset == 3


def test_idle_producers_are_forgotten(log: UnifiedLog) -> None:
    produce(log, 0, producer=1)
    produce(log, 0, producer=2, timestamp_ms=NOW_MS + 60_000)
    assert log.remove_expired_producers(NOW_MS + 86_400_000) == 1
    assert list(log.producer_state.producers) == [2]


def test_an_open_transaction_takes_nothing_that_is_not_of_it(log: UnifiedLog) -> None:
    options = {"producer_id": 5, "producer_epoch": 0}
    inside = batch(b"x", base_sequence=0, is_transactional=True, **options)
    log.append_as_leader(bytearray(inside), 0)
    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(batch(b"y", base_sequence=1, **options), 0)
    assert log.append_as_leader(bytearray(inside), 0).is_duplicate
    assert log.log_end_offset == 1


def test_outside_of_the_transaction_only_repetitions_of_this_epoch_are_answered(log: UnifiedLog) -> None:
    first = produce(log, 0, epoch=1)
    produce(log, 1, epoch=1, transactional=True)
    again = produce(log, 0, epoch=1)
    assert (again.first_offset, again.is_duplicate) == (first.first_offset, True)
    with pytest.raises(InvalidTxnStateError):
        produce(log, 2, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        produce(log, 0, epoch=0)
    assert log.log_end_offset == 2


@pytest.mark.parametrize("sequence", [-1, 0])
def test_batches_of_a_coordinator_are_never_repetitions(log: UnifiedLog, sequence: int) -> None:
    """Their sequence numbers mean nothing: two commits of offsets in one transaction look the same."""
    for offset in range(3):
        info = produce(log, sequence, transactional=True, origin=AppendOrigin.COORDINATOR)
        assert (info.first_offset, info.is_duplicate) == (offset, False)
    end(log, commit=True)
    produce(log, sequence, transactional=True, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(InvalidTxnStateError):
        produce(log, sequence, origin=AppendOrigin.COORDINATOR)
    assert log.log_end_offset == 5


def test_the_state_of_producers_is_described(log: UnifiedLog) -> None:
    produce(log, 4, 2, producer=1, timestamp_ms=NOW_MS + 5)
    produce(log, 0, producer=2, epoch=3, transactional=True)
    produce(log, 0, producer=3, transactional=True)
    end(log, commit=True, producer=3, coordinator_epoch=9)
    found = {
        each.producer_id: (
            each.epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            each.coordinator_epoch,
            each.transaction_first_offset,
        )
        for each in log.active_producers()
    }
    assert found == {1: (0, 5, NOW_MS + 6, -1, -1), 2: (3, 0, NOW_MS, -1, 2), 3: (0, 0, NOW_MS, 9, -1)}
    assert log.last_records_of_producers() == {1: (0, 1), 2: (3, 2), 3: (0, 3)}
    end(log, commit=False, producer=3, epoch=1, coordinator_epoch=9)
    assert log.last_records_of_producers()[3] == (1, -1), "nothing but a marker is left of its new epoch"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_snapshots_are_read_as_they_were_written(log: UnifiedLog, bench: Bench, count: int) -> None:
    for producer in range(count):
        produce(log, LARGEST, 2 + producer, producer=producer, epoch=producer, transactional=producer == 1, timestamp_ms=producer)
    before = [describe(each) for each in log.active_producers()]
    data = encode_snapshot(log.active_producers())
    assert [describe(each) for each in decode_snapshot(data)] == before
    assert encode_snapshot(decode_snapshot(data)) == data
    assert [describe(each) for each in bench.reopen_clean(log).active_producers()] == before


def test_a_producer_whose_only_record_is_the_first_of_all_is_known_after_a_restart(log: UnifiedLog, bench: Bench) -> None:
    produce(log, 3)
    again = bench.reopen_clean(log)
    assert produce(again, 3).is_duplicate
    assert again.last_records_of_producers() == {7: (0, 0)}


def describe(entry: ProducerEntry) -> tuple[object, ...]:
    last = entry.batches[-1]
    return (
        *(entry.producer_id, entry.epoch, entry.coordinator_epoch, entry.last_timestamp_ms, entry.transaction_first_offset),
        *(last.first_sequence, last.last_sequence, last.first_offset, last.last_offset, last.timestamp_ms),
    )


def test_a_control_batch_that_ends_no_transaction_leaves_it_open(log: UnifiedLog) -> None:
    produce(log, 0, transactional=True)
    kinds = (ControlRecordType.LEADER_CHANGE, ControlRecordType.UNKNOWN)
    for kind in kinds:
        data = control_batch(kind, b"", timestamp_ms=NOW_MS, producer_id=7, producer_epoch=0, is_transactional=True)
        log.append_as_leader(bytearray(data), 0, AppendOrigin.COORDINATOR)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 0
    end(log, commit=True)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4


def test_a_marker_without_coordinator_epoch_ends_its_transaction(log: UnifiedLog) -> None:
    produce(log, 0, transactional=True)
    data = control_batch(
        ControlRecordType.COMMIT, b"", timestamp_ms=NOW_MS, producer_id=7, producer_epoch=0, is_transactional=True, base_offset=1
    )
    log.append_as_follower(data)
    assert [each.coordinator_epoch for each in log.active_producers()] == [-1]
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2


def test_snapshots_refuse_damage() -> None:
    data = encode_snapshot([])
    assert decode_snapshot(data) == []
    for bad in (b"", data[:-1], data + b"x", b"\0\2" + data[2:], data[:5] + b"x" + data[6:]):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(bad)


# Transactions.


def test_the_last_stable_offset_waits_for_the_marker_and_its_replication(log: UnifiedLog) -> None:
    append(log, b"before")
    produce(log, 0, transactional=True)
    append(log, b"between")
    log.update_high_watermark(3)
    assert log.last_stable_offset == 1
    assert log.read(1, 1000, FetchIsolation.TXN_COMMITTED).records == b""
    end(log, commit=True)
    log.update_high_watermark(3)  # the marker is at 3, and not replicated yet
    assert log.last_stable_offset == 1
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4
    found = log.read(1, 1000, FetchIsolation.TXN_COMMITTED)
    assert len(found.records) > 0
    assert found.aborted_transactions == []


def test_a_marker_that_nobody_else_has_to_copy_is_stable_at_once(log: UnifiedLog) -> None:
    for sequence in range(2):
        data = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        log.append_as_leader(data, 0, is_alone=True)
    assert (log.high_watermark, log.last_stable_offset) == (2, 0)
    marker = end_transaction_marker(commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS)
    log.append_as_leader(bytearray(marker), 0, AppendOrigin.COORDINATOR, is_alone=True)
    assert (log.high_watermark, log.last_stable_offset) == (3, 3)


def test_aborted_transactions_are_told_to_readers_of_committed_data(log: UnifiedLog, bench: Bench) -> None:
    produce(log, 0, producer=1, transactional=True)
    produce(log, 0, producer=2, transactional=True)
    produce(log, 1, producer=1, transactional=True)
    end(log, commit=False, producer=1)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 1
    end(log, commit=True, producer=2)
    log.update_high_watermark(5)
    wanted = [AbortedTransaction(1, 0, 3, 1)]
    assert log.read(0, 1000, FetchIsolation.TXN_COMMITTED).aborted_transactions == wanted
    assert log.read(0, 1000, FetchIsolation.HIGH_WATERMARK).aborted_transactions is None
    assert log.read(4, 1000, FetchIsolation.TXN_COMMITTED).aborted_transactions == []
    index = (log.dir / "00000000000000000000.txnindex").read_bytes()
    for again in (bench.open(), bench.reopen_clean(log)):
        again.update_high_watermark(5)
        assert again.read(0, 1000, FetchIsolation.TXN_COMMITTED).aborted_transactions == wanted
        assert (log.dir / "00000000000000000000.txnindex").read_bytes() == index


def test_an_aborted_transaction_that_cannot_be_noted_takes_the_directory_offline(log: UnifiedLog, bench: Bench) -> None:
    """Its marker is in the log already."""
    produce(log, 0, transactional=True)
    (log.dir / "00000000000000000000.txnindex").mkdir()
    end(log, commit=False)
    assert log.log_end_offset == 2
    assert len(bench.failures) == 1


def test_an_open_transaction_is_still_open_after_a_restart(log: UnifiedLog, bench: Bench) -> None:
    produce(log, 0, transactional=True)
    log.update_high_watermark(1)
    again = bench.reopen_clean(log)
    again.update_high_watermark(1)
    assert again.last_stable_offset == 0
    end(again, commit=True)
    again.update_high_watermark(2)
    assert again.last_stable_offset == 2


def test_markers_of_an_old_coordinator_are_refused(log: UnifiedLog) -> None:
    produce(log, 0, transactional=True)
    end(log, commit=True, coordinator_epoch=4)
    with pytest.raises(TransactionCoordinatorFencedError):
        end(log, commit=True, coordinator_epoch=3)
    produce(log, 0, epoch=3)
    with pytest.raises(InvalidProducerEpochError):
        end(log, commit=True, epoch=2)


def test_after_a_marker_of_a_new_epoch_sequences_begin_at_zero(log: UnifiedLog) -> None:
    produce(log, 0, transactional=True)
    end(log, commit=False, epoch=1)
    with pytest.raises(OutOfOrderSequenceError):
        produce(log, 1, epoch=1, transactional=True)
    produce(log, 0, epoch=1, transactional=True)
    assert len(contents(log)) == 4 - 1


class TestVerification:
    """A transaction begins only by the verification that is under way: what came between is seen under the lock (KIP-890)."""

    @pytest.fixture
    def log(self, bench: Bench) -> UnifiedLog:
        bench.are_transactions_verified = True
        return bench.open()

    @pytest.mark.parametrize("commit", [True, False])
    @pytest.mark.parametrize("origin", [CLIENT, AppendOrigin.COORDINATOR])
    def test_a_batch_that_a_marker_overtook_is_refused(
        self, log: UnifiedLog, origin: twisted_kafka.log.validation.types.AppendOrigin, commit: bool
    ) -> None:
        guard = log.start_verification(7, 0, 0)
        end(log, commit=commit)
        with pytest.raises(InvalidTxnStateError):
            produce(log, 0, transactional=True, guard=guard, origin=origin)
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == log.log_end_offset == 1

    def test_a_marker_that_was_replicated_ends_the_verification_too(self, log: UnifiedLog) -> None:
        guard = log.start_verification(7, 0, 0)
        log.append_as_follower(
            end_transaction_marker(commit=False, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS)
        )
        with pytest.raises(InvalidTxnStateError):
            produce(log, 0, transactional=True, guard=guard)

    def test_a_guard_of_an_earlier_transaction_is_void(self, log: UnifiedLog) -> None:
        old = log.start_verification(7, 0, 0)
        end(log, commit=False)
        new = log.start_verification(7, 0, 0)
        with pytest.raises(InvalidTxnStateError):
            produce(log, 0, transactional=True, guard=old)
        produce(log, 0, transactional=True, guard=new)

    def test_they_are_bounded_and_the_oldest_ends_first(self, log: UnifiedLog, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(producer_state_manager, "MAX_VERIFICATIONS", 2)
        oldest, *others = [log.start_verification(producer_id, 0, 0) for producer_id in (7, 8, 9)]
        with pytest.raises(InvalidTxnStateError):
            produce(log, 0, producer=7, transactional=True, guard=oldest)
        for producer_id, guard in zip((8, 9), others, strict=True):
            produce(log, 0, producer=producer_id, transactional=True, guard=guard)

    def test_only_the_first_batch_needs_it(self, log: UnifiedLog) -> None:
        with pytest.raises(InvalidTxnStateError):
            produce(log, 0, transactional=True)
        guard = log.start_verification(7, 0, 0)
        assert log.start_verification(7, 0, 0) is guard  # the producer's next request comes before the answer
        produce(log, 0, transactional=True, guard=guard)
        assert log.start_verification(7, 0, 1) is None
        produce(log, 1, transactional=True)
        assert produce(log, 0, transactional=True).is_duplicate
        end(log, commit=True)
        with pytest.raises(InvalidTxnStateError):
            produce(log, 2, transactional=True, guard=guard)
        assert produce(log, 1, transactional=True).is_duplicate
        assert log.start_verification(7, 0, 2) is not None

    def test_a_transaction_of_another_epoch_is_another_one(self, log: UnifiedLog) -> None:
        produce(log, 0, transactional=True, guard=log.start_verification(7, 0, 0))
        with pytest.raises(InvalidTxnStateError):
            produce(log, 0, epoch=1, transactional=True)
        assert log.start_verification(7, 1, 0) is not None

    def test_the_lowest_sequence_seen_is_appended_first(self, log: UnifiedLog) -> None:
        log.start_verification(7, 0, 5)
        guard = log.start_verification(7, 0, 3)
        with pytest.raises(OutOfOrderSequenceError):
            produce(log, 5, transactional=True, guard=guard)
        produce(log, 3, 2, transactional=True, guard=guard)
        produce(log, 5, transactional=True)

    def test_another_epoch_begins_with_sequences_of_its_own(self, log: UnifiedLog) -> None:
        log.start_verification(7, 0, 0)
        guard = log.start_verification(7, 1, 4)
        with pytest.raises(OutOfOrderSequenceError):
            produce(log, 5, epoch=1, transactional=True, guard=guard)
        produce(log, 4, epoch=1, transactional=True, guard=guard)

    def test_an_older_epoch_does_not_lower_what_must_come_first(self, log: UnifiedLog) -> None:
        guard = log.start_verification(7, 1, 4)
        assert log.start_verification(7, 0, 0) is guard
        produce(log, 4, epoch=1, transactional=True, guard=guard)

    def test_a_batch_outside_of_transactions_leaves_the_verification(self, log: UnifiedLog) -> None:
        guard = log.start_verification(7, 0, 1)
        produce(log, 0)
        produce(log, 1, transactional=True, guard=guard)

    def test_batches_outside_of_transactions_need_none(self, log: UnifiedLog) -> None:
        produce(log, 0)
        append(log, b"plain")
        log.append_as_follower(batch(b"v", producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True, base_offset=2))
        assert log.log_end_offset == 3

    def test_one_that_nothing_followed_is_forgotten_with_the_producers(self, log: UnifiedLog, bench: Bench) -> None:
        guard = log.start_verification(7, 0, 0)
        log.remove_expired_producers(NOW_MS + bench.environment.producers.expiration_ms - 1)
        assert log.start_verification(7, 0, 0) is guard
        log.remove_expired_producers(NOW_MS + bench.environment.producers.expiration_ms)
        assert log.start_verification(7, 0, 0) is not guard

    def test_where_it_is_off_no_batch_needs_it(self, log: UnifiedLog, bench: Bench) -> None:
        bench.are_transactions_verified = False
        assert log.start_verification(7, 0, 0) is None
        produce(log, 0, transactional=True)


class TestEpochOfEachTransaction:
    """With ``transaction.version`` 2, a marker has the epoch after that of its transaction's records (KIP-1228)."""

    def test_a_marker_with_the_epoch_of_the_open_transaction_comes_too_late(self, log: UnifiedLog) -> None:
        produce(log, 0, transactional=True)
        with pytest.raises(InvalidProducerEpochError, match="not a higher one"):
            end(log, commit=True, guard=BUMPED_EPOCH)
        end(log, commit=True, epoch=1, guard=BUMPED_EPOCH)
        assert log.active_producers()[0].transaction_first_offset == NO_OFFSET
        end(log, commit=True, epoch=1, guard=BUMPED_EPOCH)  # sent again, as its answer was lost
        produce(log, 0, epoch=1, transactional=True)
        for epoch in (0, 1):
            with pytest.raises(InvalidProducerEpochError):
                end(log, commit=False, epoch=epoch, guard=BUMPED_EPOCH)
        end(log, commit=False, epoch=1)  # as of a producer without such epochs
        assert log.active_producers()[0].transaction_first_offset == NO_OFFSET

    def test_a_marker_for_a_producer_that_is_unknown_here(self, log: UnifiedLog) -> None:
        end(log, commit=False, epoch=3, guard=BUMPED_EPOCH)
        assert log.active_producers()[0].epoch == 3

    def test_the_versions_that_bump(self) -> None:
        assert [marker_guard(version) for version in range(4)] == [None, None, BUMPED_EPOCH, BUMPED_EPOCH]

    @pytest.mark.parametrize("is_verified", [True, False])
    def test_the_first_batch_has_sequence_number_0(self, bench: Bench, is_verified: bool) -> None:
        bench.are_transactions_verified = is_verified
        log = bench.open()
        for epoch in (0, 1):
            guard = log.start_verification(7, epoch, 2, bumps_epoch=True)
            with pytest.raises(OutOfOrderSequenceError):
                produce(log, 2, epoch=epoch, transactional=True, guard=guard)
            guard = log.start_verification(7, epoch, 0, bumps_epoch=True)
            produce(log, 0, epoch=epoch, transactional=True, guard=guard)
            assert log.start_verification(7, epoch, 1, bumps_epoch=True) is None
            produce(log, 1, epoch=epoch, transactional=True)
            end(log, commit=True, epoch=epoch + 1, guard=BUMPED_EPOCH)

    def test_a_coordinators_batches_have_no_such_number(self, log: UnifiedLog) -> None:
        guard = log.start_verification(7, 0, -1, bumps_epoch=True)
        produce(log, 4, transactional=True, guard=guard, origin=AppendOrigin.COORDINATOR)

    def test_a_fenced_producer_is_told_before_its_coordinator_is_asked(self, log: UnifiedLog) -> None:
        produce(log, 0, epoch=2)
        with pytest.raises(InvalidProducerEpochError):
            log.start_verification(7, 1, 0, bumps_epoch=True)
        assert log.start_verification(7, 2, 0, bumps_epoch=True) is not None
        assert log.start_verification(7, 3, 0, bumps_epoch=True) is not None


def test_the_earliest_open_transaction_is_found_without_a_look_at_the_others() -> None:
    draw = random.Random(1)
    offsets, expected = OpenOffsets(range(0, 20, 2)), set(range(0, 20, 2))
    for offset in range(20, 400):
        if draw.random() < 0.5:
            offsets.add(offset)
            expected.add(offset)
        else:
            gone = draw.choice([*sorted(expected), 1])
            offsets.discard(gone)
            expected.discard(gone)
        assert offsets.first == min(expected, default=None)
        assert bool(offsets) == bool(expected)


def test_a_transaction_that_stays_open_keeps_no_offsets_of_later_ones() -> None:
    offsets = OpenOffsets([0])
    for offset in range(1, 5000):
        offsets.add(offset)
        offsets.discard(offset)
    assert len(offsets) < 100
    offsets.discard(0)
    assert (offsets.first, len(offsets)) == (None, 0)


class CountedOffset(int):
    """An offset that counts its comparisons."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        CountedOffset.comparisons += 1
        return int(self) < int(other)


def test_an_append_beside_many_open_transactions_compares_none_of_them() -> None:
    state = ProducerStateManager("topic-0", lambda: False)
    for number in range(100):
        header = BatchHeader(batch(b"x", producer_id=number, producer_epoch=0, base_sequence=0, is_transactional=True), 0, 0)
        header.base_offset = header.last_offset = CountedOffset(number)
        assert state.update(header, b"") is None
        assert state.first_unstable_offset == 0
    assert CountedOffset.comparisons == 0


def test_the_last_sequence_does_not_depend_on_an_epoch_that_begins_meanwhile() -> None:
    """DescribeProducers asks on a thread of its own."""

    class Beginning(ProducerEntry):
        lists: Any = [[ProducerBatch(7, 7, 0, 0)], []]  # noqa: RUF012 of this test alone
        batches = property(lambda self: self.lists.pop(0), lambda self, value: None)

    assert Beginning(1).last_sequence == 7
