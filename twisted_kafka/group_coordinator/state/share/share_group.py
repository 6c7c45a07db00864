"""A share group's stored state: in addition to that of a modern group, its share partitions (KIP-932)."""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple

from typing_extensions import override

from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import NO_PARTITIONS, Partitions
from twisted_kafka.group_coordinator.state.group import SHARE, OffsetRetention
from twisted_kafka.group_coordinator.state.modern_group import ModernGroup
from twisted_kafka.group_coordinator.state.share.share_partitions import SharePartitions
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition

INITIAL_EPOCH = 1
"""The epoch of a group that has no record of its own yet; 0 is the epoch of a member that joins."""


class ShareGroupState(Enum):
    """A share group's state; the value is the name shown by ShareGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareProfile(NamedTuple):
    """A member's own description (ShareGroupMemberMetadataValue)."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()


class ShareAssignment(NamedTuple):
    """The partitions of a member (ShareGroupCurrentMemberAssignmentValue)."""

    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = NO_PARTITIONS


class ShareGroupMember(NamedTuple):
    """A member of a share group."""

    member_id: str
    profile: ShareProfile = ShareProfile()
    current: ShareAssignment = ShareAssignment()


class ShareGroup(ModernGroup[ShareGroupMember, Partitions, ShareGroupState]):
    """One share group."""

    type = SHARE
    protocol_type = SHARE

    __slots__ = ("_lacks_some", "metadata_hash", "partitions", "seen")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = self.target_epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        """The hash of the subscribed topics' metadata that the epoch belongs to."""
        self.partitions: SharePartitions | None = None
        """None without a record of them."""
        self.seen: object = None
        """The metadata snapshot that the subscribed topics were last compared with. Not stored."""
        self._lacks_some: bool | None = None
        """What ``lacks_assignment`` returns; None if that has to be computed."""

    # changes, called by replay only

    def put_profile(self, member_id: str, profile: ShareProfile) -> None:
        """Add a member or replace its profile."""
        old = self.members.get(member_id)
        if old is not None:
            self._count_topics(old.profile.topics, -1)
        self.members[member_id] = ShareGroupMember(member_id, profile) if old is None else old._replace(profile=profile)
        self._count_topics(profile.topics, 1)
        self._changed()

    def put_current(self, member_id: str, current: ShareAssignment) -> None:
        """Set a member's assignment; in a compacted log that record may precede the member's profile."""
        if member_id not in self.members:
            self.put_profile(member_id, ShareProfile())
        self.members[member_id] = self.members[member_id]._replace(current=current)

    def forget_current(self, member_id: str) -> None:
        """Clear a member's assignment."""
        if member_id in self.members:
            self.put_current(member_id, ShareAssignment())

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_topics(member.profile.topics, -1)
            self._changed()

    @override
    def put_target(self, member_id: str, target: Partitions | None) -> None:
        super().put_target(member_id, target)
        self._changed()

    def put_partitions(self, partitions: SharePartitions | None) -> None:
        """Set the share partitions."""
        self.partitions = partitions
        self._changed()

    def _changed(self) -> None:
        self._state = None
        self._lacks_some = None

    # queries

    @override
    def _compute_state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def initialized(self) -> Partitions:
        """The partitions that members may be assigned."""
        return NO_PARTITIONS if self.partitions is None else self.partitions.initialized

    def topic_names(self, removed: Iterable[str] = (), added: Iterable[str] = ()) -> set[str]:
        """Return the topics that would be subscribed after a member unsubscribes from some and subscribes to others."""
        counts = self._topic_subscribers.copy()
        counts.subtract(removed)
        counts.update(added)
        return {topic for topic, count in counts.items() if count > 0}

    def lacks_assignment(self) -> bool:
        """Return whether initialized partitions of a subscribed topic are not in the target assignment, or others are."""
        if self._lacks_some is None:
            self._lacks_some = self._lacks_assignment()
        return self._lacks_some

    def _lacks_assignment(self) -> bool:
        if not self.members or self.partitions is None:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in self.target.values():
            for topic_id, indexes in target.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        names = self.partitions.names
        return any(
            assigned.get(topic_id, set()) != set(indexes)
            for topic_id, indexes in self.partitions.initialized.items()
            if names.get(topic_id) in self._topic_subscribers
        )

    # offsets: the group commits none; see Group

    @override
    def is_over(self) -> bool:
        return False

    @override
    def is_subscribed(self, topic: str) -> bool:
        return topic in self._topic_subscribers

    @override
    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    @override
    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, generation: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    @override
    def check_fetch(self, member_id: str, generation: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    @override
    def check_offset_deletion(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    @override
    def offset_retention(self) -> OffsetRetention | None:
        return None
