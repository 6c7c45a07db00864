"""Appends of several clients, written together: as if they had come one after the other."""

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.log.crash_disk import CrashDisk
from tests.support.budget import share_of
from tests.support.logs import NOW_MS, Bench, append, batch, contents
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log import unified_log
from twisted_kafka.log.results import LogAppendInfo
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.types import InvalidChecksumError
from twisted_kafka.protocol.errors import (
    KafkaStorageError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
)
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.system import buffers
from twisted_kafka.system.files import disk, file_io

Outcome = tuple[int, int, bool, int] | type


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "topic-0")


@pytest.fixture
def log(bench: Bench) -> UnifiedLog:
    return bench.open()


def together(log: UnifiedLog, *each: bytes | bytearray, is_alone: bool = True) -> list[Outcome]:
    return [outcome(result) for result in log.append_each_as_leader(each, 0, is_alone=is_alone)]


def outcome(result: LogAppendInfo | Exception) -> Outcome:
    if isinstance(result, Exception):
        return type(result)
    return result.first_offset, result.last_offset, result.is_duplicate, result.record_count


def one_by_one(log: UnifiedLog, each: Sequence[bytes | bytearray]) -> list[Outcome]:
    results: list[LogAppendInfo | Exception] = []
    for records in each:
        try:
            results.append(log.append_as_leader(records, 0, is_alone=True))
        except Exception as error:  # noqa: BLE001 whatever it is, the other way has to have it, too
            results.append(error)
    return [outcome(result) for result in results]


