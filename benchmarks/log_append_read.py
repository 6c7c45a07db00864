"""The speed of the log alone: appends, reads at the end and elsewhere, recovery, and opening after a clean stop.

Run it with ``python -m benchmarks.log_append_read [DIRECTORY]``; it needs about 1 GB there, which it removes at the end.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.scratch import scratch
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.loading.log_loader import CLEAN_STOP
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin, ValidationContext, validate_and_assign_offsets
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.timing.scheduler import ManualScheduler

PARTITION = TopicPartition("bench", 0)
CLOCK = SystemClock()
ENVIRONMENT = LogEnvironment(CLOCK, ManualScheduler(CLOCK))
ROUNDS = 5
NO_OFFSET = bytes(8)


def make_batch(records: int, size: int, **options: int) -> bytes:
    now_ms = CLOCK.wall_ms()
    return build_batch([SimpleRecord(now_ms, None, os.urandom(size)) for _ in range(records)], **options)  # type: ignore[arg-type]


def best(count: int, action: Callable[[], None]) -> float:
    """Return the microseconds per item, of ``count`` items, in the fastest of several rounds."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times) / count * 1e6


def show(what: str, us: float, size: int = 0) -> None:
    rate = f"{size / us:10.0f} MB/s" if size else ""
    print(f"{what:58s}{us:10.2f} us{rate}")


def appends(directory: Path) -> None:
    config = LogConfig()
    for records, size, count in ((1, 100, 5000), (100, 100, 2000), (150, 100, 1000), (1000, 1000, 100)):
        data = make_batch(records, size)
        log = UnifiedLog.open(directory / f"append{records}x{size}-0", PARTITION, config, ENVIRONMENT)
        copies = [memoryview(bytearray(data)) for _ in range(count)]

        def append(log: UnifiedLog = log, copies: list[memoryview] = copies) -> None:
            for copy in copies:
                copy[:8] = NO_OFFSET
                log.append_as_leader(copy, 0)

        def validate(copies: list[memoryview] = copies) -> None:
            for copy in copies:
                copy[:8] = NO_OFFSET
                context = ValidationContext(
                    topic_partition=PARTITION,
                    offset=5,
                    leader_epoch=0,
                    now_ms=CLOCK.wall_ms(),
                    origin=AppendOrigin.CLIENT,
                    config=config,
                    now_ns=CLOCK.monotonic_ns,
                )
                validate_and_assign_offsets(copy, context)

        show(f"append {records} x {size} B", best(count, append), len(data))
        show("  of which validation", best(count, validate))
        log.delete()
    idempotent(directory, config)


def idempotent(directory: Path, config: LogConfig) -> None:
    log = UnifiedLog.open(directory / "idempotent-0", PARTITION, config, ENVIRONMENT)
    copies = [memoryview(bytearray(make_batch(1, 100, producer_id=1, producer_epoch=0, base_sequence=n))) for n in range(5000)]
    begin = time.perf_counter()
    for copy in copies:
        log.append_as_leader(copy, 0)
    show("append 1 x 100 B, idempotent producer", (time.perf_counter() - begin) / len(copies) * 1e6)
    log.delete()


def reads(directory: Path) -> None:
    log = UnifiedLog.open(directory / "read-0", PARTITION, LogConfig(segment_bytes=16 << 20), ENVIRONMENT)
    data = make_batch(10, 100)
    for _ in range(60_000):
        log.append_as_leader(bytearray(data), 0)
    end = log.update_high_watermark(log.log_end_offset)
    count = 20_000

    def read(offset: int, isolation: FetchIsolation) -> Callable[[], None]:
        def run() -> None:
            for _ in range(count):
                log.read(offset, 1 << 20, isolation, True)

        return run

    show("read at the end, nothing new", best(count, read(end, FetchIsolation.HIGH_WATERMARK)))
    show("read of the last batch", best(count, read(end - 10, FetchIsolation.HIGH_WATERMARK)))
    show("read of a recent batch", best(count, read(end - 1000, FetchIsolation.HIGH_WATERMARK)))
    show("read elsewhere in the active segment", best(count, read(log.segments.active.base_offset + 5000, FetchIsolation.LOG_END)))
    show("read in an old segment", best(count, read(5000, FetchIsolation.LOG_END)))
    log.delete()


def restarts(directory: Path) -> None:
    path = directory / "restart-0"
    for records, size in ((150, 100), (1, 100)):
        log = UnifiedLog.open(path, PARTITION, LogConfig(), ENVIRONMENT)
        data = make_batch(records, size)
        for _ in range((200 << 20) // len(data) if records > 1 else 200_000):
            log.append_as_leader(bytearray(data), 0)
        total = log.size_bytes
        begin = time.perf_counter()
        UnifiedLog.open(path, PARTITION, LogConfig(), ENVIRONMENT)
        seconds = time.perf_counter() - begin
        print(f"recovery of {total >> 20} MB in batches of {len(data)} B: {seconds:.2f} s, {total / seconds / 1e6:.0f} MB/s")
        log.delete()
    log = UnifiedLog.open(path, PARTITION, LogConfig(segment_bytes=1000), ENVIRONMENT)
    for _ in range(2000):
        log.append_as_leader(make_batch(1, 800), 0)
    log.flush()
    log.close()
    begin = time.perf_counter()
    UnifiedLog.open(path, PARTITION, LogConfig(segment_bytes=1000), ENVIRONMENT, CLEAN_STOP)
    print(f"clean opening of a log of 2000 segments: {(time.perf_counter() - begin) * 1e3:.1f} ms")


def main() -> None:
    with scratch(Path(sys.argv[1]) if len(sys.argv) > 1 else None) as directory:
        appends(directory)
        reads(directory)
        restarts(directory)


if __name__ == "__main__":
    main()
