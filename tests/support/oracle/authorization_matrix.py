"""The matrix of who may do what: a broker with an authorizer, clients with certificates, and what they are answered."""

import functools
import json
import ssl
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.budget import patient
from tests.support.certificates import PASSWORD, Authority
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.authorization_samples import (
    GROUP,
    MINE,
    OTHER,
    OTHER_GROUP,
    OTHER_ID,
    REFUSED_TO_ALL,
    TRANSACTIONAL_ID,
    Need,
    Sample,
    World,
)
from tests.support.ports import free_port
from twisted_kafka.protocol.messages.administration.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.coordinators.transactions import InitProducerIdRequest
from twisted_kafka.security.authorizer.acl_types import PatternType, PermissionType
from twisted_kafka.tools.compare.answers import ErrorText, differences
from twisted_kafka.tools.compare.data_requests import fill
from twisted_kafka.tools.compare.preparation import SETTINGS
from twisted_kafka.tools.compare.talk import Talk

ALICE = "User:alice"
ACLS_VERSION = 3
ACLS_TIMEOUT_S = patient(30)
RECORD = Path(__file__).parents[2] / "data" / "security" / "authorization.json"
"""What Apache Kafka answers: the error codes and the masks of operations, by sample, standing and versions."""


class Guarded(NamedTuple):
    """A broker with an authorizer: its port without authentication, that with TLS, and the folder with certificates."""

    port: int
    tls_port: int
    folder: Path


@functools.cache
def _tls_context(folder: Path, who: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / f"{who}.pem")
    return context


class TlsTalk(Talk):
    """A conversation as whom a certificate names."""

    def __init__(self, broker: Guarded, who: str, name: str) -> None:
        super().__init__(broker.tls_port, name)
        self._context = _tls_context(broker.folder, who)

    def _connect(self) -> Any:
        if self._connection is None:
            self._connection = self._context.wrap_socket(super()._connect(), server_hostname="localhost")
        return self._connection


def make_certificates(folder: Path) -> None:
    authority = Authority()
    authority.write_trust(folder / "ca.pem")
    authority.issue("CN=broker,O=Tests", ["localhost"], is_rsa=True).write_pkcs12(folder / "broker.p12")
    for name in ("admin", "alice"):
        authority.issue(f"CN={name},O=Tests").write_pem(folder / f"{name}.pem")


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


def listen_with_tls(kafka: ApacheKafka) -> int:
    """Give an Apache Kafka in KRaft mode, which has not started, a listener with TLS; return its port."""
    tls_port, controller_port = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{kafka.port},SSL://127.0.0.1:{tls_port}"
    kafka.change(
        **{
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        }
    )
    return tls_port


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
        await_acls(talk, len(creations))


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
    await_acls(talk, 0)


def await_acls(talk: Talk, count: int) -> None:
    """Wait until the broker has so many ACLs of the client: with KRaft it hears later of them than is answered."""
    wanted = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=ALICE,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    deadline = time.monotonic() + ACLS_TIMEOUT_S
    while sum(len(each.acls) for each in talk.ask(wanted, ACLS_VERSION, note=False).resources) != count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


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


def versions_of(broker: Guarded) -> dict[int, tuple[int, int]]:
    """Return the versions of each API that a broker serves."""
    talk = Talk(broker.port, "versions")
    answer = talk.ask(ApiVersionsRequest(client_software_name="oracle", client_software_version="1"), 3)
    talk.close()
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def common_versions(brokers: tuple[Guarded, Guarded], sample: Sample) -> range:
    """Return the versions of a sample that both brokers serve."""
    served = [versions_of(each)[sample.key] for each in brokers]
    first = max(sample.versions[0], *(low for low, _ in served))
    return range(first, min(sample.versions[1], *(high for _, high in served)) + 1)


def compared(sample: Sample, standing: Standing, both: list[list[tuple[str, Any]]]) -> Iterator[tuple[str, object, object]]:
    """Yield the places where Apache Kafka's answers and this broker's differ."""
    for (step, expected), (_, said) in zip(*both, strict=True):
        for path, kafkas, our in differences(in_order(expected), in_order(said)):
            yield f"{sample.name} {standing.name}: {step} {path}", kafkas, our


def digest(answered: Iterable[tuple[str, Any]], first: int) -> dict[str, list[str]]:
    """Return the error codes and masks in the answers to versions from ``first`` on, one entry for versions with the same."""
    each = [(version, sorted(_marks(said))) for version, (_, said) in enumerate(answered, first)]
    found = {}
    for marks, group in groupby(each, key=lambda one: one[1]):
        versions = [version for version, _ in group]
        found[f"{versions[0]}-{versions[-1]}"] = marks
    return found


def _marks(said: Any) -> list[str]:
    counted = Counter(_codes(said, ""))
    return [f"{what} x{times}" if times > 1 else what for what, times in counted.items()]


def _codes(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name.endswith(("error_code", "authorized_operations")):
                yield f"{path}{name}={each}"
            else:
                yield from _codes(each, f"{path}{name}.")
    elif isinstance(value, list):
        for each in value:
            yield from _codes(each, path)
    elif isinstance(value, str) and not path:
        yield value


def recorded() -> dict[str, dict[str, dict[str, list[str]]]]:
    """Return the record: by sample and standing."""
    found: dict[str, dict[str, dict[str, list[str]]]] = json.loads(RECORD.read_text())
    return found
