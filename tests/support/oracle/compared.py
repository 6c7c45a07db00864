"""How the brokers that are compared are set up."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.tools.compare.comparison import Address, converse
from twisted_kafka.tools.compare.preparation import warm
from twisted_kafka.tools.compare.talk import LOCAL, TIMEOUT_S, Scenario

BOTH_PROTOCOLS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
}
"""What is the default here."""


def said(scenario: Scenario, version: int, port: int) -> list[tuple[str, Any]]:
    """Return the answers of a broker in a scenario, which has to come to its end."""
    found = converse(scenario, version, Address(LOCAL, port), TIMEOUT_S)
    assert found.stopped is None, f"{scenario.name} v{version}: {found.stopped}"
    return found.answers


@contextmanager
def running(broker: ApacheKafka | ServedBroker) -> Iterator[None]:
    """Start a broker, wait until its coordinators answer, and end it."""
    try:
        broker.start()
        warm(broker.port)
        yield
    finally:
        broker.kill()
