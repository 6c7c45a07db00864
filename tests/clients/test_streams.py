"""Kafka Streams counts exactly once while its processes, and the broker, are killed again and again."""

import random
import re
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.support.clients.clients import counting_application
from tests.support.clients.served import ServedBroker
from tests.support.clients.transactional import COMPACTING, TIMEOUT_S, ensure_ends_well, make_topic
from tests.support.eventually import eventually
from tests.support.processes import start_tied

APPLICATIONS = (
    ("3.9.2", "classic"),
    ("4.3.1", "classic"),
    *((version, "streams") for version in ("4.1.0", "4.2.0", "4.4.0")),
)
"""Versions of Kafka Streams, and the protocol of their group."""
PARTITIONS = 4
PROCESSES = 3
WORDS = 16
VALUES = 6000
PER_S = 200
KILLS = 10
BROKER_KILLS = (3, 7)
"""Kills at which it is the broker's turn."""
STOP_S = 60
COMPACTED = ("counting-counts-changelog", "__consumer_offsets", "__transaction_state")
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    "auto.create.topics.enable=false",
    "group.coordinator.rebalance.protocols=classic,consumer,streams",
    "group.streams.min.session.timeout.ms=1000",
    "group.streams.session.timeout.ms=3000",
    "group.streams.min.heartbeat.interval.ms=100",
    "group.streams.heartbeat.interval.ms=500",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.num.standby.replicas=1",
    *COMPACTING,
)

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(900)]


@pytest.fixture(params=APPLICATIONS, ids="-".join)
def application(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def command(application: tuple[str, str], tmp_path: Path) -> list[str]:
    """The command of Counting, compiled for a version of Kafka Streams."""
    found = counting_application(application[0], tmp_path)
    if found is None:
        pytest.skip("needs Java and Maven")
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServedBroker]:
    broker = ServedBroker(tmp_path / "data", *SETTINGS)
    broker.start()
    yield broker
    broker.kill()


class Process:
    """One process of the application; its state directory outlives it."""

    def __init__(self, command: list[str], broker: ServedBroker, directory: Path, protocol: str) -> None:
        self.output = directory.with_suffix(".out")
        self._command = [*command, broker.bootstrap, str(directory), protocol]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.output.open("ab") as output:
            self._process = start_tied(self._command, stdin=subprocess.PIPE, stdout=output, stderr=output)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """End it as an application ends; return its exit status."""
        assert self._process is not None
        self._process.communicate(timeout=STOP_S)
        status = self._process.returncode
        self._process = None
        return status


def send(bootstrap: str, ending: threading.Event) -> None:
    """Send numbered words at a steady rate, each once."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    for number in range(VALUES):
        if ending.wait(1 / PER_S):
            return
        producer.produce("words", f"word {number % WORDS}", key=f"{number}", partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(TIMEOUT_S)


def counted(bootstrap: str) -> dict[str, list[int]]:
    """Return the committed counts of each word, in order, up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "auditor",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("counted", partition, 0) for partition in range(PARTITIONS)])
    found: dict[str, list[int]] = defaultdict(list)
    ended: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                found[message.key().decode()].append(int(message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return found


def test_each_word_is_counted_once(command: list[str], application: tuple[str, str], broker: ServedBroker, tmp_path: Path) -> None:
    make_topic(broker, "words", PARTITIONS)
    make_topic(broker, "counted", PARTITIONS)
    processes = [Process(command, broker, tmp_path / f"state-{number}", application[1]) for number in range(PROCESSES)]
    ending = threading.Event()
    sending = threading.Thread(target=send, args=(broker.bootstrap, ending))
    expected = {f"word {number}": list(range(1, VALUES // WORDS + 1)) for number in range(WORDS)}
    try:
        for process in processes:
            process.start()
        sending.start()
        chance = random.Random(1)
        for number in range(KILLS):
            time.sleep(chance.uniform(1, 5))
            if number in BROKER_KILLS:
                broker.kill()
                broker.start()
            else:
                process = chance.choice(processes)
                process.kill()
                process.start()
        sending.join()
        eventually(lambda: sum(map(len, counted(broker.bootstrap).values())) >= VALUES, wait_s=STOP_S * 2, pause_s=1)
        time.sleep(2)  # more would come now
        assert counted(broker.bootstrap) == expected
        assert_internal_topics(broker)
        cleaned = (broker.log_dir / "cleaner-offset-checkpoint").read_text()
        assert all(re.search(rf"^{topic} \d+ [1-9]", cleaned, re.MULTILINE) for topic in COMPACTED), cleaned
        assert [process.stop() for process in processes] == [0] * PROCESSES
        assert counted(broker.bootstrap) == expected
        ensure_ends_well(broker)
    finally:
        ending.set()
        for process in processes:
            process.kill()
            states = Counter(re.findall(r"^[A-Z_]+$", process.output.read_text(), re.MULTILINE))
            print(process.output.name, dict(states))


def assert_internal_topics(broker: ServedBroker) -> None:
    """Streams has made its topics with its configs."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    policies = {}
    for topic in ("counting-by-word-repartition", "counting-counts-changelog"):
        (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
        policies[topic] = described.result(TIMEOUT_S)["cleanup.policy"].value
    assert policies == {"counting-by-word-repartition": "delete", "counting-counts-changelog": "compact"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    lows = [
        consumer.get_watermark_offsets(TopicPartition("counting-by-word-repartition", partition), TIMEOUT_S)[0]
        for partition in range(PARTITIONS)
    ]
    consumer.close()
    assert max(lows) > 0, "what has been processed is deleted"
