"""A running broker compacts a topic and the committed offsets while clients use them."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.budget import patient
from tests.support.clients import clients
from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually

SETTINGS = (
    "log.cleaner.backoff.ms=100",
    "log.cleaner.min.cleanable.ratio=0.01",
    "offsets.topic.num.partitions=1",
    "offsets.topic.segment.bytes=20000",
    "group.initial.rebalance.delay.ms=0",
)
KEYS = 50
ROUNDS = 200
WAIT_S = patient(60)

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(900)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    broker = ServedBroker(tmp_path / "data", *SETTINGS)
    broker.start()
    yield broker
    broker.kill()


def read_all(bootstrap: str, topic: str) -> dict[bytes, bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": clients.new_group(), "auto.offset.reset": "earliest"}
        | {"enable.partition.eof": True}
    )
    consumer.subscribe([topic])
    found: dict[bytes, bytes | None] = {}
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            break
        found[message.key()] = message.value()
    consumer.close()
    return found


def is_compacted_below(size_bytes: float, broker: ServedBroker, name: str) -> bool:
    try:
        return sum(path.stat().st_size for path in broker.log_dir.glob(f"{name}/*.log")) < size_bytes
    except FileNotFoundError:  # segments are being replaced at this moment
        return False


@pytest.mark.parametrize("restart", ["never", "kill"])
def test_the_last_values_stay_while_the_log_shrinks(broker: ServedBroker, restart: str) -> None:
    settings = {"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("state", 1, 1, config=settings)])["state"].result()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "enable.idempotence": True})
    expected: dict[bytes, bytes | None] = {}
    for number in range(ROUNDS):
        for key in range(KEYS):
            name, value = b"key-%d" % key, (b"%d-" % number) * 10
            producer.produce("state", value, name)
            expected[name] = value
        producer.flush()
        if restart == "kill" and number in (50, 100, 150):
            broker.kill()
            broker.start()
    whole = ROUNDS * KEYS * 40
    eventually(lambda: is_compacted_below(whole / 4, broker, "state-0"), wait_s=WAIT_S)
    assert read_all(broker.bootstrap, "state") == expected
    checkpoint = (broker.log_dir / "cleaner-offset-checkpoint").read_text()
    assert "state 0 " in checkpoint


def test_committed_offsets_are_compacted_and_survive(broker: ServedBroker) -> None:
    clients.send_confluent(broker.bootstrap, "input", [b"%d" % number for number in range(500)])
    group = clients.new_group()
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["input"])
    seen = 0
    while seen < 500:
        message = consumer.poll(5)
        assert message is not None
        assert not message.error()
        consumer.commit(message, asynchronous=False)  # type: ignore[call-overload]
        seen += 1
    # Each commit takes about 150 bytes.
    eventually(lambda: is_compacted_below(40_000, broker, "__consumer_offsets-0"), wait_s=WAIT_S)
    broker.kill()
    broker.start()
    other = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "error"})
    consumer.close()
    clients.send_confluent(broker.bootstrap, "input", [b"next"])
    other.subscribe(["input"])
    message = other.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"next"
    other.close()
