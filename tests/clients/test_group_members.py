"""Members of every client and protocol come, go, are killed and paused while records keep coming: each record is read by the group.

A record may be read twice, by the one that was killed and by its successor, as everywhere in Kafka; none may be left out.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.budget import patient
from tests.support.clients.clients import PROGRAMS, java_class_path, java_command, kafkajs_ready, new_group
from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually
from tests.support.processes import start_tied

PARTITIONS = 8
RATE = 400
SESSION_S = 6
WAIT_S = patient(60)

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=4",
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    f"group.consumer.session.timeout.ms={SESSION_S * 1000}",
    "group.consumer.min.heartbeat.interval.ms=500",
    "group.consumer.heartbeat.interval.ms=500",
)

pytestmark = [pytest.mark.slow, pytest.mark.clients]


class Member:
    """A consumer in a process of its own."""

    def __init__(self, folder: Path, number: int, command: list[str]) -> None:
        self.output = folder / f"member-{number}.out"
        self.errors = folder / f"member-{number}.err"
        with self.output.open("wb") as output, self.errors.open("wb") as errors:
            self.process = start_tied(command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL)

    def read(self) -> set[tuple[int, int]]:
        """What it has read so far, as (partition, offset)."""
        found: set[Any] = set()
        for line in self.output.read_text(errors="replace").splitlines(keepends=True):
            if not line.endswith("\n"):
                break  # it is being written
            if line.startswith("{"):
                event = json.loads(line)
                if event["name"] == "records_consumed":
                    for part in event["partitions"]:
                        found.update((part["partition"], offset) for offset in range(part["minOffset"], part["maxOffset"] + 1))
            elif len(words := line.split()) == 2:
                found.add((int(words[0]), int(words[1])))
        return found

    def signal(self, what: signal.Signals) -> None:
        self.process.send_signal(what)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Load:
    """A thread that sends records to all partitions, and knows how many went to each."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent: set[tuple[int, int]] = set()
        self._ending = threading.Event()
        self._bootstrap, self._topic = bootstrap, topic
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 0})
        number = 0
        while not self._ending.is_set():
            for _ in range(RATE // 20):
                number += 1
                producer.produce(self._topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            producer.poll(0)
            self._ending.wait(0.05)
        producer.flush(WAIT_S)

    def _delivered(self, error: object, message: "Message") -> None:  # type: ignore[name-defined] # noqa: F821
        assert error is None, error
        self.sent.add((message.partition(), message.offset()))

    def end(self) -> set[tuple[int, int]]:
        self._ending.set()
        self._thread.join(WAIT_S)
        return self.sent


def python_member(client: str, *settings: str) -> Callable[[str, str, str, int], list[str]]:
    def command(bootstrap: str, topic: str, group: str, number: int) -> list[str]:
        own = [setting.replace("{number}", str(number)) for setting in settings]
        return [sys.executable, str(PROGRAMS / "member.py"), client, bootstrap, topic, group, *own]

    return command


def java_member(*words: str) -> Callable[[str, str, str, int], list[str]]:
    def command(bootstrap: str, topic: str, group: str, number: int) -> list[str]:
        own = [word.replace("{number}", str(number)) for word in words]
        base = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--reset-policy", "earliest"]
        return java_command("org.apache.kafka.tools.VerifiableConsumer", *base, *own)

    return command


def kafkajs_member(bootstrap: str, topic: str, group: str, number: int) -> list[str]:
    return ["node", str(PROGRAMS / "kafkajs" / "member.js"), bootstrap, topic, group]


CLASSIC = "--session-timeout", str(SESSION_S * 1000)
STRATEGY = "org.apache.kafka.clients.consumer."
Kind = Callable[[str, str, str, int], list[str]]
GROUPS: dict[str, list[Kind]] = {
    "librdkafka-range": [python_member("confluent", "partition.assignment.strategy=range")],
    "librdkafka-roundrobin": [python_member("confluent", "partition.assignment.strategy=roundrobin")],
    "librdkafka-cooperative-static": [
        python_member("confluent", "partition.assignment.strategy=cooperative-sticky", "group.instance.id=i{number}")
    ],
    "librdkafka-consumer": [python_member("confluent", "group.protocol=consumer")],
    "librdkafka-consumer-static": [python_member("confluent", "group.protocol=consumer", "group.instance.id=i{number}")],
    "librdkafka-both": [
        python_member("confluent", "partition.assignment.strategy=cooperative-sticky"),
        python_member("confluent", "group.protocol=consumer"),
    ],
    "mixed-range": [
        python_member("confluent", "partition.assignment.strategy=range"),
        python_member("kafka-python"),
        python_member("aiokafka"),
    ],
    "kafkajs": [kafkajs_member],
    "java-range": [java_member(*CLASSIC, "--assignment-strategy", f"{STRATEGY}RangeAssignor")],
    "java-roundrobin": [java_member(*CLASSIC, "--assignment-strategy", f"{STRATEGY}RoundRobinAssignor")],
    "java-sticky-static": [
        java_member(*CLASSIC, "--assignment-strategy", f"{STRATEGY}StickyAssignor", "--group-instance-id", "i{number}")
    ],
    "java-cooperative": [java_member(*CLASSIC, "--assignment-strategy", f"{STRATEGY}CooperativeStickyAssignor")],
    "java-consumer": [java_member("--group-protocol", "consumer")],
    "java-and-librdkafka": [
        java_member(*CLASSIC, "--assignment-strategy", f"{STRATEGY}CooperativeStickyAssignor"),
        python_member("confluent", "group.protocol=consumer"),
    ],
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    served = ServedBroker(tmp_path_factory.mktemp("members") / "data", *SETTINGS)
    served.start()
    yield served
    assert served.stop() == 0, served.output.read_text()[-3000:]


@pytest.fixture
def started() -> Iterator[ExitStack]:
    """What ends members and the load, also of a test that fails."""
    with ExitStack() as ends:
        yield ends


def make_topic(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(WAIT_S)


@pytest.mark.parametrize("name", GROUPS)
def test_every_record_is_read(broker: ServedBroker, started: ExitStack, tmp_path: Path, name: str) -> None:
    kinds = GROUPS[name]
    if "java" in name and java_class_path() is None:
        pytest.skip("needs Java and Maven")
    if name == "kafkajs" and not kafkajs_ready():
        pytest.skip("needs node and npm")
    topic, group = f"topic-{name}", new_group()
    make_topic(broker.bootstrap, topic)
    load = Load(broker.bootstrap, topic)
    started.callback(load.end)
    members: list[Member] = []

    def start(number: int) -> Member:
        command = kinds[number % len(kinds)](broker.bootstrap, topic, group, number)
        member = Member(tmp_path, len(members), command)
        members.append(member)
        started.callback(member.end)
        return member

    def reads_more(*readers: Member) -> None:
        before = [len(member.read()) for member in readers]
        eventually(
            lambda: all(len(member.read()) > count for member, count in zip(readers, before, strict=True)),
            lambda: f"{before} records read, and no more: " + readers[0].errors.read_text(errors="replace")[-2000:],
            WAIT_S,
            pause_s=0.2,
        )

    first, second, third = start(0), start(1), start(2)
    reads_more(first, second, third)
    first.signal(signal.SIGKILL)
    fourth = start(3)
    reads_more(second, third, fourth)
    third.signal(signal.SIGSTOP)
    time.sleep(SESSION_S + 2)
    third.signal(signal.SIGCONT)
    reads_more(second, fourth)
    second.signal(signal.SIGTERM)
    second.process.wait(WAIT_S)
    start(0)  # where members are static, the one that was killed
    sent = load.end()

    def read() -> set[tuple[int, int]]:
        return set().union(*(member.read() for member in members))

    eventually(
        lambda: sent <= read(),
        lambda: f"{len(sent - read())} of {len(sent)} were not read: {sorted(sent - read())[:5]}",
        WAIT_S,
        pause_s=0.2,
    )
    twice = sum(len(member.read()) for member in members) - len(read())
    print(f"{name}: {len(sent)} records, {twice} of them read again")
