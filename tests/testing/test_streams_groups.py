"""Streams groups as a test sees them: states, members, tasks and the topology's topics."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.group_coordinator.streams_members import internal, subtopology, topology
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupHeartbeatRequest, TaskIds
from twisted_kafka.testing import Broker, Cluster, DescribedStreamsGroup
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


NOTHING: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


def told(cluster: Cluster, member_id: str, **fields: Any) -> Any:
    """Return the coordinator's answer to a heartbeat; wait while there is no coordinator."""
    answers: list[Any] = []

    def ask() -> int:
        talk = Talk(int(cluster[cluster.coordinator_id("g")].bootstrap_servers.rpartition(":")[2]), member_id)
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member_id, process_id=member_id, **{**NOTHING, **fields})
        answers.append(talk.ask(request, 1))
        talk.close()
        return int(answers[-1].error_code)

    cluster.wait_for(ask, lambda error: not error, "an answer without an error")
    return answers[-1]


@pytest.mark.slow
def test_another_broker_takes_a_streams_group_over() -> None:
    writer = subtopology(
        "0", "t", repartition_sink_topics=["g-words"], state_changelog_topics=[internal("g-counts", cleanup_policy="compact")]
    )
    reader = subtopology("1", repartition_source_topics=[internal("g-words", 2)])
    joins = {"topology": topology(writer, reader), "rebalance_timeout_ms": 60_000}
    with Cluster(3) as cluster:
        cluster.create_topic("t", 4, replication_factor=3)
        cluster.wait_for(lambda: cluster.coordinator_id("g"), lambda seen: seen >= 0, "a coordinator")
        epoch: int = told(cluster, "m", **joins).member_epoch
        held: list[TaskIds] = []

        def beat() -> int:
            nonlocal epoch, held
            answer = told(cluster, "m", member_epoch=epoch, active_tasks=held)
            epoch, held = answer.member_epoch, held if answer.active_tasks is None else answer.active_tasks
            return sum(len(each.partitions) for each in held)

        cluster.wait_for(beat, lambda seen: seen == 6, "tasks of both subtopologies")
        before, topics, old = cluster.streams_group("g"), cluster.topics(), cluster.coordinator_id("g")
        assert topics == ["g-counts", "g-words", "t"]
        cluster.kill(old)
        cluster.wait_for(lambda: cluster.coordinator_id("g"), lambda seen: seen not in (old, -1), "another coordinator")
        kept = told(cluster, "m", member_epoch=epoch, active_tasks=held)
        assert (kept.member_epoch, kept.active_tasks, kept.status) == (epoch, None, [])
        assert (cluster.streams_group("g"), cluster.topics()) == (before, topics)
        told(cluster, "n", **joins)
        cluster.wait_for(beat, lambda seen: seen == 3, "tasks for the second member")
        beat()  # tells that the others are revoked
        assert epoch > kept.member_epoch
