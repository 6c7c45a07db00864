"""The pytest plugin, in a pytest of its own."""

import importlib
import importlib.util
from collections.abc import Callable

import pytest

from twisted_kafka.testing import Cluster, SchemaRegistry

pytestmark = pytest.mark.long

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    """A pytest within this process forgets the modules that it has imported, and some of Twisted's cannot be imported twice."""
    importlib.import_module("twisted_kafka.testing.plugin")
    with Cluster(2) as cluster, SchemaRegistry(cluster):
        pass


_TESTS = """
    import pytest

    def test_a_topic_is_there(kafka, kafka_topic):
        kafka.produce(kafka_topic, ["1"])
        assert [record.value for record in kafka.records(kafka_topic)] == [b"1"]

    def test_the_next_one_has_a_broker_of_its_own(kafka, kafka_topic):
        assert kafka.records(kafka_topic) == []

    @pytest.mark.kafka(num_partitions=3)
    def test_settings(kafka):
        assert kafka.embedded.config.int("num.partitions") == 3

    @pytest.mark.kafka(persona="0.11", num_partitions=2)
    class TestMarkers:
        @pytest.mark.kafka(num_partitions=4)
        def test_the_closest_counts(self, kafka):
            assert kafka.embedded.config.int("num.partitions") == 4
            assert kafka.embedded.config.int("group.max.session.timeout.ms") == 300_000

    @pytest.mark.kafka(rules="faults.json")
    def test_rules_are_beside_the_test(kafka):
        assert str(kafka.faults) == "api=Fetch delay_ms=5: fired 0 of 0 times"

    @pytest.mark.kafka(rules=[{"api": "Fetch", "delay_ms": 6}])
    def test_rules_are_given(kafka):
        assert str(kafka.faults) == "api=Fetch delay_ms=6: fired 0 of 0 times"

    def test_the_session_has_one(kafka_broker):
        assert kafka_broker.is_running
"""


def run(pytester: pytest.Pytester, tests: str, *more: str, makes: str | None = None) -> pytest.RunResult:
    """Run tests in a pytest within this process, which is quicker than another one. pytest-twisted could run only one in it."""
    return _run(pytester.runpytest_inprocess, pytester, tests, "-p", "no:asyncio", "-p", "no:twisted", *more, makes=makes)


def run_apart(pytester: pytest.Pytester, tests: str) -> pytest.RunResult:
    """Run tests in a pytest that imports everything itself."""
    return _run(pytester.runpytest_subprocess, pytester, tests)


def _run(
    start: Callable[..., pytest.RunResult], pytester: pytest.Pytester, tests: str, *more: str, makes: str | None = None
) -> pytest.RunResult:
    pytester.makepyfile(tests)
    if makes is not None:
        pytester.mkdir(makes)
    options = ("-p", "no:cacheprovider", "-p", "no:twisted_kafka", "-p", "no:randomly", "-p", "twisted_kafka.testing.plugin")
    return start("--strict-markers", *options, *more)


def test_fixtures_give_brokers(pytester: pytest.Pytester) -> None:
    pytester.makefile(".json", faults='[{"api": "Fetch", "delay_ms": 5}]')
    run(pytester, _TESTS).assert_outcomes(passed=7)


