import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import NOW_MS, PARTITION, Bench, abort, append, batch, contents
from twisted_kafka.log.loading import log_loader
from twisted_kafka.log.loading.log_loader import LastStop, LogLoader
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.system.files import disk


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "topic-0", segment_bytes=1024, index_interval_bytes=150)


def fill(log: UnifiedLog, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        append(log, b"value-%d" % number, timestamp_ms=NOW_MS + number)


def values(count: int) -> list[tuple[int, bytes]]:
    return [(number, b"value-%d" % number) for number in range(count)]


def index_files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name.endswith("index")}


def test_a_process_that_dies_loses_nothing(bench: Bench) -> None:
    log = bench.open()
    fill(log, 50)
    assert contents(bench.open()) == values(50)


@pytest.mark.medium
def test_a_tail_torn_at_any_byte_is_cut_at_the_batch(bench: Bench, tmp_path: Path) -> None:
    log = bench.open()
    fill(log, 11)
    whole = log.segments.active.path.read_bytes()
    last = log.offset_metadata(10).relative_position
    for size in range(last, len(whole)):
        bench.directory = tmp_path / "copy" / "topic-0"
        shutil.copytree(log.dir, bench.directory)
        os.truncate(bench.directory / log.segments.active.path.name, size)
        again = bench.open()
        assert again.log_end_offset == 10
        assert again.size_bytes == last
        assert append(again, b"next") == 10
        shutil.rmtree(bench.directory)


@pytest.mark.parametrize("was_clean", [False, True])
def test_what_recovery_cuts_off_is_gone_after_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_clean: bool
) -> None:
    """Else old batches could lie after what is appended next, of which only the first pages reach the disk."""
    bench = Bench(tmp_path / "topic-0")
    log = bench.open()
    fill(log, 11)
    position = log.offset_metadata(5).relative_position
    log.flush()
    log.close()
    path = log.segments.active.path
    with open(path, "r+b") as file:
        file.seek(position + 30)
        file.write(b"\xff")
    if was_clean:
        path.with_suffix(".txnindex").write_bytes(b"torn")
    durable = {}
    real = disk.sync_data

    def sync(fd: Any) -> None:
        durable[os.readlink(f"/proc/self/fd/{fd}")] = os.fstat(fd).st_size
        real(fd)

    monkeypatch.setattr(disk, "sync_data", sync)
    assert bench.open(was_clean=was_clean, recovery_point=0 if was_clean else 11).size_bytes == position
    assert durable == {str(path): position}


@pytest.mark.parametrize("at", [0, 8, 12, 16, 17, 21, 23, 30, 45, 57, 61, 70])
def test_a_damaged_byte_cuts_the_log_there(bench: Bench, at: int) -> None:
    log = bench.open()
    fill(log, 12)
    path = log.segments.active.path
    position = log.offset_metadata(9).relative_position
    with open(path, "r+b") as file:
        file.seek(position + at)
        byte = file.read(1)[0]
        file.seek(position + at)
        file.write(bytes([byte ^ 0x80]))
    again = bench.open()
    if at == 12:  # the leader epoch is not covered by the CRC
        assert again.log_end_offset == 12
    elif at != 0:
        assert contents(again) == values(9)
    else:
        assert again.log_end_offset == 9


def test_what_lies_after_a_corrupt_segment_is_removed(bench: Bench) -> None:
    log = bench.open()
    fill(log, 60)
    bases = [segment.base_offset for segment in log.segments]
    second = list(log.segments)[1]
    os.truncate(second.path, second.size_bytes - 1)
    again = bench.open()
    assert again.log_end_offset == bases[2] - 1
    assert [segment.base_offset for segment in again.segments] == bases[:2]
    assert contents(again) == values(bases[2] - 1)
    assert contents(bench.reopen_clean(again)) == values(bases[2] - 1)


