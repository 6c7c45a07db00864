"""Apache Kafka's own producer and consumer at three of our brokers, whose leader is killed meanwhile."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.clients import java_class_path, java_command, read_confluent
from tests.cluster.brokers import Kind
from tests.cluster.cluster import WAIT_S, Cluster, running
from tests.eventually import eventually

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.clients, pytest.mark.timeout(400)]

TOPIC, PARTITIONS = "java", 3
RECORDS = 6000
PER_SECOND = 300
BEFORE = 500
"""Records that are acknowledged before the leader is killed."""

Events = list[dict[str, Any]]


class Program:
    """One of the programs of Kafka's system tests: it prints a JSON object for each thing that happens."""

    def __init__(self, directory: Path, name: str, *words: str) -> None:
        self._output = directory / name
        with self._output.open("wb") as output:
            command = java_command(f"org.apache.kafka.tools.{name}", *words)
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def events(self, name: str) -> Events:
        """Return the events of a name so far."""
        lines = self._output.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [event for event in found if event["name"] == name]

    def wait(self) -> None:
        assert self._process.wait(WAIT_S) == 0, self._output.read_text()[-2000:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def program(directory: Path, name: str, *words: str) -> Iterator[Program]:
    started = Program(directory, name, *words)
    try:
        yield started
    finally:
        started.kill()


@pytest.mark.skipif(java_class_path() is None, reason="Java or Maven is not installed")
def test_javas_producer_and_consumer_lose_and_double_nothing(tmp_path: Path) -> None:
    with running(Cluster(tmp_path / "cluster", [Kind.OURS] * 3)) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        common = ["--bootstrap-server", cluster.bootstrap, "--topic", TOPIC, "--max-messages", str(RECORDS)]
        sending = [*common, "--throughput", str(PER_SECOND), "--acks", "-1"]
        reading = [*common, "--group-id", "readers", "--reset-policy", "earliest", "--verbose"]
        with (
            program(tmp_path, "VerifiableProducer", *sending) as producer,
            program(tmp_path, "VerifiableConsumer", *reading) as reader,
        ):
            eventually(lambda: len(producer.events("producer_send_success")) > BEFORE, wait_s=WAIT_S, pause_s=0.2)
            eventually(lambda: reader.events("record_data"), wait_s=WAIT_S, pause_s=0.2)
            leader = cluster.leader(TOPIC)
            cluster.brokers[leader].kill()
            cluster.wait_until_gone(leader)
            producer.wait()
            assert not producer.events("producer_send_error")
            values = [event["value"] for event in producer.events("producer_send_success")]
            reader.wait()
            read = {(event["partition"], event["offset"]): event["value"] for event in reader.events("record_data")}
        assert sorted(values, key=int) == [str(number) for number in range(RECORDS)]
        assert sorted(read.values(), key=int) == sorted(values, key=int)
        cluster.start_brokers(leader)
        cluster.wait_until_whole()
        logged = [value.decode() for value in read_confluent(cluster.bootstrap, TOPIC, RECORDS)]
        assert sorted(logged, key=int) == sorted(values, key=int)
