"""Decisions of the index, compared with reading all entries one after the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security.authorizer.acl_harness import acl
from twisted_kafka.security.authorizer.acl_binding import AclBinding, AclBindingFilter, ResourcePattern
from twisted_kafka.security.authorizer.acl_index import AclIndex
from twisted_kafka.security.authorizer.acl_types import (
    IMPLYING,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)

NAMES = ("a", "ab", "abc", "b", "*")
PRINCIPALS = ("User:alice", "User:bob", "User:*")
HOSTS = ("h1", "h2", "*", "10.0.0.0/8", "10.1.0.0/16", "fd00::/8")
ADDRESSES = {"10.0.0.0/8": ("10.1.2.3", "10.9.9.9"), "10.1.0.0/16": ("10.1.2.3",), "fd00::/8": ("fd00::1",)}
"""The addresses in a network."""
OPERATIONS = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALL)

bindings = st.lists(
    st.builds(
        acl,
        st.sampled_from(NAMES),
        st.sampled_from(PRINCIPALS),
        st.sampled_from(OPERATIONS),
        denies=st.booleans(),
        host=st.sampled_from(HOSTS),
        prefixed=st.booleans(),
    ),
    max_size=8,
)
asked_names = st.sampled_from(("a", "ab", "abcd", "b", "z"))
asked = st.tuples(
    st.sampled_from(("User:alice", "User:bob", "User:carol")),
    st.sampled_from(("h1", "h2", "h3", "10.1.2.3", "10.9.9.9", "fd00::1")),
    st.sampled_from(OPERATIONS[:-1]),
)


def index_of(all_bindings: list[AclBinding]) -> AclIndex:
    index = AclIndex()
    for binding in all_bindings:
        index.replace(binding.pattern, index.entries(binding.pattern) | {binding.entry})
    return index


def covers(pattern: ResourcePattern, name: str) -> bool:
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, "*")


def is_about(binding: AclBinding, principal: str, host: str) -> bool:
    return binding.entry.principal in (principal, "User:*") and (
        binding.entry.host in (host, "*") or host in ADDRESSES.get(binding.entry.host, ())
    )


def decided(all_bindings: list[AclBinding], principal: str, host: str, operation: AclOperation, name: str) -> bool | None:
    about = [each for each in all_bindings if covers(each.pattern, name)]
    if not about:
        return None
    entries = [each.entry for each in about if is_about(each, principal, host)]
    if any(each.permission_type is PermissionType.DENY and each.operation in (operation, AclOperation.ALL) for each in entries):
        return False
    return any(each.permission_type is PermissionType.ALLOW and each.operation in IMPLYING[operation] for each in entries)


@given(bindings, asked, asked_names)
def test_decisions_are_those_of_all_entries(all_bindings: list[AclBinding], who: tuple[str, str, AclOperation], name: str) -> None:
    principal, host, operation = who
    expected = decided(all_bindings, principal, host, operation, name)
    assert index_of(all_bindings).decide(principal, host, operation, ResourceType.TOPIC, name) is expected


@given(bindings, bindings, asked, asked_names)
def test_what_was_removed_decides_nothing(
    kept: list[AclBinding], removed: list[AclBinding], who: tuple[str, str, AclOperation], name: str
) -> None:
    index = index_of([*removed, *kept])
    for binding in removed:
        if binding not in kept:
            index.replace(binding.pattern, index.entries(binding.pattern) - {binding.entry})
    principal, host, operation = who
    assert index.decide(principal, host, operation, ResourceType.TOPIC, name) is decided(kept, principal, host, operation, name)
    for others in (True, False):
        by_type = index.decide_by_type(principal, host, operation, ResourceType.TOPIC, allows_others=others)
        fresh = index_of(kept).decide_by_type(principal, host, operation, ResourceType.TOPIC, allows_others=others)
        assert by_type is fresh
    assert dict(index.patterns()) == dict(index_of(kept).patterns())


def by_type(*all_bindings: AclBinding, allows_others: bool = False) -> bool:
    index = index_of(list(all_bindings))
    return index.decide_by_type("User:alice", "h1", AclOperation.READ, ResourceType.TOPIC, allows_others=allows_others)


def test_some_resource_is_allowed_unless_all_that_are_allowed_are_denied() -> None:
    assert not by_type()
    assert by_type(acl("a"))
    assert not by_type(acl("a"), acl("a", denies=True))
    assert by_type(acl("a"), acl("b", denies=True))
    assert not by_type(acl("abc"), acl("ab", denies=True, prefixed=True))
    assert not by_type(acl("abc", prefixed=True), acl("ab", denies=True, prefixed=True))
    assert by_type(acl("ab", prefixed=True), acl("abc", denies=True, prefixed=True))
    assert by_type(acl("ab", prefixed=True), acl("ab", denies=True))
    assert by_type(acl("*"), acl("a", denies=True, prefixed=True))
    assert not by_type(acl("*"), acl("*", denies=True))
    assert not by_type(acl("a", "User:bob"))
    assert by_type(acl("a", "User:*"))
    assert not by_type(acl("a", host="h2"))
    assert by_type(acl("a", operation=AclOperation.ALL))


def test_some_resource_is_allowed_where_others_are_unless_all_are_denied() -> None:
    assert by_type(allows_others=True)
    assert by_type(acl("a", denies=True), allows_others=True)
    assert not by_type(acl("*", denies=True), allows_others=True)


@pytest.mark.parametrize(
    ("written", "address", "is_same"),
    [
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("2001:DB8::1", "2001:db8::1", True),
        ("::2", "::1", False),
        ("host.example", "10.0.0.1", False),
        ("10.0.0.0/8", "10.255.255.255", True),
        ("10.7.7.7/8", "10.0.0.0", True),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("0.0.0.0/0", "::1", False),
        ("::/0", "1.2.3.4", False),
        ("10.0.0.1/32", "10.0.0.1", True),
        ("FD00::/8", "fd00:0:0:0:0:0:0:1", True),
        ("10.0.0.0/33", "10.0.0.1", False),
        ("10.0.0.0/255.0.0.0", "10.0.0.1", False),
        ("a/b/c", "a/b/c", True),
    ],
)
def test_addresses_are_the_same_however_they_are_written(written: str, address: str, is_same: bool) -> None:
    index = index_of([acl("a", "User:*", host=written)])
    asked = "User:alice", address, AclOperation.READ, ResourceType.TOPIC
    assert index.decide(*asked, "a") is is_same
    assert index.decide_by_type(*asked, allows_others=False) is is_same


def test_of_two_ways_to_write_a_host_one_can_go() -> None:
    one, other = acl("*", host="::1", denies=True), acl("*", host="0:0:0:0:0:0:0:1", denies=True)
    index = index_of([one, other, acl("a")])
    asked = "User:alice", "::1", AclOperation.READ, ResourceType.TOPIC
    index.replace(one.pattern, frozenset({one.entry}))
    assert index.entries(one.pattern) == {one.entry}
    assert not index.decide(*asked, "a")
    assert not index.decide_by_type(*asked, allows_others=True)


def test_a_filter_selects_by_each_field() -> None:
    one = acl("ab", prefixed=True)
    pattern = one.pattern
    assert AclBindingFilter().matches_pattern(pattern)
    assert AclBindingFilter(name="ab").matches_pattern(pattern)
    assert not AclBindingFilter(name="abc").matches_pattern(pattern)
    assert AclBindingFilter(name="abc", pattern_type=PatternType.MATCH).matches_pattern(pattern)
    assert not AclBindingFilter(name="a", pattern_type=PatternType.MATCH).matches_pattern(pattern)
    assert AclBindingFilter(name="abc", pattern_type=PatternType.MATCH).matches_pattern(acl("*").pattern)
    assert AclBindingFilter(name="abc", pattern_type=PatternType.MATCH).matches_pattern(acl("abc").pattern)
    assert not AclBindingFilter(name="abc", pattern_type=PatternType.MATCH).matches_pattern(acl("ab").pattern)
    assert not AclBindingFilter(name="abc", pattern_type=PatternType.LITERAL).matches_pattern(acl("*").pattern)
    assert not AclBindingFilter(pattern_type=PatternType.LITERAL).matches_pattern(pattern)
    assert not AclBindingFilter(resource_type=ResourceType.GROUP).matches_pattern(pattern)
    assert AclBindingFilter(principal="User:alice", host="*", operation=AclOperation.READ).matches_entry(one.entry)
    assert not AclBindingFilter(principal="User:bob").matches_entry(one.entry)
    assert not AclBindingFilter(host="h1").matches_entry(one.entry)
    assert not AclBindingFilter(operation=AclOperation.ALL).matches_entry(one.entry)
    assert not AclBindingFilter(permission_type=PermissionType.DENY).matches_entry(one.entry)
