"""Rates, means and greatest values over the last half minute, of what somebody else counts anyway.

Nothing is recorded where things happen: whoever does something keeps a total, and the registry's tick looks at it every few
seconds. (Kafka: the Rate, Avg and Max of a Sensor, with the default of two samples of 30 seconds.)
"""

import math
from collections import deque
from collections.abc import Callable

from twisted_kafka.metrics.instruments import Gauge
from twisted_kafka.timing.clock import IClock

WINDOW_TICKS = 7
"""What is read is of so many ticks of the registry (5 s each) at most, and of what came since the last."""


class Windowed(Gauge):
    """A gauge that looks at its source now and then."""

    __slots__ = ()

    def tick(self) -> None:
        """Begin a new part of the window."""
        raise NotImplementedError


class WindowedRate(Windowed):
    """How fast a total grows: per second, times ``unit``."""

    __slots__ = ("_now_ns", "_samples", "_total", "_unit")

    def __init__(self, clock: IClock, total: Callable[[], float], unit: float = 1.0) -> None:
        super().__init__(self._measure)
        self._now_ns = clock.monotonic_ns
        self._total = total
        self._unit = unit
        self._samples: deque[tuple[int, float]] = deque(maxlen=WINDOW_TICKS)
        self.tick()

    def tick(self) -> None:
        """Begin a new part of the window."""
        self._samples.append((self._now_ns(), self._total()))

    def _measure(self) -> float:
        since_ns, before = self._samples[0]
        passed_ns = self._now_ns() - since_ns
        return (self._total() - before) * self._unit * 1e9 / passed_ns if passed_ns > 0 else 0.0


class WindowedIdleRatio(WindowedRate):
    """The part of the time in which nothing is done; 0 when several threads are at it all the time."""

    __slots__ = ()

    def __init__(self, clock: IClock, busy_ns: Callable[[], int]) -> None:
        super().__init__(clock, lambda: clock.monotonic_ns() - busy_ns(), 1e-9)

    def _measure(self) -> float:
        return max(super()._measure(), 0.0)


class WindowedMean(Windowed):
    """The mean of what was added to ``total``, ``count`` times; not a number when that is nothing."""

    __slots__ = ("_count", "_samples", "_total")

    def __init__(self, total: Callable[[], float], count: Callable[[], int]) -> None:
        super().__init__(self._measure)
        self._total = total
        self._count = count
        self._samples: deque[tuple[float, int]] = deque(maxlen=WINDOW_TICKS)
        self.tick()

    def tick(self) -> None:
        """Begin a new part of the window."""
        self._samples.append((self._total(), self._count()))

    def _measure(self) -> float:
        total, count = self._samples[0]
        added = self._count() - count
        return (self._total() - total) / added if added else math.nan


class WindowedMax(Windowed):
    """The greatest value; ``take`` returns the greatest since it was last called, 0 for none, which is not a number here."""

    __slots__ = ("_greatest", "_take")

    def __init__(self, take: Callable[[], float]) -> None:
        super().__init__(self._measure)
        self._take = take
        self._greatest: deque[float] = deque((0,), maxlen=WINDOW_TICKS)

    def tick(self) -> None:
        """Begin a new part of the window."""
        self._look()
        self._greatest.append(0)

    def _look(self) -> None:
        self._greatest[-1] = max(self._greatest[-1], self._take())

    def _measure(self) -> float:
        self._look()
        return max(self._greatest) or math.nan
