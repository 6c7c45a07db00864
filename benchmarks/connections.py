"""Many connections at once: the memory of idle ones, and the throughput of busy ones at the same time.

    python -m benchmarks.connections [--idle 5000] [--busy 500] [--seconds 5] [--kafka]

Sends requests over the busy connections, one at a time per connection; opens the idle connections, with one ApiVersions request
each; prints the growth of the broker's resident memory per connection; and measures the busy connections again. Both sides need a
descriptor per connection: raise `ulimit -n` if the hard limit is below 20,000.
"""

import argparse
import contextlib
import resource
import select
import socket
import statistics
import struct
import sys
import time
from pathlib import Path

from benchmarks.scratch import scratch
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka

REQUEST = struct.pack(">ihhih", 10, 18, 0, 7, -1)
OPENING_AT_ONCE = 32
SETTLE_S = 2.0


def resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def answer(connected: socket.socket) -> None:
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        chunk = connected.recv(65536)
        if not chunk:
            raise SystemExit("the broker closed a connection")
        data += chunk


def open_many(port: int, count: int) -> list[socket.socket]:
    """Open connections and send one request over each, with a bounded number of unanswered requests."""
    opened: list[socket.socket] = []
    for number in range(count + OPENING_AT_ONCE):
        if number < count:
            opened.append(socket.create_connection(("127.0.0.1", port), timeout=30))
            opened[-1].sendall(REQUEST)
        if number >= OPENING_AT_ONCE:
            answer(opened[number - OPENING_AT_ONCE])
    return opened


def keep_asking(connections: list[socket.socket], seconds: float) -> str:
    """Send requests over all connections, one at a time per connection; return the rate and the latencies."""
    by_fd = {each.fileno(): each for each in connections}
    sent_ns: dict[int, int] = {}
    taken_us: list[float] = []
    poll = select.epoll()
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    began = time.monotonic()
    for fd, connected in by_fd.items():
        sent_ns[fd] = time.monotonic_ns()
        connected.send(REQUEST)
    while time.monotonic() < began + seconds:
        for fd, _ in poll.poll(1):
            by_fd[fd].recv(65536)  # the response is small and arrives in one piece
            now_ns = time.monotonic_ns()
            taken_us.append((now_ns - sent_ns[fd]) / 1000)
            sent_ns[fd] = now_ns
            by_fd[fd].send(REQUEST)
    rate = len(taken_us) / (time.monotonic() - began)
    for fd in by_fd:
        answer(by_fd[fd])
    cuts = statistics.quantiles(taken_us, n=100)
    return f"{rate:,.0f} requests/s, median {cuts[49] / 1000:.1f} ms, p99 {cuts[98] / 1000:.1f} ms"


def measure(name: str, port: int, pid: int, options: argparse.Namespace) -> None:
    busy = open_many(port, options.busy)
    print(f"{name}: {options.busy} busy alone: {keep_asking(busy, options.seconds)}")
    time.sleep(SETTLE_S)
    before_kb = resident_kb(pid)
    began = time.monotonic()
    idle = open_many(port, options.idle)
    took_s = time.monotonic() - began
    time.sleep(SETTLE_S)
    grown_kb = resident_kb(pid) - before_kb
    each_kb = grown_kb / options.idle
    print(f"{name}: {options.idle} idle opened in {took_s:.1f} s, {before_kb} KiB before, {each_kb:.2f} KiB per connection")
    print(f"{name}: {options.busy} busy with {options.idle} idle: {keep_asking(busy, options.seconds)}")
    for each in [*busy, *idle]:
        each.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.connections", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--busy", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--kafka", action="store_true", help="also measure Apache Kafka")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with scratch() as directory, contextlib.ExitStack() as stack:
        ours = ServedBroker(directory / "ours")
        stack.callback(ours.kill)
        ours.start()
        assert ours.process is not None
        measure("this broker", ours.port, ours.process.pid, options)
        if options.kafka:
            kafka = ApacheKafka(directory / "kafka")
            stack.callback(kafka.kill)
            kafka.start()
            measure("Apache Kafka", kafka.port, kafka.broker_pid, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