def test_a_failed_test_shows_its_requests(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import socket

        def ask(broker, client_id):
            host, port = broker.bootstrap_servers.split(":")
            with socket.create_connection((host, int(port)), 30) as connection:
                connection.sendall(bytes.fromhex("0000000d 0012 0000 00000001 0003") + client_id)
                connection.recv(4)
            broker.requests.of("ApiVersions").where(client_id=client_id.decode()).wait_for()

        def test_it(kafka):
            ask(kafka, b"raw")
            assert False

        def test_one(kafka_broker):
            ask(kafka_broker, b"one")

        def test_two(kafka_broker):
            ask(kafka_broker, b"two")
            assert False
        """,
    )
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["*- requests to kafka_broker -*", "*ApiVersions v0 from two  -> answered in *"])
    assert "from one" not in result.stdout.str()
    result.stdout.fnmatch_lines(
        ["*- requests to kafka -*", "the last requests were:", "*ApiVersions v0 from raw  -> answered in *"]
    )


WRONG_MARKERS = (
    ("3", "kafka", "@pytest.mark.kafka(3): expected settings, as in num_partitions=3"),
    ("num_partitons=3", "kafka", "*There is no setting 'num.partitons': did you mean 'num.partitions'?"),
    ("num_partitions='x'", "kafka", "the broker of this test: Invalid value 'x' for num.partitions: must be a whole number *"),
    ("persona='7'", "kafka", "the broker of this test: There is no persona '7': use one of 0.11, 2.8, 3.9, 4.1, 4.2, 4.4"),
    ("rules=[{}]", "kafka", "the broker of this test: rules: rule 1: a rule that does nothing: give one of error, *"),
    ("rules='no.json'", "kafka", "the broker of this test: *no.json cannot be read: No such file or directory"),
    ("persona='2.8'", "kafka_cluster", "@pytest.mark.kafka(persona='2.8'): a persona is for the fixture kafka, one broker"),
)


def test_a_marker_that_is_wrong_is_told_in_one_line(pytester: pytest.Pytester) -> None:
    tests = (
        f"@pytest.mark.kafka({marker})\ndef test_{number}({fixture}): ...\n"
        for number, (marker, fixture, _) in enumerate(WRONG_MARKERS)
    )
    result = run(pytester, "import pytest\n\n" + "\n".join(tests))
    result.assert_outcomes(errors=len(WRONG_MARKERS))
    result.stdout.fnmatch_lines([told for _, _, told in WRONG_MARKERS])
    assert "Traceback" not in result.stdout.str()
    assert "plugin.py" not in result.stdout.str()


def test_a_cluster_is_a_fixture_and_a_failed_test_shows_what_each_broker_was_asked(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.kafka(num_partitions=2)
        def test_it(kafka_cluster):
            assert [broker.embedded.config.int("num.partitions") for broker in kafka_cluster] == [2, 2, 2]
            assert False
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*- requests to kafka_cluster -*", "broker 1: no requests", "broker 3: no requests"])


def test_a_failed_test_shows_what_its_clients_do_wrong(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import socket

        def test_it(kafka):
            host, port = kafka.bootstrap_servers.split(":")
            with socket.create_connection((host, int(port)), 30) as connection:
                connection.sendall(b"GET / HTTP/1.1")
                connection.recv(1)
            assert False
        """,
    )
    result.stdout.fnmatch_lines(["*- diagnoses of kafka -*", "A client at 127.0.0.1 was disconnected: *the client speaks HTTP*"])


def test_the_sessions_broker_is_each_tests_own(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import time

        import pytest

        seen = []

        @pytest.mark.parametrize("number", range(3))
        def test_each(kafka_broker, kafka_topic, number):
            assert kafka_broker.records(kafka_topic) == []
            assert kafka_topic not in seen
            seen.append(kafka_topic)
            kafka_broker.produce(kafka_topic, "1")
            assert (list(kafka_broker.faults), len(kafka_broker.requests), kafka_broker.clock.is_held) == ([], 0, False)
            assert abs(kafka_broker.clock.now.timestamp() - time.time()) < 600
            kafka_broker.clock.advance(days=8)
            kafka_broker.clock.hold()
            kafka_broker.faults.inject(api="Produce", delay_ms=1).__enter__()

        def test_topic_alone_has_a_broker(kafka_topic):
            assert kafka_topic == "kafka-topic"

        @pytest.mark.kafka(num_partitions=2)
        def test_topic_of_a_cluster(kafka_cluster, kafka_topic):
            assert kafka_cluster.partitions(kafka_topic) == [0, 1]

        @pytest.mark.kafka(num_partitions=3)
        def test_the_marker_is_the_topics(kafka, kafka_topic):
            assert kafka.partitions(kafka_topic) == [0, 1, 2]

        @pytest.mark.kafka(num_partitions=3, rules="faults.json")
        def test_the_marker_has_no_effect(kafka_broker): ...
        """,
    )
    result.assert_outcomes(passed=6, errors=1)
    result.stdout.fnmatch_lines(
        ["@pytest.mark.kafka(num_partitions=3, rules='faults.json'): kafka_broker is one broker for all tests, so that none can *"]
    )
    assert "Traceback" not in result.stdout.str()


def test_a_traceback_shows_the_test_alone(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_records(kafka):
            kafka.records("none")

        def test_wait(kafka, kafka_topic):
            kafka.wait_for_offset(kafka_topic, 0, 1, timeout_s=0.01)

        def test_rule(kafka):
            with kafka.faults.inject(api="Produce", error="OOPS"):
                pass

        def test_request(kafka):
            kafka.requests.of("Produce").wait_for(timeout_s=0.01)
        """,
    )
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["*BrokerError: topic 'none' cannot be read: UNKNOWN_TOPIC_OR_PARTITION*"])
    for hidden in ("kafka.py", "broker.py", "faults.py", "requests.py", "contextlib"):
        assert f"{hidden}:" not in result.stdout.str()


