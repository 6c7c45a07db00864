"""The cost of TLS compared to plain text, and to Apache Kafka if Java and Maven are installed.

    python -m benchmarks.tls [--no-kafka] [--warm-up 4] [--rounds 3] [--seconds 1] [--idle 500] [--override KEY=VALUE]

Prints for each broker the rates of ApiVersions round trips, of produced and fetched MB on one connection, and of new connections
(with TLS, full handshakes and resumed sessions), in plain text and with TLS in turn, each with its ratio to plain text and the
broker's CPU time; and the resident memory per idle connection. TLS 1.3 with P-256 certificates. On a busy machine, CPU times are
more reliable than rates.
"""

import argparse
import contextlib
import itertools
import re
import socket
import ssl
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scratch import scratch
from tests.support.certificates import Authority
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.ports import free_port
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

sys.path.insert(0, str(Path(__file__).resolve().parent / "beside"))

from bench import cpu_seconds, descendants

TOPIC = "bench"
RECORD_BYTES = 1000
RECORDS = 900
FETCH_BYTES = 4 << 20
SETTLE_S = 1.0


def frame(message: Message, version: int) -> bytes:
    data = encode_request_header(message.KEY, version, 1, "bench") + message.encode(version)
    return struct.pack(">i", len(data)) + data


API_VERSIONS = frame(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3)
METADATA = frame(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=True), 4)


def produce_frame() -> bytes:
    batch = build_batch([SimpleRecord(timestamp_ms=int(time.time() * 1000), value=bytes(RECORD_BYTES))] * RECORDS)
    topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    return frame(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic]), 8)


def fetch_frame() -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
    topic = FetchTopic(topic=TOPIC, partitions=[partition])
    return frame(FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=FETCH_BYTES, topics=[topic]), 11)


class Connection:
    """A blocking connection; responses are counted and discarded."""

    def __init__(self, port: int, context: ssl.SSLContext | None, session: Any = None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket: socket.socket = plain
        if context is not None:
            self.socket = context.wrap_socket(plain, server_hostname="localhost", session=session)
        self._buffer = bytearray(1 << 20)

    def answer(self, request: bytes) -> bytes:
        """Return the response without its size."""
        self.socket.sendall(request)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def ask(self, request: bytes) -> int:
        self.socket.sendall(request)
        (size,) = struct.unpack(">i", self._read(4))
        left = size
        while left:
            left -= self.socket.recv_into(self._buffer, min(left, len(self._buffer)))
        return int(size)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            some = self.socket.recv(size - len(data))
            assert some, "the broker closed the connection"
            data += some
        return data

    def close(self) -> None:
        self.socket.close()


def repeat(step: Callable[[], float], seconds: float) -> tuple[float, float]:
    """Repeat ``step``, which returns the units of its work; return the units done, and the seconds it took."""
    began, done = time.perf_counter(), 0.0
    while time.perf_counter() - began < seconds:
        done += step()
    return done, time.perf_counter() - began


def measured(pid: int, seconds: float, step: Callable[[], float], warm_up_s: float | None = None) -> tuple[float, float]:
    """Repeat ``step``; return the rate, and the broker's CPU time per unit in microseconds.

    A warm-up, of the same length unless said otherwise, is not measured, because a JVM compiles code meanwhile.
    """
    repeat(step, seconds if warm_up_s is None else warm_up_s)
    pids = descendants([pid])
    used = cpu_seconds(pids)
    done, took = repeat(step, seconds)
    return done / took, (cpu_seconds(pids) - used) / done * 1e6


def resident_kb(pid: int) -> int:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


class Step(NamedTuple):
    """What is measured, on each listener."""

    name: str
    unit: str
    do: Callable[[], float]
    """Does it; returns the units of its work."""


def steps_of(port: int, context: ssl.SSLContext | None) -> list[Step]:
    connection = Connection(port, context)
    connection.ask(METADATA)
    time.sleep(SETTLE_S)
    produce, fetch = produce_frame(), fetch_frame()

    def ask_versions() -> float:
        for _ in range(20):
            connection.ask(API_VERSIONS)
        return 20

    def send() -> float:
        connection.ask(produce)
        return len(produce) / 1e6

    def new() -> float:
        connected(Connection(port, context))
        return 1

    return [
        Step("ApiVersions, one connection", "requests", ask_versions),
        Step("produce, batches of 0.9 MB", "MB", send),
        Step("fetch, 4 MiB each", "MB", lambda: connection.ask(fetch) / 1e6),
        Step("new connection and a request", "connections", new),
    ]


def connected(connection: Connection) -> None:
    connection.ask(API_VERSIONS)
    connection.close()


def resumption(port: int, context: ssl.SSLContext) -> Step:
    first = Connection(port, context)
    first.ask(API_VERSIONS)
    sessions = itertools.repeat(first.socket.session)  # type: ignore[attr-defined]

    def resumed() -> float:
        connection = Connection(port, context, next(sessions))
        if not connection.socket.session_reused:  # type: ignore[attr-defined]
            connection.close()
            raise ConnectionError("no session was resumed")
        connected(connection)
        return 1

    return Step("new connection, resumed session", "connections", resumed)


def compare(pid: int, steps: Sequence[Step], options: argparse.Namespace) -> None:
    """Print the rates of the steps, of which the first is in plain text: in turn, after a warm-up, as a JVM compiles meanwhile."""
    results: list[list[tuple[float, float]]] = [[] for _ in steps]
    for step in steps:
        repeat(step.do, options.warm_up)
    for _ in range(options.rounds):
        for step, measured_of in zip(steps, results, strict=True):
            measured_of.append(measured(pid, options.seconds, step.do, warm_up_s=0))
    first = 0.0
    for kind, step, measured_of in zip(("plain", "TLS", "TLS"), steps, results, strict=False):
        rate, cpu_us = (statistics.median(each) for each in zip(*measured_of, strict=True))
        first = first or rate
        cpu = f"{cpu_us / 1e3:8.3f} ms" if step.unit == "MB" else f"{cpu_us:8.0f} us"
        print(f"    {step.name:32}{kind:6}{rate:10.0f} {step.unit}/s {rate / first:5.2f} {cpu} of broker CPU per unit", flush=True)


def memory(what: str, pid: int, port: int, context: ssl.SSLContext | None, count: int) -> None:
    held: list[Connection] = []
    for _ in range(count):  # so that one-time allocations are not measured
        held.append(Connection(port, context))
        held[-1].ask(API_VERSIONS)
    time.sleep(SETTLE_S)
    before = resident_kb(pid)
    for _ in range(count):
        held.append(Connection(port, context))
        held[-1].ask(API_VERSIONS)
    time.sleep(SETTLE_S)
    print(f"    {what:34}{(resident_kb(pid) - before) / count:10.1f} KiB per connection", flush=True)
    for connection in held:
        connection.close()


def settings_of(folder: Path) -> dict[str, str]:
    authority = Authority()
    authority.issue("CN=localhost", ["localhost", "127.0.0.1"]).write_pkcs12(folder / "key.p12")
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "key.p12"),
        "ssl.keystore.password": "store-secret",
        "ssl.enabled.protocols": "TLSv1.3",
    }


