"""No partition has two members of a group at a time."""

import pytest

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators import consumer_groups as messages
from twisted_kafka.protocol.messages.coordinators.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from twisted_kafka.protocol.messages.coordinators.groups import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from twisted_kafka.protocol.messages.streams.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from twisted_kafka.world.checking.assignments import Assignments
from twisted_kafka.world.checking.broken import Broken

TOPIC = bytes(range(16))
S = 1_000_000_000


class Bench:
    def __init__(self) -> None:
        self.broken: list[Broken] = []
        self.now_ns = 0
        self.assignments = Assignments(self.broken.append, lambda: self.now_ns)

    def sync(self, member: str, generation: int, *partitions: int, code: int = 0) -> list[str]:
        self.broken.clear()
        topic = ConsumerProtocolAssignmentTopicPartition(topic="orders", partitions=list(partitions))
        assignment = b"\0\1" + ConsumerProtocolAssignment(assigned_partitions=[topic]).encode(1)
        request = SyncGroupRequest(group_id="books", generation_id=generation, member_id=member)
        self.assignments.synced(request, SyncGroupResponse(error_code=code, assignment=assignment))
        return [each.where for each in self.broken]

    def beat(self, member: str, got: list[int] | None, *, has: list[int] | None = None, epoch: int = 1, code: int = 0) -> list[str]:
        self.broken.clear()
        held = [messages.ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=TOPIC, partitions=has or [])]
        beat = self.assignments.beats(
            messages.ConsumerGroupHeartbeatRequest(
                group_id="books",
                member_id=member,
                member_epoch=epoch,
                rebalance_timeout_ms=60_000,
                topic_partitions=None if has is None else held,
            )
        )
        given = [messages.ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC, partitions=got or [])]
        assignment = messages.ConsumerGroupHeartbeatResponseAssignment(topic_partitions=given)
        answer = messages.ConsumerGroupHeartbeatResponse(
            member_id=member, error_code=code, assignment=None if got is None else assignment
        )
        self.assignments.beaten(beat, answer)
        return [each.where for each in self.broken]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_members_of_one_generation_share_nothing(bench: Bench) -> None:
    assert bench.sync("a", 1, 0, 1) == bench.sync("b", 1, 2) == bench.sync("a", 1, 0, 1) == []
    assert bench.sync("c", 1, 1, 3) == ["generation 1 of group books: orders-1 belongs to a and to c"]
    assert bench.sync("c", 2, 0, 1) == []
    assert bench.sync("a", 1, 0, 1) == []  # an answer that is late


def test_a_group_that_was_forgotten_begins_again(bench: Bench) -> None:
    for leader in ("a", "b"):
        response = JoinGroupResponse(generation_id=1, leader=leader, member_id=leader)
        bench.assignments.joined(JoinGroupRequest(group_id="books"), response)
        assert bench.sync(leader, 1, 0) == []
    assert len(bench.sync("c", 1, 0)) == 1


def test_an_assignment_does_not_change_within_a_generation(bench: Bench) -> None:
    assert bench.sync("a", 1, 0) == bench.sync("a", 1, 1, code=ErrorCode.REBALANCE_IN_PROGRESS) == []
    assert bench.sync("a", 1, 1) == ["generation 1 of group books: a got orders-0 and then orders-1"]


def test_a_member_has_what_it_does_not_say_it_has_given_up(bench: Bench) -> None:
    assert bench.beat("a", [0, 1]) == bench.beat("a", [0], has=[0, 1]) == []
    assert len(bench.beat("b", [1])) == 1
    assert bench.beat("a", None, has=[0]) == []
    assert bench.beat("b", [1]) == []


@pytest.mark.parametrize("how", ["leaves", "is silent", "is fenced", "does not revoke in time", "has missed to revoke"])
def test_a_member_that_is_gone_has_nothing(bench: Bench, how: str) -> None:
    bench.beat("a", [0])
    if how == "leaves":
        bench.beat("a", None, epoch=-1)
    elif how == "is silent":
        bench.now_ns = 45 * S
    elif how == "is fenced":
        bench.beat("a", None, code=ErrorCode.FENCED_MEMBER_EPOCH)
    elif how == "has missed to revoke":
        for bench.now_ns in (0, 30 * S):
            bench.beat("a", None, code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        bench.now_ns = 59 * S
        assert len(bench.beat("c", [0])) == 1
        bench.beat("c", [], has=[])
        bench.now_ns = 60 * S
    else:
        bench.beat("a", [])
        bench.now_ns = 60 * S
        bench.beat("a", None)
    assert bench.beat("b", [0]) == []


def test_a_member_has_not_revoked_what_no_coordinator_has_heard_of(bench: Bench) -> None:
    assert bench.beat("a", [0, 1]) == bench.beat("a", [0], has=[0, 1]) == []
    for bench.now_ns in (S, 30 * S):
        assert bench.beat("a", None, has=[0], code=ErrorCode.NOT_COORDINATOR) == []
    bench.now_ns = 60 * S
    assert bench.beat("b", [0]) == [], "the next coordinator knows only that it has to revoke"


def test_an_active_task_of_a_streams_group_has_one_member(bench: Bench) -> None:
    def beat(member: str, given: list[int] | None, has: list[int] | None = None) -> list[str]:
        bench.broken.clear()
        asked = StreamsGroupHeartbeatRequest(group_id="words", member_id=member, member_epoch=1, active_tasks=tasks(has))
        answer = StreamsGroupHeartbeatResponse(member_id=member, active_tasks=tasks(given))
        bench.assignments.beaten(bench.assignments.beats(asked), answer)
        return [each.where for each in bench.broken]

    def tasks(partitions: list[int] | None) -> list[TaskIds] | None:
        return None if partitions is None else [TaskIds(subtopology_id="count", partitions=partitions)]

    assert beat("a", [0, 1]) == beat("a", [0], has=[0, 1]) == []
    assert beat("b", [1]) == ["group words: count-1 is given to b while a has it"]
    assert beat("a", None, has=[0]) == beat("b", [1]) == []
