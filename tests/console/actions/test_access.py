from collections.abc import Iterator

import pytest

import twisted_kafka
from tests.support.console import session_in
from tests.support.eventually import eventually
from twisted_kafka.console.actions.acls import AddAcl, DeleteAcl, entry
from twisted_kafka.console.actions.quotas import DEFAULT_NAME, SetQuota
from twisted_kafka.console.actions.users import DeleteUser, SetPassword, credentials
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.access import acls, may, quotas
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType

ALLOW_READ = entry("Topic", "payments", "alice", "Read")


@pytest.fixture(scope="module")
def broker() -> Iterator[twisted_kafka.Broker]:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:root;User:ANONYMOUS"}
    with twisted_kafka.Broker(settings) as running:
        yield running


@pytest.fixture
def root(broker: twisted_kafka.Broker) -> Session:
    return session_in(broker, "root")


def test_the_life_of_a_user(root: Session) -> None:
    new = SetPassword("alice", "first")
    assert new.preview(root).summary == "create the user: alice can log in with SCRAM-SHA-512"
    assert not credentials(root, "alice")
    assert new.do(root) == "alice can log in with SCRAM-SHA-512"
    assert eventually(lambda: credentials(root, "alice")) == {"SCRAM-SHA-512": 4096}
    other = SetPassword("alice", "second", "SCRAM-SHA-256", 8192)
    assert other.preview(root).summary.startswith("add a password: alice")
    other.do(root)
    eventually(lambda: len(credentials(root, "alice")) == 2)
    assert new.preview(root).summary == "change the password of alice for SCRAM-SHA-512"
    one = DeleteUser("alice", "SCRAM-SHA-512")
    assert one.preview(root).rows == (("SCRAM-SHA-512", "4,096"),)
    one.do(root)
    eventually(lambda: len(credentials(root, "alice")) == 1)
    assert DeleteUser("alice").do(root) == "alice has no password for SCRAM-SHA-256 any more"
    eventually(lambda: not credentials(root, "alice"))
    with pytest.raises(CommandError, match="there is no password of 'alice'"):
        DeleteUser("alice").preview(root)


