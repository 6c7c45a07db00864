"""Logs after deaths at every step of a life, of the process and of the machine, and on full disks: what was promised is there.

Promised is: a record that was appended outlives the process; one that was flushed outlives the machine; what was truncated stays
away. Never does a log give what was not appended, a record twice, or records with a hole between them; a part of what retention
deleted may come back. In a compacted log the last record of a key outlives its compaction. Producers' sequences, open and aborted
transactions and leader epochs are those of the records that are left.
"""

import errno
import itertools
import os
import random
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.log.crash_disk import CrashDisk, MachineDied, deaths
from tests.log.log_managers import Broker, end_all_brokers
from tests.support.budget import first_of, share_of
from tests.support.logs import NOW_MS, Bench, abort, append, contents
from twisted_kafka.log.directories import log_directory
from twisted_kafka.log.files import sync_directory, sync_file
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.partition_metadata import PARTITION_METADATA
from twisted_kafka.log.segment.log_segment import LogSegment
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.log_dirs.alter_log_dirs_copy import ReplicaCopier
from twisted_kafka.system.files import disk

pytestmark = pytest.mark.whole_transfers
"""Their steps are counted."""

PLAIN, COMPACTED = TopicPartition("plain", 0), TopicPartition("compacted", 0)
SETTINGS: dict[str, Any] = {
    "log_cleaner_threads": 0,
    "log_cleaner_backoff_ms": 0,
    "log_initial_task_delay_ms": 1000,
    "log_segment_delete_delay_ms": 1000,
    "transaction_partition_verification_enable": "false",
}
TOPICS = {
    "plain": {"segment.bytes": "600", "index.interval.bytes": "0", "retention.bytes": "6000"},
    "compacted": {"segment.bytes": "600", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}
DIRECTORIES = ("disk/a", "disk/b")
TICK_MS = 300_000
STEPS_OF_A_LIFE = 25
STEPS_OF_THE_DISK = 250
KEYS = 7
PRODUCERS = 3
LIVES = 4
TOPIC_ID = bytes(range(16))
SEEDS = share_of(60)
PARTS = 20
"""So that what the crashes of one part leave open is closed before the next."""


@dataclass
class Appended:
    """A batch that was appended."""

    first: int
    records: list[tuple[bytes | None, bytes]]
    epoch: int
    producer: int = -1
    last_sequence: int = -1
    is_transactional: bool = False
    marker: str = ""

    @property
    def end(self) -> int:
        return self.first + max(len(self.records), 1)


@dataclass
class Model:
    """What was appended to one partition, and how much of it is promised."""

    batches: list[Appended] = field(default_factory=list)
    end: int = 0
    flushed_end: int = 0
    kept_end: int = 0
    lost: set[int] = field(default_factory=set)
    """Offsets that a power failure took out of the middle, which is possible where a compaction leaves gaps, too."""
    high_watermark: int = 0
    """The largest that there was: nothing below may be truncated, as replication has it."""
    deleted_to: int = 0
    retained_from: int = 0
    """Where the log began when segments were deleted: the machine may lose some of their deletions and keep others."""

    def forget_from(self, end: int) -> None:
        self.batches = [batch for batch in self.batches if batch.end <= end]
        self.end = self.kept_end = end
        self.flushed_end = min(self.flushed_end, end)
        self.high_watermark = min(self.high_watermark, end)
        self.lost = {offset for offset in self.lost if offset < end}

    def end_of_records(self, end: int) -> int:
        """Return where the last record below ``end`` ends: behind it there may be a gap, which a restart forgets."""
        return max((offset + 1 for offset in self.offsets() if offset < end), default=0)

    def offsets(self) -> set[int]:
        """The offsets of all records, those of markers too."""
        return {offset for batch in self.batches for offset in range(batch.first, batch.end)} - self.lost

    def records(self) -> dict[int, tuple[bytes | None, bytes]]:
        return {
            batch.first + number: record
            for batch in self.batches
            for number, record in enumerate(batch.records)
            if batch.first + number not in self.lost
        }

    def producers(self) -> dict[int, tuple[int, int]]:
        """Each producer's last sequence and the first offset of its open transaction, or -1."""
        found: dict[int, tuple[int, int]] = {}
        for batch in self.batches:
            if batch.producer >= 0:
                sequence, opened = found.get(batch.producer, (-1, -1))
                if batch.marker:
                    opened = -1
                else:
                    sequence = batch.last_sequence
                    opened = batch.first if batch.is_transactional and opened < 0 else opened
                found[batch.producer] = (sequence, opened)
        return found

    def aborted(self) -> set[tuple[int, int, int]]:
        found: set[Any] = set()
        opened: dict[Any, Any] = {}
        for batch in self.batches:
            if batch.marker:
                first = opened.pop(batch.producer, None)
                if batch.marker == "abort" and first is not None:
                    found.add((batch.producer, first, batch.first))
            elif batch.is_transactional:
                opened.setdefault(batch.producer, batch.first)
        return found

    def epochs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for batch in self.batches:
            if not found or batch.epoch > found[-1][0]:
                found.append((batch.epoch, batch.first))
        return found


@dataclass
class Moved:
    """As much of a partition as its move wants."""

    topic_partition: TopicPartition
    log: UnifiedLog
    future_log: UnifiedLog
    manager: LogManager

    def replace_log(self, is_complete: Callable[[], bool], replace: Callable[[], UnifiedLog]) -> bool:
        if is_complete():
            replace()
            return True
        return False


class Beside:
    """Something done on another thread; ``end`` raises what it raised."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._error: BaseException | None = None
        self._action = action
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:  # noqa: BLE001 the thread that waits for this one gets it
            self._error = error

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive(), "a thread waits for ever"
        if self._error is not None:
            raise self._error


class World:
    """A broker's logs, their models and the disk under them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.broker = Broker(directory)
        self.broker.topic_configs = TOPICS
        (directory / "disk").mkdir()
        self.disk = CrashDisk(directory / "disk", self.random)
        self.models = {PLAIN: Model(), COMPACTED: Model()}
        self.serial = 0
        self.epoch = 0

    def live(self, crash_at: int, fail_at: int, work: Callable[[LogManager], None]) -> bool:
        """Start, do some ``work`` and stop; return whether that was ended by a death or by a full disk."""
        manager: LogManager | None = None
        self.epoch += 1
        with self.disk.watched(crash_at, fail_at):
            try:
                manager = self.broker.manager(DIRECTORIES, **SETTINGS)
                manager.startup(lambda topic: TOPICS[topic])
                for _ in range(STEPS_OF_A_LIFE):
                    work(manager)
                manager.shutdown()
                if self.disk.is_full:
                    return True
                for model in self.models.values():
                    model.flushed_end = model.end
                return False
            except MachineDied:
                end_all_brokers()
                return True
            except (KafkaStorageError, log_directory.LogDirectoryError):
                assert self.disk.is_full
                assert manager is not None
                offline = [directory for directory in manager.directories if not directory.is_online]
                assert offline
                for directory in offline:
                    manager.forget_directory(directory)
                manager.shutdown()
                return True

    def work(self, manager: LogManager) -> None:
        partition = self.random.choice((PLAIN, COMPACTED))
        model = self.models[partition]
        log = manager.get_or_create_log(partition, TOPIC_ID)
        what = self.random.random()
        if what < 0.65:
            self.append(log, model, partition)
        elif what < 0.78:
            end = log.log_end_offset
            log.flush()
            model.flushed_end = max(model.flushed_end, end)
        elif what < 0.84:
            self.truncate(manager, partition, model)
        elif what < 0.88 and partition == PLAIN:
            self.raise_high_watermark(log, model)
            model.deleted_to = self.random.randint(log.log_start_offset, log.log_end_offset)
            log.increment_log_start_offset(model.deleted_to)
        elif what < 0.92:
            self.move(manager, partition, log)
        else:
            self.raise_high_watermark(log, model)
            self.tend(manager)

    def work_on_two_threads(self, manager: LogManager) -> None:
        """Append to a log while another thread flushes it, moves it or compacts, or works on the other log."""
        if self.random.random() < 0.3:
            self.work(manager)  # truncations, too, which happen to no log that is appended to
            return
        partition, other = self.random.sample((PLAIN, COMPACTED), 2)
        model, log = self.models[partition], manager.get_or_create_log(partition, TOPIC_ID)
        manager.get_or_create_log(other, TOPIC_ID)
        what = self.random.random()

        def act() -> None:
            if what < 0.5:
                end = log.log_end_offset
                log.flush()
                model.flushed_end = max(model.flushed_end, end)
            elif what < 0.6:
                self.truncate(manager, other, self.models[other])
            elif what < 0.7:
                self.move(manager, other, manager.get_or_create_log(other))
            else:
                self.raise_high_watermark(log, model)
                self.tend(manager)

        beside = Beside(act)
        try:
            for _ in range(self.random.randint(1, 4)):
                self.append(log, model, partition)
        finally:
            beside.end()

    def tend(self, manager: LogManager) -> None:
        """Compact; before that, or not, flush rolled segments, delete old ones, write checkpoints, remove what was marked."""
        if self.random.random() < 0.7:
            self.broker.later(TICK_MS)
            for partition, model in self.models.items():
                log = manager.get_log(partition)
                if log is not None:
                    model.retained_from = max(model.retained_from, log.log_start_offset)
        manager.cleaner.clean_filthiest()

    def raise_high_watermark(self, log: UnifiedLog, model: Model) -> None:
        model.high_watermark = log.update_high_watermark(log.log_end_offset)

    def truncate(self, manager: LogManager, partition: TopicPartition, model: Model) -> None:
        log = manager.get_or_create_log(partition)
        lowest = max(log.log_start_offset, model.high_watermark)
        if lowest >= log.log_end_offset:
            return
        offset = self.random.randint(lowest, log.log_end_offset - 1)
        whole = max((batch.end for batch in model.batches if batch.end <= offset), default=lowest)
        model.flushed_end, model.kept_end = min(model.flushed_end, whole), min(model.kept_end, whole)
        assert manager.truncate_to(partition, offset)
        assert lowest <= log.log_end_offset <= offset
        model.forget_from(log.log_end_offset)

    def move(self, manager: LogManager, partition: TopicPartition, log: UnifiedLog) -> None:
        if manager.get_future_log(partition) is None:
            (target,) = [directory for directory in manager.directories if directory.path != log.parent]
            manager.prefer(partition, target)
        future = manager.get_or_create_future_log(partition, TOPIC_ID)
        if self.random.random() < 0.2:
            return  # to be continued
        copier = ReplicaCopier(manager, 300)
        while copier.step(Moved(partition, log, future, manager)).is_done is False:  # type: ignore[arg-type]
            pass
        assert manager.get_log(partition) is future

    def append(self, log: UnifiedLog, model: Model, partition: TopicPartition) -> None:
        first = log.log_end_offset
        producer = self.random.randrange(-1, PRODUCERS) if partition == PLAIN else -1
        sequence, opened = model.producers().get(producer, (-1, -1))
        if any(entry.producer_id == producer and not entry.batches for entry in log.active_producers()):
            sequence = -1  # its batches are deleted, but not its last marker: it has to begin anew, as with Kafka
        if opened >= 0 and self.random.random() < 0.5:
            is_commit = self.random.random() < 0.5
            marker = end_transaction_marker(
                producer_id=producer, producer_epoch=0, commit=is_commit, coordinator_epoch=0, timestamp_ms=NOW_MS
            )
            new = Appended(first, [], self.epoch, producer, is_transactional=True, marker="commit" if is_commit else "abort")
            self.append_batch(log, model, bytes(marker), new, AppendOrigin.COORDINATOR)
            return
        records = []
        for _ in range(self.random.randint(1, 4)):
            self.serial += 1
            key = b"k%d" % self.random.randrange(KEYS) if partition == COMPACTED else None
            records.append(SimpleRecord(NOW_MS + self.serial, key, b"%d" % self.serial))
        options: dict[str, Any] = {}
        is_transactional = opened >= 0 or producer == 0
        if producer >= 0:
            options = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequence + 1,
                "is_transactional": is_transactional,
            }
        new = Appended(
            first,
            [(record.key, record.value) for record in records],
            self.epoch,
            producer,
            sequence + len(records),
            is_transactional,
        )
        self.append_batch(log, model, build_batch(records, **options), new, AppendOrigin.CLIENT)

    def append_batch(self, log: UnifiedLog, model: Model, data: bytes, new: Appended, origin: AppendOrigin) -> None:
        # Before it is answered it may be there or not.
        model.batches.append(new)
        kept, model.end = model.end, new.end
        info = log.append_as_leader(bytearray(data), self.epoch, origin)
        assert (info.first_offset, info.last_offset) == (new.first, new.end - 1)
        assert kept == new.first
        model.kept_end = new.end

    def check(self, *, after_power_loss: bool) -> None:
        """Start, compare with the models, and stop in order."""
        manager = self.broker.start(DIRECTORIES, **SETTINGS)
        try:
            for partition, model in self.models.items():
                log = manager.get_log(partition)
                promised_end = model.end_of_records(model.flushed_end if after_power_loss else model.kept_end)
                if log is None:
                    assert promised_end == 0, f"{partition} is gone"
                    model.forget_from(0)
                    continue
                assert promised_end <= log.log_end_offset <= model.end, partition
                assert log.topic_id in (TOPIC_ID, None)
                model.forget_from(log.log_end_offset)
                # What the log had lost may come back with a copy of it that was being moved.
                model.lost -= {offset for offset, _ in contents(log)}
                if after_power_loss and partition == COMPACTED:
                    self.note_lost(log, model, promised_end)
                self.compare(partition, log, model)
                model.flushed_end = log.log_end_offset
        finally:
            manager.shutdown()

    def note_lost(self, log: UnifiedLog, model: Model, promised_end: int) -> None:
        # Those with a later record of their key, too: a truncation may remove that one, and does not bring back what was lost.
        model.lost |= {offset for offset in model.records() if offset >= promised_end} - {offset for offset, _ in contents(log)}

    def compare(self, partition: TopicPartition, log: UnifiedLog, model: Model) -> None:
        start, records = log.log_start_offset, model.records()
        everything = contents(log)
        assert {offset for offset, _ in everything} <= model.offsets(), partition
        found = [(offset, value) for offset, value in everything if offset in records]
        for offset, value in found:
            assert records[offset][1] == value, (partition, offset)
        if partition == PLAIN:
            offsets = [offset for offset, _ in everything]
            assert offsets == sorted(set(offsets))
            whole_from = max(start, model.retained_from)
            kept = [offset for offset in sorted(model.offsets()) if offset >= whole_from]
            assert [offset for offset in offsets if offset >= whole_from] == kept
            alive = {batch.producer for batch in model.batches if batch.end > start and batch.producer >= 0}
            state = {
                entry.producer_id: (entry.batches[-1].last_sequence if entry.batches else -1, entry.transaction_first_offset)
                for entry in log.active_producers()
            }
            for producer in alive:
                sequence, opened = model.producers()[producer]
                if 0 <= opened < start:
                    assert state[producer][1] >= 0, (partition, producer)
                elif state[producer][0] >= 0 or opened >= 0:
                    assert state[producer] == (sequence, opened), (partition, producer)
            self.compare_aborted(log, model)
        else:
            assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})
            latest = dict(records[offset] for offset in sorted(records))
            left = {records[offset][0]: value for offset, value in found}
            assert left == latest, (found, latest)
        self.compare_epochs(log, model)

    def compare_aborted(self, log: UnifiedLog, model: Model) -> None:
        start = max(log.log_start_offset, model.retained_from)
        found = {
            (entry.producer_id, entry.first_offset, entry.last_offset)
            for entry in log.aborted_transactions(log.log_start_offset, log.log_end_offset)
        }
        # Of a transaction that the log's start cut, the first offset is that of what is left, or the old one.
        assert {entry for entry in model.aborted() if entry[1] >= start} <= found
        assert {(producer, last) for producer, _, last in found} <= {(producer, last) for producer, _, last in model.aborted()}

    def compare_epochs(self, log: UnifiedLog, model: Model) -> None:
        # DeleteRecords forgets the epochs at once, but a crash may undo it: then those before are not known any more, as in Kafka.
        known_from = max([log.log_start_offset, *[entry.start_offset for entry in log.leader_epochs.entries[:1]]])
        if not log.leader_epochs.entries and model.deleted_to >= log.log_end_offset:
            known_from = log.log_end_offset  # not even the last one, which was to begin there
        for batch in model.batches:
            if batch.first >= known_from and not log.config.compact:
                assert log.leader_epochs.epoch_for_offset(batch.first) == batch.epoch, (log, batch.first)


