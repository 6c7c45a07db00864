"""The time to create a topic, and whether it increases with the number of existing topics.

    python -m benchmarks.create_topics [--topics 10000] [--batch 1 --batch 100] [--kafka zookeeper] [--bootstrap 127.0.0.1:9092]

One connection sends CreateTopics requests sequentially, for topics of one partition and one replica, ``--batch`` topics per
request. Each batch size starts with an empty broker. ``--bootstrap`` measures a running broker, which should be empty too.
The CPU time of a broker that the benchmark started depends less on the machine's other load than the elapsed time.
"""

import argparse
import contextlib
import sys
import time
from pathlib import Path

from benchmarks.scratch import scratch
from tests.support.clients.served import ServedBroker, cpu_s
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.talk import Talk
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest

VERSION = 5
PARTS = 5
TIMEOUT_MS = 60_000


def create(talk: Talk, prefix: str, first: int, batch: int) -> None:
    topics = [CreatableTopic(name=f"{prefix}-{first + each}", num_partitions=1, replication_factor=1) for each in range(batch)]
    answer = talk.ask(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS), VERSION, note=False)
    failed = [topic for topic in answer.topics if topic.error_code]
    assert not failed, failed[0]


def measure(name: str, port: int, topics: int, batch: int, pid: int | None = None) -> None:
    """Print the milliseconds per topic, for the whole run and for each part of it; with ``pid``, the process's CPU time too."""
    talk = Talk(port, "create-topics")
    with contextlib.closing(talk):
        # A first topic, so that one-time costs are not measured.
        create(talk, f"warm-{batch}-{time.time_ns()}", 0, 1)
        prefix = f"made-by-{batch}-{time.time_ns()}"
        began = time.monotonic()
        parts, cpu_parts = [], []
        made = 0
        for part in range(PARTS):
            end = topics * (part + 1) // PARTS
            part_began, part_first, part_cpu_s = time.monotonic(), made, cpu_s(pid) if pid else 0.0
            while made < end:
                create(talk, prefix, made, min(batch, end - made))
                made += min(batch, end - made)
            parts.append(1000 * (time.monotonic() - part_began) / max(1, made - part_first))
            cpu_parts.append(1000 * ((cpu_s(pid) if pid else 0.0) - part_cpu_s) / max(1, made - part_first))
        took_s = time.monotonic() - began
    total = f"{name}, {batch} per request: {topics} topics in {took_s:.1f} s, {1000 * took_s / topics:.2f} ms per topic; by fifths "
    total += " ".join(f"{each:.2f}" for each in parts)
    if pid:
        total += "; CPU " + " ".join(f"{each:.2f}" for each in cpu_parts)
    print(total, flush=True)


def port_of(bootstrap: str) -> int:
    host, _, port = bootstrap.rpartition(":")
    if host not in ("", "localhost", "127.0.0.1"):
        raise SystemExit("only brokers on this machine can be compared: the host must be 127.0.0.1")
    return int(port)


def measure_own(directory: Path, options: argparse.Namespace, batch: int) -> None:
    broker = ServedBroker(directory / f"ours-{batch}", *options.override)
    try:
        broker.start()
        assert broker.process is not None
        measure("this broker", broker.port, options.topics, batch, broker.process.pid)
    finally:
        broker.kill()


def measure_kafka(directory: Path, options: argparse.Namespace, mode: str, batch: int) -> None:
    kafka = ApacheKafka(directory / f"{mode}-{batch}", kraft=mode == "kraft")
    try:
        kafka.start()
        measure(f"Apache Kafka, {mode}", kafka.port, options.topics, batch, kafka.broker_pid)
    finally:
        kafka.kill()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.create_topics", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--batch", type=int, action="append", help="topics per request; can be repeated (default: 1, 100)")
    parser.add_argument("--kafka", choices=["zookeeper", "kraft"], action="append", default=[], help="also measure Apache Kafka")
    parser.add_argument("--bootstrap", action="append", default=[], metavar="HOST:PORT", help="measure a running broker")
    parser.add_argument("--own", action=argparse.BooleanOptionalAction, default=True, help="measure this broker")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of this broker")
    options = parser.parse_args()
    with scratch() as directory:
        for batch in options.batch or [1, 100]:
            if options.own:
                measure_own(directory, options, batch)
            for mode in options.kafka:
                measure_kafka(directory, options, mode, batch)
            for bootstrap in options.bootstrap:
                measure(bootstrap, port_of(bootstrap), options.topics, batch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
