"""A broker's registration in a store that is its own."""

from collections.abc import Iterator

import pytest

from twisted_kafka.broker.registration.registrar import BrokerRegistrar
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.embedded import IN_MEMORY, SqliteStore
from twisted_kafka.metadata.registration import OtherBrokersError, broker_node, prepare_store, register_broker
from twisted_kafka.metadata.znodes import BrokerNode


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    store = SqliteStore(IN_MEMORY, threaded=False)
    prepare_store(store)
    yield store
    store.close()


def node() -> BrokerNode:
    return broker_node([EndPoint("localhost", 1, "PLAINTEXT", "PLAINTEXT")], rack=None, now_ms=0)


def test_older_controllers_can_read_which_features_there_are() -> None:
    # SupportedVersionRange of Apache Kafka up to 3.6: "Expected minValue >= 1".
    assert all(1 <= each["min_version"] <= each["max_version"] for each in node().features.values())


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_broker_that_is_alone_refuses_others(store: SqliteStore, is_alone: bool) -> None:
    register_broker(store, 1, node())
    registrar = BrokerRegistrar(store, 2, node, 1_000, is_alone=is_alone)
    if is_alone:
        with pytest.raises(OtherBrokersError, match=r"^broker 1 is registered .* for several set zookeeper.connect .*broker 2"):
            registrar.start()
    else:
        registrar.start()
    assert store.children(znodes.BROKER_IDS) == (["1"] if is_alone else ["1", "2"])


def test_of_two_that_start_at_once_the_second_gives_way(store: SqliteStore) -> None:
    def made_late() -> BrokerNode:
        register_broker(store, 1, node())
        return node()

    with pytest.raises(OtherBrokersError):
        BrokerRegistrar(store, 2, made_late, 1_000, is_alone=True).start()
    assert store.children(znodes.BROKER_IDS) == ["1"]
