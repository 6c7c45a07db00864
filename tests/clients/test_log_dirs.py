"""Several log directories under real clients: moves by Kafka's tools, moves under load with kill -9, a disk that fills."""

import contextlib
import json
import random
import re
import resource
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.budget import patient
from tests.support.clients.clients import java_tool, read_confluent, send_confluent
from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually
from twisted_kafka.protocol.messages.administration.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from twisted_kafka.tools.compare.talk import Talk

KILLS = 6
PARTITIONS = 4
WAIT_S = patient(60)

pytestmark = [pytest.mark.slow, pytest.mark.clients]


class JbodBroker(ServedBroker):
    """A broker with the log directories ``a`` and ``b``."""

    def command(self) -> list[str]:
        words = super().command()
        at = words.index("--data-dir")
        directories = ",".join(str(path) for path in self.directories)
        return [*words[:at], *words[at + 2 :], "-o", f"log.dirs={directories}", "-o", f"access.log.dir={self.data / 'access'}"]

    @property
    def directories(self) -> tuple[Path, Path]:
        return self.data / "a", self.data / "b"

    def where(self, topic: str) -> dict[int, list[tuple[str, bool]]]:
        """The directories' names of each partition, and whether what they have is a future replica."""
        talk = Talk(self.port, "where")
        answer = talk.ask(DescribeLogDirsRequest(topics=None), 4, note=False)
        talk.close()
        found: dict[int, list[tuple[str, bool]]] = {}
        for directory in answer.results:
            assert directory.error_code == 0
            for each in directory.topics:
                if each.name == topic:
                    for one in each.partitions:
                        found.setdefault(one.partition_index, []).append((Path(directory.log_dir).name, one.is_future_key))
        return found

    def move(self, topic: str, partition: int, directory: Path) -> int:
        talk = Talk(self.port, "move")
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
        answer = talk.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(directory), topics=topics)]), 2, note=False)
        talk.close()
        return int(answer.results[0].partitions[0].error_code)

    def wait_until_moved(self, topic: str) -> None:
        eventually(lambda: all(len(places) == 1 for places in self.where(topic).values()), lambda: self.where(topic), WAIT_S)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[JbodBroker]:
    made = JbodBroker(tmp_path / "data", f"num.partitions={PARTITIONS}", "log.segment.bytes=4000000")
    made.start()
    yield made
    made.kill()


class Load:
    """Sends numbered values with an idempotent producer until it is told to end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self.failed: list[object] = []
        self.ending = threading.Event()
        self._topic = topic
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 120_000, "log_level": 0}
        self._producer = Producer(settings | {"retry.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "linger.ms": 2})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged[message.value()] = (message.partition(), message.offset())  # type: ignore[attr-defined]

    def _run(self) -> None:
        number = 0
        while not self.ending.is_set():
            value = b"%d " % number + b"x" * 1000
            try:
                self._producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=self._delivered)
                number += 1
            except BufferError:
                self._producer.poll(0.1)
            if number % 200 == 0:
                self._producer.poll(0.01)

    def end(self) -> None:
        self.ending.set()
        self._thread.join(WAIT_S)
        assert self._producer.flush(120) == 0
        assert not self.failed, self.failed[:3]


def test_moves_under_load_with_kills(broker: JbodBroker) -> None:
    send_confluent(broker.bootstrap, "moved", [b"before"] * PARTITIONS)
    chance = random.Random(7)
    load = Load(broker.bootstrap, "moved")
    moves = 0
    for _ in range(KILLS):
        until = time.monotonic() + chance.uniform(1.5, 3)
        while time.monotonic() < until:
            for partition in range(PARTITIONS):
                moves += broker.move("moved", partition, chance.choice(broker.directories)) == 0
                time.sleep(chance.uniform(0, 0.1))
        broker.kill()
        broker.start()
    load.end()
    broker.wait_until_moved("moved")
    for partition in range(PARTITIONS):
        assert broker.move("moved", partition, broker.directories[1]) == 0
    broker.wait_until_moved("moved")
    assert set(broker.where("moved")) == set(range(PARTITIONS))
    assert {place for places in broker.where("moved").values() for place in places} == {("b", False)}
    values = [value for value in read_all(broker, "moved") if value != b"before"]
    assert len(load.acknowledged) > 1000
    assert load.acknowledged.keys() <= set(values)
    assert max(Counter(values).values()) == 1
    print(f"{moves} moves, {len(values)} values")
    assert broker.stop() == 0
    assert not list(broker.data.glob("?/*-future"))


def read_all(broker: JbodBroker, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    try:
        marks = [consumer.get_watermark_offsets(TopicPartition(topic, partition), 10) for partition in range(PARTITIONS)]
    finally:
        consumer.close()
    return read_confluent(broker.bootstrap, topic, sum(high - low for low, high in marks))


@pytest.mark.usefixtures("java")
def test_kafkas_tools_move_replicas(broker: JbodBroker, tmp_path: Path) -> None:
    values = [b"%d " % number + b"x" * 5000 for number in range(4000)]
    send_confluent(broker.bootstrap, "tools", values)
    told = java_tool("org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", broker.bootstrap, "--describe")
    (described,) = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    (node,) = described["brokers"]
    assert {directory["logDir"] for directory in node["logDirs"]} == {str(path) for path in broker.directories}
    sizes = {each["partition"]: each["size"] for directory in node["logDirs"] for each in directory["partitions"]}
    assert sum(size for name, size in sizes.items() if name.startswith("tools-")) > 20_000_000
    plan = tmp_path / "plan.json"
    partitions = [
        {"topic": "tools", "partition": each, "replicas": [node["broker"]], "log_dirs": [str(broker.directories[0])]}
        for each in range(PARTITIONS)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    words = ["--bootstrap-server", broker.bootstrap, "--reassignment-json-file", str(plan)]
    reassign = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    told = java_tool(reassign, *words, "--execute", "--replica-alter-log-dirs-throttle", "10000000")
    assert told.count("Successfully started moving log directory to") == PARTITIONS
    broker.wait_until_moved("tools")
    told = java_tool(reassign, *words, "--verify")
    assert len(re.findall(r"Reassignment of replica tools-\d-\d+ completed successfully", told)) == PARTITIONS
    assert {place for places in broker.where("tools").values() for place in places} == {("a", False)}
    assert sorted(read_confluent(broker.bootstrap, "tools", len(values))) == sorted(values)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB, where the tests may mount one."""
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(path)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("only root may mount a file system")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def deliver(bootstrap: str, topic: str, partitions: Collection[int], values: list[bytes]) -> tuple[set[bytes], set[bytes]]:
    """Send all values to each of the partitions; return what was acknowledged and what was not, with the partition before it."""
    acknowledged: set[bytes] = set()
    refused: set[bytes] = set()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 3000, "log_level": 0})

    def delivered(error: object, message: Any) -> None:
        (acknowledged if error is None else refused).add(b"%d " % message.partition() + message.value())

    for value in values:
        for partition in partitions:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
        producer.poll(0)
    producer.flush(WAIT_S)
    return acknowledged, refused


