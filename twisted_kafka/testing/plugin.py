"""Brokers as pytest fixtures. Nothing heavy is imported until a test uses one. `pytest_plugin/` registers them.

def test_an_order_is_billed(kafka, kafka_topic):
    run_the_shop(kafka.bootstrap_servers, kafka_topic)
    assert kafka.requests.of("Produce").where(topic=kafka_topic).count() == 1
"""

import contextlib
import itertools
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pytest

if TYPE_CHECKING:
    from twisted_kafka.testing.broker import Broker
    from twisted_kafka.testing.cluster import Cluster
    from twisted_kafka.testing.fault_rules.rules_file import Rules
    from twisted_kafka.testing.kafka import Kafka
    from twisted_kafka.testing.registry.schema_registry import SchemaRegistry

T = TypeVar("T", bound="Kafka")

_SHOWN_REQUESTS = 20
_BROKERS = 3
"""The brokers of a cluster, unless a marker says how many."""
_OF_TEST = pytest.StashKey["dict[str, Kafka]"]()
"""What a test's own fixtures have made, by their names."""
_OF_SESSION = pytest.StashKey["Broker"]()
_REGISTRY = pytest.StashKey["SchemaRegistry"]()
_BROKER_FIXTURES = ("kafka", "kafka_cluster", "kafka_topic", "kafka_schema_registry", "kafka_broker")
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kafka(persona=None, rules=None, brokers=3, **settings): configures this test's broker. persona='2.8' answers as that "
        "version of Kafka (fixture kafka only); brokers are for the fixture kafka_cluster; rules are fault rules, a list or a "
        "file beside the test; settings are Kafka's, with _ for a dot",
    )


class _Marked(NamedTuple):
    """The values of a test's markers; the closest marker counts."""

    settings: dict[str, Any]
    persona: str | None
    rules: "Rules | None"
    brokers: int | None


def _marked(item: pytest.Item) -> _Marked:
    """Return the values of a test's markers. A positional argument fails the test."""
    settings: dict[str, Any] = {}
    persona = rules = brokers = None
    for marker in reversed(list(item.iter_markers("kafka"))):
        if marker.args:
            pytest.fail(f"@pytest.mark.kafka({marker.args[0]!r}): expected settings, as in num_partitions=3", pytrace=False)
        named = dict(marker.kwargs)
        persona, rules = named.pop("persona", persona), named.pop("rules", rules)
        brokers = named.pop("brokers", brokers)
        settings |= {name if "." in name else name.replace("_", "."): value for name, value in named.items()}
    return _Marked(settings, persona, item.path.parent / rules if isinstance(rules, str) else rules, brokers)


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """Fail the test with one line, without a traceback, when its marker is wrong or its broker cannot start."""
    from twisted_kafka.broker.errors import StartError
    from twisted_kafka.config.errors import ConfigError
    from twisted_kafka.testing.fault_rules.rules_file import RulesError

    try:
        yield
    except (ConfigError, RulesError, StartError, TypeError, ValueError) as error:
        raise pytest.fail.Exception(f"the broker of this test: {error}", pytrace=False) from None


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """One Kafka broker for the whole session (twisted_kafka.testing.Broker); each xdist worker has its own.

    Rules, requests and changes of the clock end with each test. Topics and groups stay; the fixture kafka_topic has a new name for
    each test.
    """
    from twisted_kafka.testing.broker import Broker

    with Broker() as broker:
        request.config.stash[_OF_SESSION] = broker
        yield broker


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A Kafka broker for this test only (twisted_kafka.testing.Broker); @pytest.mark.kafka(num_partitions=3) configures it."""
    from twisted_kafka.testing.broker import Broker

    marked = _marked(request.node)
    if marked.brokers is not None and "kafka_cluster" not in request.fixturenames:
        what = f"@pytest.mark.kafka(brokers={marked.brokers!r})"
        pytest.fail(f"{what}: several brokers are for the fixture kafka_cluster", pytrace=False)
    with _in_one_line():
        broker = Broker(marked.settings, persona=marked.persona, rules=marked.rules)
        broker.start()
    yield from _owned(request, "kafka", broker)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster of Kafka brokers for this test only (twisted_kafka.testing.Cluster); the marker configures each broker.

    It has three brokers: @pytest.mark.kafka(brokers=5) makes them five.
    """
    from twisted_kafka.testing.cluster import Cluster

    marked = _marked(request.node)
    if marked.persona is not None:
        what = f"@pytest.mark.kafka(persona={marked.persona!r})"
        pytest.fail(f"{what}: a persona is for the fixture kafka, one broker", pytrace=False)
    with _in_one_line():
        cluster = Cluster(_BROKERS if marked.brokers is None else marked.brokers, marked.settings, rules=marked.rules)
        cluster.start()
    yield from _owned(request, "kafka_cluster", cluster)


