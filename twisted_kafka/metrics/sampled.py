"""Rates and averages over a sliding window, as Kafka's quotas measure them. (Kafka: SampledStat, Rate, Avg.)

Both cover the last ``samples`` windows of ``window_ms`` milliseconds each. They are not thread-safe: use a lock for updates from
several threads.
"""

import math

SAMPLES = 11
"""How many windows are kept, not counting the current one (Kafka's default of ``quota.window.num``)."""

WINDOW_MS = 1_000
"""The length of a window (``quota.window.size.seconds``)."""


UNLIMITED = (1 << 31) - 1
"""The limit that means no limit (Kafka's default of every rate)."""


class _Sample:
    __slots__ = ("count", "last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0
        self.count = 0


class _SampledStat:
    __slots__ = ("_current", "_ring", "_samples", "_window_ms", "at_most")

    def __init__(self, samples: int = SAMPLES, window_ms: int = WINDOW_MS) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._ring: list[_Sample] = []
        self._current = 0
        self.at_most = 0.0
        """The sum of all samples, expired ones included until they are reset, if no value is negative."""

    def record(self, value: float, now_ms: int) -> None:
        """Add ``value`` to the window of ``now_ms``, which must not decrease between calls."""
        if not self._ring:
            self._ring.append(_Sample(now_ms))
        sample = self._ring[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.count += 1
        sample.last_ms = now_ms
        self.at_most += value

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._samples + 1)  # one more: a sample may overlap the start of the window
        if self._current >= len(self._ring):
            self._ring.append(_Sample(now_ms))
        else:
            self.at_most -= self._ring[self._current].value
            self._ring[self._current].reset(now_ms)
        return self._ring[self._current]

    def _sums(self, now_ms: int) -> tuple[float, int, int]:
        """Return sum and number of the recorded values and the start of the oldest sample. Resets samples that have expired."""
        expired_ms = now_ms - self._samples * self._window_ms
        total, count, oldest_ms = 0.0, 0, now_ms
        for sample in self._ring:
            if sample.last_ms <= expired_ms:
                self.at_most -= sample.value
                sample.reset(now_ms)
            else:
                total += sample.value
                count += sample.count
                if sample.start_ms < oldest_ms:
                    oldest_ms = sample.start_ms
        return total, count, oldest_ms


class SampledRate(_SampledStat):
    """The recorded total per second."""

    __slots__ = ()

    def measure(self, now_ms: int) -> float:
        """Return the rate, per second."""
        return self.measure_with_window(now_ms)[0]

    def measure_with_window(self, now_ms: int) -> tuple[float, int]:
        """Return the rate, and the milliseconds that it covers: since the oldest sample, but at least all windows except one."""
        total, _, oldest_ms = self._sums(now_ms)
        window_ms = now_ms - oldest_ms
        missing = self._samples - 1 - window_ms // self._window_ms
        if missing > 0:
            window_ms += missing * self._window_ms
        window_ms = max(window_ms, 1)
        return total * 1000 / window_ms, window_ms


class SampledAverage(_SampledStat):
    """The mean of the recorded values; NaN without values."""

    __slots__ = ()

    def measure(self, now_ms: int) -> float:
        """Return the mean."""
        total, count, _ = self._sums(now_ms)
        return total / count if count else math.nan


class RateQuota:
    """A rate with an upper limit, and the throttle time if it is exceeded. (Kafka: Sensor with a Quota, QuotaUtils.)"""

    __slots__ = ("_max_throttle_ms", "limit", "rate")

    def __init__(self, limit: float, samples: int = SAMPLES, window_ms: int = WINDOW_MS) -> None:
        self.limit = limit
        self.rate = SampledRate(samples, window_ms)
        self._max_throttle_ms = window_ms

    def record(self, now_ms: int, value: float = 1) -> int:
        """Record ``value``; return the milliseconds until the rate falls to the limit, at most one window."""
        rate, limit = self.rate, self.limit
        rate.record(value, now_ms)
        if limit >= UNLIMITED:
            return 0
        measured, window_ms = rate.measure_with_window(now_ms)
        if measured <= limit:
            return 0
        if not limit:
            return self._max_throttle_ms
        return min(round((measured - limit) / limit * window_ms), self._max_throttle_ms)

    def unrecord(self, now_ms: int, value: float = 1) -> None:
        """Undo ``record`` for an event that was refused."""
        self.rate.record(-value, now_ms)
