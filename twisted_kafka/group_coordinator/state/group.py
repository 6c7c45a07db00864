"""The interface of all group types: the rules about their offsets, and their listing."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection
from typing import ClassVar, Final, NamedTuple

from twisted_kafka.group_coordinator.results import GroupListing
from twisted_kafka.group_coordinator.state.classic_group_state import ClassicGroupState
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"

MEMBER_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit that members with the consumer group protocol have to use."""


class OffsetRetention(NamedTuple):
    """When a group's offsets expire (Kafka: OffsetExpirationCondition)."""

    since_ms: int | None
    """When the retention began, in milliseconds since the epoch; None if it begins with each offset's commit."""
    is_subscribed: Callable[[str], bool]
    """Returns whether the group still uses the topic, so that its offsets do not expire."""


class Group(ABC):
    """A group of any type."""

    __slots__ = ()

    group_id: str
    type: ClassVar[str]
    """The group's type, as ListGroups shows it."""

    @abstractmethod
    def count_in(self, counts: Counter[ClassicGroupState] | None) -> None:
        """Count the group by its state from now on, if that is no derived state; with None, stop counting it."""

    @abstractmethod
    def close(self) -> object:
        """Stop the group's own timers: it is no longer stored."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether the group has no members, so that an administrator may delete it or its offsets."""

    @property
    def is_described(self) -> bool:
        """Whether a plug-in may have a description of the group's topology."""
        return False

    @abstractmethod
    def is_over(self) -> bool:
        """Return whether the group may be deleted with its last offset: it is empty, and nobody is about to join."""

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic; True if the subscriptions are unknown."""

    @abstractmethod
    def listing(self) -> GroupListing:
        """Return the group for ListGroups."""

    @abstractmethod
    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        """Return NONE if the sender may commit offsets with this version of OffsetCommit; generation -1: it is no member."""

    @abstractmethod
    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, generation: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        """Return NONE if the sender may commit offsets in a transaction."""

    @abstractmethod
    def check_fetch(self, member_id: str, generation: int) -> ErrorCode:
        """Return NONE if the sender may fetch offsets."""

    @abstractmethod
    def check_offset_deletion(self) -> ErrorCode:
        """Return NONE if offsets of topics without subscription may be deleted."""

    @abstractmethod
    def offset_retention(self) -> OffsetRetention | None:
        """Return when offsets expire; None if they do not."""