@pytest.mark.slow  # tests/test_packaging.py checks the same of the plug-in as it is installed
def test_pytest_imports_the_broker_as_it_is(pytester: pytest.Pytester) -> None:
    result = run_apart(
        pytester,
        """
        def test_it(kafka):
            from twisted_kafka.testing import broker
            assert broker.__spec__.loader.__class__.__name__ == "SourceFileLoader"  # pytest's own rewrites assertions
        """,
    )
    result.assert_outcomes(passed=1)


WITH_OTHERS = {
    "pytest_asyncio": """
        import aiokafka
        import pytest

        @pytest.mark.asyncio
        async def test_it(kafka, kafka_topic):
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                await producer.send_and_wait(kafka_topic, b"1")
            assert [record.value for record in kafka.records(kafka_topic)] == [b"1"]
    """,
    "pytest_twisted": """
        import pytest_twisted
        from twisted.internet import protocol, reactor
        from twisted.internet.defer import Deferred
        from twisted.internet.endpoints import clientFromString, connectProtocol

        class Client(protocol.Protocol):
            def __init__(self):
                self.answer = Deferred()

            def connectionMade(self):
                self.transport.write(bytes.fromhex("0000000d 0012 0000 00000001 0003") + b"raw")

            def dataReceived(self, data):
                self.answer.callback(data)

        @pytest_twisted.inlineCallbacks
        def test_it(kafka):  # on the reactor's thread: the broker has reactors of its own
            host, port = kafka.bootstrap_servers.split(":")
            client = yield connectProtocol(clientFromString(reactor, f"tcp:{host}:{port}"), Client())
            answer = yield client.answer
            assert answer[4:8] == bytes.fromhex("00000001")
            client.transport.loseConnection()
            kafka.requests.of("ApiVersions").where(client_id="raw").wait_for()
    """,
    "unittest": """
        import unittest

        import pytest
        from twisted_kafka.testing import Broker

        @pytest.mark.kafka(num_partitions=2)
        class Tests(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def have_kafka(self, kafka):
                self.kafka = kafka

            def test_it(self):
                self.assertEqual(self.kafka.embedded.config.int("num.partitions"), 2)

        class WithoutPytest(unittest.TestCase):
            def setUp(self):
                self.kafka = self.enterContext(Broker())

            def test_it(self):
                self.kafka.create_topic("orders")
                self.assertEqual(self.kafka.topics(), ["orders"])
    """,
}


@pytest.mark.slow
def test_it_works_beside_other_plugins(pytester: pytest.Pytester) -> None:
    there = {name: tests for name, tests in WITH_OTHERS.items() if importlib.util.find_spec(name) is not None}
    pytester.makepyfile(**{f"test_with_{name}": tests for name, tests in there.items()})
    result = run_apart(pytester, "")
    result.assert_outcomes(passed=sum(tests.count("def test_") for tests in there.values()))


