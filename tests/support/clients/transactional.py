"""What tests of transactions do through librdkafka."""

import re
import time
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.budget import patient
from tests.support.clients.clients import described
from tests.support.clients.served import ServedBroker
from twisted_kafka.coordinator.coordinator_record import Producer as Identity
from twisted_kafka.protocol.messages.coordinators.transaction_admin import DescribeTransactionsRequest
from twisted_kafka.tools.compare.talk import Talk

TIMEOUT_S = patient(60)
COMPACTING = (
    "log.segment.bytes=20000",
    "offsets.topic.segment.bytes=20000",
    "transaction.state.log.segment.bytes=20000",
    "log.cleaner.backoff.ms=200",
    "log.cleaner.min.cleanable.ratio=0.01",
)
"""Settings with which compacted topics, the states of coordinators among them, are compacted all the time."""


class Bootstrapped(Protocol):
    """A broker that clients can find."""

    @property
    def bootstrap(self) -> str: ...


def producer_of(broker: ServedBroker, transactional_id: str) -> Identity:
    """Return the transactional id's producer."""
    talk = Talk(broker.port, "describe")
    (state,) = talk.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states
    talk.close()
    assert not state.error_code
    return Identity(state.producer_id, state.producer_epoch)


def make_topic(broker: Bootstrapped, name: str, partitions: int = 2) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(TIMEOUT_S)
    return name


def transactional(broker: Bootstrapped, transactional_id: str, **settings: Any) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "log_level": 0} | settings)
    producer.init_transactions(TIMEOUT_S)
    return producer


def read(broker: Bootstrapped, topic: str, isolation: str = "read_committed") -> list[str]:
    """Return all values of the topic, in order of partitions and offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"reader-{topic}",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: dict[tuple[int, int], str] = {}
    partitions = list(described(consumer, topic))
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    ended: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    while len(ended) < len(partitions) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition(), message.offset()] = message.value().decode()
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return [found[key] for key in sorted(found)]


def ensure_ends_well(broker: ServedBroker) -> None:
    """Stop the broker; it must have nothing to complain of, in all its lives."""
    assert broker.stop() == 0, broker.output.read_text()[-3000:]
    complaints = re.findall(r"^.*(?:#error\]|#critical\]|Traceback).*$", broker.output.read_text(), re.MULTILINE)
    assert complaints == []
