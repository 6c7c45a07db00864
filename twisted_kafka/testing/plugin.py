"""The pytest plugin: brokers as fixtures. Nothing heavy is imported until a test uses one.

def test_an_order_is_billed(kafka, kafka_topic):
    run_the_shop(kafka.bootstrap_servers, kafka_topic)
    assert kafka.requests.of("Produce").where(topic=kafka_topic).count() == 1
"""

import contextlib
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
        "markers",
        "kafka(persona=None, **settings): the Kafka that this test's broker plays, as in persona='2.8' (fixture kafka), and its "
        "settings, by Kafka's names with _ for a dot",
    )


def _settings(item: pytest.Item) -> tuple[dict[str, Any], str | None]:
    """Return the settings of all markers of a test, and its persona; the closest counts. A positional one fails the test."""
    settings: dict[str, Any] = {}
    persona = None
    for marker in reversed(list(item.iter_markers("kafka"))):
        if marker.args:
            pytest.fail(f"@pytest.mark.kafka({marker.args[0]!r}): expected settings, as in num_partitions=3", pytrace=False)
        named = dict(marker.kwargs)
        persona = named.pop("persona", persona)
        settings |= {name.replace("_", "."): value for name, value in named.items()}
    return settings, persona


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """Fail the test with one line, without a traceback, when its marker is wrong or its broker cannot start."""
    from twisted_kafka.broker.kafka_server import StartError
    from twisted_kafka.config.errors import ConfigError

    try:
        yield
    except (ConfigError, StartError) as error:
        pytest.fail(f"the broker of this test: {error}", pytrace=False)


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

    settings, persona = _settings(request.node)
    with _in_one_line():
        broker = Broker(settings, persona=persona)
        broker.start()
    request.node.stash[_BROKERS] = [broker]
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def kafka_topic(kafka: "Broker") -> str:
    """The name of a new topic with one partition, on this test's broker."""
    return kafka.create_topic("kafka-topic")


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """Three Kafka brokers of this test alone that are a cluster (twisted_kafka.testing.Cluster); the marker sets up each."""
    from twisted_kafka.testing.cluster import Cluster

    settings, persona = _settings(request.node)
    if persona is not None:
        pytest.fail(f"@pytest.mark.kafka(persona={persona!r}): a persona is for the fixture kafka, one broker", pytrace=False)
    with _in_one_line():
        cluster = Cluster(3, settings)
        cluster.start()
    request.node.stash[_CLUSTER] = cluster
    try:
        yield cluster
    finally:
        cluster.stop()


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
