"""Rates and averages over a sliding window of samples, as Kafka's quotas measure them. (Kafka: SampledStat, Rate, Avg.)

Both count what they are told of the last ``samples`` windows of ``window_ms`` milliseconds each. They take no lock: who updates
one from several threads has to.
"""

import math

SAMPLES = 11
"""Windows that are remembered besides the one under way (Kafka's default for quotas, ``quota.window.num``)."""

WINDOW_MS = 1_000
"""The length of one (``quota.window.size.seconds``)."""


class _Sample:
    __slots__ = ("count", "last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0
        self.count = 0


class _SampledStat:
    __slots__ = ("_current", "_ring", "_samples", "_window_ms")

    def __init__(self, samples: int = SAMPLES, window_ms: int = WINDOW_MS) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._ring: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add ``value`` to the window of ``now_ms``; time must not go back."""
        if not self._ring:
            self._ring.append(_Sample(now_ms))
        sample = self._ring[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.count += 1
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._samples + 1)  # one more, for those that overlap the window's begin
        if self._current >= len(self._ring):
            self._ring.append(_Sample(now_ms))
        else:
            self._ring[self._current].reset(now_ms)
        return self._ring[self._current]

    def _purge(self, now_ms: int) -> None:
        for sample in self._ring:
            if now_ms - sample.last_ms >= self._samples * self._window_ms:
                sample.reset(now_ms)

    def _sums(self, now_ms: int) -> tuple[float, int]:
        self._purge(now_ms)
        return sum([sample.value for sample in self._ring]), sum([sample.count for sample in self._ring])


class SampledRate(_SampledStat):
    """What was recorded per second."""

    __slots__ = ()

    def window_size_ms(self, now_ms: int) -> int:
        """Over how many milliseconds the rate is taken: since the oldest sample, but not less than all windows but one."""
        self._purge(now_ms)
        elapsed_ms = now_ms - min([sample.start_ms for sample in self._ring], default=now_ms)
        missing = self._samples - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1)

    def measure(self, now_ms: int) -> float:
        """Return the rate, per second."""
        total, _ = self._sums(now_ms)
        return total * 1000 / self.window_size_ms(now_ms)


class SampledAverage(_SampledStat):
    """The mean of what was recorded; not a number when that is nothing."""

    __slots__ = ()

    def measure(self, now_ms: int) -> float:
        """Return the mean."""
        total, count = self._sums(now_ms)
        return total / count if count else math.nan


class RateQuota:
    """A rate with an upper limit, and how long to wait when it is exceeded. (Kafka: Sensor with a Quota, QuotaUtils.)"""

    __slots__ = ("_max_throttle_ms", "limit", "rate")

    def __init__(self, limit: float, samples: int = SAMPLES, window_ms: int = WINDOW_MS) -> None:
        self.limit = limit
        self.rate = SampledRate(samples, window_ms)
        self._max_throttle_ms = window_ms

    def record(self, now_ms: int, value: float = 1) -> int:
        """Count ``value``; return how many milliseconds to wait for the rate to come down to the limit: one window at most."""
        rate = self.rate
        rate.record(value, now_ms)
        measured = rate.measure(now_ms)
        if measured <= self.limit:
            return 0
        if not self.limit:
            return self._max_throttle_ms
        return min(round((measured - self.limit) / self.limit * rate.window_size_ms(now_ms)), self._max_throttle_ms)

    def unrecord(self, now_ms: int, value: float = 1) -> None:
        """Take back what was counted and did not take place."""
        self.rate.record(-value, now_ms)
