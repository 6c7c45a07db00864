"""Real clients at the rates that services have, on this broker and on Apache Kafka in the same run.

    python -m benchmarks.real_clients [--clients java librdkafka aiokafka] [--rates 100 1000] [--partitions 32 200] [--linger 0 5]
        [--rounds 2] [--warm-up 3] [--seconds 4] [--no-kafka]

A producer sends records of 100 bytes to the partitions in turn, with ``linger.ms``, while a consumer in a group reads them. For
each broker: its processor time for each record in microseconds, and the median and the 99th percentile of the milliseconds from
sending a record to reading it. The brokers are measured in turn in each round; the table has medians.

``BROKER_PYTHON`` is the interpreter of this broker. Requires Java and Maven for Apache Kafka and for Java's clients.
"""

import argparse
import contextlib
import itertools
import statistics
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.scratch import scratch
from tests.support.clients.clients import java_class_path, java_machine, run
from tests.support.clients.served import ServedBroker, cpu_s
from tests.support.oracle.apache_kafka import ApacheKafka

BESIDE = Path(__file__).resolve().parent / "beside"
WAIT_S = 120
CLIENTS = ("java", "librdkafka", "aiokafka")


class Measured(NamedTuple):
    """A running broker."""

    name: str
    port: int
    pid: Callable[[], int]


class Row(NamedTuple):
    """What a broker did for one client."""

    cpu_us: float
    p50_ms: float
    p99_ms: float


class Case(NamedTuple):
    """A client and its load."""

    client: str
    partitions: int
    rate: int
    linger_ms: int


def new_topic(port: int, partitions: int) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"paced-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})  # destroys its requests with itself
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(WAIT_S)
    return name


def measure(broker: Measured, case: Case, topic: str, java: list[str], options: argparse.Namespace) -> Row:
    """Run the client once. Raises CalledProcessError if it fails."""
    words = [f"127.0.0.1:{broker.port}", topic, case.partitions, case.rate, case.linger_ms, options.warm_up, options.seconds]
    python = [sys.executable, str(BESIDE / "paced_client.py"), case.client]
    command = [*(java if case.client == "java" else python), *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        client.stdout.readline()
        used_s = cpu_s(broker.pid())
        last = client.stdout.readline()
        used_s = cpu_s(broker.pid()) - used_s
        if client.wait(WAIT_S) or not last:
            raise subprocess.CalledProcessError(client.returncode, command)
    count, p50_ms, p99_ms = last.split()
    return Row(used_s * 1e6 / int(count), float(p50_ms), float(p99_ms))


def compare(brokers: list[Measured], case: Case, java: list[str], options: argparse.Namespace) -> None:
    """Print the medians of each broker, and the ratios of the first one to the second."""
    topics = [new_topic(broker.port, case.partitions) for broker in brokers]
    rows: list[list[Row]] = [[] for _ in brokers]
    for _ in range(options.rounds):
        for broker, topic, found in zip(brokers, topics, rows, strict=True):
            found.append(measure(broker, case, topic, java, options))
    medians = [Row(*map(statistics.median, zip(*found, strict=True))) for found in rows]
    line = f"{case.client:11}{case.partitions:5}{case.rate:7}/s{case.linger_ms:3} ms"
    line += "".join(f"{row.cpu_us:14.0f}{row.p50_ms:9.2f}{row.p99_ms:9.2f}" for row in medians)
    if len(medians) > 1:
        line += "".join(f"{here / there:7.2f}" for here, there in zip(*medians, strict=True))
    print(line, flush=True)


def java_client(folder: Path) -> list[str]:
    """Compile Java's client; return its command without arguments."""
    class_path = java_class_path()
    if class_path is None:
        raise SystemExit("Java and Maven are required; leave them out with: --no-kafka --clients librdkafka aiokafka")
    run(["javac", "-d", str(folder), "-cp", class_path, str(BESIDE / "PacedClient.java")])
    return [*java_machine(f"{folder}:{class_path}"), "PacedClient"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=CLIENTS)
    parser.add_argument("--rates", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--partitions", nargs="+", type=int, default=[32, 200])
    parser.add_argument("--linger", nargs="+", type=int, default=[0, 5])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warm-up", type=int, default=3, help="seconds")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--no-kafka", action="store_true")
    options = parser.parse_args()
    with scratch() as folder, contextlib.ExitStack() as stack:
        java = java_client(folder) if "java" in options.clients else []
        ours = ServedBroker(folder / "ours")
        stack.callback(ours.kill)
        ours.start()
        brokers = [Measured("twisted_kafka", ours.port, lambda: ours.process.pid if ours.process else 0)]
        if not options.no_kafka:
            kafka = ApacheKafka(folder / "kafka", kraft=True)
            stack.callback(kafka.stop)
            kafka.start()
            brokers.append(Measured("Apache Kafka", kafka.port, lambda: kafka.broker_pid))
        print(f"{'CPU us a record, p50 ms, p99 ms':28}" + "".join(f"{broker.name:>32}" for broker in brokers), flush=True)
        for words in itertools.product(options.clients, options.partitions, options.rates, options.linger):
            compare(brokers, Case(*words), java, options)


if __name__ == "__main__":
    main()