def test_a_full_disk_takes_its_directory_offline_and_the_rest_serves_on(tmp_path: Path, small_disk: Path) -> None:
    broker = JbodBroker(tmp_path / "data", f"num.partitions={PARTITIONS}", "log.segment.bytes=1000000")
    broker.data.mkdir()
    broker.directories[1].symlink_to(small_disk)
    broker.start()
    try:
        send_confluent(broker.bootstrap, "full", [b"first"])
        places = broker.where("full")
        small = {partition for partition, ((name, _),) in places.items() if name == "b"}
        large = places.keys() - small
        assert len(small) == len(large) == PARTITIONS // 2
        values = [b"%05d" % number + b"x" * 1000 for number in range(6000)]
        kept, refused = deliver(broker.bootstrap, "full", places.keys(), values)
        assert {int(value.split()[0]) for value in refused} == small
        assert len([value for value in kept if int(value.split()[0]) in large]) == len(values) * len(large)
        assert "goes offline" in broker.output.read_text()
        talk = Talk(broker.port, "told")
        answer = talk.ask(DescribeLogDirsRequest(topics=None), 4, note=False)
        assert {Path(each.log_dir).name: each.error_code for each in answer.results} == {"a": 0, "b": 56}
        talk.close()
        assert not deliver(broker.bootstrap, "full", large, [b"afterwards"])[1]
        assert broker.stop() == 0
        # With room on the disk everything that was acknowledged is there.
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        broker.start()
        more, none = deliver(broker.bootstrap, "full", places.keys(), [b"in the end"])
        assert not none
        found = {b"%d " % partition + value for partition in places for value in read_partition(broker, "full", partition)}
        assert kept | more <= found
        assert broker.stop() == 0
    finally:
        broker.kill()


def read_partition(broker: JbodBroker, topic: str, partition: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)
        consumer.assign([TopicPartition(topic, partition, low)])
        values: list[bytes] = []
        deadline = time.monotonic() + WAIT_S
        while len(values) < high - low:
            assert time.monotonic() < deadline
            values += [message.value() for message in consumer.consume(10_000, 1.0) if message.error() is None]
        return values
    finally:
        consumer.close()


def test_partitions_that_no_descriptor_was_left_for_get_their_leaders_later(broker: JbodBroker) -> None:
    assert broker.process is not None
    pid = broker.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(list(Path(f"/proc/{pid}/fd").iterdir())) + 40, before[1]))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with contextlib.suppress(KafkaException):
        admin.create_topics([NewTopic("many", 100, 1)])["many"].result(30)

    def leaders() -> int:
        return sum(each.leader >= 0 for each in admin.list_topics(timeout=30).topics["many"].partitions.values())

    eventually(lambda: leaders() < 100, wait_s=WAIT_S)  # at first as before: the controller has not heard of the failure
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    eventually(lambda: leaders() == 100, leaders, WAIT_S)
    assert "goes offline" not in broker.output.read_text()
    assert broker.stop() == 0
