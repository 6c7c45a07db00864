"""The time to stop and restart a broker with many partitions, compared to Apache Kafka in the same run.

    python -m benchmarks.restart [--partitions 1000] [--megabytes 1000] [--directories 1] [--no-kafka]

Both brokers get the same topic with records of 1 KB in batches of 64 KB. It measures a clean stop (from SIGTERM to the process's
end), a start after it, and starts after ``kill -9``; a start ends when all partitions have a leader. In brackets is the processor
time that the broker used for it: on a busy machine it varies less. Requires Java and Maven for Apache Kafka, and several GB in the
temporary directory.
"""

import argparse
import contextlib
import os
import resource
import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.scratch import scratch
from tests.support.clients import served
from tests.support.clients.served import ServedBroker, cpu_s
from tests.support.oracle.apache_kafka import ApacheKafka

TOPIC = "restart"
RECORD_BYTES = 1000
RUN = 64
"""The number of consecutive records for one partition."""
WAIT_S = 600
SETTINGS = {"log.flush.offset.checkpoint.interval.ms": 60_000, "offsets.topic.num.partitions": 1}


class Ours(ServedBroker):
    """This broker; its log directories are ``log``, ``log1``, ``log2`` ..."""

    name = "twisted_kafka"

    def __init__(self, directory: Path, directories: int) -> None:
        directory.mkdir()
        super().__init__(directory / "data", *[f"{key}={value}" for key, value in SETTINGS.items()])
        self._paths = ",".join(str(self.data / f"log{number or ''}") for number in range(directories))

    def command(self) -> list[str]:
        words = super().command()
        at = words.index("--data-dir")
        return [*words[:at], *words[at + 2 :], "-o", f"log.dirs={self._paths}", "-o", f"access.log.dir={self.access_dir}"]

    @property
    def broker_pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def stop_broker(self) -> None:
        self.stop()

    def kill_broker(self) -> None:
        self.kill()

    def start_broker(self) -> None:
        self.start()

    def end(self) -> None:
        self.kill()


class Kafka(ApacheKafka):
    """Apache Kafka with a ZooKeeper that keeps running while the broker restarts."""

    name = "Apache Kafka"

    def __init__(self, directory: Path, directories: int) -> None:
        paths = ",".join(str(directory / f"log{number or ''}") for number in range(directories))
        super().__init__(directory, **SETTINGS | {"log.dirs": paths})
        directory.mkdir()
        self.start_zookeeper()

    def end(self) -> None:
        self.kill()


def wait_for_leaders(bootstrap: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):
            topic = admin.list_topics(timeout=10).topics.get(TOPIC)
            if topic is not None and sum(each.leader >= 0 for each in topic.partitions.values()) == partitions:
                return
        time.sleep(0.02)
    raise TimeoutError("no leaders")


def fill(bootstrap: str, partitions: int, megabytes: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, partitions, 1)], operation_timeout=120, request_timeout=120).values():
        future.result(WAIT_S)
    wait_for_leaders(bootstrap, partitions)
    send(bootstrap, partitions, megabytes)


def send(bootstrap: str, partitions: int, megabytes: int) -> None:
    value = os.urandom(RECORD_BYTES)
    settings = {"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 50, "batch.size": 65_536, "log_level": 0}
    producer = Producer(settings | {"message.timeout.ms": WAIT_S * 1000})
    for number in range(megabytes * 1_000_000 // RECORD_BYTES):
        while True:
            try:
                producer.produce(TOPIC, value, partition=number // RUN % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(WAIT_S) == 0


class Took(NamedTuple):
    """What a stop or a start took."""

    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.wall_s:.2f} ({self.cpu_s:.2f})"


def measure(broker: "Ours | Kafka", partitions: int, megabytes: int) -> dict[str, Took]:
    def start() -> Took:
        began = time.perf_counter()
        broker.start_broker()
        wait_for_leaders(broker.bootstrap, partitions)
        return Took(time.perf_counter() - began, cpu_s(broker.broker_pid))

    def stop() -> Took:
        used_before = cpu_s(broker.broker_pid) + _cpu_of_ended_s()
        began = time.perf_counter()
        broker.stop_broker()
        return Took(time.perf_counter() - began, _cpu_of_ended_s() - used_before)

    try:
        broker.start_broker()
        fill(broker.bootstrap, partitions, megabytes)
        found = {"first clean stop": stop(), "start after it": start()}
        found["stop, nothing written"] = stop()
        found["start after that"] = start()
        broker.kill_broker()
        found["start after kill -9, idle"] = start()
        send(broker.bootstrap, partitions, megabytes // 10)
        broker.kill_broker()
        found[f"start after kill -9, {megabytes // 10} MB just written"] = start()
        return found
    finally:
        broker.end()


def _cpu_of_ended_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--directories", type=int, default=1)
    parser.add_argument("--no-kafka", action="store_true")
    options = parser.parse_args()
    served.START_TIMEOUT_S = served.STOP_TIMEOUT_S = WAIT_S  # many partitions take long
    results: dict[str, dict[str, Took]] = {}
    for kind in (Ours,) if options.no_kafka else (Ours, Kafka):
        with scratch() as folder:
            results[kind.name] = measure(kind(folder / "broker", options.directories), options.partitions, options.megabytes)
    print(f"{options.partitions} partitions, {options.megabytes} MB, {options.directories} log directories; seconds (of CPU)")
    print(f"{'':40}" + "".join(f"{name:>18}" for name in results))
    for step in next(iter(results.values())):
        print(f"{step:40}" + "".join(f"{found[step]!s:>18}" for found in results.values()))


if __name__ == "__main__":
    main()
