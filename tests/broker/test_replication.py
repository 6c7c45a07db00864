"""Followers on other brokers: what they copy, when they are in sync, and what becomes of what was acknowledged."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaConnectionError

from tests.broker.replicated import FAST, content
from tests.support.eventually import eventually
from tests.support.members import Members
from tests.support.zookeeper import ZooKeeper

pytestmark = pytest.mark.long


@pytest.fixture
def members(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Members]:
    members = Members(zookeeper, tmp_path)
    yield members
    members.close()


def produce(members: Members, *values: bytes, topic: str = "orders") -> None:
    """Write the values, each acknowledged by all that are in sync."""
    servers = [address for broker in members.brokers.values() for address in [broker.bootstrap_servers]]
    producer = KafkaProducer(bootstrap_servers=",".join(servers), acks="all", retries=20, retry_backoff_ms=100)
    for answer in [producer.send(topic, value, partition=0) for value in values]:
        answer.get(30)
    producer.close()


def consume(members: Members, count: int, topic: str = "orders") -> list[bytes]:
    broker = next(iter(members.brokers.values()))
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
    consumer.assign([TopicPartition(topic, 0)])
    values: list[bytes] = []
    for record in consumer:
        values.append(record.value)
        if len(values) == count:
            break
    consumer.close()
    return values


def test_what_is_acknowledged_outlives_its_leader(members: Members, tmp_path: Path) -> None:
    for broker_id in (1, 2, 3):
        members.start(broker_id, **FAST)
    members.create("orders", [[2, 3, 1]])
    members.all_hear("orders", leader=2)
    before = [b"before-%d" % number for number in range(100)]
    produce(members, *before)
    eventually(
        lambda: content(tmp_path, 1) == content(tmp_path, 2) == content(tmp_path, 3) != b"",
        lambda: [len(content(tmp_path, each)) for each in (1, 2, 3)] + [str(x)[-40:] for x in tmp_path.rglob("*.log")],
    )
    members.stop(2)
    members.all_hear("orders", leader=3)
    after = [b"after-%d" % number for number in range(100)]
    produce(members, *after)
    assert consume(members, 200) == before + after
    members.start(2, **FAST)
    eventually(lambda: sorted(members.state("orders").isr) == [1, 2, 3])
    eventually(lambda: content(tmp_path, 1) == content(tmp_path, 2) == content(tmp_path, 3))


@pytest.mark.slow
def test_groups_and_their_offsets_move_with_their_leader(members: Members) -> None:
    for broker_id in (1, 2):
        members.start(broker_id, offsets_topic_replication_factor=2, **FAST)
    members.create("orders", [[1, 2]])
    produce(members, *[b"%d" % number for number in range(10)])

    def read(count: int) -> list[bytes]:
        servers = [broker.bootstrap_servers for broker in members.brokers.values()]
        consumer = KafkaConsumer(
            "orders", group_id="g", bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False
        )
        values: list[bytes] = []

        def has_read() -> bool:
            with suppress(KafkaConnectionError):  # it still knows the broker that is gone, and tries another one the next time
                for records in consumer.poll(500, max_records=count - len(values)).values():
                    values.extend(record.value for record in records)
            return len(values) >= count

        eventually(has_read)
        consumer.commit()
        consumer.close()
        return values

    assert read(4) == [b"0", b"1", b"2", b"3"]
    eventually(lambda: all(len(members.state("__consumer_offsets", each).isr) == 2 for each in (0, 1)))
    members.stop(1)
    assert read(4) == [b"4", b"5", b"6", b"7"]
