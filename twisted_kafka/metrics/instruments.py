"""Counters, meters, histograms and gauges that any thread may update without waiting for another.

Updates take no lock: a counter has one cell per thread, which only that thread writes; a histogram's values are appended to a list,
one atomic step, and the thread that makes the list long enough folds them into the sums. Nothing is lost or counted twice, with or
without the interpreter lock. Attribute names are those of Kafka's MBeans.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from threading import get_ident

from typing_extensions import override

from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

SAMPLE_SIZE = 1028
"""How many of the latest values a histogram's percentiles are computed from; the size of Kafka's sample."""

FOLD_SIZE = 256
"""A histogram folds its pending values when it has this many."""

TICK_S = 5.0
"""A meter's moving averages are updated in steps of this many seconds."""

PERCENTILES = ((50, 0.5), (75, 0.75), (95, 0.95), (98, 0.98), (99, 0.99), (999, 0.999))
"""Kafka's percentile attributes: the digits in ``99thPercentile``, and the fraction."""


class Counter:
    """An exact count."""

    __slots__ = ("_cells",)

    def __init__(self) -> None:
        self._cells: dict[int, int] = {}

    def inc(self, amount: int = 1) -> None:
        """Add ``amount``."""
        cells = self._cells
        me = get_ident()
        cells[me] = cells.get(me, 0) + amount

    @property
    def count(self) -> int:
        """The sum so far."""
        return sum(list(self._cells.values()))


