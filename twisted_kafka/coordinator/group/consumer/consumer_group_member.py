"""A member of a consumer group: what it says of itself, and what it owns. Both are values; a change makes a new one."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from twisted_kafka.coordinator.group.classic.classic_group_member import MemberTerms, Protocols
from twisted_kafka.coordinator.group.consumer.consumer_group_state import MemberState
from twisted_kafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without any is not in it. Never changed, so that it can be shared."""

NO_PARTITIONS: Partitions = {}
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The epoch of a static member that went away and is expected back within its session."""


class _TopicPartitions(Protocol):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> list[int]: ...


def partitions_of(listed: Iterable[_TopicPartitions]) -> Partitions:
    """Return the partitions that a message or a record lists; a topic that comes twice counts as one."""
    found: dict[bytes, frozenset[int]] = {}
    for topic in listed:
        if topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return found


class ClassicMetadata(NamedTuple):
    """What a member that speaks the classic protocol brought in its JoinGroup."""

    session_timeout_ms: int
    protocols: Protocols


class Profile(NamedTuple):
    """What a member says of itself (ConsumerGroupMemberMetadataValue)."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None


def classic_profile(instance_id: str | None, subscription: ConsumerProtocolSubscription, terms: MemberTerms) -> Profile:
    """Return what a member that speaks the classic protocol says of itself in its JoinGroup."""
    return Profile(
        instance_id,
        subscription.rack_id,
        terms.client_id,
        terms.client_host,
        frozenset(subscription.topics),
        rebalance_timeout_ms=terms.rebalance_timeout_ms,
        classic=ClassicMetadata(terms.session_timeout_ms, terms.protocols),
    )


class CurrentAssignment(NamedTuple):
    """What a member owns (ConsumerGroupCurrentMemberAssignmentValue)."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member owns all that it shall own in that epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


class ConsumerGroupMember(NamedTuple):
    """A member under its id."""

    member_id: str
    profile: Profile = Profile()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def is_classic(self) -> bool:
        """Whether the member speaks the classic protocol."""
        return self.profile.classic is not None
