"""Who may do what with share groups: every API and version, each operation allowed and denied, compared with Apache Kafka 4.4."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.clients.clients import java_library
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.authorization_matrix import (
    Guarded,
    answers,
    common_versions,
    compared,
    listen_with_tls,
    make_certificates,
    prepare,
    settings,
    standings,
)
from tests.support.oracle.authorization_samples import MINE, OTHER, Sample
from tests.support.oracle.compared import BOTH_PROTOCOLS, running
from tests.support.oracle.share_authorization_samples import EMPTY_GROUP, MEMBER, SHARE_GROUP, SHARE_SAMPLES, STATE_GROUP
from tests.support.ports import free_port
from twisted_kafka.tools.compare.scenarios.kafka_4.share_members import ShareMember, await_share_coordinator
from twisted_kafka.tools.compare.talk import Talk

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900)]

VERSION = "4.4.0"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SHARE_SETTINGS = {
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.session.timeout.ms": 60_000,
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guarded, Guarded]]:
    """Apache Kafka and this broker, each with an authorizer and share groups."""
    if java_library("kafka_2.13", VERSION) is None:
        pytest.skip("Java or Maven is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    own = {**settings(folder), **BOTH_PROTOCOLS, **SHARE_SETTINGS, "authorizer.class.name": STANDARD}
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), kraft=True, version=VERSION, **own)
    tls_port = listen_with_tls(kafka)
    ours_own = {**settings(folder), **SHARE_SETTINGS, "group.coordinator.rebalance.protocols": "classic,consumer,share"}
    ours = ServedBroker(tmp_path_factory.mktemp("ours") / "data", *[f"{key}={value}" for key, value in ours_own.items()])
    our_port = free_port()
    ours.listeners += f",SSL://127.0.0.1:{our_port}"
    with ExitStack() as stack:
        for broker in (kafka, ours):
            stack.enter_context(running(broker))
        brokers = Guarded(kafka.port, tls_port, folder), Guarded(ours.port, our_port, folder)
        for each in brokers:
            prepare(each)
        yield brokers


def talk_to(broker: Guarded) -> Talk:
    talk = Talk(broker.port, "")
    talk.topic = lambda name: name
    return talk


def join(broker: Guarded) -> None:
    """Make the share groups, and let one have a member, which stays until its session times out."""
    talk = talk_to(broker)
    member = ShareMember(talk, SHARE_GROUP, member_id=MEMBER[0])
    member.topic = MINE
    member.join()
    member.beat(subscribed_topic_names=[MINE, OTHER])
    other = ShareMember(talk, EMPTY_GROUP, member_id=MEMBER[0])
    other.topic = MINE
    other.join()
    other.leave()
    await_share_coordinator(talk, STATE_GROUP, talk.topic_id(MINE))
    talk.close()


@pytest.mark.parametrize("sample", SHARE_SAMPLES, ids=lambda sample: sample.name)
def test_the_answers_are_those_of_kafka_4(guarded: tuple[Guarded, Guarded], sample: Sample) -> None:
    versions = common_versions(guarded, sample)
    assert len(versions)
    for each in guarded:
        join(each)
    found = []
    for standing in standings(sample):
        both = [answers(each, sample, standing, versions) for each in guarded]
        found += [f"{where}: Kafka {kafkas!r}, here {our!r}" for where, kafkas, our in compared(sample, standing, both)]
    assert not found, "\n" + "\n".join(found)
