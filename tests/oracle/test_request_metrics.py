"""The same requests to Apache Kafka 3.9 and to this broker: what both count of them, and under which names.

Where the answers are the same, and as many requests were made (some scenarios ask until something is true), the metrics have to be.
"""

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.oracle.metrics import KafkaMetrics, Labels, OurMetrics, grown
from tests.oracle.versions import KRAFT_ONLY
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.ports import free_port
from twisted_kafka.network.requests.request_metrics import MAX_VERSION, TIMES
from twisted_kafka.tools.compare.answers import differences
from twisted_kafka.tools.compare.preparation import SETTINGS, told_versions, warm
from twisted_kafka.tools.compare.scenarios import scenarios_of_kafka_3
from twisted_kafka.tools.compare.scenarios.coordinators import errors
from twisted_kafka.tools.compare.talk import Scenario, Talk

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(1800)]

CONVERSIONS = ("MessageConversionsTimeMs", "TemporaryMemoryBytes")
NOT_ON_THE_PAGE = "ThrottleTimeMs"
"""The page leaves out histograms of which all values are 0, as these are without a quota."""
TOLD_TIMES = [each for each in TIMES if each != NOT_ON_THE_PAGE]
COUNTED = ("RequestsPerSec", "ErrorsPerSec", "DeprecatedRequestsPerSec", "RequestBytes", *TOLD_TIMES, *CONVERSIONS)
BETWEEN_BROKERS = {"LeaderAndIsr", "StopReplica", "UpdateMetadata"}
"""A Kafka with ZooKeeper sends them to itself whenever it likes."""

MOST_ARE_COMPARED = 0.7
"""The other scenarios have answers that differ on purpose, or wait for something by asking."""

LOOKS = 10
TRIES = 2
"""On a busy machine a broker may have answered that something is not true yet, which the other one's client never saw."""
RETRY_S = 0.1
"""An answer may be here before it is counted."""
FRESH_S = 1.0
"""The page of this broker may be one that was made a moment before; so long ago it was not."""

Metrics = KafkaMetrics | OurMetrics


Both = tuple[tuple[int, Metrics], tuple[int, Metrics]]
"""Apache Kafka's port and metrics, and this broker's."""


