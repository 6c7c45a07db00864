"""A console's questions to another broker of its cluster: with an authorizer in the user's name, without one as they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console import session_in, write
from tests.support.two_brokers import OFFSETS, PRIVILEGED, TOPIC, TRANSACTIONS, Member, order, port_of
from twisted_kafka.console.actions.offsets import ResetOffsets
from twisted_kafka.console.cluster.problems import CommandError, NotNowError
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.queries.consoles import consoles
from twisted_kafka.console.queries.directories import directories
from twisted_kafka.console.queries.findings import findings
from twisted_kafka.console.queries.groups import group, groups
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.console.queries.records.messages import MessagesAsked, messages
from twisted_kafka.console.queries.records.tail import tail
from twisted_kafka.console.queries.topics.topic import topic
from twisted_kafka.console.queries.topics.topics import topics
from twisted_kafka.console.queries.transactions import transactions
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, PermissionType, ResourceType
from twisted_kafka.timing.clock import SystemClock

pytestmark = pytest.mark.long

LEADERS = {(TOPIC, 0): 1, (TOPIC, 1): 2, (OFFSETS, 0): 2, **{(TRANSACTIONS, index): 1 for index in range(3)}}
GUARD = {"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer", "super_users": "User:ANONYMOUS;User:root"}


@pytest.fixture(scope="module", params=[{}, GUARD], ids=["open", "guarded"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Member, Member]]:
    """Broker 1 leads partition 0; broker 2 leads partition 1 and coordinates all groups."""
    directory: Path = tmp_path_factory.mktemp("pair")
    members = [Member(each, directory / str(each), {PRIVILEGED: "PLAINTEXT"}, **request.param) for each in (1, 2)]
    for member, coordinates in zip(members, (1, 0), strict=True):
        member.start()
        member.prepare(coordinates)
        if request.param:
            allow_alice(member)
    ports = {each.id: port_of(each.broker, PRIVILEGED) for each in members}
    for member in members:
        order(member, LEADERS, ports, PRIVILEGED)
    yield members[0], members[1]
    for member in members:
        member.stop()


def allow_alice(member: Member) -> None:
    creation = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=TOPIC,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=AclOperation.DESCRIBE,
        permission_type=PermissionType.ALLOW,
    )
    assert not session_in(member.broker, "root").ask(CreateAclsRequest(creations=[creation])).results[0].error_code


def test_offsets_sizes_and_records_of_both_brokers(pair: tuple[Member, Member]) -> None:
    root = session_in(pair[0].broker, "root")
    write(root, TOPIC, [Written(b"k", b"here", partition=0), Written(b"k", b"there", partition=1)])
    found = topic(root, TOPIC)
    assert [(each.leader, each.end) for each in found.partitions] == [(1, 1), (2, 1)]
    assert all(each.size_bytes for each in found.partitions)
    assert {each.value.text for each in messages(root, SystemClock(), MessagesAsked(TOPIC)).items} == {"here", "there"}
    assert {each.broker for each in directories(root).items} == {1, 2}


def test_groups_of_the_other_broker(pair: tuple[Member, Member]) -> None:
    root = session_in(pair[0].broker, "root")
    ResetOffsets("billing", (TOPIC,), "earliest").do(root)
    assert [each.group_id for each in groups(root, Asked()).items] == ["billing"]
    assert {each.partition: each.offset for each in group(root, "billing").partitions} == {0: 0, 1: 0}
    assert [each.group_id for each in topic(root, TOPIC).groups] == ["billing"]


def test_the_other_broker_decides_by_the_rights_of_the_user(pair: tuple[Member, Member]) -> None:
    first = pair[0]
    is_guarded = first.broker.config.optional_string("authorizer.class.name")
    alice = session_in(first.broker, "alice")
    assert [each.end is not None for each in topic(alice, TOPIC).partitions] == [True, True]
    if not is_guarded:
        assert messages(alice, SystemClock(), MessagesAsked(TOPIC, (1,))).scanned
        return
    with pytest.raises(CommandError) as caught:
        messages(alice, SystemClock(), MessagesAsked(TOPIC, (1,)))
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert groups(alice, Asked()).items == ()
    with pytest.raises(CommandError) as caught:
        group(alice, "billing")
    assert caught.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_tail_waits_for_the_next_leader_and_loses_nothing(pair: tuple[Member, Member]) -> None:
    asked, ports = MessagesAsked(TOPIC), {each.id: port_of(each.broker, PRIVILEGED) for each in pair}
    root = session_in(pair[0].broker, "root", 0.2)
    begin = tail(root, SystemClock(), asked).cursor
    write(root, TOPIC, [Written(b"k", b"one", partition=0), Written(b"k", b"two", partition=1)])
    order(pair[0], {**LEADERS, (TOPIC, 1): -1}, ports, PRIVILEGED)
    with pytest.raises(NotNowError, match="partition 1"):
        tail(root, SystemClock(), asked, begin)
    order(pair[0], LEADERS, ports, PRIVILEGED)
    part = tail(root, SystemClock(), asked, begin)
    assert sorted(each.value.text for each in part.items) == ["one", "two"]
    assert part.skipped == 0


def test_the_other_brokers_own_console_is_looked_for(pair: tuple[Member, Member]) -> None:
    (found,) = consoles(session_in(pair[0].broker, "root"), 1)
    assert (found.broker, found.why) == (2, "it has none")
    if pair[0].broker.config.optional_string("authorizer.class.name"):
        assert consoles(session_in(pair[0].broker, "alice"), 1)[0].why == "its address is not for you to see"


def test_a_broker_that_does_not_answer_is_named(pair: tuple[Member, Member]) -> None:
    root = session_in(pair[0].broker, "root", 1.0)
    assert [each.group_id for each in groups(root, Asked()).items] == ["billing"]
    pair[1].stop()
    try:
        for page in (groups(root, Asked()), transactions(root, Asked())):
            assert page.items == ()
            assert page.stopped.startswith("because broker 2 does not answer: ")
        assert [str(each)[:25] for each in directories(root).problems] == ["broker 2 does not answer:"]
        found = topic(root, TOPIC)
        assert [each.end is None for each in found.partitions] == [False, True]
        assert found.stopped.startswith("because broker 2 does not answer")
        page_of_messages = messages(root, SystemClock(), MessagesAsked(TOPIC))
        assert {each.partition for each in page_of_messages.items} == {0}
        assert page_of_messages.missing.startswith("broker 2 does not answer")
        assert topics(root, Asked()).stopped.startswith("because broker 2 does not answer")
        assert consoles(root, 1)[0].why == "it does not answer"
        assert any("broker 2 does not answer" in each.text for each in findings(root))
        for ask in (
            lambda: messages(root, SystemClock(), MessagesAsked(TOPIC, (1,))),
            lambda: tail(root, SystemClock(), MessagesAsked(TOPIC)),
        ):
            with pytest.raises(NotNowError, match="broker 2 does not answer"):
                ask()
    finally:
        pair[1].start()