def test_segments_before_the_recovery_point_are_not_read(bench: Bench) -> None:
    log = bench.open()
    fill(log, 60)
    bench.scheduler.run_due()
    assert log.recovery_point == log.segments.active.base_offset
    first = log.segments.first
    data = bytearray(first.path.read_bytes())
    data[100] ^= 1
    first.path.write_bytes(data)
    assert bench.open(recovery_point=log.recovery_point).log_end_offset == 60
    assert bench.open().log_end_offset < 60


@pytest.mark.parametrize("known", [{"was_clean": True}, {}])
@pytest.mark.parametrize("damage", ["missing", "short", "empty"])
def test_indexes_are_built_anew(bench: Bench, damage: str, known: dict[str, bool]) -> None:
    log = bench.open()
    fill(log, 60)
    log.flush()
    log.close()
    before = index_files(bench.directory)
    for name in before:
        path = bench.directory / name
        if damage == "missing":
            path.unlink()
        elif damage == "short":
            os.truncate(path, max(0, path.stat().st_size - 5))
        elif not known:
            os.truncate(path, 0)
    again = bench.open(recovery_point=0, **known)
    assert contents(again) == values(60)
    again.close()
    assert index_files(bench.directory) == before


def test_garbage_in_indexes_after_a_crash(bench: Bench) -> None:
    log = bench.open()
    fill(log, 60)
    log.close()
    before = index_files(bench.directory)
    for name, data in before.items():
        (bench.directory / name).write_bytes(os.urandom(len(data)))
    again = bench.open()
    assert contents(again) == values(60)
    again.close()
    assert index_files(bench.directory) == before


def test_preallocated_indexes_of_kafka_are_cut(bench: Bench) -> None:
    log = bench.open()
    fill(log, 5)
    log.close()
    before = index_files(bench.directory)
    for name, size in (("00000000000000000000.index", 16384), ("00000000000000000000.timeindex", 16380)):
        os.truncate(bench.directory / name, size)
    again = bench.open(was_clean=True)
    assert contents(again) == values(5)
    again.close()
    assert index_files(bench.directory) == before


def test_a_clean_start_reads_no_segment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    log = bench.open()
    fill(log, 60)
    log.flush()
    log.close()
    opened = []
    monkeypatch.setattr(LogLoader, "_recover", lambda *_: opened.append(1))
    monkeypatch.setattr("twisted_kafka.log.segment.log_segment.LogSegment.locate", lambda *_: opened.append(1))
    again = bench.open(was_clean=True)
    assert again.log_end_offset == 60
    assert not opened
    assert all(segment._file is None for segment in list(again.segments)[:-1])


def test_leftovers_are_removed(bench: Bench) -> None:
    log = bench.open()
    fill(log, 3)
    log.close()
    for name in ("00000000000000000000.log.deleted", "x.tmp", "00000000000000000007.log.cleaned", "00000000000000000009.index"):
        (bench.directory / name).write_bytes(b"junk")
    bench.open(was_clean=True)
    assert sorted(os.listdir(bench.directory)) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_a_recovery_point_beyond_the_end_does_no_harm(bench: Bench) -> None:
    log = bench.open()
    fill(log, 30)
    again = bench.open(recovery_point=10_000)
    assert contents(again) == values(30)
    assert again.recovery_point <= 30


def test_a_log_that_ends_before_its_start_offset_begins_anew(bench: Bench) -> None:
    log = bench.open()
    fill(log, 10)
    again = bench.open(log_start_offset=20)
    assert (again.log_start_offset, again.log_end_offset) == (20, 20)
    assert append(again, b"x") == 20


def test_epochs_come_back_from_the_batches(bench: Bench) -> None:
    log = bench.open()
    for epoch in (0, 0, 3, 3, 7):
        append(log, b"x", epoch=epoch)
    wanted = log.leader_epochs.entries
    (bench.directory / "leader-epoch-checkpoint").write_text("rubbish")
    assert bench.open().leader_epochs.entries == wanted == ((0, 0), (3, 2), (7, 4))


