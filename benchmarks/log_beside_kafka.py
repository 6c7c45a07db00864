"""Appends, sequential fetches and random look-ups with raw requests, compared to Apache Kafka in the same run.

    python -m benchmarks.log_beside_kafka [--rounds 5] [--seconds 2] [--megabytes 256] [--only 'append*'] [--no-kafka]

A closed loop over one connection, unless the case's name says otherwise. Appends: acks=1, four partitions in turn, IN_FLIGHT
requests in flight, one uncompressed batch per request. Fetches read a log of the given size sequentially, with batches of 16 KB and
segments of 128 MB. Look-ups use random offsets and timestamps of this log. The brokers are measured in turn in each round. The
table has the medians of the rate and of the broker's CPU time per request, and the ratios of the pairs of each round.

Requires gcc, Java and Maven for Apache Kafka, and several GB in the temporary directory.
"""

import argparse
import contextlib
import fnmatch
import math
import os
import random
import re
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.beside import frames
from benchmarks.scratch import scratch
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

PARTITIONS = 4
IN_FLIGHT = 5
SMALL_RECORD_BYTES = 90
LARGE_RECORD_BYTES = 1000
STORED_BATCH = 16
"""The number of records in a stored batch, of LARGE_RECORD_BYTES each."""
SEGMENT_BYTES = 128 << 20
LOOKUPS = 5000
FIRST_MS = 1_700_000_000_000
PRIME_MB = 1000
WARM_S = 4.0
SETTINGS = {"log.retention.ms": -1, "message.max.bytes": 2_000_000}
UNITS = {"append": "req/s", "fetch": "MB_in/s", "offset": "req/s", "time": "req/s"}


def stored_batch(number: int) -> bytes:
    """Return a batch whose records have timestamps one millisecond apart."""
    value = random.Random(number).randbytes(LARGE_RECORD_BYTES)
    first = FIRST_MS + number * STORED_BATCH
    return build_batch([SimpleRecord(first + each, None, value) for each in range(STORED_BATCH)])


def append_frames(topic: str, records: int, size: int) -> bytes:
    now_ms = int(time.time() * 1000)
    batch = build_batch([SimpleRecord(now_ms, None, random.randbytes(size)) for _ in range(records)])
    return b"".join([frames.produce(topic, batch, partition=partition) for partition in range(PARTITIONS)])


def time_frame(topic: str, timestamp_ms: int) -> bytes:
    partition = frames.array([struct.pack(">iiq", 0, -1, timestamp_ms)])
    return frames.request(frames.LIST_OFFSETS, 5, struct.pack(">ib", -1, 0) + frames.array([frames.string(topic) + partition]))


class Measured:
    """A running broker with a stored log."""

    def __init__(self, name: str, address: tuple[int, int], kload: Path, folder: Path, megabytes: int) -> None:
        """``address`` is the process id and the port of the broker."""
        self.name = name
        self._pid, port = address
        self._port = port
        self._kload = kload
        self._file = folder / f"{name.replace(' ', '-')}.frames"
        self._topics = 0
        self._batches = (megabytes << 20) // len(stored_batch(0))
        self.end = self._batches * STORED_BATCH
        connection = frames.Connection("127.0.0.1", port)
        connection.create(["stored"], 1, segment_bytes=SEGMENT_BYTES, retention_ms=-1)
        for number in range(self._batches):
            if error := connection.produce("stored", stored_batch(number)):
                raise RuntimeError(f"{name}: produce: error {error}")
        connection.close()

    def load(self, data: bytes, connections: int, depth: int, seconds: float) -> dict[str, float]:
        self._file.write_bytes(data)
        words = [str(self._kload), str(self._port), str(connections), str(depth), str(seconds), str(self._file), "each"]
        began_s = self._cpu_s()
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        used_s = self._cpu_s() - began_s
        found = {key: float(value) for key, value in re.findall(r"(\S+?)=([\d.]+)", output)}
        return found | {"CPU us": used_s * 1e6 / max(found["req"], 1)}

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextlib.contextmanager
    def _topic(self):  # type: ignore[no-untyped-def]
        self._topics += 1
        name = f"appended-{self._topics}"
        connection = frames.Connection("127.0.0.1", self._port)
        connection.create([name], PARTITIONS, file_delete_delay_ms=1000)
        try:
            yield name
        finally:
            connection.delete([name])
            connection.close()

    def append(self, records: int, size: int, seconds: float) -> dict[str, float]:
        prime()
        with self._topic() as topic:
            return self.load(append_frames(topic, records, size), 1, IN_FLIGHT, seconds)

    def fetch(self, max_bytes: int, seconds: float) -> dict[str, float]:
        step = max_bytes // len(stored_batch(0)) * STORED_BATCH
        data = b"".join([frames.fetch("stored", offset, max_bytes) for offset in range(0, self.end - step, step)])
        return self.load(data, 1, 1, seconds)

    def random_offsets(self, connections: int, seconds: float) -> dict[str, float]:
        draw = random.Random(connections)
        data = b"".join([frames.fetch("stored", draw.randrange(self.end), 4096) for _ in range(LOOKUPS)])
        return self.load(data, connections, 1, seconds)

    def random_times(self, connections: int, seconds: float) -> dict[str, float]:
        draw = random.Random(connections)
        data = b"".join([time_frame("stored", FIRST_MS + draw.randrange(self.end)) for _ in range(LOOKUPS)])
        return self.load(data, connections, 1, seconds)


