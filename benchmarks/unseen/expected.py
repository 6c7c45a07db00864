"""What a finding about a planted incident must say."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.unseen.world import DAY_S, HOUR_S, MINUTE_S, Client, Day, Group, Producer, Request

_T = TypeVar("_T")


@dataclass(frozen=True)
class Expected:
    """An incident: one finding must have a word of each set, and the time. `source` is where operators describe it."""

    kind: str
    who: tuple[str, ...]
    where: tuple[str, ...]
    first_s: float
    last_s: float
    source: str


class Plan:
    """Draws the targets of incidents, each at most once in a day, and their times."""

    def __init__(self, day: Day, draw: random.Random) -> None:
        self.day = day
        self.draw = draw
        self._used: set[str] = set()

    def _fresh(self, candidates: list[tuple[str, _T]]) -> _T:
        free = [(name, each) for name, each in candidates if name not in self._used]
        if not free:
            raise NoTargetError
        name, each = self.draw.choice(free)
        self._used.add(name)
        return each

    def producer(self, least: int = 1) -> Producer:
        """Return a producer with at least this many processes; the readers of its topic are used with it."""
        found = self._fresh(
            [(each.name, each) for each in self.day.producers if not each.transactional and len(each.clients) >= least]
        )
        self._used.update(found.topics)
        return found

    def transactional(self) -> Producer:
        return self._fresh([(each.name, each) for each in self.day.producers if each.transactional])

    def group(self, least: int = 1) -> Group:
        return self._fresh([(each.name, each) for each in self.day.groups if len(each.clients) >= least])

    def topic(self) -> str:
        return self._fresh([(each, each) for each in self.day.topics])

    def broker(self, least: int = 1) -> int:
        if len(self.day.brokers) < least:
            raise NoTargetError
        return self._fresh([(f"broker {each}", each) for each in self.day.brokers])

    def span(
        self, shortest_minutes: float, longest_minutes: float, first_hour: float = 0.75, last_hour: float = 23.2
    ) -> tuple[float, float]:
        """Return a first and a last second."""
        length = self.draw.uniform(shortest_minutes, longest_minutes) * MINUTE_S
        first = self.draw.uniform(first_hour * HOUR_S, last_hour * HOUR_S - length)
        return first, first + length

    def replace(self, old: Client, new: Client, first: float) -> None:
        """Let another process do the work of ``old`` from a second of the day on; it connects to each broker when it needs it."""
        connected: set[int] = set()

        def moves(request: Request) -> Iterable[Request]:
            if request.node not in connected:
                connected.add(request.node)
                yield from self.day.connect(new, request.node, request.at - 0.02)
            request.client = new
            yield request

        self.day.span(first, DAY_S, lambda each: each.client is old, moves)


class NoTargetError(Exception):
    """The day has nothing left that this incident could befall."""


def names(clients: list[Client]) -> tuple[str, ...]:
    return tuple(each.client_id for each in clients)
