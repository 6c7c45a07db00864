"""One log that threads append to, read, search, roll, flush, truncate and delete from at once."""

import random
import tempfile
import threading
from pathlib import Path
from typing import Final

from tests.stress.crew import Crew
from tests.support.logs import NOW_MS, PARTITION, abort, batch, contents
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.loading.log_loader import LastStop
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.segment.indexes import OffsetIndex
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.errors import CorruptRecordError, OffsetOutOfRangeError
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.timing.scheduler import KafkaScheduler

SEGMENT_BYTES: Final = 100_000
READ_BYTES: Final = 2_000


class Change:
    """Changes that readers may notice: odd while one is under way."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count += 1


class Scene:
    """The log, and what threads do to it."""

    def __init__(self, directory: Path, scheduler: KafkaScheduler) -> None:
        self._directory = directory
        self._config = LogConfig(
            segment_bytes=SEGMENT_BYTES,
            index_interval_bytes=64,
            file_delete_delay_ms=1,
            retention_ms=-1,
            segment_index_bytes=12_000,
        )
        self._environment = LogEnvironment(SystemClock(), scheduler)
        self.log = self.open()
        self.truncation = Change()
        self._lock = threading.Lock()
        self._next = 0
        self.appended: dict[int, set[bytes]] = {}
        """The values that were appended at each offset; there are several after truncations."""
        self.kept: set[bytes] = set()
        """All values that some thread has begun to append."""

    def open(self, log_start_offset: int = 0) -> UnifiedLog:
        stop = LastStop(log_start_offset=log_start_offset)
        return UnifiedLog.open(self._directory / "topic-0", PARTITION, self._config, self._environment, stop)

    def append(self, own: random.Random) -> None:
        with self._lock:
            number, self._next = self._next, self._next + 1
        value = b"%d-" % number + b"x" * own.randrange(60)
        self.kept.add(value)
        timestamp_ms = NOW_MS + number
        if own.random() < 0.5:
            info = self.log.append_as_leader(batch(value, timestamp_ms=timestamp_ms), 0, is_alone=True)
        else:
            found = self.log.append_each_as_leader([batch(value, timestamp_ms=timestamp_ms)], 0, is_alone=True)[0]
            if isinstance(found, Exception):
                raise found
            info = found
        with self._lock:
            self.appended.setdefault(info.first_offset, set()).add(value)

    def transact(self, own: random.Random) -> None:
        """Write a record of a transaction, and abort it."""
        with self._lock:
            number, self._next = self._next, self._next + 1
        value = b"%d-t" % number
        self.kept.add(value)
        records = batch(value, producer_id=number, producer_epoch=0, base_sequence=0, is_transactional=True)
        self.log.append_as_leader(records, 0, is_alone=True)
        abort(self.log, number)

    def read(self, own: random.Random) -> None:
        before, start = self.truncation.count, self.log.log_start_offset
        offset = own.randrange(start, self.log.log_end_offset + 1)
        isolation = own.choice((FetchIsolation.LOG_END, FetchIsolation.HIGH_WATERMARK))
        try:
            self._check(offset, bytes(self.log.content(self.log.read(offset, READ_BYTES, isolation).records)))
            self.log.offset_for_timestamp(NOW_MS + own.randrange(self._next + 1))
            self.log.max_timestamp_offset()
            self.log.end_offset_for_epoch(0)
        except OffsetOutOfRangeError:
            assert self.log.log_start_offset > start or self._truncated_since(before)
        except (CorruptRecordError, AssertionError, IndexError, ValueError):
            if not self._truncated_since(before):
                raise

    def _truncated_since(self, before: int) -> bool:
        return before % 2 == 1 or self.truncation.count != before

    def _check(self, offset: int, data: bytes) -> None:
        following = None
        for each in batches(data):
            assert following is None or each.base_offset == following, "batches are missing"
            assert following is not None or each.base_offset <= offset <= each.last_offset, "the first batch is another one"
            following = each.last_offset + 1
            for record in () if each.is_control else each.records():
                assert record.value in self.kept, f"{record.value!r} was never appended"

    def roll(self, own: random.Random) -> None:
        if own.random() < 0.01:
            self.log.roll()
        elif own.random() < 0.02:
            self.log.flush()

    def truncate(self, own: random.Random) -> None:
        if own.random() < 0.02:
            end = self.log.log_end_offset
            with self.truncation:
                self.log.truncate_to(max(self.log.log_start_offset, end - own.randrange(200)))

    def delete(self, own: random.Random) -> None:
        if own.random() < 0.02:
            start, end = self.log.log_start_offset, self.log.high_watermark
            if end - start > 1000:
                try:
                    self.log.increment_log_start_offset(own.randrange(start, end - 500))
                except OffsetOutOfRangeError:
                    return  # it was truncated meanwhile
                self.log.delete_old_segments()

    def check_end(self) -> None:
        found = contents(self.log)
        offsets = [offset for offset, value in found]
        assert offsets == list(range(self.log.log_start_offset, self.log.log_end_offset)), "offsets are missing"
        for offset, value in found:
            assert value in self.appended.get(offset, (value,)), "another value"
        values = [value for _, value in found if value in self.kept]
        assert len(set(values)) == len(values), "a value is there twice"
        last = {offset for offset, values in self.appended.items() if offset >= self.log.log_end_offset}
        assert not last or self.truncation.count, "appended records are missing"
        self.log.flush()
        self.log.close()
        assert contents(self.open(self.log.log_start_offset)) == found, "the files have something else"


def indexes(crew: Crew) -> None:
    """A lookup in an index that grows finds what it has found before."""
    grown = [OffsetIndex(Path("unused"), 0, 1 << 20) for _ in range(2)]
    counts = [0, 0]
    for index in grown:
        index.reset()

    def grow(own: random.Random) -> None:
        which = own.randrange(2)
        if counts[which] > 5000:
            counts[which] = 0
            grown[which] = OffsetIndex(Path("unused"), 0, 1 << 20)
            grown[which].reset()
        for _ in range(100):
            counts[which] += 1
            grown[which].append(counts[which], 7 * counts[which])

    def look_up(own: random.Random) -> None:
        index = grown[own.randrange(2)]
        for _ in range(100):
            entries = index.entries
            if entries:
                offset = own.randint(1, entries)
                assert index.positions_around(offset)[0] == 7 * offset, "another position"

    def allocate(own: random.Random) -> None:
        """Use memory that others have freed."""
        for _ in range(100):
            filled = bytearray(b"\xff" * own.randrange(40_000))
            del filled

    crew.add(grow)
    crew.add(look_up, 2)
    crew.add(allocate)
    crew.run()


def _run(crew: Crew, *, is_truncated: bool) -> None:
    scheduler = KafkaScheduler(SystemClock(), 2)
    scheduler.startup()
    with tempfile.TemporaryDirectory() as directory:
        try:
            scene = Scene(Path(directory), scheduler)
            crew.add(scene.append, 2)
            crew.add(scene.read, 2)
            crew.add(scene.roll)
            crew.add(scene.delete)
            crew.add(scene.truncate if is_truncated else scene.transact)
            crew.run()
            scene.check_end()
        finally:
            scheduler.shutdown()


def log(crew: Crew) -> None:
    """Readers see each record at its offset, and in the end the log has all that was appended."""
    _run(crew, is_truncated=False)


def truncated_log(crew: Crew) -> None:
    """The same while the end is truncated again and again."""
    _run(crew, is_truncated=True)
