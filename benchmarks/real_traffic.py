"""The requests of clients that use many partitions, on this broker and on Apache Kafka in the same run.

    python -m benchmarks.real_traffic [--only 'produce 100*'] [--rounds 2] [--seconds 2] [--no-kafka]

The scenarios are those of ``benchmarks.traffic``, over one connection with one request in flight. The brokers are measured in turn
in each round; the table has medians: requests per second, the 99th percentile of the time to an answer, and the CPU time of the
broker for each request. The client is written in Python, and limits rates above some 10,000.

``BROKER_PYTHON`` is the interpreter of this broker. Requires Java and Maven for Apache Kafka.
"""

import argparse
import contextlib
import fnmatch
import statistics
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.group_members import Connection
from benchmarks.scratch import scratch
from benchmarks.traffic import SCENARIOS, Frames, Traffic
from tests.support.clients.served import ServedBroker, cpu_s
from tests.support.oracle.apache_kafka import ApacheKafka

WARM_S = 4.0


class Row(NamedTuple):
    """What a broker did in one scenario."""

    rate: float
    p99_ms: float
    cpu_us: float


def load(port: int, pid: int, frames: Frames, seconds: float) -> Row:
    """Send one frame after the other over one connection."""
    connection = Connection(port)
    took_s = []
    used_s = cpu_s(pid)
    began = now = time.perf_counter()
    while now < began + seconds:
        connection.socket.sendall(next(frames))
        receive(connection)
        before, now = now, time.perf_counter()
        took_s.append(now - before)
    used_s = cpu_s(pid) - used_s
    connection.socket.close()
    took_s.sort()
    return Row(len(took_s) / (now - began), took_s[len(took_s) * 99 // 100] * 1e3, used_s * 1e6 / len(took_s))


def receive(connection: Connection) -> None:
    """Receive a whole answer."""
    left = struct.unpack(">i", _exactly(connection, 4))[0]
    while left:
        left -= len(_some(connection, min(left, 1 << 18)))


def _exactly(connection: Connection, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += _some(connection, count - len(data))
    return data


def _some(connection: Connection, most: int) -> bytes:
    data = connection.socket.recv(most)
    if not data:
        raise ConnectionError("the broker closed the connection")
    return data


class Measured(NamedTuple):
    """A running broker."""

    name: str
    port: int
    pid: Callable[[], int]
    traffic: Traffic


def measure(brokers: list[Measured], options: argparse.Namespace) -> None:
    """Print a line for each scenario: the medians of each broker, and the ratios of the first one to the second."""
    print(f"{'':32}" + "".join(f"{broker.name + ': /s, p99 ms, CPU us':>38}" for broker in brokers) + "    rate   CPU")
    for name, scenario in SCENARIOS.items():
        if not fnmatch.fnmatchcase(name, options.only):
            continue
        sequences = [scenario(broker.traffic) for broker in brokers]
        rows: list[list[Row]] = [[] for _ in brokers]
        for broker, frames in zip(brokers, sequences, strict=True):
            load(broker.port, broker.pid(), frames, WARM_S)
        for _ in range(options.rounds):
            for broker, frames, found in zip(brokers, sequences, rows, strict=True):
                found.append(load(broker.port, broker.pid(), frames, options.seconds))
        medians = [Row(*map(statistics.median, zip(*found, strict=True))) for found in rows]
        line = f"{name:32}" + "".join(f"{row.rate:18,.0f}{row.p99_ms:10.2f}{row.cpu_us:10,.0f}" for row in medians)
        if len(medians) > 1:
            line += f"{medians[0].rate / medians[1].rate:8.2f}{medians[0].cpu_us / medians[1].cpu_us:6.2f}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="*", help="pattern of scenario names")
    parser.add_argument("--no-kafka", action="store_true")
    options = parser.parse_args()
    with scratch() as folder, contextlib.ExitStack() as stack:
        ours = ServedBroker(folder / "ours")
        stack.callback(ours.kill)
        ours.start()
        brokers = [Measured("twisted_kafka", ours.port, lambda: ours.process.pid if ours.process else 0, Traffic(ours.port))]
        if not options.no_kafka:
            kafka = ApacheKafka(folder / "kafka", kraft=True)
            stack.callback(kafka.stop)
            kafka.start()
            brokers.append(Measured("Apache Kafka", kafka.port, lambda: kafka.broker_pid, Traffic(kafka.port)))
        measure(brokers, options)


if __name__ == "__main__":
    main()
