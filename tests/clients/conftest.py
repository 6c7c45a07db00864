"""A broker for the tests of this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., ServedBroker]]:
    """Start brokers; each is killed at the end if it still runs."""
    started: list[ServedBroker] = []

    def start(*overrides: str) -> ServedBroker:
        broker = ServedBroker(tmp_path / f"data-{len(started)}", *overrides)
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.kill()


@pytest.fixture(scope="session")
def java() -> None:
    """Skip the test where Apache Kafka's tools cannot be had; asked for by those that use them, not while tests are collected."""
    if java_class_path() is None:
        pytest.skip("needs Java and Maven")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    """One broker for a module's tests, which must end well on SIGTERM."""
    broker = ServedBroker(
        tmp_path_factory.mktemp("served") / "data", "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4"
    )
    broker.start()
    yield broker
    status = broker.stop()
    assert status == 0, broker.output.read_text()[-3000:]
