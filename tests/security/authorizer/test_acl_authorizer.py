"""The AclAuthorizer over a metadata store: what it keeps there, what it follows, and what it answers."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import LogLevel, capturedLogs

from tests.security.authorizer.acl_harness import Brokers, acl, context_of
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metadata.store import BadVersionError, StoreError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.security.authorizer.acl_authorizer import REMEMBERED_AT_ONCE_MAX, REMEMBERED_MAX, REMEMBERED_NAME_MAX
from twisted_kafka.security.authorizer.acl_binding import AclBindingFilter
from twisted_kafka.security.authorizer.acl_store import UPDATES_MAX
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, ResourceType
from twisted_kafka.security.authorizer.interfaces import Action

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


def test_nobody_is_allowed_anything_without_acls(tmp_path: Path) -> None:
    assert not Brokers(tmp_path).allows("t")


def test_everybody_may_use_what_has_no_acls_if_so_configured(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, allow_everyone_if_no_acl_found="TRUE")
    assert brokers.allows("t")
    brokers.create(acl("t", "User:bob"))
    assert not brokers.allows("t")
    assert brokers.allows("u")


def test_super_users_may_do_everything(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, super_users="User:root; User:CN=a,O=b;;Group:ops")
    brokers.create(acl("t", "User:*", AclOperation.ALL, denies=True))
    for principal in ("User:root", "User:CN=a,O=b", "Group:ops"):
        assert brokers.allows("t", WRITE, principal)
    assert not brokers.allows("t", WRITE, "User:ops")


@pytest.mark.parametrize(
    ("settings", "key"), [({"super_users": "root"}, "super.users"), ({"allow_everyone_if_no_acl_found": "yes"}, "allow.everyone")]
)
def test_bad_settings_are_refused_with_their_key(tmp_path: Path, settings: Any, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        Brokers(tmp_path, **settings)


def test_a_denial_goes_before_a_permission(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.create(acl("t"), acl("*", denies=True, host="10.0.0.2"))
    assert brokers.allows("t")
    assert not brokers.allows("t", host="10.0.0.2")


def test_some_operations_allow_describing(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.create(acl("t"), acl("u", operation=AclOperation.ALTER_CONFIGS), acl("v", operation=AclOperation.ALL))
    assert brokers.all_of("tuv", DESCRIBE) == [True, False, True]
    assert brokers.all_of("tuv", AclOperation.DESCRIBE_CONFIGS) == [False, True, True]
    brokers.create(acl("t", operation=DESCRIBE, denies=True))
    assert brokers.all_of("t") == [True]
    assert brokers.all_of("t", DESCRIBE) == [False]


def test_changes_count_at_once(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    assert not brokers.allows("t")
    brokers.create(acl("t"))
    assert brokers.allows("t")
    brokers.authorizer.delete_acls(context_of(), [AclBindingFilter(name="t")])
    assert not brokers.allows("t")


def test_other_brokers_follow_changes(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, 2)
    assert not brokers.allows("abc", broker=1)
    brokers.create(acl("ab", prefixed=True))
    brokers.store.pump()
    assert brokers.allows("abc", broker=1)
    brokers.authorizers[1].delete_acls(context_of(), [AclBindingFilter()])
    brokers.store.pump()
    assert not brokers.allows("abc")


def test_a_change_while_acls_are_loaded_is_not_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(tmp_path, 2)
    brokers.create(acl("t"))
    brokers.store.pump()
    starting = brokers.authorizers[1]
    other = threading.Thread(target=brokers.store.pump)
    get_many = brokers.store.get_many

    def changed_meanwhile(paths: Sequence[str]) -> Any:
        found = get_many(paths)
        monkeypatch.undo()
        brokers.authorizer.delete_acls(context_of(), [AclBindingFilter()])
        other.start()
        other.join(0.1)  # it has to wait until what was read is in the index
        return found

    monkeypatch.setattr(brokers.store, "get_many", changed_meanwhile)
    starting.configure({})
    other.join(30)
    assert not brokers.allows("t", broker=1)
    assert list(starting.acls(AclBindingFilter())) == []


def test_a_closed_authorizer_follows_no_more(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, 2)
    brokers.authorizers[1].close()
    brokers.create(acl("t"))
    brokers.store.pump()
    assert not brokers.allows("t", broker=1)


def test_acls_outlive_the_broker(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.create(acl("t"), acl("a", prefixed=True), acl("g", resource_type=ResourceType.GROUP, denies=True))
    before = set(brokers.authorizer.acls(AclBindingFilter()))
    brokers.store.close()
    again = Brokers(tmp_path)
    assert set(again.authorizer.acls(AclBindingFilter())) == before
    assert again.allows("t")


def test_the_nodes_are_kafkas(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    types = ["Cluster", "DelegationToken", "Group", "Topic", "TransactionalId", "User"]
    assert brokers.store.children("/kafka-acl") == types
    assert brokers.store.children("/kafka-acl-extended/prefixed") == types
    brokers.create(
        acl("t", operation=AclOperation.DESCRIBE_CONFIGS, denies=True),
        acl("orders-", resource_type=ResourceType.GROUP, prefixed=True),
        acl("tx-1", resource_type=ResourceType.TRANSACTIONAL_ID),
    )

    def data(path: str) -> str:
        found = brokers.store.get(path)
        assert found is not None
        return found[0].decode()

    def entry(permission: str, operation: str) -> str:
        return f'{{"principal":"User:alice","permissionType":"{permission}","host":"*","operation":"{operation}"}}'

    assert data("/kafka-acl/Topic/t") == f'{{"acls":[{entry("Deny", "DescribeConfigs")}],"version":1}}'
    assert data("/kafka-acl-extended/prefixed/Group/orders-") == f'{{"acls":[{entry("Allow", "Read")}],"version":1}}'
    changes = {data(f"/kafka-acl-changes/{name}") for name in brokers.store.children("/kafka-acl-changes")}
    assert changes == {"TOPIC:t", "TRANSACTIONAL_ID:tx-1"}
    assert brokers.store.children("/kafka-acl-extended-changes") == ["acl_changes_0000000000"]
    assert json.loads(data("/kafka-acl-extended-changes/acl_changes_0000000000")) == {
        "version": 1,
        "resourceType": "GROUP",
        "name": "orders-",
        "patternType": "PREFIXED",
    }
    brokers.authorizer.delete_acls(context_of(), [AclBindingFilter(name="t")])
    assert brokers.store.get("/kafka-acl/Topic/t") is None


def test_creating_what_exists_changes_nothing(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.create(acl("t"))
    brokers.create(acl("t"))
    assert len(brokers.store.children("/kafka-acl-changes")) == 1


def test_a_binding_is_deleted_for_the_first_filter_that_selects_it(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    one, other, third = acl("t"), acl("t", "User:bob"), acl("u")
    brokers.create(one, other, third)
    filters = [AclBindingFilter(principal="User:bob"), AclBindingFilter(name="t"), AclBindingFilter(name="x")]
    results = brokers.authorizer.delete_acls(context_of(), filters)
    assert [list(each.bindings) for each in results] == [[(other, None)], [(one, None)], []]
    assert list(brokers.authorizer.acls(AclBindingFilter())) == [third]


@pytest.mark.parametrize("name", ["a/b", ".", "..", "a\0"])
def test_a_name_that_cannot_be_a_nodes_is_refused(tmp_path: Path, name: str) -> None:
    brokers = Brokers(tmp_path)
    errors = brokers.authorizer.create_acls(context_of(), [acl(name), acl("t")])
    assert errors[0] is not None
    assert (errors[0].code, errors[1]) == (ErrorCode.INVALID_REQUEST, None)
    assert brokers.allows("t")


def test_a_principal_without_a_type_is_refused(tmp_path: Path) -> None:
    (error,) = Brokers(tmp_path).authorizer.create_acls(context_of(), [acl("t", "alice")])
    assert error is not None
    assert error.code == ErrorCode.INVALID_REQUEST


class Interfered:
    """A store in which another broker writes before each of the first writes."""

    def __init__(self, brokers: Brokers, times: int) -> None:
        self._store: Any = brokers.store
        self.times = times
        self._batch = brokers.store.batch

    def batch(self, groups: Any) -> Any:
        if self.times:
            self.times -= 1
            return [BadVersionError("overtaken")] * len(groups)
        return self._batch(groups)


@pytest.mark.parametrize(("times", "gives_up"), [(UPDATES_MAX - 1, False), (UPDATES_MAX, True)])
def test_a_change_that_comes_too_late_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, gives_up: bool
) -> None:
    brokers = Brokers(tmp_path)
    monkeypatch.setattr(brokers.store, "batch", Interfered(brokers, times).batch)
    (error,) = brokers.authorizer.create_acls(context_of(), [acl("t")])
    assert (error is not None) is gives_up
    assert brokers.allows("t") is not gives_up


def test_acls_of_two_brokers_for_one_resource_are_kept(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, 2)
    brokers.create(acl("t"))
    assert brokers.authorizers[1].create_acls(context_of(), [acl("t", "User:bob")]) == [None]
    brokers.store.pump()
    for broker in (0, 1):
        for principal in ("User:alice", "User:bob"):
            assert brokers.allows("t", principal=principal, broker=broker)


def test_a_node_that_is_broken_refuses_the_start(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.create(acl("t", denies=True))
    brokers.store.set("/kafka-acl/Topic/t", b'{"version":1,"acls":[{"principal":"User:a"}]}')
    with pytest.raises(StoreError, match="/kafka-acl/Topic/t"):
        brokers.authorizer.configure({})


def test_a_node_that_breaks_leaves_the_acls_as_they_were(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.create(acl("t"))
    brokers.store.pump()
    brokers.store.set("/kafka-acl/Topic/t", b"{}")
    brokers.store.create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequence=True)
    brokers.store.create("/kafka-acl-changes/acl_changes_", b"NOTHING:t", sequence=True)
    with capturedLogs() as events:
        brokers.store.pump()
    assert [event["log_level"] for event in events] == [LogLevel.error] * 2
    assert brokers.allows("t")


@pytest.mark.medium
def test_what_is_remembered_is_bounded(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.create(acl("t", prefixed=True))

    def remembers(name: str) -> bool:
        return brokers.authorizer.remembers(context_of(), READ, ResourceType.TOPIC, name)

    many = [f"t{number}" for number in range(REMEMBERED_AT_ONCE_MAX + 1)]
    assert all(brokers.all_of(many))
    assert not any(map(remembers, many))
    longest = "t" * REMEMBERED_NAME_MAX
    assert brokers.all_of([longest, longest + "t"]) == [True, True]
    assert (remembers(longest), remembers(longest + "t")) == (True, False)
    names = [f"t{number}" for number in range(REMEMBERED_MAX + 1)]
    assert all(brokers.allows(name) for name in names)
    assert len(brokers.authorizer._remembered) <= REMEMBERED_MAX
    assert remembers(names[-1])


def test_denials_are_logged_and_permissions_at_debug(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.create(acl("t"))

    def lines() -> list[tuple[Any, str]]:
        with capturedLogs() as events:
            for name in ("t", "u"):
                brokers.allows(name)
            brokers.authorizer.authorize(context_of(), [Action(READ, ResourceType.TOPIC, "w", False)])
        assert {event["log_namespace"] for event in events} == {"kafka.authorizer.logger"}
        return [(event["log_level"], event["log_format"].format(**event)) for event in events]

    denied = (LogLevel.info, "Denied Read on Topic:LITERAL:u to User:alice at 10.0.0.1, asked by Fetch")
    assert lines() == [denied]
    brokers.audits[0].set_level(LogLevel.debug)
    assert lines() == [(LogLevel.debug, "Allowed Read on Topic:LITERAL:t to User:alice at 10.0.0.1, asked by Fetch"), denied]
    brokers.audits[0].set_level(LogLevel.info)
    assert lines() == [denied]


def test_only_permissions_that_still_hold_are_remembered(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, 2)

    def remembers(name: str, principal: str = "User:alice", host: str = "10.0.0.1") -> bool:
        return brokers.authorizer.remembers(context_of(principal, host), READ, ResourceType.TOPIC, name)

    brokers.create(acl("t"))
    assert not remembers("t")
    assert brokers.allows("t")
    assert not brokers.allows("u")
    assert (remembers("t"), remembers("u"), remembers("t", "User:bob"), remembers("t", host="h")) == (True, False, False, False)
    brokers.audits[0].set_level(LogLevel.debug)
    assert not remembers("t")
    brokers.audits[0].set_level(LogLevel.info)
    assert remembers("t")
    brokers.authorizers[1].create_acls(context_of(), [acl("t", denies=True)])
    brokers.store.pump()
    assert not remembers("t")
    assert not brokers.allows("t")


def test_some_resource_of_a_type(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, super_users="User:root")

    def allows(principal: str) -> bool:
        return brokers.authorizer.authorize_by_resource_type(context_of(principal), WRITE, ResourceType.TOPIC)

    assert (allows("User:root"), allows("User:alice")) == (True, False)
    brokers.create(acl("t", operation=WRITE))
    assert allows("User:alice")
    brokers.create(acl("t", operation=WRITE, denies=True))
    assert not allows("User:alice")


def test_acls_are_listed_by_filter(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    literal, prefixed, wildcard = acl("abc"), acl("ab", prefixed=True), acl("*", "User:bob")
    brokers.create(literal, prefixed, wildcard)
    matching = AclBindingFilter(ResourceType.TOPIC, "abc", PatternType.MATCH)
    assert set(brokers.authorizer.acls(matching)) == {literal, prefixed, wildcard}
    assert set(brokers.authorizer.acls(matching._replace(principal="User:bob"))) == {wildcard}
    assert set(brokers.authorizer.acls(AclBindingFilter(name="abc"))) == {literal}


@pytest.mark.medium
def test_what_a_request_is_denied_is_a_small_multiple_of_what_it_asks(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    context = context_of()
    names = [str(number) for number in range(20_000)]
    with capturedLogs() as events:
        for name in names:  # as handlers do that ask for one after the other, some more than once
            brokers.authorizer.authorize(context, [Action(READ, ResourceType.TOPIC, name, True)] * 2)
        brokers.authorizer.authorize(context, [Action(READ, ResourceType.TOPIC, "a\rb, c", True)])
        context.denials.end()
        context.denials.end()
    lines = [event["log_format"].format(**event) for event in events]
    sent_bytes = sum(map(len, names))
    assert sum(map(len, lines)) < 2 * sent_bytes
    assert max(map(len, lines)) < 10_000
    shown = [line.partition("LITERAL:")[2].partition(" to User:")[0] for line in lines]
    assert ", ".join(shown).split(", ", 20_000) == [*names, "'a\\rb, c'"]
