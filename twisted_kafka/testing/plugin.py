"""The pytest plugin: brokers as fixtures. Nothing heavy is imported until a test uses one.

def test_an_order_is_billed(kafka, kafka_topic):
    run_the_shop(kafka.bootstrap_servers, kafka_topic)
    assert kafka.requests.of("Produce").where(topic=kafka_topic).count() == 1
"""

import contextlib
import sys
from collections.abc import Generator, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from twisted_kafka.testing.broker import Broker
    from twisted_kafka.testing.cluster import Cluster
    from twisted_kafka.testing.rules_file import Rules

_SHOWN_REQUESTS = 20
_BROKERS = pytest.StashKey["list[Broker]"]()
_CLUSTER = pytest.StashKey["Cluster"]()
_SHARED = pytest.StashKey["tuple[Broker, int]"]()
"""The broker of the session, and the number of its last request before the test."""
_OWN_PACKAGE = "twisted_kafka."


class _AsItIs(MetaPathFinder):
    """Finds this package's modules before pytest, which rewrites the assertions of all modules of a package with a plugin.

    There are 600: rewriting takes 5 s once, and twice the time to import them ever after.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of this package; None for others."""
        return PathFinder.find_spec(name, path, target) if name.startswith(_OWN_PACKAGE) else None


sys.meta_path.insert(0, _AsItIs())


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kafka(persona=None, rules=None, **settings): configures this test's broker. persona='2.8' answers as that Kafka version "
        "(fixture kafka only); rules are fault rules, a list or a file beside the test; settings are Kafka's, with _ for a dot",
    )


class _Marked(NamedTuple):
    """The values of a test's markers; the closest marker counts."""

    settings: dict[str, Any]
    persona: str | None
    rules: "Rules | None"


def _marked(item: pytest.Item) -> _Marked:
    """Return the values of a test's markers. A positional argument fails the test."""
    settings: dict[str, Any] = {}
    persona = rules = None
    for marker in reversed(list(item.iter_markers("kafka"))):
        if marker.args:
            pytest.fail(f"@pytest.mark.kafka({marker.args[0]!r}): expected settings, as in num_partitions=3", pytrace=False)
        named = dict(marker.kwargs)
        persona, rules = named.pop("persona", persona), named.pop("rules", rules)
        settings |= {name.replace("_", "."): value for name, value in named.items()}
    return _Marked(settings, persona, item.path.parent / rules if isinstance(rules, str) else rules)


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """Fail the test with one line, without a traceback, when its marker is wrong or its broker cannot start."""
    from twisted_kafka.broker.errors import StartError
    from twisted_kafka.config.errors import ConfigError
    from twisted_kafka.testing.rules_file import RulesError

    try:
        yield
    except (ConfigError, RulesError, StartError) as error:
        pytest.fail(f"the broker of this test: {error}", pytrace=False)


@pytest.fixture(scope="session")
def kafka_broker() -> "Iterator[Broker]":
    """One Kafka broker for the whole session (twisted_kafka.testing.Broker); each xdist worker has its own."""
    from twisted_kafka.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A Kafka broker for this test only (twisted_kafka.testing.Broker); @pytest.mark.kafka(num_partitions=3) configures it."""
    from twisted_kafka.testing.broker import Broker

    marked = _marked(request.node)
    with _in_one_line():
        broker = Broker(marked.settings, persona=marked.persona, rules=marked.rules)
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
    """A cluster of three Kafka brokers for this test only (twisted_kafka.testing.Cluster); the marker configures each broker."""
    from twisted_kafka.testing.cluster import Cluster

    marked = _marked(request.node)
    if marked.persona is not None:
        what = f"@pytest.mark.kafka(persona={marked.persona!r})"
        pytest.fail(f"{what}: a persona is for the fixture kafka, one broker", pytrace=False)
    with _in_one_line():
        cluster = Cluster(3, marked.settings, rules=marked.rules)
        cluster.start()
    request.node.stash[_CLUSTER] = cluster
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Remember where the test's requests begin, if it shares a broker with others."""
    broker = getattr(item, "funcargs", {}).get("kafka_broker")
    if broker is not None:
        last = broker.requests.numbered()[-1:]
        item.stash[_SHARED] = broker, last[0][0] if last else 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last requests of its broker to a failed test's report."""
    report = yield
    if report.when == "call" and report.failed:
        for broker in item.stash.get(_BROKERS, []):
            report.sections.append(("requests to kafka", broker.requests.told(_SHOWN_REQUESTS)))
            if broker.diagnoses:
                report.sections.append(("diagnoses of kafka", "\n".join(broker.diagnoses)))
        if _SHARED in item.stash:
            shared, since = item.stash[_SHARED]
            report.sections.append(("requests to kafka_broker", shared.requests.told(_SHOWN_REQUESTS, since)))
        if _CLUSTER in item.stash:
            report.sections.append(("requests to kafka_cluster", item.stash[_CLUSTER].told(_SHOWN_REQUESTS)))
    return report
