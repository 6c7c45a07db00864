"""A classic group's data: members, generation, leader and protocol. The rules of the protocol are in ``classic_protocol``."""

from collections import Counter
from collections.abc import Collection, Iterable

from typing_extensions import override

from twisted_kafka.coordinator.effects import ShardTimer
from twisted_kafka.group_coordinator.results import GroupDescription, GroupListing, JoinedMember, MemberDescription
from twisted_kafka.group_coordinator.state.classic_group_member import ClassicGroupMember, MemberTerms, Protocols
from twisted_kafka.group_coordinator.state.classic_group_state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    STABLE,
    ClassicGroupState,
    may_follow,
)
from twisted_kafka.group_coordinator.state.group import CLASSIC, Group, OffsetRetention
from twisted_kafka.group_coordinator.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import GroupMetadataValue, MemberMetadata
from twisted_kafka.protocol.topic_partition import TopicPartition


def _nothing(_: str) -> bool:
    return False


class ClassicGroup(Group):
    """One classic group; it counts protocols and joins incrementally, so that no query is quadratic in the number of members."""

    type = CLASSIC

    __slots__ = (
        "_counts",
        "_protocol_support",
        "_static_ids",
        "awaiting_joins",
        "generation",
        "group_id",
        "initial_delay",
        "join_timer",
        "leader",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "protocol",
        "protocol_type",
        "state",
        "state_since_ms",
        "subscribed_topics",
        "sync_timer",
    )

    def __init__(self, group_id: str, state: ClassicGroupState = EMPTY, state_since_ms: int | None = None) -> None:
        self.group_id = group_id
        self.state = state
        self._counts: Counter[ClassicGroupState] | None = None
        self.state_since_ms = state_since_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.pending_members: dict[str, ShardTimer] = {}
        self.pending_sync: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None
        self.awaiting_joins = 0
        self.initial_delay = False
        self.new_member_added = False
        self.join_timer: ShardTimer | None = None
        self.sync_timer: ShardTimer | None = None
        self._static_ids: dict[str, str] = {}
        self._protocol_support: Counter[str] = Counter()

    @classmethod
    def from_value(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """Return the group of a stored GroupMetadataValue: Stable if it has members, otherwise Empty."""
        group = cls(group_id, STABLE if value.members else EMPTY)
        if value.current_state_timestamp != -1:
            group.state_since_ms = value.current_state_timestamp
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        for described in value.members:
            protocols: Protocols = ((value.protocol or "", described.subscription),)
            rebalance_ms = described.rebalance_timeout
            terms = MemberTerms(
                described.client_id,
                described.client_host,
                described.session_timeout if rebalance_ms == -1 else rebalance_ms,
                described.session_timeout,
                value.protocol_type,
                protocols,
            )
            member = ClassicGroupMember(described.member_id, described.group_instance_id, terms)
            member.assignment = described.assignment
            group.add(member)
        group.leader = value.leader
        group.subscribed_topics = group._compute_subscribed_topics()
        return group

    def to_value(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """Return the record value of the current generation with ``assignments``."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.terms.client_id,
                    client_host=member.terms.client_host,
                    rebalance_timeout=member.terms.rebalance_timeout_ms,
                    session_timeout=member.terms.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    def move_to(self, state: ClassicGroupState, now_ms: int) -> None:
        """Change the state. Raises RuntimeError for a transition that is not in the table of states."""
        if not may_follow(self.state, state):
            raise RuntimeError(f"Invalid transition of group {self.group_id} from {self.state.value} to {state.value}")
        self._set_state(state)
        self.state_since_ms = now_ms

    @override
    def count_in(self, counts: Counter[ClassicGroupState] | None) -> None:
        """Count the group by its state from now on; with None, stop counting it."""
        if self._counts is not None:
            self._counts[self.state] -= 1
        self._counts = counts
        if counts is not None:
            counts[self.state] += 1

    def _set_state(self, state: ClassicGroupState) -> None:
        counts = self._counts
        if counts is not None:
            counts[self.state] -= 1
            counts[state] += 1
        self.state = state

    # members

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member without parked requests; the first one determines the protocol type and is the leader."""
        if not self.members:
            self.protocol_type = member.terms.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._protocol_support.update({name for name, _ in member.terms.protocols})

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        """Remove a member or a pending member id; return the member. The caller answers its parked requests."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget_support(member)
            member.cancel_timer()
            if member.awaiting_join is not None:
                self.awaiting_joins -= 1
            if member.instance_id is not None:
                self._static_ids.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.drop_pending(member_id)
        self.pending_sync.discard(member_id)
        return member

    def drop_pending(self, member_id: str) -> None:
        """Forget a member id that was given out but not used yet."""
        timer = self.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def use_terms(self, member: ClassicGroupMember, terms: MemberTerms) -> None:
        """Replace a member's timeouts and protocols."""
        self._forget_support(member)
        member.use_terms(terms)
        self._protocol_support.update({name for name, _ in terms.protocols})

    def replace_static(self, instance_id: str, new_member_id: str) -> ClassicGroupMember:
        """Give the static member with ``instance_id`` a new member id; a leader stays the leader."""
        old_member_id = self._static_ids[instance_id]
        member = self.members.pop(old_member_id)
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self._static_ids[instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_sync:
            self.pending_sync.discard(old_member_id)
            self.pending_sync.add(new_member_id)
        return member

    def static_member_id(self, instance_id: str) -> str | None:
        """Return the member id that currently belongs to an instance id."""
        return self._static_ids.get(instance_id)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has taken over the instance id."""
        if instance_id is not None:
            current = self._static_ids.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # generations

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.terms.rebalance_timeout_ms for member in self.members.values()), default=0)

    def all_joined(self) -> bool:
        """Return whether all members have joined and no pending member id is unused."""
        return self.awaiting_joins == len(self.members) and not self.pending_members

    def not_rejoined(self) -> list[ClassicGroupMember]:
        """Return the members that have not joined this rebalance."""
        return [member for member in self.members.values() if member.awaiting_join is None]

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has joined, electing another if necessary; return False if none has joined."""
        leader = self.members.get(self.leader) if self.leader is not None else None
        if leader is not None and leader.awaiting_join is not None:
            return True
        joined = next((member.member_id for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    def next_generation(self, now_ms: int) -> None:
        """Start the next generation: CompletingRebalance with a protocol that all members support, or Empty without members."""
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.move_to(COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol = None
            self.move_to(EMPTY, now_ms)
        self.subscribed_topics = self._compute_subscribed_topics()

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols may join the group."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        everyone = len(self.members)
        return self.protocol_type == protocol_type and any(self._protocol_support[name] == everyone for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with most votes: each member votes for its first protocol that all members support."""
        everyone = len(self.members)
        candidates = {name for name, count in self._protocol_support.items() if count == everyone}
        votes: Counter[str] = Counter()
        for member in self.members.values():
            vote = member.vote(candidates)
            if vote is not None:
                votes[vote] += 1
        if not votes:
            raise RuntimeError(f"The members of group {self.group_id} have no protocol in common")
        return votes.most_common(1)[0][0]

    # offsets; see Group

    @override
    def is_empty(self) -> bool:
        """Return whether the group is Empty."""
        return self.state is EMPTY

    @override
    def is_over(self) -> bool:
        """Return whether the group is Empty, and no member id was given out."""
        return self.state is EMPTY and not self.pending_members

    @override
    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic; True if the subscriptions are unknown."""
        return self.state is not EMPTY and (self.subscribed_topics is None or topic in self.subscribed_topics)

    @override
    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        """Check a member and its generation; without members, anybody without a generation may commit."""
        if generation < 0 and self.state is EMPTY:
            return ErrorCode.NONE  # an administrator, or a consumer with manual assignment
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(member_id, instance_id)
        if error:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is COMPLETING_REBALANCE else ErrorCode.NONE

    @override
    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, generation: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        """Check a member and its generation; a member may finish its transaction during a rebalance."""
        if generation < 0 and self.state is EMPTY:
            return ErrorCode.NONE
        error = self.check_member(member_id, instance_id)
        if not error and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    @override
    def check_fetch(self, member_id: str, generation: int) -> ErrorCode:
        """Return NONE: anybody may fetch."""
        return ErrorCode.NONE

    @override
    def check_offset_deletion(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP for a group with members whose subscriptions are unknown."""
        return ErrorCode.NONE if self.state is EMPTY or self.is_consumer_group() else ErrorCode.NON_EMPTY_GROUP

    @override
    def offset_retention(self) -> OffsetRetention | None:
        """Return the retention of a group without members, which begins when the last one left, or of a stable one's other topics.

        If the group never had members, or its record is by an old broker and has no timestamp, it begins with each commit.
        """
        if self.state is EMPTY:
            return OffsetRetention(None if self.protocol_type is None else self.state_since_ms, _nothing)
        if self.state is STABLE and self.subscribed_topics is not None:
            return OffsetRetention(None, self.subscribed_topics.__contains__)
        return None

    def is_consumer_group(self) -> bool:
        """Return whether the members use the consumer embedded protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    # views

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return the members with their metadata, from which the leader computes the assignment."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol)) for member in self.members.values()
        )

    @override
    def listing(self) -> GroupListing:
        """Return the group for ListGroups."""
        return GroupListing(self.group_id, self.protocol_type or "", self.state.value, CLASSIC)

    def describe(self) -> GroupDescription:
        """Return the group for DescribeGroups; protocol, metadata and assignments only if it is Stable."""
        stable = self.state is STABLE
        return GroupDescription(
            ErrorCode.NONE,
            self.group_id,
            self.state.value,
            self.protocol_type or "",
            (self.protocol or "") if stable else "",
            tuple(
                MemberDescription(
                    member.member_id,
                    member.instance_id,
                    member.terms.client_id,
                    member.terms.client_host,
                    member.metadata(self.protocol) if stable else b"",
                    member.assignment if stable else b"",
                )
                for member in self.members.values()
            ),
        )

    @override
    def close(self) -> Iterable[ClassicGroupMember]:
        """Make the group Dead and stop its timers; return its members, whose parked requests the caller answers."""
        self._set_state(DEAD)
        for timer in (self.join_timer, self.sync_timer, *self.pending_members.values()):
            if timer is not None:
                timer.cancel()
        self.join_timer = self.sync_timer = None
        self.pending_members.clear()
        for member in self.members.values():
            member.cancel_timer()
        return self.members.values()

    def _forget_support(self, member: ClassicGroupMember) -> None:
        for name in {name for name, _ in member.terms.protocols}:
            self._protocol_support[name] -= 1
            if not self._protocol_support[name]:
                del self._protocol_support[name]

    def _compute_subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to, or None if they cannot be determined."""
        if not self.is_consumer_group():
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        try:
            return frozenset().union(*(subscribed_topics(member.metadata(self.protocol)) for member in self.members.values()))
        except (ValueError, KeyError):  # the client uses its own format
            return None
