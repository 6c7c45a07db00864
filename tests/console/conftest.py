"""A broker for the tests of the console."""

import itertools
from collections.abc import Callable, Iterator

import pytest

import twisted_kafka
from tests.support.console import session_in
from twisted_kafka.console.cluster.session import Session

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[twisted_kafka.Broker]:
    with twisted_kafka.Broker({"num.partitions": 1, "auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture
def session(broker: twisted_kafka.Broker) -> Session:
    return session_in(broker)


@pytest.fixture
def name() -> Callable[[str], str]:
    """Return a name that no other test has."""
    number = next(_numbers)
    return lambda text: f"t{number}-{text}"