def test_epochs_of_what_was_cut_are_forgotten(bench: Bench) -> None:
    log = bench.open()
    append(log, b"x", epoch=0)
    append(log, b"y", epoch=5)
    os.truncate(log.segments.active.path, log.size_bytes - 1)
    assert bench.open().latest_epoch == 0


@pytest.mark.medium
def test_batches_larger_than_the_reading_window(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", max_message_bytes=10 << 20)
    log = bench.open()
    for size in (10, 3 << 20, 1 << 20, 5, (1 << 20) - 61):
        append(log, os.urandom(size))
    append(log, b"last")
    assert contents(bench.open()) == contents(log)
    os.truncate(log.segments.active.path, log.size_bytes - 20)
    assert bench.open().log_end_offset == 5


def test_an_old_format_file_recovers(bench: Bench) -> None:
    data = b"".join(bytes(batch(b"a", b"b", base_offset=2 * number, magic=1)) for number in range(5))
    bench.directory.mkdir()
    (bench.directory / "00000000000000000000.log").write_bytes(data + data[:10])
    log = bench.open()
    assert log.log_end_offset == 10
    assert [offset for offset, _ in contents(log)] == list(range(10))


# Indexes of closed segments, which are looked at when they are first needed.


def damage_positions(data: bytes) -> bytes:
    return b"".join(data[at : at + 4] + (int.from_bytes(data[at + 4 : at + 8]) + 1).to_bytes(4) for at in range(0, len(data), 8))


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        (".index", damage_positions),
        (".index", lambda data: data[:-4] + b"\xff\xff\xff\xff"),
        (".index", lambda data: data[:-8] + b"\0\0\0\0" + data[-4:]),
        (".index", lambda data: b""),
        (".timeindex", lambda data: data[:-12] + bytes(8) + data[-4:]),
        (".timeindex", lambda data: b""),
    ],
)
def test_wrong_indexes_are_noticed_when_they_are_used(bench: Bench, suffix: str, damage: Callable[..., Any]) -> None:
    log = bench.open()
    fill(log, 50)
    log.flush()
    log.close()
    first = bench.directory / f"{0:020}{suffix}"
    sound = index_files(bench.directory)
    first.write_bytes(damage(first.read_bytes()))
    log = bench.open(was_clean=True)
    assert first.read_bytes() != sound[first.name]  # opening reads nothing
    for number in range(50):
        assert contents(log, number) == values(50)[number:]
        assert log.offset_for_timestamp(NOW_MS + number).offset == number
    assert log.max_timestamp_offset().offset == 49
    if damage(b"x" * 24):
        assert index_files(bench.directory)[first.name] == sound[first.name]


def test_a_log_that_grew_after_its_clean_stop_is_recovered(bench: Bench) -> None:
    log = bench.open()
    fill(log, 5)
    log.flush()
    log.close()
    with open(bench.directory / f"{0:020}.log", "ab") as file:
        file.write(b"garbage, or zeros")
    log = bench.open(was_clean=True, recovery_point=5)
    assert contents(log) == values(5)
    append(log, b"value-5", timestamp_ms=NOW_MS + 5)
    assert contents(log) == values(6)


# Room on the disk.


def test_room_is_reserved_and_given_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=4096, preallocate=True)
    log = bench.open()
    path = log.segments.active.path
    assert path.stat().st_size == 4096
    fill(log, 3)
    assert contents(log) == values(3)
    written = log.segments.active.size_bytes
    assert (path.stat().st_size, log.size_bytes) == (4096, written)
    log.roll()
    assert path.stat().st_size == written
    assert log.segments.active.path.stat().st_size == 4096
    fill(log, 3, 3)
    log.flush()
    log.close()
    assert log.segments.active.path.stat().st_size == log.segments.active.size_bytes
    assert contents(bench.open(was_clean=True)) == values(6)


