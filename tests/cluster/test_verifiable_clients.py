"""Producers and consumers in Java and Go at three of our brokers, whose leader is killed meanwhile."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.cluster import WAIT_S, Cluster, running
from tests.support.clients.clients import java_class_path, java_command, read_confluent
from tests.support.clients.go_programs import go_program
from tests.support.eventually import eventually

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(400)]

TOPIC, PARTITIONS = "verified", 3
RECORDS = 6000
PER_SECOND = 300
BEFORE = 500
"""Records that are acknowledged before the leader is killed."""

Events = list[dict[str, Any]]
Commands = tuple[list[str], list[str]]
"""A producer's and a consumer's."""


class Program:
    """One of the programs of Kafka's system tests, or one like it: it prints a JSON object for each thing that happens."""

    def __init__(self, output: Path, command: list[str]) -> None:
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

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
def program(output: Path, command: list[str]) -> Iterator[Program]:
    started = Program(output, command)
    try:
        yield started
    finally:
        started.kill()


def javas(cluster: Cluster, directory: Path) -> Commands:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    common = ["--bootstrap-server", cluster.bootstrap, "--topic", TOPIC, "--max-messages", str(RECORDS)]
    settings = directory / "producer.properties"
    settings.write_text("retries=2147483647\nenable.idempotence=true\n")  # the program's own default is not to try again
    sending = [*common, "--throughput", str(PER_SECOND), "--acks", "-1", "--producer.config", str(settings)]
    reading = [*common, "--group-id", "readers", "--reset-policy", "earliest", "--verbose"]
    tools = "org.apache.kafka.tools"
    return java_command(f"{tools}.VerifiableProducer", *sending), java_command(f"{tools}.VerifiableConsumer", *reading)


def franz_gos(cluster: Cluster, directory: Path) -> Commands:
    return gos(cluster, go_program(directory, "verifiable"))


def saramas(cluster: Cluster, directory: Path) -> Commands:
    return gos(cluster, go_program(directory, "verifiable_sarama"))


def gos(cluster: Cluster, program: str) -> Commands:
    words = [program, cluster.bootstrap, TOPIC, str(RECORDS), str(PER_SECOND)]
    return [*words, "produce"], [*words, "consume"]


CLIENTS = [pytest.param(javas, marks=pytest.mark.oracle), franz_gos, saramas]


@pytest.mark.parametrize("clients", CLIENTS, ids=lambda each: each.__name__)
def test_nothing_is_lost_or_doubled(tmp_path: Path, clients: Callable[[Cluster, Path], Commands]) -> None:
    with running(Cluster(tmp_path / "cluster", [Kind.OURS] * 3)) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        sending, reading = clients(cluster, tmp_path)
        with program(tmp_path / "sent", sending) as producer, program(tmp_path / "read", reading) as reader:
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
