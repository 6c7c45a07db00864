from collections.abc import Iterator

import pytest

import twisted_kafka
from tests.support.console import make_topic, session_in
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.access import Decision, acls, quotas, users
from twisted_kafka.console.queries.access import may as decide
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from twisted_kafka.protocol.messages.administration.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, PermissionType, ResourceType

KNOWN = {"super.users": "User:root;User:admin"}
PAYMENTS = (ResourceType.TOPIC, "payments")
READ = AclOperation.READ


@pytest.fixture(scope="module")
def guarded() -> Iterator[twisted_kafka.Broker]:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:root;User:admin"}
    with twisted_kafka.Broker(settings) as broker:
        yield broker


@pytest.fixture
def root(guarded: twisted_kafka.Broker) -> Session:
    return session_in(guarded, "root")


def may(session: Session, principal: str, operation: AclOperation, resource: tuple[ResourceType, str], host: str = "") -> Decision:
    return decide(session, principal, operation, resource, host, KNOWN)


def allow(
    root: Session,
    principal: str,
    operation: AclOperation,
    name: str,
    *,
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    permission: PermissionType = PermissionType.ALLOW,
) -> None:
    creation = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )
    (result,) = root.ask(CreateAclsRequest(creations=[creation])).results
    assert not result.error_code


@pytest.mark.medium
def test_why_a_user_may_do_something(guarded: twisted_kafka.Broker, root: Session) -> None:
    make_topic(root, "payments")
    none = may(root, "User:alice", READ, PAYMENTS)
    assert (none.is_allowed, none.why) == (False, "no entry allows User:alice Read on Topic payments")
    assert none.remedy == "twisted-kafka acls create --principal User:alice --topic payments --operation read"
    assert decide(root, "User:admin", READ, PAYMENTS).why.endswith("brokers do not show super.users")
    allow(root, "User:bob", READ, "payments")
    assert may(root, "User:alice", READ, PAYMENTS).why.endswith("; 1 are about other users or hosts")
    assert may(root, "User:admin", READ, PAYMENTS).why == "User:admin is one of super.users"
    allow(root, "User:alice", READ, "pay", pattern=PatternType.PREFIXED)
    yes = may(root, "User:alice", READ, PAYMENTS)
    assert (yes.is_allowed, yes.why) == (True, "an entry allows User:alice Read on each Topic that begins with pay")
    assert may(root, "User:alice", AclOperation.DESCRIBE, PAYMENTS).is_allowed
    assert not may(root, "User:alice", AclOperation.WRITE, PAYMENTS).is_allowed
    allow(root, "User:*", READ, "payments", host="10.0.0.1", permission=PermissionType.DENY)
    assert may(root, "User:alice", READ, PAYMENTS).is_allowed
    no = may(root, "User:alice", READ, PAYMENTS, "10.0.0.1")
    assert (no.is_allowed, no.why, no.remedy) == (False, "an entry denies User:* from 10.0.0.1 Read on Topic payments", "")
    with pytest.raises(ValueError, match="a Group has no operation Write"):
        may(root, "User:alice", AclOperation.WRITE, (ResourceType.GROUP, "g"))
    assert acls(root, Asked("alice")).total == 1
    assert acls(root, Asked(), resource=PAYMENTS).total == 3
    assert acls(root, Asked(sort="principal"), principal="User:bob").items[0].host == "*"
    for query in (
        lambda: acls(session_in(guarded, "alice"), Asked()),
        lambda: may(session_in(guarded, "alice"), "User:x", READ, PAYMENTS),
    ):
        with pytest.raises(CommandError):
            query()


@pytest.mark.parametrize("principal", ["User:alice", "User:carol", "User:root"])
@pytest.mark.parametrize("operation", [READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS])
@pytest.mark.parametrize("name", ["ledger", "ledger-old", "other"])
def test_the_answer_is_the_authorizers(
    guarded: twisted_kafka.Broker, root: Session, principal: str, operation: AclOperation, name: str
) -> None:
    allow(root, "User:alice", AclOperation.ALL, "ledger")
    allow(root, "User:*", AclOperation.WRITE, "ledger", pattern=PatternType.PREFIXED)
    allow(root, "User:carol", AclOperation.DESCRIBE, "ledger-old", permission=PermissionType.DENY)
    authorizer = guarded._server._running.authorizer
    decides = authorizer._index.decide(principal, "127.0.0.1", operation, ResourceType.TOPIC, name)
    expected = True if principal == "User:root" else bool(decides)
    assert may(root, principal, operation, (ResourceType.TOPIC, name), "127.0.0.1").is_allowed == expected


def test_a_broker_without_an_authorizer(session: Session) -> None:
    assert may(session, "User:x", READ, PAYMENTS).why == "the broker has no authorizer: everybody may do everything"


def test_users_and_quotas(root: Session) -> None:
    upsertion = ScramCredentialUpsertion(name="dora", mechanism=1, iterations=4096, salt=b"s" * 16, salted_password=b"p" * 32)
    (result,) = root.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])).results
    assert not result.error_code
    (user,) = users(root, Asked("DORA")).items
    assert (user.name, user.mechanisms) == ("dora", (("SCRAM-SHA-256", 4096),))
    entity = [EntityData(entity_type="user", entity_name="dora"), EntityData(entity_type="client-id", entity_name=None)]
    entry = AlterClientQuotasRequestEntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=1e6)])
    root.ask(AlterClientQuotasRequest(entries=[entry]))
    (quota,) = quotas(root, Asked("dora")).items
    assert (quota.user, quota.client_id, quota.ip, quota.key, quota.value) == ("dora", "(default)", None, "producer_byte_rate", 1e6)