class Meter(Counter):
    """An exact count with its rates per second: mean, and moving averages over 1, 5 and 15 minutes.

    The averages are updated by ``tick``, which assumes that everything since the last tick came evenly. So the shorter averages are
    only exact if it is called every few seconds (``MetricsRegistry.tick``).
    """

    __slots__ = ("_clock", "_last_count", "_lock", "_rates", "_started_ns", "_ticked_ns")

    def __init__(self, clock: IClock) -> None:
        super().__init__()
        self._clock = clock
        self._lock = machine.Lock()
        self._started_ns = self._ticked_ns = clock.monotonic_ns()
        self._last_count = 0
        self._rates: tuple[float, float, float] | None = None

    def mark(self, amount: int = 1) -> None:
        """Count ``amount`` events."""
        cells = self._cells
        me = get_ident()
        cells[me] = cells.get(me, 0) + amount

    def tick(self) -> None:
        """Update the averages to now."""
        with self._lock:
            ticks = int((self._clock.monotonic_ns() - self._ticked_ns) / 1e9 // TICK_S)
            if ticks <= 0:
                return
            count = self.count
            instant = (count - self._last_count) / (ticks * TICK_S)
            self._last_count = count
            self._ticked_ns += int(ticks * TICK_S * 1e9)
            old = self._rates or (instant, instant, instant)
            one, five, fifteen = (
                instant + (rate - instant) * math.exp(-TICK_S * ticks / 60 / minutes)
                for rate, minutes in zip(old, (1, 5, 15), strict=True)
            )
            self._rates = (one, five, fifteen)

    def mean_rate(self) -> float:
        """Return the rate per second since the meter was made."""
        seconds = (self._clock.monotonic_ns() - self._started_ns) / 1e9
        return self.count / seconds if seconds > 0 else 0.0

    def rates(self) -> tuple[float, float, float]:
        """Update the averages; return the rates per second over 1, 5 and 15 minutes. They are 0 for the first 5 seconds."""
        self.tick()
        return self._rates or (0.0, 0.0, 0.0)

    def one_minute_rate(self) -> float:
        """Update the averages; return the rate per second over the last minute."""
        return self.rates()[0]


class Tally:
    """Exact counts that are updated together, with one lookup for all of them. Each is read as a ``TallyMeter``."""

    __slots__ = ("_cells", "_size")

    def __init__(self, size: int) -> None:
        """``size`` is the number of counts."""
        self._size = size
        self._cells: dict[int, list[int]] = {}

    def cell(self, thread: int) -> list[int]:
        """Return the counts of the calling thread, whose ``machine.get_ident()`` is ``thread``."""
        cell = self._cells.get(thread)
        if cell is None:
            cell = self._cells[thread] = [0] * self._size
        return cell

    def count(self, index: int) -> int:
        """Return the sum so far of the count at ``index``."""
        return sum([cell[index] for cell in list(self._cells.values())])


class TallyMeter(Meter):
    """A meter of one count of a tally."""

    __slots__ = ("_index", "_tally")

    def __init__(self, clock: IClock, tally: Tally, index: int) -> None:
        self._tally = tally
        self._index = index
        super().__init__(clock)

    @override
    def inc(self, amount: int = 1) -> None:
        """Add ``amount``."""
        self._tally.cell(get_ident())[self._index] += amount

    @override
    def mark(self, amount: int = 1) -> None:
        """Count ``amount`` events."""
        self._tally.cell(get_ident())[self._index] += amount

    @property
    @override
    def count(self) -> int:
        """The sum so far."""
        return self._tally.count(self._index)


Summed = tuple[Sequence[float], float, float, float]
"""Some values, at least one; their sum, minimum and maximum."""


class Histogram:
    """Count, sum, minimum and maximum of all values, which are exact, and percentiles of the latest ``SAMPLE_SIZE`` values.

    Values are multiplied by ``unit`` when they are read: with 1e-6, integer nanoseconds go in and milliseconds come out.
    """

    __slots__ = ("_count", "_lock", "_max", "_min", "_pending", "_sample", "_sum", "_unit")

    def __init__(self, unit: float = 1) -> None:
        self._unit = unit
        self._lock = machine.Lock()
        self._pending: list[float] = []
        self._count = 0
        self._sum: float = 0.0
        self._min: float = math.inf
        self._max: float = -math.inf
        self._sample: deque[float] = deque(maxlen=SAMPLE_SIZE)

    def update(self, value: float) -> None:
        """Add a value."""
        pending = self._pending
        pending.append(value)
        if len(pending) >= FOLD_SIZE:
            self._fold()

    def update_many(self, values: Sequence[float]) -> None:
        """Add many values at once, at a fraction of the cost of single updates."""
        if values:
            self.update_summed((values, sum(values), min(values), max(values)))

    def update_summed(self, summed: "Summed") -> None:
        """Add values whose sum, minimum and maximum are known already."""
        with self._lock:
            self._add(summed)

    def _add(self, summed: "Summed") -> None:
        values, total, least, greatest = summed
        self._count += len(values)
        self._sum += total
        if least < self._min:
            self._min = least
        if greatest > self._max:
            self._max = greatest
        self._sample.extend(values)

    def _fold(self) -> None:
        with self._lock:
            pending = self._pending
            size = len(pending)
            if not size:
                return
            values = pending[:size]
            del pending[:size]  # values that other threads have appended since come after these and stay
            self._add((values, sum(values), min(values), max(values)))

    def snapshot(self) -> "HistogramSnapshot":
        """Fold the pending values; return a consistent snapshot."""
        self._fold()
        with self._lock:
            unit = self._unit
            sample = sorted(value * unit for value in self._sample)
            return HistogramSnapshot(self._count, self._sum * unit, self._min * unit, self._max * unit, sample)

    @property
    def count(self) -> int:
        """How many values were added."""
        with self._lock:  # while values are folded, they are in neither
            return self._count + len(self._pending)


class HistogramSnapshot:
    """The state of a histogram at one moment. All figures are 0 if it has no values."""

    __slots__ = ("_sample", "count", "max", "min", "sum")

    def __init__(self, count: int, total: float, least: float, greatest: float, sample: list[float]) -> None:
        self.count = count
        self.sum = total
        self.min = least if count else 0.0
        self.max = greatest if count else 0.0
        self._sample = sample

    @property
    def mean(self) -> float:
        """The mean of all values."""
        return self.sum / self.count if self.count else 0.0

    @property
    def std_dev(self) -> float:
        """The standard deviation of the sample."""
        size = len(self._sample)
        if size < 2:
            return 0.0
        mean = sum(self._sample) / size
        return math.sqrt(sum((value - mean) ** 2 for value in self._sample) / (size - 1))

    def percentile(self, fraction: float) -> float:
        """Return the value that ``fraction`` (0 to 1) of the sample lies below."""
        if not self._sample:
            return 0.0
        position = fraction * (len(self._sample) + 1) - 1
        if position <= 0:
            return self._sample[0]
        index = int(position)
        if index + 1 >= len(self._sample):
            return self._sample[-1]
        low, high = self._sample[index], self._sample[index + 1]
        return low + (position - index) * (high - low)


class Gauge:
    """A value that is computed when it is read."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    @property
    def value(self) -> object:
        """The function's current result."""
        return self._function()


Instrument = Counter | Meter | Histogram | Gauge
