"""Rates, means and maxima over the last half minute, computed from totals that are kept elsewhere.

Nothing is recorded when an event happens: its source keeps a total, which the registry's tick samples every few seconds.
(Kafka: Rate, Avg and Max of a Sensor, with the default of two samples of 30 seconds.)
"""

import math
from collections import deque
from collections.abc import Callable

from typing_extensions import override

from twisted_kafka.metrics.instruments import Gauge
from twisted_kafka.timing.clock import IClock

WINDOW_TICKS = 7
"""The window covers at most this many ticks of the registry, 5 s each, and the time since the last one."""


class Windowed(Gauge):
    """A gauge that samples its source at each tick."""

    __slots__ = ()

    def tick(self) -> None:
        """Add a sample to the window."""
        raise NotImplementedError


class WindowedRate(Windowed):
    """The growth of a total per second, times ``unit``."""

    __slots__ = ("_now_ns", "_samples", "_total", "_unit")

    def __init__(self, clock: IClock, total: Callable[[], float], unit: float = 1.0) -> None:
        super().__init__(self._measure)
        self._now_ns = clock.monotonic_ns
        self._total = total
        self._unit = unit
        self._samples: deque[tuple[int, float]] = deque(maxlen=WINDOW_TICKS)
        self.tick()

    @override
    def tick(self) -> None:
        """Add a sample to the window."""
        self._samples.append((self._now_ns(), self._total()))

    def _measure(self) -> float:
        since_ns, before = self._samples[0]
        passed_ns = self._now_ns() - since_ns
        return (self._total() - before) * self._unit * 1e9 / passed_ns if passed_ns > 0 else 0.0


class WindowedIdleRatio(WindowedRate):
    """The part of the time that is not busy; 0 if several threads are busy all the time."""

    __slots__ = ()

    def __init__(self, clock: IClock, busy_ns: Callable[[], int]) -> None:
        super().__init__(clock, lambda: clock.monotonic_ns() - busy_ns(), 1e-9)

    @override
    def _measure(self) -> float:
        return max(super()._measure(), 0.0)


class WindowedMean(Windowed):
    """The mean of the values added to ``total``; ``count`` is their number. NaN without values."""

    __slots__ = ("_count", "_samples", "_total")

    def __init__(self, total: Callable[[], float], count: Callable[[], int]) -> None:
        super().__init__(self._measure)
        self._total = total
        self._count = count
        self._samples: deque[tuple[float, int]] = deque(maxlen=WINDOW_TICKS)
        self.tick()

    @override
    def tick(self) -> None:
        """Add a sample to the window."""
        self._samples.append((self._total(), self._count()))

    def _measure(self) -> float:
        total, count = self._samples[0]
        added = self._count() - count
        return (self._total() - total) / added if added else math.nan


class WindowedMax(Windowed):
    """The maximum. ``take`` returns the maximum since it was last called, 0 for no value. Reads NaN without a value."""

    __slots__ = ("_greatest", "_take")

    def __init__(self, take: Callable[[], float]) -> None:
        super().__init__(self._measure)
        self._take = take
        self._greatest: deque[float] = deque((0,), maxlen=WINDOW_TICKS)

    @override
    def tick(self) -> None:
        """Add a sample to the window."""
        self._sample()
        self._greatest.append(0)

    def _sample(self) -> None:
        self._greatest[-1] = max(self._greatest[-1], self._take())

    def _measure(self) -> float:
        self._sample()
        return max(self._greatest) or math.nan