@contextlib.contextmanager
def brokers(options: argparse.Namespace, folder: Path) -> Iterator[list[tuple[str, int, int, int]]]:
    """Start the brokers; yield name, process id, plain-text port and TLS port of each."""
    settings = settings_of(folder)
    with contextlib.ExitStack() as stack:
        started = []
        ours, port = (
            ServedBroker(folder / "ours", *options.override, *(f"{key}={value}" for key, value in settings.items())),
            free_port(),
        )
        ours.listeners += f",SSL://127.0.0.1:{port}"
        stack.callback(ours.kill)
        ours.start()
        assert ours.process is not None
        started.append(("twisted_kafka", ours.process.pid, ours.port, port))
        if options.kafka:
            port = free_port()
            kafka = ApacheKafka(folder / "kafka")
            kafka._settings |= {**settings, "listeners": f"PLAINTEXT://127.0.0.1:{kafka.port},SSL://127.0.0.1:{port}"}
            stack.callback(kafka.kill)
            kafka.start()
            started.append(("Apache Kafka 3.9", kafka.broker_pid, kafka.port, port))
        yield started


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tls", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--warm-up", type=float, default=4, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=int, default=500)
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of this broker")
    parser.add_argument("--kafka", action=argparse.BooleanOptionalAction, default=None)
    options = parser.parse_args()
    if options.kafka is None:
        options.kafka = java_class_path() is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with scratch() as directory, brokers(options, directory) as started:
        for name, pid, plain, secure in started:
            print(name)
            for both in zip(steps_of(plain, None), steps_of(secure, context), strict=True):
                compare(pid, both, options)
            try:
                compare(pid, (steps_of(plain, None)[-1], resumption(secure, context)), options)
            except ConnectionError as error:
                print(f"    ({error})")
            memory("memory, idle connections, plain", pid, plain, None, options.idle)
            memory("memory, idle connections, TLS", pid, secure, context, options.idle)
    return 0


if __name__ == "__main__":
    sys.exit(main())
