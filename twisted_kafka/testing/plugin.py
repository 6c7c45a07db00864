"""The pytest plugin: brokers as fixtures. Nothing heavy is imported until a test uses one.

def test_an_order_is_billed(kafka, kafka_topic):
    run_the_shop(kafka.bootstrap_servers, kafka_topic)
    assert kafka.requests.of("Produce").where(topic=kafka_topic).count() == 1
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from twisted_kafka.testing.broker import Broker
    from twisted_kafka.testing.cluster import Cluster

_SHOWN_REQUESTS = 20
_BROKERS = pytest.StashKey["list[Broker]"]()
_CLUSTER = pytest.StashKey["Cluster"]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "kafka(**settings): settings of the broker of this test (fixture kafka), by Kafka's names with _ for a dot"
    )


def _settings(item: pytest.Item) -> dict[str, Any]:
    """Return the settings of all markers of a test; the closest counts. Raises UsageError for a positional one."""
    settings: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("kafka"))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.kafka({marker.args[0]!r}): expected settings, as in num_partitions=3")
        settings |= {name.replace("_", "."): value for name, value in marker.kwargs.items()}
    return settings


@pytest.fixture(scope="session")
def kafka_broker() -> "Iterator[Broker]":
    """One Kafka broker for the whole session (twisted_kafka.testing.Broker); each xdist worker has its own."""
    from twisted_kafka.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A Kafka broker of this test alone (twisted_kafka.testing.Broker); @pytest.mark.kafka(num_partitions=3) sets it up."""
    from twisted_kafka.testing.broker import Broker

    with Broker(_settings(request.node)) as broker:
        request.node.stash[_BROKERS] = [broker]
        yield broker


@pytest.fixture
def kafka_topic(kafka: "Broker") -> str:
    """The name of a new topic with one partition, on this test's broker."""
    return kafka.create_topic("kafka-topic")


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """Three Kafka brokers of this test alone that are a cluster (twisted_kafka.testing.Cluster); the marker sets up each."""
    from twisted_kafka.testing.cluster import Cluster

    with Cluster(3, _settings(request.node)) as cluster:
        request.node.stash[_CLUSTER] = cluster
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last requests of its broker to a failed test's report."""
    report = yield
    if report.when == "call" and report.failed:
        for broker in item.stash.get(_BROKERS, []):
            report.sections.append(("requests to kafka", broker.requests.told(_SHOWN_REQUESTS)))
        if _CLUSTER in item.stash:
            report.sections.append(("requests to kafka_cluster", item.stash[_CLUSTER].told(_SHOWN_REQUESTS)))
    return report