@pytest.mark.slow
def test_workers_of_xdist_have_brokers_of_their_own(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    result = run(
        pytester,
        """
        from pathlib import Path

        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(kafka_broker, worker_id, number):
            assert kafka_broker.topics() == ([worker_id] if worker_id in kafka_broker.topics() else [])
            if not kafka_broker.topics():
                kafka_broker.create_topic(worker_id)
            Path("addresses").joinpath(worker_id).write_text(kafka_broker.bootstrap_servers)
        """,
        "-n2",
        "--dist=each",
        makes="addresses",
    )
    result.assert_outcomes(passed=12)
    addresses = [path.read_text() for path in (pytester.path / "addresses").iterdir()]
    assert len(set(addresses)) == 2


def test_a_marker_says_how_many_brokers_a_cluster_has(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.kafka(brokers=2)
        def test_two(kafka_cluster):
            assert sorted(kafka_cluster.brokers) == [1, 2]

        @pytest.mark.kafka(brokers=0)
        def test_none(kafka_cluster): ...

        @pytest.mark.kafka(brokers="2")
        def test_text(kafka_cluster): ...

        @pytest.mark.kafka(brokers=2)
        def test_one(kafka): ...
        """,
    )
    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines(
        [
            "the broker of this test: brokers=0: expected 1 to 20",
            "the broker of this test: the number of brokers '2' is of type str: expected a whole number",
            "@pytest.mark.kafka(brokers=2): several brokers are for the fixture kafka_cluster",
        ]
    )


def test_a_marker_that_is_wrong_fails_with_one_line(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.kafka(num_partitons=3)
        def test_it(kafka): ...
        """,
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR at setup of test_it*", "the broker of this test: There is no setting 'num.partitons'*"])
    result.stdout.no_fnmatch_line("*another exception*")


def test_the_sessions_broker_comes_back_after_a_test_that_stops_or_freezes_it(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_stop(kafka_broker):
            kafka_broker.stop()

        def test_freeze(kafka_broker, kafka_topic):
            kafka_broker.freeze()

        def test_next(kafka_broker, kafka_topic):
            assert kafka_broker.is_running and not kafka_broker.is_frozen
        """,
    )
    result.assert_outcomes(passed=3)


def test_a_setting_with_dots_is_taken_as_it_is(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        SETTINGS = {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": JAAS,
        }

        @pytest.mark.kafka(**SETTINGS)
        def test_it(kafka):
            kafka.add_user("alice", "secret")
            assert kafka.servers_of("SASL_PLAINTEXT") != kafka.bootstrap_servers
        """,
    )
    result.assert_outcomes(passed=1)


def test_a_marker_without_a_fixture_fails_with_one_line(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.kafka(num_partitions=3)
        def test_none(): ...

        @pytest.mark.kafka(num_partitions=3)
        def test_topic(kafka_topic): ...

        @pytest.mark.kafka(num_partitions=3)
        class TestSome:
            def test_it(self): ...
        """,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["@pytest.mark.kafka: this test has no broker: use a fixture, kafka, *"])


def test_a_schema_registry_is_a_fixture_beside_any_broker(pytester: pytest.Pytester) -> None:
    pytest.importorskip("avro")
    result = run(
        pytester,
        """
        import urllib.request

        import pytest

        def test_one(kafka, kafka_schema_registry):
            kafka_schema_registry.register("a", '"int"')
            assert "_schemas" in kafka.topics()

        @pytest.mark.parametrize("number", [1, 2])
        def test_of_the_session(kafka_broker, kafka_schema_registry, number):
            assert kafka_schema_registry.register(f"a{number}", '"int"') == 1
            assert kafka_schema_registry.subjects() == [f"a{number}"]

        def test_cluster(kafka_schema_registry, kafka_cluster):
            assert kafka_schema_registry.kafka is kafka_cluster

        def test_failed(kafka_schema_registry):
            urllib.request.urlopen(kafka_schema_registry.url + "/subjects", timeout=30).read()
            assert False
        """,
    )
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*requests to kafka_schema_registry*", "*GET /subjects  list from *"])