def test_what_was_reserved_is_cut_after_a_crash(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=4096, preallocate=True)
    log = bench.open()
    fill(log, 3)
    log = bench.open()
    assert contents(log) == values(3)
    assert log.segments.active.path.stat().st_size == log.size_bytes < 4096
    fill(log, 3, 3)
    assert contents(log) == values(6)


def lose_the_tail_of_the_first_segment(log: UnifiedLog) -> int:
    """Cut its last batch off, as a machine may lose what was not flushed while it keeps a later file."""
    first = log.segments.first
    following = log.segments.after(first).base_offset
    os.truncate(first.path, log.offset_metadata(following - 1).relative_position)
    return following - 1


def test_what_lies_after_a_lost_tail_is_removed(bench: Bench) -> None:
    log = bench.open()
    fill(log, 40)
    end = lose_the_tail_of_the_first_segment(log)
    again = bench.open(was_compacted=False)
    assert contents(again) == values(end)
    assert len(again.segments) == 1
    assert append(again, b"next") == end
    assert bench.open(was_compacted=False).log_end_offset == end + 1


def test_a_log_that_was_compacted_may_have_gaps(bench: Bench) -> None:
    log = bench.open()
    fill(log, 40)
    missing = lose_the_tail_of_the_first_segment(log)
    assert [offset for offset, _ in contents(bench.open(was_compacted=True))] == [n for n in range(40) if n != missing]


def test_a_segment_that_overlaps_the_one_before_is_removed(bench: Bench) -> None:
    log = bench.open()
    fill(log, 40)
    first, second = list(log.segments)[:2]
    with open(first.path, "ab") as file:
        file.write(batch(b"other", base_offset=second.base_offset))
    again = bench.open()
    assert again.log_end_offset == second.base_offset + 1
    assert [segment.base_offset for segment in again.segments] == [0]


