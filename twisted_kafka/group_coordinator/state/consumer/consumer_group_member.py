"""A member of a consumer group with its profile and its current assignment, all immutable."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from twisted_kafka.group_coordinator.state.classic_group_member import MemberTerms, Protocols
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import MemberState
from twisted_kafka.protocol.messages.coordinators.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupTargetAssignmentMemberValueTopicPartition,
)
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupHeartbeatRequestTopicPartitions
from twisted_kafka.protocol.messages.coordinators.consumer_protocol import ConsumerProtocolSubscription

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; topics without partitions are not included. Never changed, so it can be shared."""

NO_PARTITIONS: Partitions = {}
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The epoch of a static member that has left and is expected to return within its session timeout."""


_TopicPartitions = (
    ConsumerGroupHeartbeatRequestTopicPartitions
    | ConsumerGroupCurrentMemberAssignmentValueTopicPartitions
    | ConsumerGroupTargetAssignmentMemberValueTopicPartition
)


def partitions_of(listed: Iterable[_TopicPartitions]) -> Partitions:
    """Return the partitions listed in a message or record; entries of the same topic are merged."""
    found: dict[bytes, frozenset[int]] = {}
    for topic in listed:
        if topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return found


class ClassicMetadata(NamedTuple):
    """The data of a JoinGroup, which only members with the classic protocol have."""

    session_timeout_ms: int
    protocols: Protocols


class Profile(NamedTuple):
    """A member's own description (ConsumerGroupMemberMetadataValue)."""

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
    """Return the profile of a member that uses the classic protocol, from its JoinGroup."""
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
    """The partitions that a member owns (ConsumerGroupCurrentMemberAssignmentValue)."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has reached its target assignment of the epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


class ConsumerGroupMember(NamedTuple):
    """A member of a consumer group."""

    member_id: str
    profile: Profile = Profile()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.profile.classic is not None
