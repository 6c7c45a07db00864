"""The speed of log compaction, compared to Apache Kafka's cleaner on a copy of the same directory.

    python -m benchmarks.compaction [--mb 256] [--kafka CLASS_PATH_FILE] [--directory DIRECTORY]

Each case is a log with random keys, each of which is written four times on average. CLASS_PATH_FILE contains Apache Kafka's class
path in one line; without it, only this broker's cleaner runs. Kafka's time is taken from its log.
"""

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.scratch import scratch
from tests.support.ports import free_port
from tests.support.processes import start_tied
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.topic_config import LogConfig
from twisted_kafka.log.cleaner.cleaner import Cleaner
from twisted_kafka.log.cleaner.log_cleaner import CleanerSettings
from twisted_kafka.log.environment import LogEnvironment
from twisted_kafka.log.loading.log_loader import CLEAN_STOP
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.timing.scheduler import ManualScheduler

CLOCK = SystemClock()
ENVIRONMENT = LogEnvironment(CLOCK, ManualScheduler(CLOCK))
LIMITS = CleanerSettings.of(KafkaConfig.from_properties({})).limits
SEGMENT_BYTES = 64 << 20
CASES = {
    "rows-0": (100, 100, Compression.NONE),
    "large-0": (20, 1000, Compression.NONE),
    "single-0": (1, 100, Compression.NONE),
    "lz4-0": (100, 100, Compression.LZ4),
    "zstd-0": (100, 100, Compression.ZSTD),
}
"""Records per batch, bytes of a value, codec."""
PORT_WAIT_S = 60
CLEAN_WAIT_S = 300
STOP_WAIT_S = 30


def unthrottled(size_bytes: int) -> None:
    """Never wait."""


def config() -> LogConfig:
    return LogConfig(cleanup_policy=("compact",), segment_bytes=SEGMENT_BYTES)


