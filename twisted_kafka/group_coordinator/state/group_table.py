"""A shard's groups by id, their number in each state, and the groups that the next check for expired offsets examines."""

from collections import Counter
from typing import cast

from typing_extensions import override

from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.classic_group_state import ClassicGroupState
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import ConsumerGroupState
from twisted_kafka.group_coordinator.state.group import CLASSIC, CONSUMER, SHARE, STREAMS, Group
from twisted_kafka.group_coordinator.state.share.share_group import ShareGroup, ShareGroupState
from twisted_kafka.group_coordinator.state.streams.streams_group import StreamsGroup, StreamsGroupState


class GroupTable(dict[str, Group]):
    """Groups by id, and by type and id. Only item assignment adds, only ``del`` and ``clear`` remove."""

    def __init__(self, check_interval_ms: int) -> None:
        super().__init__()
        self._check_interval_ms = check_interval_ms
        self.classic_counts: Counter[ClassicGroupState] = Counter()
        self.classic: dict[str, ClassicGroup] = {}
        self.consumer: dict[str, ConsumerGroup] = {}
        self.share: dict[str, ShareGroup] = {}
        self.streams: dict[str, StreamsGroup] = {}
        by_type = {CLASSIC: self.classic, CONSUMER: self.consumer, SHARE: self.share, STREAMS: self.streams}
        self._by_type = cast("dict[str, dict[str, Group]]", by_type)
        self._to_check: dict[str, None] = {}
        self._due: dict[int, dict[str, None]] = {}
        """Ids by when their first offset may have expired, in intervals of the check since the epoch."""

    @override
    def __setitem__(self, group_id: str, group: Group) -> None:
        self._release(group_id)
        super().__setitem__(group_id, group)
        self._by_type[group.type][group_id] = group
        group.count_in(self.classic_counts)
        self._to_check[group_id] = None

    @override
    def __delitem__(self, group_id: str) -> None:
        self._release(group_id)
        super().__delitem__(group_id)

    @override
    def clear(self) -> None:
        """Remove all groups."""
        super().clear()
        self.classic_counts.clear()
        for groups in self._by_type.values():
            groups.clear()
        self._to_check.clear()
        self._due.clear()

    def _release(self, group_id: str) -> None:
        group = self.get(group_id)
        if group is not None:
            group.count_in(None)
            del self._by_type[group.type][group_id]

    def consumer_counts(self) -> Counter[ConsumerGroupState]:
        """Return the number of consumer groups in each state; without the shard's lock it may see a change half done."""
        return Counter(group.peek_state() for group in list(self.consumer.values()))

    def share_counts(self) -> Counter[ShareGroupState]:
        """Return the number of share groups in each state; without the shard's lock it may see a change half done."""
        return Counter(group.peek_state() for group in list(self.share.values()))

    def streams_counts(self) -> Counter[StreamsGroupState]:
        """Return the number of streams groups in each state; without the shard's lock it may see a change half done."""
        return Counter(group.peek_state() for group in list(self.streams.values()))

    # checks for expired offsets

    def check_next(self, group_id: str) -> None:
        """Let the next check examine a group."""
        self._to_check[group_id] = None

    def check_at(self, group_id: str, due_ms: int) -> None:
        """Let no check examine a group before ``due_ms``."""
        self._to_check.pop(group_id, None)
        self._due.setdefault(-(-due_ms // self._check_interval_ms), {})[group_id] = None

    def take_due(self, now_ms: int) -> list[str]:
        """Return the ids of groups that a check at this time has to look at; some may be gone."""
        due, self._to_check = self._to_check, {}
        # An entry's interval is rounded up, and here it is rounded up, too: a check is never late, and may be early.
        for each in sorted(each for each in self._due if each <= -(-now_ms // self._check_interval_ms)):
            due |= self._due.pop(each)
        return list(due)
