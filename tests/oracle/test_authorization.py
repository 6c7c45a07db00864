"""Who may do what: every API and version, with each operation that it needs allowed and denied, compared with Apache Kafka 3.9."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.oracle.expected_differences import DENIED, Difference
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.authorization_matrix import (
    Guarded,
    answers,
    common_versions,
    compared,
    digest,
    in_order,
    listen_with_tls,
    make_certificates,
    prepare,
    recorded,
    settings,
    standings,
    versions_of,
)
from tests.support.oracle.authorization_samples import KRAFT_SAMPLES, SAMPLES, Sample
from tests.support.oracle.compared import BOTH_PROTOCOLS, running
from tests.support.ports import free_port
from twisted_kafka.tools.compare.answers import differences
from twisted_kafka.tools.compare.scenarios.administration.acls import guarded_acls, guarded_acls_bad
from twisted_kafka.tools.compare.talk import Talk

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900)]

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SEEN: set[Difference] = set()
RAN: set[str] = set()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guarded, Guarded]]:
    """Apache Kafka and this broker, with the same topics, groups and transactional ids."""
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    certificates = tmp_path_factory.mktemp("certificates")
    make_certificates(certificates)
    kafka = ApacheKafka(tmp_path_factory.mktemp("guarded"), **settings(certificates))  # type: ignore[arg-type]
    tls_port = free_port()
    kafka.change(listeners=f"PLAINTEXT://127.0.0.1:{kafka.port},SSL://127.0.0.1:{tls_port}")
    overrides = [f"{key}={value}" for key, value in {**settings(certificates), "broker.id": 1}.items()]
    ours = ServedBroker(tmp_path_factory.mktemp("ours") / "data", *overrides)
    our_port = free_port()
    ours.listeners += f",SSL://127.0.0.1:{our_port}"
    with ExitStack() as stack:
        for broker in (kafka, ours):
            stack.enter_context(running(broker))
        brokers = Guarded(kafka.port, tls_port, certificates), Guarded(ours.port, our_port, certificates)
        for each in brokers:
            prepare(each)
        yield brokers


@pytest.fixture(scope="module")
def guarded_kraft(tmp_path_factory: pytest.TempPathFactory, guarded: tuple[Guarded, Guarded]) -> Iterator[tuple[Guarded, Guarded]]:
    """Apache Kafka in KRaft mode and this broker."""
    certificates = guarded[0].folder
    own = {**settings(certificates), **BOTH_PROTOCOLS, "authorizer.class.name": STANDARD}
    kafka = ApacheKafka(tmp_path_factory.mktemp("kraft"), kraft=True, **own)  # type: ignore[arg-type]
    tls_port = listen_with_tls(kafka)
    with running(kafka):
        broker = Guarded(kafka.port, tls_port, certificates)
        prepare(broker)
        yield broker, guarded[1]


@pytest.mark.parametrize("sample", KRAFT_SAMPLES, ids=lambda sample: sample.name)
def test_the_answers_are_those_of_kraft(guarded_kraft: tuple[Guarded, Guarded], sample: Sample) -> None:
    compare(guarded_kraft, sample, is_recorded=False)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_the_answers_are_kafkas(guarded: tuple[Guarded, Guarded], sample: Sample) -> None:
    compare(guarded, sample, is_recorded=True)


def compare(brokers: tuple[Guarded, Guarded], sample: Sample, *, is_recorded: bool) -> None:
    versions = common_versions(brokers, sample)
    found = []
    for standing in standings(sample):
        both = [answers(each, sample, standing, versions) for each in brokers]
        if is_recorded:
            record = digest(both[0], versions[0])
            assert recorded()[sample.name][standing.name] == record, "python -m tests.broker.authorization_record"
        for where, kafkas, our in compared(sample, standing, both):
            difference = next((each for each in DENIED if each.matches(where)), None)
            if difference is None:
                found.append(f"{where}: Kafka {kafkas!r}, here {our!r}")
            else:
                SEEN.add(difference)
    RAN.add(sample.name)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("run", [guarded_acls, guarded_acls_bad])
@pytest.mark.parametrize("version", range(4))
def test_acls_are_kept_and_found_as_in_kafka(
    guarded: tuple[Guarded, Guarded], version: int, run: Callable[[Talk, int], None]
) -> None:
    both = []
    for broker in guarded:
        talk = Talk(broker.port, f"acls.{version}")
        run(talk, version)
        talk.close()
        both.append(talk.answers)
    found = []
    for at, ((step, expected), (_, said)) in enumerate(zip(*both, strict=True)):
        for path, kafkas, our in differences(in_order(expected), in_order(said)):
            where = f"{run.__name__} {at}: {step} {path}"
            difference = next((each for each in DENIED if each.matches(where)), None)
            if difference is None:
                found.append(f"{where}: Kafka {kafkas!r}, here {our!r}")
            else:
                SEEN.add(difference)
    RAN.add(f"{run.__name__} {version}")
    assert not found, "\n" + "\n".join(found)


def test_every_served_api_is_in_the_matrix(guarded: tuple[Guarded, Guarded]) -> None:
    kafka, ours = guarded
    both = versions_of(kafka).keys() & versions_of(ours).keys()
    assert both - {int(sample.key) for sample in SAMPLES} == NOT_ASKING


NOT_ASKING = {17, 18, 36, 58, 68, 69}
"""The first three answer everybody. With ZooKeeper, Apache Kafka refuses Envelope and requests about consumer groups to all."""


def test_every_expected_difference_is_there() -> None:
    if len(RAN) < len(SAMPLES) + len(KRAFT_SAMPLES) + 8:
        pytest.skip("not all samples ran")
    assert [each for each in DENIED if each not in SEEN] == []
