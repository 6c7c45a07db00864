"""Who may do what: every API and version, with each operation that it needs allowed and denied, compared with Apache Kafka 3.9."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.certificates import PASSWORD, Authority
from tests.clients.clients import java_class_path
from tests.clients.served import ServedBroker
from tests.oracle.apache_kafka import ApacheKafka
from tests.oracle.authorization_samples import (
    GROUP,
    MINE,
    OTHER,
    OTHER_GROUP,
    OTHER_ID,
    REFUSED_TO_ALL,
    SAMPLES,
    TRANSACTIONAL_ID,
    Need,
    Sample,
    World,
)
from tests.oracle.conftest import SETTINGS, running
from tests.oracle.expected_differences import DENIED, Difference
from tests.oracle.scenarios_acls import guarded_acls, guarded_acls_bad
from tests.oracle.scenarios_data import fill
from tests.oracle.talk import ErrorText, Talk, differences
from tests.ports import free_port
from twisted_kafka.protocol.messages.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.transactions import InitProducerIdRequest
from twisted_kafka.security.authorizer.acl_types import PatternType, PermissionType

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900)]

ALICE = "User:alice"
ACLS_VERSION = 2
SEEN: set[Difference] = set()
RAN: set[str] = set()


class Guarded(NamedTuple):
    """A broker with an authorizer: its port without authentication, that with TLS, and the folder with certificates."""

    port: int
    tls_port: int
    folder: Path


class TlsTalk(Talk):
    """A conversation as whom a certificate names."""

    def __init__(self, broker: Guarded, who: str, name: str) -> None:
        super().__init__(broker.tls_port, name)
        self._context = ssl.create_default_context(cafile=str(broker.folder / "ca.pem"))
        self._context.load_cert_chain(broker.folder / f"{who}.pem")

    def _connect(self) -> Any:
        if self._connection is None:
            self._connection = self._context.wrap_socket(super()._connect(), server_hostname="localhost")
        return self._connection


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority()
    authority.write_trust(folder / "ca.pem")
    authority.issue("CN=broker,O=Tests", ["localhost"], is_rsa=True).write_pkcs12(folder / "broker.p12")
    for name in ("admin", "alice"):
        authority.issue(f"CN={name},O=Tests").write_pem(folder / f"{name}.pem")
    return folder


def settings(folder: Path) -> dict[str, object]:
    return {
        **SETTINGS,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": folder / "broker.p12",
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "ca.pem",
        "auto.create.topics.enable": "true",
    }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[tuple[Guarded, Guarded]]:
    """Apache Kafka and this broker, with the same topics, groups and transactional ids."""
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
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


def prepare(broker: Guarded) -> None:
    talk = Talk(broker.port, "")
    talk.topic = lambda name: name  # the names are the matrix's own
    for name in (MINE, OTHER):
        talk.create(name)
        talk.known(name)
        fill(talk, name, 1)
    for group in (GROUP, OTHER_GROUP):
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topics = [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in (MINE, OTHER)]
        answer = talk.ask(OffsetCommitRequest(group_id=group, topics=topics), 5)
        assert not any(each.error_code for topic in answer.topics for each in topic.partitions)
    for transactional_id in (TRANSACTIONAL_ID, OTHER_ID):
        talk.ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 1)
    talk.close()


class Standing(NamedTuple):
    """A client's standing: who it is, and what ACLs say of it."""

    name: str
    who: str
    allowed: tuple[Need, ...] = ()
    denied: tuple[Need, ...] = ()


def standings(sample: Sample) -> list[Standing]:
    needs = sample.needs
    found = [] if sample.key in REFUSED_TO_ALL else [Standing("super", "admin")]
    found.append(Standing("nobody", "alice"))
    if needs:
        found.append(Standing("allowed", "alice", needs))
    if len(needs) > 1:
        found += [Standing(f"only {each}", "alice", (each,)) for each in needs]
    return found + [Standing(f"denied {each}", "alice", needs, (each,)) for each in needs]


def grant(talk: Talk, standing: Standing) -> None:
    creations = [
        AclCreation(
            resource_type=need.resource_type,
            resource_name=need.name,
            resource_pattern_type=PatternType.LITERAL,
            principal=ALICE,
            host="*",
            operation=need.operation,
            permission_type=permission,
        )
        for needs, permission in ((standing.allowed, PermissionType.ALLOW), (standing.denied, PermissionType.DENY))
        for need in needs
    ]
    if creations:
        answer = talk.ask(CreateAclsRequest(creations=creations), ACLS_VERSION)
        assert [each.error_code for each in answer.results] == [0] * len(creations), answer


def revoke(talk: Talk) -> None:
    wanted = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=ALICE,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    talk.ask(DeleteAclsRequest(filters=[wanted]), ACLS_VERSION)


def versions_of(broker: Guarded) -> dict[int, tuple[int, int]]:
    talk = Talk(broker.port, "versions")
    answer = talk.ask(ApiVersionsRequest(client_software_name="oracle", client_software_version="1"), 3)
    talk.close()
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def answers(broker: Guarded, sample: Sample, standing: Standing, versions: range) -> list[tuple[str, Any]]:
    admin = Talk(broker.port, "")
    admin.topic = lambda name: name
    ids = {name: admin.topic_id(name) for name in (MINE, OTHER)}
    grant(admin, standing)
    talk = TlsTalk(broker, standing.who, sample.name)
    try:
        for version in versions:
            fresh = f"{standing.name}.{version}".replace(" ", ".").replace("*", "all")
            talk.ask(sample.request(World(version, fresh, ids)), version)
    finally:
        talk.close()
        revoke(admin)
        admin.close()
    return talk.answers


def in_order(value: Any) -> Any:
    """Sort all lists of structs: Apache Kafka puts what is denied before or behind the rest, and fills many from hash tables."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        values = [in_order(each) for each in value]
        return sorted(values, key=rank) if values and isinstance(values[0], dict) else values
    return value


def rank(struct: dict[str, Any]) -> str:
    return repr([(name, value) for name, value in struct.items() if not isinstance(value, ErrorText)])


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_the_answers_are_kafkas(guarded: tuple[Guarded, Guarded], sample: Sample) -> None:
    kafka, ours = guarded
    served = [versions_of(each)[sample.key] for each in guarded]
    first = max(sample.versions[0], *(low for low, _ in served))
    last = min(sample.versions[1], *(high for _, high in served))
    found = []
    for standing in standings(sample):
        versions = range(first, last + 1)
        both = [answers(each, sample, standing, versions) for each in (kafka, ours)]
        for (step, expected), (_, said) in zip(*both, strict=True):
            for path, kafkas, our in differences(in_order(expected), in_order(said)):
                where = f"{sample.name} {standing.name}: {step} {path}"
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


NOT_ASKING = {17, 18, 36, 68, 69}
"""The first three answer everybody. With ZooKeeper, Apache Kafka refuses requests about consumer groups to all."""


def test_every_expected_difference_is_there() -> None:
    if len(RAN) < len(SAMPLES) + 8:
        pytest.skip("not all samples ran")
    assert [each for each in DENIED if each not in SEEN] == []
