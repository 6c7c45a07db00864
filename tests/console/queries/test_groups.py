from collections.abc import Callable

import pytest

from tests.support.console import join_classic, join_consumer, leave_classic, make_topic, write
from twisted_kafka.console.actions.offsets import DeleteGroup, ResetOffsets
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.groups import group, groups
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.console.queries.topics.topic import topic as describe_topic
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupHeartbeatRequest


@pytest.fixture
def topic(session: Session, name: Callable[[str], str]) -> str:
    topic = make_topic(session, name("orders"), 2)
    write(session, topic, [Written(None, b"v", partition=number % 2) for number in range(20)])
    return topic


def reset(session: Session, group_id: str, topic: str, to: str) -> None:
    ResetOffsets(group_id, (topic,), to).do(session)


@pytest.mark.medium
def test_a_classic_group_with_its_lag(session: Session, topic: str, name: Callable[[str], str]) -> None:
    reset(session, name("app"), topic, "4")
    member_id = join_classic(session, name("app"), topic, [1])
    found = group(session, name("app"))
    assert (found.kind, found.state, found.assignor, found.lag) == ("classic", "Stable", "range", 12)
    assert [(each.partition, each.offset, each.end, each.lag, each.member_id) for each in found.partitions] == [
        (0, 4, 10, 6, None),
        (1, 4, 10, 6, member_id),
    ]
    (member,) = found.members
    assert (member.client_id, member.host) == ("twisted-kafka-console", "/127.0.0.1")
    (row,) = groups(session, Asked(name("app"))).items
    assert (row.kind, row.state, row.members, row.lag, row.problem) == ("classic", "Stable", 1, 12, "")
    (reader,) = describe_topic(session, topic).groups
    assert (reader.group_id, reader.partitions, reader.lag) == (name("app"), 2, 12)
    with pytest.raises(ValueError, match="with 1 member: stop them first"):
        ResetOffsets(name("app"), to="earliest").preview(session)
    leave_classic(session, name("app"), member_id)


def test_a_consumer_group(session: Session, topic: str, name: Callable[[str], str]) -> None:
    join_consumer(session, name("new"), topic)
    found = group(session, name("new"))
    assert found.kind == "consumer"
    assert found.members[0].target
    assert [each.offset for each in found.partitions] in ([None], [None, None])
    assert found.lag is None
    (row,) = groups(session, Asked(name("new")), kinds=("consumer",)).items
    assert row.members == 1
    assert not groups(session, Asked(name("new")), kinds=("classic", "share")).items


def test_pages_and_states(session: Session, topic: str, name: Callable[[str], str]) -> None:
    for letter in "abc":
        reset(session, name(letter), topic, "latest")
    page = groups(session, Asked(name(""), "-name", page_size=2))
    assert [each.group_id for each in page.items] == [name("c"), name("b")]
    assert (page.total, page.items[0].lag) == (3, 0)
    assert groups(session, Asked(name("")), states=("Empty",)).total == 3
    assert groups(session, Asked(name("")), states=("Stable",)).total == 0
    with pytest.raises(CommandError, match="did you mean"):
        group(session, name("aa"))


def test_offsets_are_set_after_a_preview(session: Session, topic: str, name: Callable[[str], str]) -> None:
    reset(session, name("g"), topic, "6")
    preview = ResetOffsets(name("g"), to="2").preview(session)
    assert preview.rows == ((topic, "0", "6", "2"), (topic, "1", "6", "2"))
    assert preview.warnings == ("8 records will be read again",)
    assert group(session, name("g")).lag == 8
    assert ResetOffsets(name("g"), (f"{topic}:1",), shift=3).preview(session).warnings == ("3 records will not be read",)
    assert ResetOffsets(name("g"), (f"{topic}:1",), shift=3).do(session) == f"set 1 offset of group {name('g')}"
    assert [each.offset for each in group(session, name("g")).partitions] == [6, 9]
    for to, shift in (("", None), ("1", 1)):
        with pytest.raises(ValueError, match="either a position"):
            ResetOffsets(name("g"), to=to, shift=shift)
    assert DeleteGroup(name("g")).preview(session).summary == f"delete group {name('g')} with 2 offsets"
    DeleteGroup(name("g")).do(session)
    with pytest.raises(CommandError):
        group(session, name("g"))
    with pytest.raises(CommandError, match="has no offsets"):
        ResetOffsets(name("g"), to="1").preview(session)


@pytest.mark.medium
def test_a_share_group(session: Session, topic: str, name: Callable[[str], str]) -> None:
    join_consumer(session, name("share"), topic, kind=ShareGroupHeartbeatRequest)
    found = group(session, name("share"))
    assert found.kind == "share"
    assert len(found.members[0].partitions) == 2
    assert groups(session, Asked(name("share")), kinds=("share",)).items[0].kind == "share"
