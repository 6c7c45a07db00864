"""A broker with share groups for each module, and a client of its protocol."""

from collections.abc import Iterator

import pytest

from tests.support.share_client import RawClient
from twisted_kafka.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"share.coordinator.state.topic.num.partitions": 1}) as broker:
        yield broker


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client