Case = Callable[[Measured, float], dict[str, float]]
CASES: dict[str, Case] = {
    "append: batches of 1 x 90 B": lambda broker, seconds: broker.append(1, SMALL_RECORD_BYTES, seconds),
    "append: batches of 100 x 90 B": lambda broker, seconds: broker.append(100, SMALL_RECORD_BYTES, seconds),
    "append: batches of 10,000 x 90 B": lambda broker, seconds: broker.append(10_000, SMALL_RECORD_BYTES, seconds),
    "append: batches of 16 x 1,000 B": lambda broker, seconds: broker.append(16, LARGE_RECORD_BYTES, seconds),
    "append: batches of 1,000 x 1,000 B": lambda broker, seconds: broker.append(1000, LARGE_RECORD_BYTES, seconds),
    "fetch: 1 MB at a time": lambda broker, seconds: broker.fetch(1 << 20, seconds),
    "fetch: 50 MB at a time": lambda broker, seconds: broker.fetch(50 << 20, seconds),
    "offset: random fetch": lambda broker, seconds: broker.random_offsets(1, seconds),
    "offset: random fetch, 8 connections": lambda broker, seconds: broker.random_offsets(8, seconds),
    "time: random look-up": lambda broker, seconds: broker.random_times(1, seconds),
    "time: random look-up, 8 connections": lambda broker, seconds: broker.random_times(8, seconds),
}


def prime() -> None:
    """Write a file and delete it: writing to memory that a virtual machine has not used before is much slower."""
    block = bytes(1 << 20)
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(PRIME_MB):
            file.write(block)


def measure(brokers: list[Measured], options: argparse.Namespace) -> None:
    others = [broker.name for broker in brokers[1:]]
    print(
        f"{'':38}{'':10}" + "".join(f"{broker.name:>16}" for broker in brokers) + ("   ratio (range over rounds)" if others else "")
    )
    for name, case in CASES.items():
        if not fnmatch.fnmatchcase(name, options.only):
            continue
        found: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in brokers}
        for broker in brokers:
            case(broker, WARM_S if others else 1.0)
        for _ in range(options.rounds):
            for broker in brokers:
                found[broker.name].append(case(broker, options.seconds))
        for unit in (UNITS[name.split(":", 1)[0]], "CPU us"):
            values = [[result[unit] for result in found[broker.name]] for broker in brokers]
            line = f"{name:38}{unit.replace('_in', ''):10}"
            line += "".join(f"{statistics.median(each):16,.0f}" for each in values)
            if others:
                ratios = [ours / (kafka or math.nan) for ours, kafka in zip(*values, strict=True)]
                line += f"   {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--megabytes", type=int, default=512, help="size of the log to fetch")
    parser.add_argument("--only", default="*", help="pattern of case names")
    parser.add_argument("--no-kafka", action="store_true")
    options = parser.parse_args()
    with scratch() as folder, contextlib.ExitStack() as stack:
        kload = folder / "kload"
        subprocess.run(["gcc", "-O2", "-w", "-o", kload, Path(frames.__file__).with_name("kload.c")], check=True)
        ours = ServedBroker(folder / "ours", *[f"{key}={value}" for key, value in SETTINGS.items()])
        stack.callback(ours.kill)
        ours.start()
        assert ours.process is not None
        brokers = [Measured("twisted_kafka", (ours.process.pid, ours.port), kload, folder, options.megabytes)]
        if not options.no_kafka:
            kafka = ApacheKafka(folder / "kafka", kraft=True, **SETTINGS)
            stack.callback(kafka.kill)
            kafka.start()
            brokers.append(Measured("Apache Kafka", (kafka.broker_pid, kafka.port), kload, folder, options.megabytes))
        measure(brokers, options)


if __name__ == "__main__":
    main()