def sent_by(producer_id: int, sequence: int, *values: bytes) -> bytearray:
    return batch(*values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def corrupt() -> bytearray:
    damaged = batch(b"damaged")
    damaged[-1] ^= 1
    return damaged


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    pwrite = buffers.pwrite

    def counting(fd: int, data: Any, position: int) -> int:
        sizes.append(len(data))
        return pwrite(fd, data, position)

    monkeypatch.setattr(file_io, "pwrite", counting)
    return sizes


@pytest.mark.whole_transfers
def test_they_get_offsets_in_order_by_one_write(log: UnifiedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, b"before")
    sizes = count_writes(monkeypatch)
    assert together(log, batch(b"a"), bytes(batch(b"b", b"c")), batch(b"d")) == [
        (1, 1, False, 1),
        (2, 3, False, 2),
        (4, 4, False, 1),
    ]
    assert len(sizes) == 1
    assert contents(log, 1) == [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]
    assert log.high_watermark == log.log_end_offset == 5
    together(log, batch(b"e"), batch(b"f"))
    assert len(sizes) == 2


def test_each_batch_is_found_where_it_is(log: UnifiedLog) -> None:
    together(log, *[batch(b"%d" % number, timestamp_ms=NOW_MS + number) for number in range(10)])
    for number in range(10):
        assert contents(log, number)[0] == (number, b"%d" % number)
        found = log.offset_for_timestamp(NOW_MS + number)
        assert found is not None
        assert found.offset == number


def test_the_largest_timestamp_is_not_that_of_the_last(log: UnifiedLog) -> None:
    together(log, batch(b"a"), batch(b"late", timestamp_ms=NOW_MS + 99), batch(b"c"))
    found = log.max_timestamp_offset()
    assert found is not None
    assert found.offset == 1


def test_an_invalid_one_takes_no_offset_and_does_not_fail_the_others(log: UnifiedLog) -> None:
    assert together(log, batch(b"a"), corrupt(), b"", batch(b"b")) == [
        (0, 0, False, 1),
        InvalidChecksumError,
        (-1, -1, False, 0),
        (1, 1, False, 1),
    ]
    assert contents(log) == [(0, b"a"), (1, b"b")]


@pytest.mark.whole_transfers
def test_if_all_are_invalid_nothing_is_written(log: UnifiedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = count_writes(monkeypatch)
    assert together(log, corrupt(), corrupt()) == [InvalidChecksumError] * 2
    assert not sizes
    assert log.log_end_offset == 0


def test_sequences_are_checked_in_order_also_within_one_producer(log: UnifiedLog) -> None:
    each = [sent_by(1, 0, b"a"), sent_by(2, 0, b"b"), sent_by(1, 1, b"c"), sent_by(1, 3, b"gap"), sent_by(2, 1, b"d")]
    assert together(log, *each) == [
        (0, 0, False, 1),
        (1, 1, False, 1),
        (2, 2, False, 1),
        OutOfOrderSequenceError,
        (3, 3, False, 1),
    ]


def test_what_a_producer_sends_again_in_between_is_appended_once(log: UnifiedLog) -> None:
    again = sent_by(1, 0, b"a", b"b")
    assert together(log, sent_by(1, 0, b"a", b"b"), batch(b"c"), again, batch(b"d")) == [
        (0, 1, False, 2),
        (2, 2, False, 1),
        (0, 1, True, 2),
        (3, 3, False, 1),
    ]
    assert [value for _, value in contents(log)] == [b"a", b"b", b"c", b"d"]


def test_without_acknowledgement_of_others_the_high_watermark_stays(log: UnifiedLog) -> None:
    together(log, batch(b"a"), batch(b"b"), is_alone=False)
    assert (log.high_watermark, log.log_end_offset) == (0, 2)


def test_a_segment_holds_no_more_than_it_may(tmp_path: Path) -> None:
    size = len(batch(b"x" * 50))
    log = Bench(tmp_path / "topic-0", segment_bytes=3 * size).open()
    results = together(log, *[batch(b"x" * 50) for _ in range(8)], batch(b"y" * 500))
    assert results == [*[(number, number, False, 1) for number in range(8)], RecordBatchTooLargeError]
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert all(segment.size_bytes <= 3 * size for segment in log.segments)


def test_a_segment_holds_no_more_than_it_may_although_batches_grow(tmp_path: Path) -> None:
    values = [bytes(800)] * 4
    log = Bench(tmp_path / "topic-0", segment_bytes=1_000, compression_type="uncompressed").open()
    results = together(log, *[batch(value, compression=Compression.GZIP) for value in values])
    assert results == [(number, number, False, 1) for number in range(4)]
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3]
    assert all(segment.size_bytes <= 1_000 for segment in log.segments)


@pytest.mark.whole_transfers
def test_batches_that_grow_are_not_all_in_memory_at_once(log: UnifiedLog, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    log.config = LogConfig(compression_type="uncompressed")
    sizes = count_writes(monkeypatch)
    each = batch(bytes(900_000), compression=Compression.GZIP)
    assert len(together(log, *[bytearray(each) for _ in range(9)])) == 9
    assert sum(sizes) > 8_000_000
    assert max(sizes) < 2_000_000


@pytest.mark.whole_transfers
def test_what_is_written_together_has_reached_its_limit_with_the_batch_that_makes_it_full(
    log: UnifiedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, b"before")
    size_bytes = len(batch(b"x"))
    sizes = count_writes(monkeypatch)
    for limit, written in ((2 * size_bytes, [2, 2, 1]), (2 * size_bytes + 1, [3, 2]), (2 * size_bytes - 1, [2, 2, 1])):
        monkeypatch.setattr(unified_log, "MAX_JOINED_BYTES", limit)
        sizes.clear()
        together(log, *[batch(b"x") for _ in range(5)])
        assert sizes == [count * size_bytes for count in written]


@pytest.mark.parametrize("first", [0, 1])
def test_a_segment_ends_where_it_would_by_the_age_of_its_records(tmp_path: Path, first: int) -> None:
    log = Bench(tmp_path / "topic-0", segment_ms=1_000).open()
    if not first:
        append(log, b"before")
    ages_ms = (0, 900, 1_100, 2_000, 2_200)
    results = together(log, *[batch(b"%d" % age_ms, timestamp_ms=NOW_MS + age_ms) for age_ms in ages_ms])
    assert len(results) == 5
    assert [segment.base_offset for segment in log.segments] == [0, 3 - first, 5 - first]


def test_a_segment_ends_where_it_would_by_its_index(tmp_path: Path) -> None:
    settings = {"segment_index_bytes": 5 * 12, "index_interval_bytes": 0}
    logs = [Bench(tmp_path / name, **settings).open() for name in ("topic-0", "topic-1")]
    each = [bytes(batch(b"x", timestamp_ms=NOW_MS + number)) for number in range(20)]
    assert together(logs[0], *each) == one_by_one(logs[1], each)
    bases = [[segment.base_offset for segment in log.segments] for log in logs]
    assert len(bases[1]) > 2
    assert bases[0] == bases[1]


@pytest.mark.parametrize("seed", range(share_of(60)))
def test_the_outcome_is_that_of_one_after_the_other(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    settings: dict[str, Any] = {
        "segment_bytes": rng.choice((200, 400, 1_000, 1 << 20)),
        "compression_type": rng.choice(("producer", "producer", "gzip", "uncompressed")),
        "index_interval_bytes": rng.choice((0, 200, 4096)),
        "message_timestamp_type": rng.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        "max_message_bytes": 600,
        "segment_ms": rng.choice((500, 900, 7 * 86_400_000)),
        "segment_index_bytes": rng.choice((36, 120, 1 << 20)),
    }
    benches = [Bench(tmp_path / name / "topic-0", **settings) for name in ("together", "one-by-one")]
    for each in benches:
        each.directory.parent.mkdir()
    grouped, plain = (each.open() for each in benches)
    next_sequences = dict.fromkeys(range(3), 0)
    for _ in range(6):
        sent = [one_of(rng, next_sequences) for _ in range(rng.randrange(1, 12))]
        assert together(grouped, *[bytearray(each) for each in sent]) == one_by_one(plain, [bytearray(each) for each in sent])
    assert contents(grouped) == contents(plain)
    assert [segment.base_offset for segment in grouped.segments] == [segment.base_offset for segment in plain.segments]
    assert grouped.log_end_offset == grouped.high_watermark == plain.log_end_offset
    assert state_of(grouped) == state_of(plain)
    largest, expected = grouped.max_timestamp_offset(), plain.max_timestamp_offset()
    assert largest == expected
    recovered = benches[0].open()
    assert contents(recovered) == contents(plain)


def state_of(log: UnifiedLog) -> list[Any]:
    """What the log knows of each producer."""
    return [
        (
            entry.producer_id,
            entry.epoch,
            entry.last_timestamp_ms,
            [(each.last_sequence, each.last_offset) for each in entry.batches],
        )
        for entry in log.active_producers()
    ]


def one_of(rng: random.Random, sequences: dict[int, int]) -> bytes:
    values = [rng.randbytes(rng.choice((0, 10, 90))) for _ in range(rng.randrange(1, 4))]
    kind = rng.randrange(12)
    options: dict[str, Any] = {"timestamp_ms": NOW_MS + rng.randrange(1_000)}
    if kind < 5:
        producer = rng.randrange(3)
        gap = rng.choices((0, 1, -1), (8, 1, 1))[0]
        sequence = max(0, sequences[producer] + gap)
        if not gap:
            sequences[producer] = sequence + len(values)
        options |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
    if kind == 6:
        options["compression"] = Compression.GZIP
    if kind == 7:
        values = [rng.randbytes(700)]
    made = batch(*values, **options)
    if kind == 8:
        made[rng.randrange(len(made))] ^= 1
    if kind == 9:
        made = made[: rng.randrange(len(made))]
    return bytes(made)


def test_a_failing_disk_fails_all_of_them(log: UnifiedLog, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, b"before")

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", fail)
        assert together(log, batch(b"a"), corrupt(), batch(b"b")) == [KafkaStorageError, InvalidChecksumError, KafkaStorageError]
    assert [error.errno for error in bench.failures] == [errno.EIO]
    assert contents(log) == [(0, b"before")]
    assert together(log, batch(b"c"), batch(b"d")) == [(1, 1, False, 1), (2, 2, False, 1)]
    assert contents(log) == [(0, b"before"), (1, b"c"), (2, b"d")]


def test_a_disk_that_takes_a_part_and_then_is_full_keeps_none(log: UnifiedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, b"before")
    pwrite = os.pwrite
    calls: list[int] = []

    def get_full(fd: int, data: Any, position: int) -> int:
        calls.append(position)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(fd, bytes(data)[:100], position)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", get_full)
        assert together(log, batch(b"a"), batch(b"b"), batch(b"c")) == [KafkaStorageError] * 3
    assert len(calls) == 2
    assert log._active.size_bytes == log._active.path.stat().st_size
    assert contents(log) == [(0, b"before")]


def test_a_sequence_that_was_not_written_is_still_expected(log: UnifiedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", fail)
        assert together(log, sent_by(1, 0, b"a"), sent_by(2, 0, b"b")) == [KafkaStorageError] * 2
    assert together(log, sent_by(1, 0, b"a"), sent_by(2, 0, b"b")) == [(0, 0, False, 1), (1, 1, False, 1)]


def test_a_flush_that_fails_fails_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path / "topic-0", flush_messages=1)
    log = bench.open()

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(disk, "sync_data", fail)
    assert together(log, batch(b"a"), corrupt(), batch(b"b")) == [KafkaStorageError, InvalidChecksumError, KafkaStorageError]


def test_flush_messages_counts_them_all(tmp_path: Path) -> None:
    log = Bench(tmp_path / "topic-0", flush_messages=3).open()
    together(log, batch(b"a"), batch(b"b"))
    assert log.recovery_point == 0
    together(log, batch(b"c"), batch(b"d"))
    assert log.recovery_point == 4
    together(log, batch(b"e"), batch(b"f"))
    assert log.recovery_point == 4
    together(log, batch(b"g"))
    assert log.recovery_point == 7


def test_a_closed_log_refuses_them_and_blames_no_disk(log: UnifiedLog, bench: Bench) -> None:
    log.close()
    assert together(log, batch(b"a"), batch(b"b")) == [KafkaStorageError] * 2
    assert not bench.failures


def test_a_closed_log_knows_no_duplicates_and_validates_nothing(log: UnifiedLog) -> None:
    together(log, sent_by(1, 0, b"a"))
    log.close()
    each = [sent_by(1, 0, b"a"), corrupt(), bytearray()]
    assert together(log, *map(bytearray, each)) == one_by_one(log, each) == [KafkaStorageError] * 3


def test_what_was_written_has_succeeded_although_the_next_write_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Bench(tmp_path / "topic-0").open()
    append_to = LogSegment.append
    calls: list[int] = []

    def fail_later(segment: LogSegment, records: Any, batches: Any) -> None:
        calls.append(len(batches))
        if len(calls) > 1:
            raise MemoryError
        append_to(segment, records, batches)

    monkeypatch.setattr(LogSegment, "append", fail_later)
    results = together(log, sent_by(1, 0, b"a"), corrupt(), sent_by(1, 1, b"b"), corrupt())
    assert results == [(0, 0, False, 1), InvalidChecksumError, MemoryError, InvalidChecksumError]
    assert log.log_end_offset == log.high_watermark == 1


def test_an_old_segment_that_cannot_be_read_fails_only_those_that_are_valid(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    log = bench.open()
    append(log, b"before")
    log = bench.reopen_clean(log)

    def fail(_: LogSegment) -> int:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(LogSegment, "find_first_timestamp_ms", fail)
    assert together(log, corrupt(), batch(b"a"), batch(b"b")) == [InvalidChecksumError, KafkaStorageError, KafkaStorageError]


def test_a_new_leader_epoch_begins_with_the_first_of_them(log: UnifiedLog) -> None:
    append(log, b"before")
    log.append_each_as_leader([corrupt(), batch(b"a"), batch(b"b")], 5, is_alone=True)
    assert log.epoch_for_offset(0) == 0
    assert log.epoch_for_offset(1) == log.epoch_for_offset(2) == 5


@pytest.mark.parametrize("fail_at", range(1, 14))
def test_a_disk_that_is_full_at_any_step_loses_nothing_that_was_answered(tmp_path: Path, fail_at: int) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    size = len(batch(b"0"))
    bench = Bench(root / "topic-0", segment_bytes=3 * size, index_interval_bytes=0)
    log = bench.open()
    disk = CrashDisk(root, random.Random(fail_at))
    answered: list[tuple[int, bytes]] = []
    with disk.watched(-1, fail_at):
        for number in range(0, 12, 4):
            values = [b"%d" % each for each in range(number, number + 4)]
            results = log.append_each_as_leader([batch(value) for value in values], 0, is_alone=True)
            answered += [
                (result.first_offset, value)
                for result, value in zip(results, values, strict=True)
                if isinstance(result, LogAppendInfo)
            ]
    found = contents(bench.open())
    assert set(answered) <= set(found)
    assert [offset for offset, _ in found] == list(range(len(found)))