class SameThread:
    """In the place of a pool of threads, so that a seed always does the same."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> "SameThread":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    map = staticmethod(map)

    def shutdown(self, **_: object) -> None:
        pass


def for_each_here(_count: int, _name_prefix: str, action: Callable[[Any], object], items: Iterable[Any]) -> None:
    for item in items:
        action(item)


def run(directory: Path, seed: int) -> None:
    names = (uuid.UUID(int=number) for number in itertools.count())
    with (
        patch("twisted_kafka.system.machine.new_uuid", lambda: next(names)),
        patch("twisted_kafka.log.directories.directory_loader.make_pool", SameThread),
        patch("twisted_kafka.log.directories.log_directories.for_each", for_each_here),
    ):
        run_alone(directory, seed)


def run_on_threads(directory: Path, seed: int) -> None:
    """The same with the pools' own threads, and two that work; the seed does not say how these take turns."""
    run_alone(directory, seed, is_threaded=True)


def run_alone(directory: Path, seed: int, *, is_threaded: bool = False) -> None:
    world = World(directory, seed)
    work = world.work_on_two_threads if is_threaded else world.work
    for _ in range(LIVES):
        is_full = world.random.random() < 0.2
        step = world.random.randint(1, STEPS_OF_THE_DISK)
        world.live(-1 if is_full else step, step if is_full else -1, work)
        loses_power = world.random.random() < 0.6
        if loses_power:
            world.disk.lose_power()
        else:
            world.disk.keep_everything()
        while world.random.random() < 0.3:
            # The start after it dies, too.
            with world.disk.watched(world.random.randint(1, 60)):
                try:
                    world.broker.start(DIRECTORIES, **SETTINGS).shutdown()
                except MachineDied:
                    end_all_brokers()
            if world.random.random() < 0.5:
                loses_power = True
                world.disk.lose_power()
            else:
                world.disk.keep_everything()
        with world.disk.watched(-1):
            world.check(after_power_loss=loses_power)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_promised_outlives_deaths_at_any_step(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS // 3))
def test_it_does_so_when_threads_work_beside_each_other(tmp_path: Path, seed: int) -> None:
    run_on_threads(tmp_path, seed)


@pytest.mark.parametrize("seed", range(4))
def test_index_entries_that_were_cut_off_do_not_come_back(tmp_path: Path, seed: int) -> None:
    """A start after a clean stop took the log to end where the index did."""
    (tmp_path / "disk").mkdir()
    bench = Bench(tmp_path / "disk" / "topic-0", index_interval_bytes=0)
    disk = CrashDisk(tmp_path / "disk", random.Random(seed))
    with disk.watched(-1):
        log = bench.open()
        append(log, b"0", b"1")
        append(log, b"2")
        log.flush()
        log.truncate_to(2)
        log.flush()
        log.close()
    disk.lose_power()
    assert not (bench.directory / "00000000000000000000.index").read_bytes()
    assert bench.open(was_clean=True).log_end_offset == 2


def log_with_all_but_its_roll_flushed(directory: Path, write: Callable[[UnifiedLog], None]) -> None:
    """Do what ``write`` does, flush all of it, and roll: the recovery point is where the new segment begins."""
    log = Bench(directory / "disk" / "topic-0").open()
    write(log)
    log.flush()
    (directory / "recovery point").write_text(str(log.recovery_point))
    log.roll()
    append(log, b"after the roll")


def deaths_around_a_roll(directory: Path, write: Callable[[UnifiedLog], None]) -> Iterator[Path]:
    return deaths(directory, lambda _: None, lambda root: log_with_all_but_its_roll_flushed(root, write), seeds=8, first_step=16)


def reopened(directory: Path) -> UnifiedLog:
    point = directory / "recovery point"
    return Bench(directory / "disk" / "topic-0").open(recovery_point=int(point.read_text()) if point.exists() else 0)


@pytest.mark.medium
def test_an_aborted_transaction_that_was_flushed_stays_aborted(tmp_path: Path) -> None:
    """The segment's directory was synced before its transaction index was created in it."""

    def write(log: UnifiedLog) -> None:
        append(log, b"aborted", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        log.flush()
        abort(log, 7)

    for directory in deaths_around_a_roll(tmp_path, write):
        log = reopened(directory)
        end = log.log_end_offset
        assert end >= 2 or not (directory / "recovery point").exists()
        assert [entry.last_offset for entry in log.aborted_transactions(0, end)] == [1][: max(0, end - 1)], directory


@pytest.mark.medium
def test_producers_of_before_a_truncation_do_not_come_back(tmp_path: Path) -> None:
    """A new segment begins where one began that was truncated, and the old snapshot there had the same name."""

    def write(log: UnifiedLog) -> None:
        append(log, b"0")
        append(log, b"truncated", producer_id=7, producer_epoch=0, base_sequence=0)
        log.roll()
        append(log, b"truncated")
        log.flush()
        log.truncate_to(1)
        append(log, b"1")

    for directory in deaths_around_a_roll(tmp_path, write):
        log = reopened(directory)
        if log.log_start_offset > 1:
            continue  # a power failure before the first flush took the first segment: a snapshot says what was in it
        is_there = (1, b"truncated") in contents(log)
        assert [entry.producer_id for entry in log.active_producers()] == [7] * is_there, directory


def test_what_a_flush_did_not_sync_is_not_behind_the_recovery_point(tmp_path: Path) -> None:
    """Its target is beyond the end when the log was truncated while it waited for its turn."""
    log = Bench(tmp_path / "topic-0").open()
    append(log, b"0")

    def sync(segment: LogSegment) -> bool:
        log.roll()
        append(log, b"during the flush")
        return False

    with patch.object(LogSegment, "sync", sync):
        log.flush_before(10)
    assert (log.log_end_offset, log.recovery_point) == (2, 1)


class TestAfterAPowerFailure:
    """What is there when everything is lost that was not synced."""

    @pytest.fixture
    def broker(self, tmp_path: Path) -> Broker:
        (tmp_path / "disk").mkdir()
        broker = Broker(tmp_path)
        broker.topic_configs = TOPICS
        return broker

    @pytest.fixture
    def disk(self, broker: Broker) -> CrashDisk:
        return CrashDisk(broker.path / "disk", random.Random(0))

    def fail(self, disk: CrashDisk) -> None:
        end_all_brokers()
        disk.lose_power(loses_all=True)

    def test_a_log_that_was_flushed_has_its_name(self, broker: Broker, disk: CrashDisk) -> None:
        partitions = [TopicPartition("plain", number) for number in range(2)]
        with disk.watched(-1):
            manager = broker.start(("disk/new/a",), **SETTINGS)
            for partition in partitions:
                log = manager.get_or_create_log(partition, TOPIC_ID)
                append(log, b"value")
                log.flush()
        self.fail(disk)
        manager = broker.start(("disk/new/a",), **SETTINGS)
        assert [len(contents(manager.get_log(partition))) for partition in partitions] == [1, 1]

    def test_the_old_log_of_a_moved_replica_does_not_come_back(self, broker: Broker, disk: CrashDisk) -> None:
        with disk.watched(-1):
            manager = broker.start(DIRECTORIES, **SETTINGS)
            append(manager.get_or_create_log(PLAIN), b"truncated")
            log = manager.get_log(PLAIN)
            log.flush()
            manager.prefer(PLAIN, next(each for each in manager.directories if each.path != log.parent))
            future = manager.get_or_create_future_log(PLAIN, None)
            assert ReplicaCopier(manager, 300).step(Moved(PLAIN, log, future, manager)).is_done  # type: ignore[arg-type]
            manager.truncate_to(PLAIN, 0)
        self.fail(disk)
        assert contents(broker.start(DIRECTORIES, **SETTINGS).get_log(PLAIN)) == []

    def test_a_deleted_topic_does_not_come_back(self, broker: Broker, disk: CrashDisk) -> None:
        with disk.watched(-1):
            manager = broker.start(DIRECTORIES, **SETTINGS)
            log = manager.get_or_create_log(PLAIN, TOPIC_ID)
            append(log, b"deleted")
            log.flush()
            manager.delete_log(PLAIN)
        self.fail(disk)
        assert not list(broker.path.glob(f"disk/*/{PLAIN}"))

    def test_a_crash_is_not_taken_for_the_clean_stop_before_it(self, broker: Broker, disk: CrashDisk) -> None:
        with disk.watched(-1):
            manager = broker.start(DIRECTORIES, **SETTINGS)
            manager.get_or_create_log(PLAIN)
            manager.shutdown()
            broker.start(DIRECTORIES, **SETTINGS)
        self.fail(disk)
        assert not any(directory.was_clean for directory in broker.start(DIRECTORIES, **SETTINGS).directories)

    def test_a_clean_stop_is_one_for_the_next_start(self, broker: Broker, disk: CrashDisk) -> None:
        with disk.watched(-1):
            manager = broker.start(DIRECTORIES, **SETTINGS)
            append(manager.get_or_create_log(PLAIN), b"value")
            manager.shutdown()
        self.fail(disk)
        assert (broker.path / DIRECTORIES[0] / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
        manager = broker.start(DIRECTORIES, **SETTINGS)
        assert all(directory.was_clean for directory in manager.directories)
        assert contents(manager.get_log(PLAIN)) == [(0, b"value")]

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Bench:
        (tmp_path / "logs").mkdir()
        return Bench(tmp_path / "logs" / "topic-0", index_interval_bytes=0)

    @pytest.fixture
    def logs(self, bench: Bench) -> CrashDisk:
        return CrashDisk(bench.directory.parent, random.Random(0))

    def test_what_recovery_built_anew_is_there_after_a_clean_stop(self, bench: Bench, logs: CrashDisk) -> None:
        with logs.watched(-1):
            log = bench.open()
            options: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
            append(log, b"aborted", **options)
            abort(log, 7)
            log.flush()
            log.assign_topic_id(TOPIC_ID)
            log = bench.open(recovery_point=log.recovery_point)
            log.flush_and_close()
        self.fail(logs)
        log = bench.open(was_clean=True)
        assert len(log.aborted_transactions(0, 2)) == 1
        assert log.topic_id == TOPIC_ID

    def test_the_snapshot_of_a_clean_stop_is_there(self, bench: Bench, logs: CrashDisk) -> None:
        with logs.watched(-1):
            log = bench.open()
            append(log, b"0", producer_id=7, producer_epoch=0, base_sequence=0)
            log.flush()
            log.flush_and_close()
        self.fail(logs)
        assert (bench.directory / f"{1:020d}.snapshot").exists()

    def test_a_truncation_that_a_recovery_found_is_not_undone(self, bench: Bench, logs: CrashDisk) -> None:
        with logs.watched(-1):
            log = bench.open()
            append(log, b"0")
            append(log, b"truncated")
            log.flush()
            with patch.object(disk, "sync_data", side_effect=OSError(errno.ENOSPC, "full")), pytest.raises(KafkaStorageError):
                log.truncate_to(1)
            append(bench.open(), b"1")
        self.fail(logs)
        assert contents(bench.open()) == [(0, b"0")]

    def test_a_log_that_begins_anew_at_its_start_keeps_it(self, bench: Bench, logs: CrashDisk) -> None:
        with logs.watched(-1):
            log = bench.open()
            append(log, b"0")
            log.flush()
            bench.open(log_start_offset=5).flush_and_close()
        self.fail(logs)
        assert bench.open(was_clean=True).log_end_offset == 5

    def test_a_copy_lacks_nothing_when_a_deletion_of_records_is_taken_back(self, broker: Broker, disk: CrashDisk) -> None:
        with disk.watched(-1):
            manager = broker.start(DIRECTORIES, **SETTINGS)
            log = manager.get_or_create_log(PLAIN)
            append(log, b"0")
            log.flush()
            append(log, b"1")
            append(log, b"2")
            log.increment_log_start_offset(log.update_high_watermark(3))
            append(log, b"3")
            append(log, b"4")
            manager.prefer(PLAIN, next(each for each in manager.directories if each.path != log.parent))
            future = manager.get_or_create_future_log(PLAIN, None)
            ReplicaCopier(manager, 1).step(Moved(PLAIN, log, future, manager))  # type: ignore[arg-type]
            assert (future.log_start_offset, future.log_end_offset) == (3, 4)
            future.flush()
            for directory in manager.directories:
                directory.checkpoint_recovery_points()
        self.fail(disk)
        manager = broker.start(DIRECTORIES, **SETTINGS)
        log, future = manager.get_log(PLAIN), manager.get_future_log(PLAIN)
        for value in (b"new 1", b"new 2", b"new 3", b"new 4"):
            append(log, value, epoch=1)
        wanted = contents(log)
        assert [offset for offset, _ in wanted] == [0, 1, 2, 3, 4]
        while not ReplicaCopier(manager, 300).step(Moved(PLAIN, log, future, manager)).is_done:  # type: ignore[arg-type]
            pass
        assert contents(manager.get_log(PLAIN)) == wanted

    def test_a_topic_id_that_was_damaged_does_not_come_back(self, bench: Bench, logs: CrashDisk) -> None:
        with logs.watched(-1):
            bench.open()
            (bench.directory / PARTITION_METADATA).write_text("version: 0")
            sync_file(bench.directory / PARTITION_METADATA)
            sync_directory(bench.directory)
            sync_directory(bench.directory.parent)
            bench.open().flush_and_close()
        self.fail(logs)
        assert bench.directory.exists()
        assert bench.open(was_clean=True).topic_id is None

    def test_epochs_of_before_a_truncation_give_way_to_those_of_the_batches(self, bench: Bench, logs: CrashDisk) -> None:
        with logs.watched(-1):
            log = bench.open()
            append(log, b"0", epoch=1)
            append(log, b"1", epoch=1)
            append(log, b"2", epoch=3)
            append(log, b"3", epoch=4)
            log.flush()
            log.truncate_to(1)
            append(log, b"1", epoch=3)
            append(log, b"2", epoch=3)
            with open(log.segments.active.path, "rb") as file:
                os.fsync(file.fileno())
        self.fail(logs)
        log = bench.open()
        assert contents(log) == [(0, b"0"), (1, b"1"), (2, b"2")]
        assert log.leader_epochs.entries == ((1, 0), (3, 1))


@pytest.mark.medium
def test_a_replica_is_somewhere_wherever_its_move_dies(tmp_path: Path) -> None:
    def prepare(directory: Path) -> None:
        manager = Broker(directory).start(DIRECTORIES, **SETTINGS)
        append(manager.get_or_create_log(PLAIN), b"value")
        manager.shutdown()

    def move(directory: Path) -> None:
        manager = Broker(directory).start(DIRECTORIES, **SETTINGS)
        log = manager.get_log(PLAIN)
        manager.prefer(PLAIN, next(each for each in manager.directories if each.path != log.parent))
        future = manager.get_or_create_future_log(PLAIN, None)
        assert ReplicaCopier(manager, 300).step(Moved(PLAIN, log, future, manager)).is_done  # type: ignore[arg-type]

    for directory in deaths(tmp_path, prepare, move):
        end_all_brokers()
        manager = Broker(directory).start(DIRECTORIES, **SETTINGS)
        assert [value for _, value in contents(manager.get_log(PLAIN))] == [b"value"], directory
        manager.shutdown()


@pytest.mark.medium
@pytest.mark.parametrize("action", first_of(["recovery", "truncation", "full truncation"], 2))
def test_no_hole_is_left_wherever_segments_are_dropped(tmp_path: Path, action: str) -> None:
    """Recovery drops those after a torn batch, a truncation those after its offset, one after the other."""
    values = [b"%d" % number for number in range(12)]

    def bench_in(directory: Path) -> Bench:
        return Bench(directory / "disk" / "topic-0", segment_bytes=200, index_interval_bytes=0)

    def prepare(directory: Path) -> None:
        log = bench_in(directory).open()
        for value in values:
            append(log, value)
        assert len(log.segments) > 4
        if action == "recovery":
            with open(log.segments.first.path, "r+b") as file:
                file.seek(-3, os.SEEK_END)
                file.write(b"\xff")

    def drop(directory: Path) -> None:
        log = bench_in(directory).open(recovery_point=0)
        if action == "truncation":
            log.truncate_to(1)
        elif action == "full truncation":
            log.truncate_fully_and_start_at(20)

    for directory in deaths(tmp_path, prepare, drop):
        log = bench_in(directory).open(recovery_point=0)
        assert [value for _, value in contents(log)] == values[: len(contents(log))], directory


@pytest.mark.medium
def test_a_log_keeps_its_start_wherever_the_truncation_of_all_its_records_dies(tmp_path: Path) -> None:
    def bench_in(directory: Path) -> Bench:
        return Bench(directory / "disk" / "topic-0", segment_bytes=200, index_interval_bytes=0)

    def prepare(directory: Path) -> None:
        log = bench_in(directory).open(log_start_offset=18)
        for number in range(6):
            append(log, b"%d" % number)
        assert len(log.segments) > 2
        log.flush_and_close()

    def truncate(directory: Path) -> None:
        assert bench_in(directory).open(was_clean=True).truncate_to(18)

    for directory in deaths(tmp_path, prepare, truncate):
        log = bench_in(directory).open(recovery_point=18)
        assert log.log_start_offset == 18, directory
        assert log.log_end_offset >= 18, directory


@pytest.mark.medium
def test_the_newest_records_are_left_wherever_retention_dies(tmp_path: Path) -> None:
    values = [b"%d" % number for number in range(12)]

    def bench_in(directory: Path, **settings: Any) -> Bench:
        return Bench(directory / "disk" / "topic-0", segment_bytes=200, index_interval_bytes=0, **settings)

    def prepare(directory: Path) -> None:
        log = bench_in(directory).open()
        for value in values:
            append(log, value)
        log.flush_and_close()

    def retain(directory: Path) -> None:
        log = bench_in(directory, retention_bytes=200).open(was_clean=True)
        log.update_high_watermark(log.log_end_offset)
        assert log.delete_old_segments() > 3

    for directory in deaths(tmp_path, prepare, retain):
        log = bench_in(directory).open(recovery_point=0)
        left = [value for _, value in contents(log)]
        assert left, directory
        assert left == values[-len(left) :], directory


@pytest.mark.medium
def test_the_end_is_left_wherever_retention_of_the_last_segment_dies(tmp_path: Path) -> None:
    def bench_in(directory: Path) -> Bench:
        return Bench(directory / "disk" / "topic-0", retention_ms=1000)

    def prepare(directory: Path) -> None:
        log = bench_in(directory).open()
        append(log, b"0", b"1", b"2")
        log.flush_and_close()

    def retain(directory: Path) -> None:
        bench = bench_in(directory)
        log = bench.open(was_clean=True)
        log.update_high_watermark(3)
        bench.clock.advance_ms(5000)
        assert log.delete_old_segments() == 1
        append(log, b"3")
        append(log, b"4")

    for directory in deaths(tmp_path, prepare, retain, seeds=8):
        assert bench_in(directory).open(recovery_point=0).log_end_offset >= 3, directory


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_two_thousand_worlds(tmp_path: Path, part: int) -> None:
    for seed in range(1000 + part, 3000, PARTS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        try:
            run(directory, seed)
        except BaseException:
            print(f"seed {seed}")
            raise
        shutil.rmtree(directory)