def make(directory: Path, name: str, megabytes: int) -> None:
    """Write a log with this many megabytes before compression, and then a new active segment."""
    in_batch, size, codec = CASES[name]
    draw = random.Random(name)
    keys = max(1, (megabytes << 20) // (size + 26) // 4)
    pool = draw.randbytes(1 << 20)
    log = UnifiedLog.open(directory / name, TopicPartition(name[:-2], 0), config(), ENVIRONMENT)
    left = megabytes << 20
    while left > 0:
        now_ms = CLOCK.wall_ms()
        records = []
        for _ in range(in_batch):
            start, length = draw.randrange(len(pool) - 2 * size), draw.randrange(size // 2, size * 3 // 2)
            records.append(SimpleRecord(now_ms, b"key-%010d" % draw.randrange(keys), pool[start : start + length]))
            left -= length + 26
        log.append_as_leader(bytearray(build_batch(records, compression=codec)), 0)
    log.roll()
    log.append_as_leader(bytearray(build_batch([SimpleRecord(CLOCK.wall_ms(), b"last", b"")])), 0)
    log.flush()
    log.close()


def clean_here(directory: Path, name: str) -> tuple[int, int, float]:
    """Run this broker's cleaner; return the bytes before and after, and the seconds."""
    log = UnifiedLog.open(directory / name, TopicPartition(name[:-2], 0), config(), ENVIRONMENT, CLEAN_STOP)
    log.update_high_watermark(log.log_end_offset)
    before = log.size_bytes
    begin = time.perf_counter()
    Cleaner(CLOCK, LIMITS).clean(log, 0, log.segments.active.base_offset, unthrottled)
    elapsed_s = time.perf_counter() - begin
    after = log.size_bytes
    log.close()
    return before, after, elapsed_s


@contextlib.contextmanager
def java(class_path: str, main: str, *arguments: object, output: Path, heap: str = "1G") -> Iterator[subprocess.Popen[bytes]]:
    """Run a Java program; at the end it gets SIGTERM, and after a timeout SIGKILL."""
    log4j = output.with_suffix(".log4j")
    log4j.write_text(
        "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\nlog4j.appender.out.layout.ConversionPattern=%m%n\n"
    )
    command = ["java", f"-Xmx{heap}", f"-Dlog4j.configuration=file:{log4j}", "-cp", class_path, main, *map(str, arguments)]
    with output.open("wb") as file:
        process = start_tied(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + PORT_WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise SystemExit(f"no listener on port {port} after {PORT_WAIT_S} s")


def clean_with_kafka(class_path: str, data: Path, scratch: Path) -> dict[str, float]:
    """Return the seconds from Apache Kafka's log for each log that has a copy in ``data``.

    The topics are created first, because Kafka cleans only records below the high watermark; then the copies are moved into their
    directories.
    """
    zookeeper_port, port = free_port(), free_port()
    zookeeper, server = scratch / "zookeeper.properties", scratch / "server.properties"
    zookeeper.write_text(
        f"dataDir={scratch / 'zookeeper'}\nclientPort={zookeeper_port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    )
    common = (
        f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\nzookeeper.connect=127.0.0.1:{zookeeper_port}\n"
        f"log.dirs={scratch / 'kafka'}\nlog.cleanup.policy=compact\nlog.segment.bytes={SEGMENT_BYTES}\n"
    )
    names = sorted(path.name for path in data.iterdir())
    quorum = java(class_path, "org.apache.zookeeper.server.quorum.QuorumPeerMain", zookeeper, output=scratch / "zookeeper.log")
    with quorum:
        wait_for_port(zookeeper_port)
        server.write_text(common + "log.cleaner.enable=false\n")
        with java(class_path, "kafka.Kafka", server, output=scratch / "first.log"):
            wait_for_port(port)
            make_topics(port, [name[:-2] for name in names])
        for name in names:
            for path in (scratch / "kafka" / name).glob("0*"):
                path.unlink()
            for path in (data / name).glob("0*"):
                shutil.move(path, scratch / "kafka" / name / path.name)
        server.write_text(common + "log.cleaner.backoff.ms=200\n")
        with java(class_path, "kafka.Kafka", server, output=scratch / "second.log"):
            return _wait_for(scratch / "second.log", len(names))


def make_topics(port: int, topics: list[str]) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    deadline = time.monotonic() + PORT_WAIT_S
    left = list(topics)
    while left:
        for topic, made in admin.create_topics([NewTopic(topic, 1, 1) for topic in left], request_timeout=10).items():
            try:
                made.result()
                left.remove(topic)
            except KafkaException as error:  # the broker may not have registered yet
                if time.monotonic() > deadline:
                    raise SystemExit(f"cannot create {topic}: {error}") from error
                time.sleep(0.5)


def _wait_for(server_log: Path, logs: int) -> dict[str, float]:
    pattern = re.compile(r"cleaned log (\S+) .*?\n.*?processed in ([\d.,]+) seconds")
    deadline = time.monotonic() + CLEAN_WAIT_S
    found: dict[str, float] = {}
    while len(found) < logs and time.monotonic() < deadline:
        time.sleep(0.5)
        for name, seconds in pattern.findall(server_log.read_text()):
            found.setdefault(name, float(seconds.replace(",", "")))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=256, help="megabytes per log before compression")
    parser.add_argument("--kafka", type=Path, help="file with Apache Kafka's class path")
    parser.add_argument("--directory", type=Path, help="directory for the logs")
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated names of logs")
    options = parser.parse_args()
    with scratch(options.directory) as folder:
        data, copy = folder / "data", folder / "copy"
        data.mkdir()
        for name in options.cases.split(","):
            make(data, name, options.mb)
        kafka: dict[str, float] = {}
        if options.kafka:
            shutil.copytree(data, copy)
            kafka = clean_with_kafka(options.kafka.read_text().strip(), copy, folder)
        print(f"{'log':10s}{'MB':>8s}{'after':>8s}{'s':>8s}{'MB/s':>8s}{'Kafka s':>9s}{'MB/s':>8s}{'ratio':>7s}")
        for name in options.cases.split(","):
            before, after, seconds = clean_here(data, name)
            line = f"{name:10s}{before / 1e6:8.0f}{after / 1e6:8.0f}{seconds:8.2f}{before / 1e6 / seconds:8.1f}"
            if name in kafka:
                line += f"{kafka[name]:9.2f}{before / 1e6 / kafka[name]:8.1f}{seconds / kafka[name]:7.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    os.umask(0o077)
    main()
