"""The common state of groups whose partitions the coordinator assigns: members, epochs, targets and subscriptions.

Only the replay of records calls the methods that change it. Counts are updated incrementally, so that no query is quadratic in
the number of members.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable
from enum import Enum
from typing import ClassVar, Generic, TypeVar

from typing_extensions import override

from twisted_kafka.group_coordinator.results import GroupListing
from twisted_kafka.group_coordinator.state.classic_group_state import ClassicGroupState
from twisted_kafka.group_coordinator.state.group import Group

M = TypeVar("M")
T = TypeVar("T")
S = TypeVar("S", bound=Enum)
_Counted = TypeVar("_Counted", bound=Hashable)


class ModernGroup(Group, Generic[M, T, S]):
    """A group with members of type ``M`` and targets of type ``T``; its state ``S`` is derived from its epochs and members."""

    protocol_type: ClassVar[str]
    """The protocol type that ListGroups shows."""

    __slots__ = ("_state", "_topic_subscribers", "assigned_ms", "epoch", "group_id", "members", "target", "target_epoch")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.target_epoch = 0
        self.assigned_ms = 0
        """When the last target assignment was computed, in milliseconds since the epoch; 0 if that is unknown."""
        self.members: dict[str, M] = {}
        self.target: dict[str, T] = {}
        self._topic_subscribers: Counter[str] = Counter()
        self._state: S | None = None

    # changes, called by replay only

    def put_target(self, member_id: str, target: T | None) -> None:
        """Set a member's target assignment; None removes it."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    def put_epochs(self, epoch: int | None = None, target_epoch: int | None = None) -> None:
        """Set the group epoch, the epoch of the target assignment, or both."""
        if epoch is not None:
            self.epoch = epoch
        if target_epoch is not None:
            self.target_epoch = target_epoch
        self._state = None

    def _count_topics(self, topics: Iterable[str], by: int) -> None:
        for topic in topics:
            add(self._topic_subscribers, topic, by)

    # queries

    @property
    def state(self) -> S:
        """The group's state."""
        if self._state is None:
            self._state = self._compute_state()
        return self._state

    def peek_state(self) -> S:
        """Return the state without caching it: for readers without the shard's lock, which may see a change half done."""
        return self._state or self._compute_state()

    @abstractmethod
    def _compute_state(self) -> S:
        """Return the state."""

    @override
    def count_in(self, counts: Counter[ClassicGroupState] | None) -> None:
        """Leave the counts alone: this group's state is derived."""

    @override
    def close(self) -> None:
        """Stop no timers: ``MemberTimers`` has them."""

    @override
    def is_empty(self) -> bool:
        return not self.members

    @override
    def is_over(self) -> bool:
        return not self.members

    @override
    def listing(self) -> GroupListing:
        return GroupListing(self.group_id, self.protocol_type, self.peek_state().value, self.type)


def add(counts: Counter[_Counted], key: _Counted, by: int) -> None:
    """Change a count, and forget the key if that is 0 then."""
    counts[key] += by
    if not counts[key]:
        del counts[key]