def _owned(request: pytest.FixtureRequest, name: str, kafka: "T") -> "Iterator[T]":
    """Yield a fixture's value, and close it."""
    used = request.node.stash.setdefault(_OF_TEST, {})
    used[name] = kafka
    try:
        yield kafka
    finally:
        kafka.close()
        del used[name]  # pytest keeps all tests until the end


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest) -> str:
    """The name of a new topic, on the broker or cluster that the test uses; on a broker of its own if it uses none.

    It has the broker's num.partitions, 1 by default: @pytest.mark.kafka(num_partitions=3) makes them 3.
    """
    used = _used(request)
    name = f"kafka-topic-{next(_numbers)}" if used == "kafka_broker" else "kafka-topic"
    topic: str = request.getfixturevalue(used).create_topic(name)
    return topic


def _used(request: pytest.FixtureRequest) -> str:
    """Return the fixture with the broker or the cluster that a test uses."""
    return next((name for name in ("kafka", "kafka_cluster", "kafka_broker") if name in request.fixturenames), "kafka")


@pytest.fixture
def kafka_schema_registry(request: pytest.FixtureRequest) -> "Iterator[SchemaRegistry]":
    """A schema registry for this test (twisted_kafka.testing.SchemaRegistry), beside the broker or cluster that it uses.

    It keeps its schemas in the broker's topic _schemas; beside kafka_broker, each test has a topic of its own.
    """
    used = _used(request)
    kafka = request.getfixturevalue(used)
    from twisted_kafka.testing import SchemaRegistry

    topic = f"_schemas-{next(_numbers)}" if used == "kafka_broker" else "_schemas"
    try:
        registry = SchemaRegistry(kafka, topic=topic)
    except ImportError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    registry.start()
    made = request.node.stash
    made[_REGISTRY] = registry
    try:
        yield registry
    finally:
        registry.close()
        del made[_REGISTRY]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test with a marker that would have no effect. Markers of a class or a module are for those tests that use a broker."""
    used = getattr(item, "fixturenames", ())
    marker = item.get_closest_marker("kafka")
    if any(each.name == "kafka" for each in item.own_markers) and not set(_BROKER_FIXTURES).intersection(used):
        pytest.fail(f"@pytest.mark.kafka: this test has no broker: use a fixture, {', '.join(_BROKER_FIXTURES)}", pytrace=False)
    if marker is not None and "kafka_broker" in used and not {"kafka", "kafka_cluster"}.intersection(used):
        what = ", ".join([*map(repr, marker.args), *(f"{name}={value!r}" for name, value in marker.kwargs.items())])
        why = "kafka_broker is one broker for all tests, so that none can configure it: use the fixture kafka"
        pytest.fail(f"@pytest.mark.kafka({what}): {why}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """End the rules, the requests and the changes of the clock that a test made on the session's broker; start a stopped one."""
    try:
        yield
    finally:
        broker = item.config.stash.get(_OF_SESSION, None)
        if broker is not None and not broker.is_closed:
            if not broker.is_running:
                broker.start()
            broker.thaw()
            broker.clear_state()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last requests of its broker to a failed test's report."""
    report = yield
    if report.when == "call" and report.failed:
        used: dict[str, Kafka] = {}
        if _OF_TEST in item.stash:
            own = item.stash[_OF_TEST]
            used.update(own)
        if "kafka_broker" in getattr(item, "fixturenames", ()) and _OF_SESSION in item.config.stash:
            used["kafka_broker"] = item.config.stash[_OF_SESSION]
        for name, kafka in used.items():
            report.sections.append((f"requests to {name}", kafka.told(_SHOWN_REQUESTS)))
            if kafka.diagnoses:
                report.sections.append((f"diagnoses of {name}", "\n".join(kafka.diagnoses)))
        if _REGISTRY in item.stash:
            report.sections.append(("requests to kafka_schema_registry", item.stash[_REGISTRY].told(_SHOWN_REQUESTS)))
    return report