def test_a_death_while_the_log_is_cut_leaves_no_hole(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    log = bench.open()
    fill(log, 60)
    assert len(log.segments) > 3
    os.truncate(log.segments.first.path, log.segments.first.size_bytes - 1)
    end = log.segments.after(log.segments.first).base_offset - 1
    removed = []
    unlink = os.unlink

    def dies(path: Any, **options: Any) -> None:
        if str(path).endswith(".log"):
            removed.append(path)
            if len(removed) == 2:
                raise KeyboardInterrupt
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", dies)
    with pytest.raises(KeyboardInterrupt):
        bench.open()
    monkeypatch.undo()
    assert contents(bench.open()) == values(end)


def test_an_index_that_is_missing_beside_garbage(bench: Bench) -> None:
    log = bench.open()
    fill(log, 12)
    log.flush()
    path = log.segments.active.path
    end = path.stat().st_size
    with open(path, "ab") as file:
        # A header that could be one, whose offsets go backwards.
        file.write(batch(b"x", base_offset=-5))
    path.with_suffix(".index").unlink(missing_ok=True)
    again = bench.open()
    assert contents(again) == values(12)
    assert path.stat().st_size == end


def test_a_log_that_is_opened_and_led_in_the_same_epoch_keeps_its_file_of_epochs(bench: Bench) -> None:
    """Replacing it in each of thousands of logs would take most of the time of a start."""
    log = bench.open()
    for epoch in (0, 2):
        log.assign_epoch_start_offset(epoch, log.log_end_offset)
        path = bench.directory / "leader-epoch-checkpoint"
        os.utime(path, (0, 0))
        log = bench.reopen_clean(log)
        assert log.latest_epoch == (-1 if epoch == 0 else 0)  # no record has the latest
        log.assign_epoch_start_offset(epoch, log.log_end_offset)
        assert log.latest_epoch == epoch
        assert path.stat().st_mtime == 0
        append(log, b"x", epoch=epoch)


@pytest.mark.parametrize("how", ["flushed", "torn", "clean"])
def test_an_epoch_without_records_that_a_start_forgot_does_not_come_back(bench: Bench, how: str) -> None:
    log = bench.open()
    append(log, b"a", epoch=1)
    log.assign_epoch_start_offset(5, 1)  # elected, and stopped before it appended anything
    log = bench.reopen_clean(log)
    log.append_as_follower(batch(b"b", base_offset=1, partition_leader_epoch=1))
    if how == "torn":
        again = bench.open(recovery_point=1)
    elif how == "flushed":
        log.flush()
        again = bench.open(recovery_point=2)
    else:
        again = bench.reopen_clean(log)
    assert again.leader_epochs.entries == ((1, 0),)
    assert again.log_end_offset == 2


def test_an_epoch_without_records_that_a_start_forgot_is_truncated_in_the_file_too(bench: Bench) -> None:
    log = bench.open()
    append(log, b"a", epoch=1)
    append(log, b"b", epoch=1)
    log.assign_epoch_start_offset(5, 2)
    log = bench.reopen_clean(log)
    log.truncate_to(1)
    assert (bench.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"


@pytest.mark.parametrize("was_clean", [False, True])
@pytest.mark.parametrize("left", [b"", b"0\n2\n0 0\n3 1", b"\0" * 12])
def test_epochs_come_from_flushed_batches_when_their_file_is_torn(bench: Bench, left: bytes, was_clean: bool) -> None:
    log = bench.open()
    fill(log, 20)
    for number in range(20, 40):
        append(log, b"value-%d" % number, epoch=3)
    log.flush()
    (bench.directory / "leader-epoch-checkpoint").write_bytes(left)
    if was_clean:
        log.close()
    assert bench.open(recovery_point=40, was_clean=was_clean).leader_epochs.entries == ((0, 0), (3, 20))


def test_a_topic_id_that_was_torn_is_in_nobodys_way(bench: Bench) -> None:
    log = bench.open()
    path = bench.directory / "partition.metadata"
    path.write_text("version: 0\ntopic_")
    log = bench.open()
    assert log.topic_id is None
    assert not path.exists()
    log = bench.reopen_clean(log)
    log.assign_topic_id(bytes(range(16)))
    assert bench.reopen_clean(log).topic_id == bytes(range(16))


def test_unfinished_swaps_go_before_what_tells_that_they_are(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    log = bench.open()
    fill(log, 40)
    log.flush()
    name = f"{0:020d}"
    for suffix in (".log.cleaned", ".index.swap", ".timeindex.swap"):
        (bench.directory / (name + suffix)).write_bytes(bytes(12) if "timeindex" in suffix else b"")
    removed = []
    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", lambda path, **options: (removed.append(str(path)), unlink(path, **options))[1])
    assert contents(bench.open(recovery_point=40)) == values(40)
    assert [path.rsplit(".", 1)[1] for path in removed if path.endswith((".swap", ".cleaned"))] == ["swap", "swap", "cleaned"]


def test_a_clean_start_takes_no_index_that_goes_beyond_the_batches(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "topic-0", index_interval_bytes=0)
    log = bench.open()
    append(log, b"0", b"1")
    log.flush()
    log.close()
    index = tmp_path / "topic-0" / "00000000000000000000.index"
    index.write_bytes(struct.pack(">II", 2, log.size_bytes))
    log = bench.open(was_clean=True)
    assert contents(log) == [(0, b"0"), (1, b"1")]
    assert log.log_end_offset == 2


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: bytes(len(data)), lambda data: b"\1" + data[1:]])
def test_aborted_transactions_that_were_damaged_are_read_from_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes], was_clean: bool
) -> None:
    bench = Bench(tmp_path / "topic-0", segment_bytes=1024, index_interval_bytes=150)
    log = bench.open()
    for sequence in range(8):
        append(log, b"x", producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        abort(log, 7)
        fill(log, 3, log.log_end_offset)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert len(aborted) == 8
    assert len(log.segments) > 3
    log.flush()
    log.close()
    sound = {path.name: path.read_bytes() for path in bench.directory.iterdir() if path.suffix != ".snapshot"}
    torn = sorted(bench.directory.glob("*.txnindex"))
    assert len(torn) > 2
    for path in (torn[0], torn[-1]):
        path.write_bytes(damage(path.read_bytes()))
    synced: list[Path] = []
    with monkeypatch.context() as patched:
        patched.setattr(log_loader, "sync_directory", synced.append)
        log = bench.open(was_clean=was_clean, recovery_point=log.recovery_point)
    assert synced == [bench.directory] * 2, "the files are new"
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    assert log.log_end_offset == 40
    log.flush()
    log.close()
    assert {path.name: path.read_bytes() for path in bench.directory.iterdir() if path.suffix != ".snapshot"} == sound


def test_of_snapshots_that_belong_to_no_segment_only_the_newest_stays(bench: Bench) -> None:
    log = bench.open()
    for sequence in range(40):
        append(log, b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.flush()
    log.close()
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 2
    newest = (bench.directory / f"{40:020}.snapshot").read_bytes()
    for stray in (1, bases[-1] + 1, 41, 1000):
        (bench.directory / f"{stray:020}.snapshot").write_bytes(newest)
    for known in ({"was_clean": True}, {"recovery_point": 40}, {}):
        log = bench.open(**known)
        snapshots = [int(path.name[:20]) for path in sorted(bench.directory.glob("*.snapshot"))]
        assert set(snapshots) - set(bases) <= {40}
        assert set(bases[1:]) <= set(snapshots)
        assert [entry.last_sequence for entry in log.active_producers()] == [39]


def test_a_segment_that_is_opened_again_is_as_old_as_its_file(bench: Bench) -> None:
    """Records without times are rolled by its age."""
    log = bench.open()
    append(log, b"a")
    os.utime(log.segments.active.path, (1_000_000, 1_600_000_000.5))
    assert bench.open(was_clean=True).segments.active.created_ms == 1_600_000_000_500


def test_segments_that_were_read_are_told(bench: Bench) -> None:
    log = bench.open()
    fill(log, 40)
    sizes = [segment.size_bytes for segment in log.segments]
    told: list[tuple[int, int]] = []
    UnifiedLog.open(
        bench.directory,
        PARTITION,
        bench.config,
        bench.environment,
        LastStop(log.segments.after(log.segments.first).base_offset),
        lambda *segment: told.append(segment),
    )
    left = range(len(sizes) - 1, -1, -1)
    assert told == list(zip(left, [0, *sizes[1:]], strict=True))


@pytest.mark.parametrize("recovery_point", [0, 1, 39, 40])
def test_what_recovery_rebuilt_counts_as_not_flushed(bench: Bench, recovery_point: int) -> None:
    log = bench.open()
    fill(log, 40)
    again = bench.open(recovery_point=recovery_point)
    checked_from = max(segment.base_offset for segment in log.segments if segment.base_offset <= recovery_point)
    assert again.recovery_point == checked_from
    assert bench.reopen_clean(again).recovery_point == 40


@pytest.mark.parametrize(("start", "expected"), [(0, 0), (7, 7), (40, 40), (41, 41)])
def test_the_log_start_is_that_of_the_checkpoint_unless_the_first_segment_begins_later(
    bench: Bench, start: int, expected: int
) -> None:
    log = bench.open()
    fill(log, 40)
    again = bench.open(log_start_offset=start)
    assert again.log_start_offset == expected
    assert again.log_end_offset == max(40, expected)
    log.truncate_fully_and_start_at(30)
    fill(log, 10, 30)
    assert bench.open(log_start_offset=start).log_start_offset == max(30, expected)
