"""The lag of groups over time, as far as somebody has looked: each look adds a point."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from twisted_kafka.console.queries.groups import GroupDetail
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MOST_GROUPS: Final = 20
"""Most groups with a history; the one that was looked at longest ago is dropped."""
MOST_POINTS: Final = 720
"""Most points of a group: an hour, at one each five seconds."""
STEP_MS: Final = 5_000
"""A look within this time of the last point adds none."""
MOST_PARTITIONS: Final = 10
"""Partitions with a line of their own: those with the largest lag at the first look."""


@dataclass(frozen=True, slots=True)
class LagPoint:
    """The lag of a group at one moment."""

    at_ms: int
    """Since the epoch."""
    lag: int | None
    by_partition: tuple[int | None, ...]
    """In the order of ``Lags.partitions``."""


@dataclass(frozen=True, slots=True)
class Lags:
    """The lag of a group over time."""

    partitions: tuple[TopicPartition, ...]
    points: tuple[LagPoint, ...]
    """The oldest first."""


class LagHistory:
    """Points by group. Twenty groups of 720 points with ten partitions take up some 8 MB."""

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._lock = machine.Lock()
        self._groups: OrderedDict[str, tuple[tuple[TopicPartition, ...], list[LagPoint]]] = OrderedDict()

    def note(self, group: GroupDetail) -> Lags:
        """Add a point for a group that somebody looks at; return its points."""
        now_ms = self._clock.wall_ms()
        lags = {TopicPartition(each.topic, each.partition): each.lag for each in group.partitions if each.lag is not None}
        with self._lock:
            if group.group_id not in self._groups:
                largest = sorted(lags, key=lambda each: (-lags[each], each))[:MOST_PARTITIONS]
                self._groups[group.group_id] = tuple(largest), []
            partitions, points = self._groups[group.group_id]
            self._groups.move_to_end(group.group_id)
            if not points or now_ms - points[-1].at_ms >= STEP_MS:
                points.append(LagPoint(now_ms, group.lag, tuple(lags.get(each) for each in partitions)))
                del points[:-MOST_POINTS]
            while len(self._groups) > MOST_GROUPS:
                self._groups.popitem(last=False)
            return Lags(partitions, tuple(points))