def test_a_password_is_in_no_text_of_its_action(root: Session) -> None:
    action = SetPassword("alice", "a secret password")
    assert "secret" not in repr(action)
    assert "secret" not in repr(action.preview(root))
    for wrong in ("", "a secret password" * 100):
        with pytest.raises(ValueError, match="password") as caught:
            SetPassword("alice", wrong).do(root)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("mechanism", "iterations", "why"), [("PLAIN", 4096, "not a mechanism"), ("SCRAM-SHA-256", 1, "from 4096 to 16384")]
)
def test_a_password_needs_a_mechanism_and_iterations(mechanism: str, iterations: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SetPassword("alice", "password", mechanism, iterations)


def test_the_life_of_an_entry(root: Session) -> None:
    add = AddAcl(ALLOW_READ)
    preview = add.preview(root)
    assert preview.summary == "allow User:alice Read on Topic payments"
    assert preview.warnings[0].startswith("it is the first entry about this Topic")
    assert not may(root, "User:alice", AclOperation.READ, (ResourceType.TOPIC, "payments")).is_allowed
    assert add.do(root) == "an entry allows User:alice Read on Topic payments now"
    eventually(lambda: may(root, "User:alice", AclOperation.READ, (ResourceType.TOPIC, "payments")).is_allowed)
    assert add.preview(root).warnings == ("this entry exists already: nothing will change",)
    denial = AddAcl(entry("Topic", "pay", "User:*", "All", pattern_type="Prefixed", permission="Deny", host="10.0.0.1"))
    assert denial.preview(root).summary == "deny User:* from 10.0.0.1 All on each Topic that begins with pay"
    assert denial.preview(root).warnings[:2] == (
        "it is about all users",
        "it counts before all entries that allow the same, except for super users",
    )
    denial.do(root)
    eventually(lambda: acls(root, Asked()).total == 2)
    DeleteAcl(denial.acl).do(root)
    delete = DeleteAcl(ALLOW_READ)
    eventually(lambda: delete.preview(root).warnings)
    assert delete.preview(root).summary == "delete the entry that allows User:alice Read on Topic payments"
    assert delete.do(root) == "the entry was deleted that allowed User:alice Read on Topic payments"
    for again in (delete.preview, delete.do):
        with pytest.raises(CommandError, match="there is no entry that allows User:alice"):
            again(root)


def test_the_cluster_has_one_name(root: Session) -> None:
    acl = entry("Cluster", "anything", "alice", "Describe", pattern_type="Prefixed")
    assert (acl.name, acl.pattern_type) == ("kafka-cluster", "Literal")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("Topic", "t", "alice", "Fly"), "there is no operation 'Fly'"),
        (("Group", "g", "alice", "Write"), "a Group has no operation Write"),
        (("Topic", "", "alice", "Read"), "name a Topic"),
        (("Topic", "t", "", "Read"), "name a principal"),
        (("Colour", "t", "alice", "Read"), "there is no resource"),
    ],
)
def test_an_entry_that_cannot_be(given: tuple[str, str, str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        entry(*given)


def test_the_life_of_a_quota(root: Session) -> None:
    add = SetQuota("producer_byte_rate", 2048, "alice", DEFAULT_NAME)
    assert add.preview(root).rows == (("producer_byte_rate", "(none)", "2,048"),)
    assert add.preview(root).summary == "set a quota of user alice, client id (default)"
    assert not quotas(root, Asked()).items
    assert add.do(root) == "the quota producer_byte_rate of user alice, client id (default) was set"
    (found,) = eventually(lambda: quotas(root, Asked()).items)
    assert (found.user, found.client_id, found.ip, found.value) == ("alice", "(default)", None, 2048)
    remove = SetQuota("producer_byte_rate", None, "alice", DEFAULT_NAME)
    assert remove.preview(root).rows == (("producer_byte_rate", "2,048", "(none)"),)
    remove.do(root)
    eventually(lambda: not quotas(root, Asked()).items)
    assert remove.preview(root).warnings == ("there is no such quota: nothing will change",)
    with pytest.raises(CommandError):
        SetQuota("producer_byte_rate", 1, ip="10.0.0.1").preview(root)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_quota_is_a_number_above_zero(value: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        SetQuota("producer_byte_rate", value, "alice")


@pytest.mark.parametrize("key", ["producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"])
def test_no_quota_is_rounded_to_zero(key: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number"):
        SetQuota(key, 1e-7, "alice")
    assert SetQuota("request_percentage", 1e-7, "alice").value == 1e-7


def test_a_quota_has_a_name_and_somebody() -> None:
    with pytest.raises(ValueError, match="name a user"):
        SetQuota("producer_byte_rate", 1)
    with pytest.raises(ValueError, match="not a quota"):
        SetQuota("beer_rate", 1, "alice")


@pytest.mark.parametrize(
    "action", [SetPassword("eve", "password"), DeleteUser("root"), AddAcl(ALLOW_READ), DeleteAcl(ALLOW_READ),
               SetQuota("producer_byte_rate", 1, "eve")], ids=lambda each: type(each).__name__
)  # fmt: skip
def test_a_user_without_rights_learns_so_from_the_preview(broker: twisted_kafka.Broker, action: AddAcl) -> None:
    eve = session_in(broker, "eve")
    for step in (action.preview, action.do):
        with pytest.raises(CommandError) as caught:
            step(eve)
        assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_user_who_only_looks_learns_so_from_the_preview(broker: twisted_kafka.Broker, root: Session) -> None:
    AddAcl(entry("Cluster", "", "viewer", "Describe")).do(root)
    viewer = session_in(broker, "viewer")
    eventually(lambda: acls(viewer, Asked()).total)
    for action in (SetPassword("eve"), AddAcl(ALLOW_READ)):
        with pytest.raises(CommandError) as caught:
            action.preview(viewer)
        assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    DeleteAcl(entry("Cluster", "", "viewer", "Describe")).do(root)
