"""Which member of a group has which partition: at each moment, at most one.

A member of the classic protocol has the partitions that SyncGroup gave it in its generation. A member of the consumer protocol
(KIP-848) or the streams protocol (KIP-1071) has its assigned partitions until it reports that it has less, or leaves, or is silent
for the session timeout, or does not revoke within the rebalance timeout; perhaps as it did not get the answer that says so. In a
streams group they are active tasks: a subtopology and a partition.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from twisted_kafka.protocol.messages.coordinators.consumer_protocol import ConsumerProtocolAssignment
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
from twisted_kafka.world.checking.broken import Broken

MOST_GROUPS: Final = 1000
_CONSUMER: Final = "consumer"
_GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID)

Partitions = frozenset[tuple[Any, int]]


class _Member:
    """A member of the consumer or the streams protocol."""

    def __init__(self) -> None:
        self.holds: Partitions = frozenset()
        self.assigned: Partitions = frozenset()
        self.heard_ns = 0
        self.revoked_ns: int | None = None
        """Since when it has held more than is assigned to it."""
        self.unanswered_ns: int | None = None
        """When the first heartbeat arrived that was not answered, or with an error: it may have to revoke since."""
        self.rebalance_timeout_ms = 300_000

    def accept(self) -> None:
        """Note that the coordinator has taken notice of what the member holds, as an answer without an error says."""
        self.unanswered_ns = None
        if self.holds <= self.assigned:
            self.revoked_ns = None


class Beat(NamedTuple):
    """A heartbeat that has arrived."""

    request: ConsumerGroupHeartbeatRequest | StreamsGroupHeartbeatRequest


class Assignments:
    """The assignments of a world's groups."""

    def __init__(self, report: Callable[[Broken], object], now_ns: Callable[[], int], session_timeout_ms: int = 45_000) -> None:
        self._report = report
        self._now_ns = now_ns
        self._session_ns = session_timeout_ms * 1_000_000
        self._generations: dict[str, tuple[int, dict[str, Partitions]]] = {}
        """The newest generation of each classic group, with the partitions of its members."""
        self._leaders: dict[str, tuple[int, str]] = {}
        """The newest generation of each classic group, with its leader."""
        self._groups: dict[str, dict[str, _Member]] = {}

    def forget(self, group: str) -> None:
        """Forget a group that may be deleted."""
        self._generations.pop(group, None)
        self._leaders.pop(group, None)
        self._groups.pop(group, None)

    # The classic protocol

    def joined(self, request: JoinGroupRequest, response: JoinGroupResponse) -> None:
        """Note the leader of a generation. A group without members and offsets is forgotten, and begins with generation 1 again."""
        if response.error_code != ErrorCode.NONE:
            return
        known, led = self._leaders.get(request.group_id), (response.generation_id, response.leader)
        if known is not None and known[0] >= led[0] and known[1] != led[1]:
            self._generations.pop(request.group_id, None)
        if len(self._leaders) >= MOST_GROUPS:
            del self._leaders[next(iter(self._leaders))]
        self._leaders[request.group_id] = led

    def synced(self, request: SyncGroupRequest, response: SyncGroupResponse) -> None:
        """Note what a member of a generation got."""
        if response.error_code != ErrorCode.NONE or not response.assignment:
            return
        if (response.protocol_type or _CONSUMER) != _CONSUMER:
            return
        group, generation, member = request.group_id, request.generation_id, request.member_id
        known = self._generations.get(group)
        if known is None or generation > known[0]:
            if len(self._generations) >= MOST_GROUPS:
                del self._generations[next(iter(self._generations))]
            known = self._generations[group] = generation, {}
        if generation < known[0]:
            return
        got = _assigned(response.assignment)
        before = known[1].setdefault(member, got)
        if before != got:
            text = f"{member} got {_text(before)} and then {_text(got)}"
            self._report(Broken("shared", f"generation {generation} of group {group}: {text}"))
        for other, others in known[1].items():
            if other != member and got & others:
                text = f"{_text(got & others)} belongs to {other} and to {member}"
                self._report(Broken("shared", f"generation {generation} of group {group}: {text}"))

    # The consumer and the streams protocol

    def beats(self, request: ConsumerGroupHeartbeatRequest | StreamsGroupHeartbeatRequest) -> Beat:
        """Note what a member says about itself."""
        members = self._members(request.group_id)
        if request.member_epoch < 0:
            members.pop(request.member_id, None)
            return Beat(request)
        member = members.setdefault(request.member_id, _Member())
        member.heard_ns = self._now_ns()
        if member.unanswered_ns is None:
            member.unanswered_ns = member.heard_ns
        if request.rebalance_timeout_ms > 0:
            member.rebalance_timeout_ms = request.rebalance_timeout_ms
        held = request.active_tasks if isinstance(request, StreamsGroupHeartbeatRequest) else request.topic_partitions
        if held is not None:
            member.holds = _pairs(held)
        return Beat(request)

    def _members(self, group: str) -> dict[str, _Member]:
        if group not in self._groups and len(self._groups) >= MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        return self._groups.setdefault(group, {})

    def beaten(self, beat: Beat, response: ConsumerGroupHeartbeatResponse | StreamsGroupHeartbeatResponse) -> None:
        """Note what the coordinator answers to a member."""
        group, name = beat.request.group_id, response.member_id or beat.request.member_id
        members = self._members(group)
        if response.error_code in _GONE:
            members.pop(name, None)
            return
        if response.error_code == ErrorCode.NONE and name in members:
            members[name].accept()
        given = _given(response)
        if response.error_code != ErrorCode.NONE or beat.request.member_epoch < 0 or given is None:
            return
        member = members.setdefault(name, _Member())
        got = _pairs(given)
        for other, others in members.items():
            if other != name and got & others.holds and self._must_be_kept(others):
                text = f"{_text(got & others.holds)} is given to {name} while {other} has it"
                self._report(Broken("shared", f"group {group}: {text}"))
        member.assigned = got
        member.holds |= got
        if member.revoked_ns is None and not member.holds <= got:
            member.revoked_ns = self._now_ns()

    def _must_be_kept(self, member: _Member) -> bool:
        """Return whether the coordinator may not yet have given up a member."""
        now_ns, timeout_ns = self._now_ns(), member.rebalance_timeout_ms * 1_000_000
        waits = (since_ns for since_ns in (member.revoked_ns, member.unanswered_ns) if since_ns is not None)
        is_late = any(now_ns - since_ns >= timeout_ns for since_ns in waits)
        return now_ns - member.heard_ns < self._session_ns and not is_late


def _assigned(data: bytes) -> Partitions:
    version = int.from_bytes(data[:2], "big", signed=True)
    assignment = ConsumerProtocolAssignment.decode(data, min(version, ConsumerProtocolAssignment.VERSIONS[1]), 2)
    return frozenset((each.topic, index) for each in assignment.assigned_partitions for index in each.partitions)


def _given(response: ConsumerGroupHeartbeatResponse | StreamsGroupHeartbeatResponse) -> Any:
    if isinstance(response, StreamsGroupHeartbeatResponse):
        return response.active_tasks
    return None if response.assignment is None else response.assignment.topic_partitions


def _pairs(listed: Any) -> Partitions:
    return frozenset((_name_of(each), index) for each in listed for index in each.partitions)


def _name_of(listed: Any) -> str | bytes:
    name: str | bytes = listed.subtopology_id if isinstance(listed, TaskIds) else listed.topic_id
    return name


def _text(partitions: Partitions) -> str:
    names = sorted(f"{topic.hex() if isinstance(topic, bytes) else topic}-{index}" for topic, index in partitions)
    return ", ".join(names[:10]) or "nothing"
