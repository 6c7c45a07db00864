"""Streams groups as a test sees them: states, members, tasks and the topology's topics."""

from collections.abc import Iterator

import pytest

from tests.group_coordinator.streams_members import internal, subtopology, topology
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupHeartbeatRequest
from twisted_kafka.testing import Broker, DescribedStreamsGroup
from twisted_kafka.tools.compare.talk import Talk

MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t", partitions=2)
        yield running


def test_a_streams_group_is_seen(broker: Broker) -> None:
    assert broker.streams_group("g") == DescribedStreamsGroup("Dead", (), frozenset(), frozenset())
    counting = topology(subtopology("0", "t", state_changelog_topics=[internal("g-counts-changelog", cleanup_policy="compact")]))
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id=MEMBER,
        topology=counting,
        process_id="p",
        rebalance_timeout_ms=1_000,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    broker.wait_for(lambda: broker.coordinator_id("g"), lambda seen: seen >= 0, "a coordinator")
    talk = Talk(int(broker.bootstrap_servers.rpartition(":")[2]), "member")

    def beat() -> int:
        answer = talk.ask(request, 1)
        request.member_epoch, request.topology = answer.member_epoch, None
        request.active_tasks = request.standby_tasks = request.warmup_tasks = None
        return len(broker.streams_group("g").members[0].active)

    broker.wait_for(beat, lambda seen: seen == 2, "assigned tasks")
    broker.wait_for_streams_group("g")
    seen = broker.streams_group("g")
    (member,) = seen.members
    assert (member.member_id, member.process_id, member.active) == (MEMBER, "p", (("0", 0), ("0", 1)))
    assert (seen.source_topics, seen.internal_topics) == (frozenset({"t"}), frozenset({"g-counts-changelog"}))
    assert not member.standby
    assert (broker.group_state("g"), broker.groups()) == ("Stable", {"g": "Stable"})
    assert broker.described_group("g").members[0].member_id == MEMBER
    request.member_epoch = -1
    assert not talk.ask(request, 1).error_code
    broker.wait_for_streams_group("g", "Empty")
    with pytest.raises(ValueError, match="no streams group is ever 'Odd'"):
        broker.wait_for_streams_group("g", "Odd")
    with pytest.raises(TimeoutError, match="streams group 'g' Stable"):
        broker.wait_for_streams_group("g", timeout_s=0.01)
    talk.close()
