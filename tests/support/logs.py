"""Logs on a clock that stands still, and batches to put into them."""

import tempfile
from io import FileIO
from pathlib import Path
from typing import Any

from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.loading.log_loader import LastStop
from twisted_kafka.log.producer_state.producer_state_manager import ProducerStateManagerConfig
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler

PARTITION = TopicPartition("topic", 0)
NOW_MS = 1_700_000_000_000
KAFKA_LOGS = Path(__file__).parent.parent / "data" / "kafka_logs"


class Bench:
    """One log's directory, which can be opened again and again."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.clock = ManualClock(NOW_MS)
        self.failures: list[OSError] = []
        self.directory = directory
        self.are_transactions_verified = False
        self.config = LogConfig(**settings)
        self._log: UnifiedLog | None = None

    def open(self, **known: Any) -> UnifiedLog:
        # What an earlier life had scheduled died with it, and the kernel has closed its files.
        self.scheduler = ManualScheduler(self.clock)
        if self._log is not None:
            for segment in self._log.segments:
                segment.release_file()
        self.environment = LogEnvironment(
            self.clock,
            self.scheduler,
            on_storage_failure=lambda _path, error: self.failures.append(error),
            producers=ProducerStateManagerConfig(are_transactions_verified=lambda: self.are_transactions_verified),
        )
        self._log = UnifiedLog.open(self.directory, PARTITION, self.config, self.environment, LastStop(**known))
        return self._log

    def reopen_clean(self, log: UnifiedLog) -> UnifiedLog:
        log.flush()
        log.close()
        return self.open(was_clean=True, recovery_point=log.recovery_point, log_start_offset=log.log_start_offset)


def batch(*values: bytes, timestamp_ms: int = NOW_MS, **options: Any) -> bytearray:
    records = [SimpleRecord(timestamp_ms + number, None, value) for number, value in enumerate(values)]
    return bytearray(build_batch(records, **options))


def append(log: UnifiedLog, *values: bytes, epoch: int = 0, **options: Any) -> int:
    return log.append_as_leader(batch(*values, **options), epoch).first_offset


def batch_file(data: bytes) -> FileIO:
    """Return a file without a name that has this content."""
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 the caller's
    file.write(data)
    return file


def abort(log: UnifiedLog, producer_id: int) -> None:
    """Append the marker that aborts the producer's transaction."""
    marker = end_transaction_marker(
        producer_id=producer_id, producer_epoch=0, commit=False, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    log.append_as_leader(bytearray(marker), 0, AppendOrigin.COORDINATOR)


def data_of(records: FileRegion | bytes) -> bytes:
    return records.read() if isinstance(records, FileRegion) else records


def fill(log: UnifiedLog, count: int) -> None:
    """Append the values value-0, value-1 ... in a batch each."""
    for number in range(count):
        append(log, b"value-%d" % number)


def contents(log: UnifiedLog, start: int | None = None) -> list[tuple[int, bytes]]:
    """Return (offset, value) of everything from ``start`` on, read as a follower would."""
    found = []
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        data = data_of(log.read(offset, 1 << 20, FetchIsolation.LOG_END, True).records)
        if not data:
            break
        for each in batches(data):
            found += [(record.offset, record.value) for record in each.records() if record.offset >= offset]
            end = each.last_offset + 1
        offset = end
    return found


def log_state(log: UnifiedLog) -> list[Any]:
    """Return what must not differ between two logs with the same history: producers, files, limits."""
    producers = [
        (
            each.producer_id,
            each.epoch,
            each.last_timestamp_ms,
            each.transaction_first_offset,
            [tuple(known) for known in each.batches],
        )
        for each in log.producer_state.producers.values()
    ]
    files = {path.name: path.read_bytes() for path in sorted(log.dir.iterdir()) if path.is_file()}
    end, mark, stable, start, _, unstable = log.limits
    return [producers, files, end, mark, stable, start, unstable, log.max_timestamp_offset()]
