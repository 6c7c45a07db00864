"""A disk that gets full at any step of appending, rolling, writing indexes and checkpoints, and compacting."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.log.crash_disk import APART, CrashDisk
from tests.log.log_managers import ONE, TWO, Broker
from tests.support.logs import NOW_MS, append, contents, data_of
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

pytestmark = [pytest.mark.medium, pytest.mark.whole_transfers]  # the disk itself writes a part

CONFIGS = {
    "one": {"segment.bytes": "300", "index.interval.bytes": "0"},
    "two": {"segment.bytes": "300", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}
SETTINGS: dict[str, Any] = {"log_cleaner_threads": 0, "log_cleaner_backoff_ms": 0}


def keyed(log: UnifiedLog, key: bytes, value: bytes) -> None:
    record = SimpleRecord(NOW_MS, key, value)
    log.append_as_leader(bytearray(build_batch([record])), 0, is_alone=True)


class Life:
    """Everything that writes to the disk, with what was acknowledged; ``failed`` tells in which phase the disk was full."""

    def __init__(self) -> None:
        self.plain: list[bytes] = []
        self.latest: dict[bytes, bytes] = {}
        self.failed = ""

    def run(self, manager: LogManager) -> None:
        try:
            for phase in (self._append, self._compact, self._checkpoint):
                phase(manager)
        except KafkaStorageError:
            self.failed = self.phase

    def _append(self, manager: LogManager) -> None:
        self.phase = "append"
        one, two = manager.get_or_create_log(ONE), manager.get_or_create_log(TWO)
        for number in range(8):
            append(one, b"%d" % number)
            self.plain.append(b"%d" % number)
            key = b"k%d" % (number % 2)
            keyed(two, key, b"%d" % number)
            self.latest[key] = b"%d" % number
        self.phase = "flush"
        one.flush()

    def _compact(self, manager: LogManager) -> None:
        self.phase = "compaction"
        manager.get_log(TWO).roll()
        manager.cleaner.clean_filthiest()

    def _checkpoint(self, manager: LogManager) -> None:
        self.phase = "checkpoint"
        manager._tasks.checkpoint_recovery_points()
        if not manager.directories[0].is_online:
            raise KafkaStorageError("a checkpoint could not be written")


def test_a_disk_that_is_full_at_any_step_takes_its_directory_offline_and_loses_nothing(tmp_path: Path) -> None:
    phases: Counter[str] = Counter()
    for step in itertools.count(1, APART):
        root = tmp_path / str(step)
        root.mkdir()
        broker = Broker(root)
        broker.topic_configs = CONFIGS
        disk = CrashDisk(root, random.Random(step))
        life = Life()
        manager = broker.start(**SETTINGS)
        with disk.watched(-1, step):
            life.run(manager)
            (directory,) = manager.directories
            if disk.is_full and life.failed:
                assert not directory.is_online
                assert broker.failed[0] is directory
                manager.forget_directory(directory)
            was_full = disk.is_full
            manager.shutdown()
        phases[life.failed] += 1
        # There is room again.
        manager = broker.start(**SETTINGS)
        log = manager.get_log(ONE)
        found = [value for _, value in contents(log)] if log else []
        assert found[: len(life.plain)] == life.plain
        assert len(found) <= len(life.plain) + 1
        log = manager.get_log(TWO)
        kept = dict(keys_and_values(log)) if log else {}
        assert all(int(kept.get(key, b"-1")) >= int(value) for key, value in life.latest.items())
        manager.shutdown()
        if not was_full:
            break
    assert phases["append"] > 20 // APART
    assert phases["flush"] > 1 // APART
    assert phases["checkpoint"] or APART > 1


def keys_and_values(log: UnifiedLog) -> Iterator[tuple[bytes, bytes]]:
    offset = log.log_start_offset
    while data := data_of(log.read(offset, 1 << 20, FetchIsolation.LOG_END, True).records):
        for batch in batches(data):
            yield from ((record.key, record.value) for record in batch.records())
            offset = batch.last_offset + 1
