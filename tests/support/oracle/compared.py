"""How the brokers that are compared are set up."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.talk import Talk
from twisted_kafka.protocol.messages.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.transactions import InitProducerIdRequest

WARM_TIMEOUT_S = 30
LARGEST_GROUP = 9
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 2,
    "group.min.session.timeout.ms": 6000,
    "log.retention.check.interval.ms": 3_600_000,
    "log.initial.task.delay.ms": 3_600_000,  # or retention deletes the scenarios' records, which have old timestamps, in between
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.partition.verification.enable": "false",
    "password.encoder.secret": "not told to anybody",
    "group.max.size": LARGEST_GROUP,
    "group.consumer.max.size": LARGEST_GROUP,
}
BOTH_PROTOCOLS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
}
"""What is the default here."""


@contextmanager
def running(broker: ApacheKafka | ServedBroker) -> Iterator[None]:
    """Start a broker, wait until its coordinators answer, and end it."""
    try:
        broker.start()
        warm(broker.port)
        yield
    finally:
        broker.kill()


def warm(port: int) -> None:
    """Ask until the coordinators answer: a first question creates their topics, and both brokers say "later" to it."""
    talk = Talk(port, "warm")
    try:
        deadline = time.monotonic() + WARM_TIMEOUT_S
        for request, version in (
            (FindCoordinatorRequest(key="warm"), 3),
            (FindCoordinatorRequest(key="warm", key_type=1), 3),
            (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 1),
        ):
            while talk.ask(request, version).error_code:
                assert time.monotonic() < deadline, f"{request} was not answered"
                time.sleep(0.1)
    finally:
        talk.close()