@pytest.fixture(scope="module")
def both(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    port = free_port()
    settings = {**SETTINGS, "broker.id": 1, "metrics.listener": f"127.0.0.1:{port}"}
    ours = ServedBroker(tmp_path_factory.mktemp("metrics") / "data", *(f"{key}={value}" for key, value in settings.items()))
    ours.start()
    try:
        warm(ours.port)
        with KafkaMetrics(kafka.broker_pid) as metrics:
            yield (kafka.port, metrics), (ours.port, OurMetrics(port))
    finally:
        ours.stop()


def few_versions() -> Iterator[tuple[Scenario, int]]:
    """The first and the last version of each scenario that does not wait for something to expire."""
    for scenario in scenarios_of_kafka_3():
        first, last = scenario.request.VERSIONS
        if scenario.request.KEY not in KRAFT_ONLY and scenario.run.__module__ != errors.__name__:
            for version in sorted({max(first, scenario.versions[0]), min(last, scenario.versions[1])}):
                yield scenario, version


Counts = dict[str, Counter[Labels]]


def read(metrics: Metrics) -> dict[str, dict[Labels, float]]:
    return {name: metrics.read(name) for name in COUNTED}


def counted(metrics: Metrics, before: dict[str, dict[Labels, float]]) -> Counts:
    """Say what was counted since ``before``, versions that no API has taken together."""
    found: Counts = {}
    for name, after in read(metrics).items():
        found[name] = Counter()
        for labels, count in grown(before[name], after).items():
            tags = dict(labels)
            if tags["request"] in BETWEEN_BROKERS:
                continue
            if not tags.get("version", "0").isdigit() or int(tags.get("version", "0")) > MAX_VERSION:
                tags["version"] = "other"
            found[name][tuple(sorted(tags.items()))] += count
    return found


def run(both: Both, scenario: Scenario, version: int) -> tuple[Counts, Counts] | None:
    """Return what each counted when both gave the same answers to as many requests, None if they never do."""
    for attempt in range(TRIES):
        is_same, theirs, ours = run_once(both, scenario, version, f"{scenario.name}.metrics.{version}.{attempt}")
        if is_same and theirs["RequestsPerSec"] == ours["RequestsPerSec"]:
            return theirs, ours
    return None


def run_once(both: Both, scenario: Scenario, version: int, name: str) -> tuple[bool, Counts, Counts]:
    """Return whether both gave the same answers, and what each counted."""
    befores = [read(metrics) for _, metrics in both]
    answers = []
    for port, _ in both:
        talk = Talk(port, name)
        try:
            scenario.run(talk, version)
        finally:
            talk.close()
        answers.append(talk.answers)
    for _ in range(LOOKS):
        theirs, ours = (counted(metrics, before) for (_, metrics), before in zip(both, befores, strict=True))
        if theirs == ours:
            break
        time.sleep(RETRY_S)
    is_same = len(answers[0]) == len(answers[1]) and not any(
        [*differences(expected, said)] for (_, expected), (_, said) in zip(*answers, strict=True)
    )
    return is_same, theirs, ours


def unequal(theirs: Counts, ours: Counts) -> Iterator[str]:
    for name in COUNTED:
        for labels in theirs[name].keys() | ours[name].keys():
            if theirs[name][labels] != ours[name][labels]:
                yield f"{name} {dict(labels)} {theirs[name][labels]}, here {ours[name][labels]}"


def test_what_is_counted_of_requests_is_the_same(both: Both) -> None:
    told = told_versions(both[0][0])
    compared, left_out = 0, []
    found = []
    for scenario, version in few_versions():
        if version > told[scenario.request.KEY][1]:
            continue
        counts = run(both, scenario, version)
        if counts is None:
            left_out.append(f"{scenario.name} v{version}")
            continue
        compared += 1
        found += [f"{scenario.name} v{version}: {each}" for each in unequal(*counts)]
    assert not found, "\n" + "\n".join(found)
    assert compared > MOST_ARE_COMPARED * (compared + len(left_out)), (compared, left_out)


REFUSED = {
    "an API that is not served": struct.pack(">hhih", 999, 0, 1, -1),
    "half a header": struct.pack(">hh", 3, 1),
}

REFUSED_BY_HANDLERS = {
    "a version that is not served": struct.pack(">hhihx", 3, 99, 1, -1),
    "an older version that is not served": struct.pack(">hhih", 3, -1, 1, -1),
    "a body that ends too early": struct.pack(">hhihih", 3, 1, 1, -1, 5, 3),
    "a negative count": struct.pack(">hhihi", 3, 0, 1, -1, -7),
}


def refused(both: Both, data: bytes) -> Iterator[Callable[[], Counts]]:
    """Yield for each broker what returns the counts since before it refused the bytes."""
    for port, metrics in both:
        time.sleep(FRESH_S)
        before = read(metrics)
        talk = Talk(port, "refused")
        assert talk.exchange(data) is None
        talk.close()
        time.sleep(FRESH_S)
        yield partial(counted_of_clients, metrics, before)


def counted_of_clients(*arguments: Any) -> Counts:
    """Leave out the markers that Kafka's own coordinator sends for transactions of earlier tests, when they time out."""
    return {
        name: Counter({labels: count for labels, count in counts.items() if ("request", "WriteTxnMarkers") not in labels})
        for name, counts in counted(*arguments).items()
    }


@pytest.mark.parametrize("what", REFUSED)
def test_requests_that_no_handler_sees_are_not_counted(both: Both, what: str) -> None:
    for counts in refused(both, REFUSED[what]):
        assert not any(counts().values())


@pytest.mark.parametrize("what", REFUSED_BY_HANDLERS)
def test_requests_that_a_handler_refuses_are_counted_as_invalid_here(both: Both, what: str) -> None:
    theirs, ours = refused(both, REFUSED_BY_HANDLERS[what])
    assert not any(theirs().values())  # Kafka's network thread decodes requests, and closes the connection
    # The connection may be closed before it is counted.
    eventually(lambda: ours()["RequestsPerSec"].total(), pause_s=RETRY_S)
    assert ours()["ErrorsPerSec"] == {(("error", "INVALID_REQUEST"), ("request", "Metadata")): 1}
    assert ours()["RequestsPerSec"].total() == 1
