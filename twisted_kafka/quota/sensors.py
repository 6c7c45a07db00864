"""The sensors of clients: what each has used, its limit, and how long it has to wait. (Kafka: Sensor, Rate, QuotaUtils.)"""

import math
import threading
from typing import Final, NamedTuple

from twisted_kafka.metrics.sampled import SampledAverage, SampledRate
from twisted_kafka.quota.token_bucket import TokenBucket

_MAX_MS: Final = (1 << 31) - 1
_THROTTLE_SAMPLES: Final = 2
_THROTTLE_WINDOW_MS: Final = 30_000
"""How the mean of throttle times is sampled: Kafka's defaults for metrics."""

_SHARES: Final = 16
"""A connection is lent this part of what is left of the limit."""

Tags = tuple[tuple[str, str], ...]


class QuotaWindows(NamedTuple):
    """How use is measured: the number of samples and the length of each (``quota.window.num``, ``quota.window.size.seconds``)."""

    samples: int
    window_ms: int

    @property
    def total_ms(self) -> int:
        """The length of all windows together."""
        return self.samples * self.window_ms


class Sensor:
    """The use of all clients with the same tags. Thread-safe."""

    __slots__ = ("_lock", "_rate", "_throttle", "_windows", "last_ms", "limit", "tags")

    def __init__(self, tags: Tags, windows: QuotaWindows, limit: float, now_ms: int) -> None:
        self.tags = tags
        self.limit = limit
        """Units per second; infinite if there is no quota."""
        self.last_ms = now_ms
        self._windows = windows
        self._lock = threading.Lock()
        self._rate = SampledRate(windows.samples, windows.window_ms)
        self._throttle = SampledAverage(_THROTTLE_SAMPLES, _THROTTLE_WINDOW_MS)

    def change_limit(self, limit: float) -> None:
        """Have another limit apply from now on."""
        with self._lock:
            self.limit = limit

    def throttle_ms(self, now_ms: int) -> int:
        """Return how long the client has to wait with its present limit; 0 if it need not."""
        raise NotImplementedError

    def rate(self, now_ms: int) -> float:
        """Return the use per second."""
        with self._lock:
            return self._rate.measure(now_ms)

    def note_throttle(self, throttle_ms: int, now_ms: int) -> None:
        """Add to the mean of throttle times."""
        with self._lock:
            self._throttle.record(throttle_ms, now_ms)

    def mean_throttle_ms(self, now_ms: int) -> float:
        """Return the mean of the throttle times; NaN if there are none."""
        with self._lock:
            return self._throttle.measure(now_ms)


class Allowance:
    """What one connection may use of a sensor's limit without asking the sensor.

    The sensor lends it, never more in total than would let anybody exceed the limit, and counts what was used of it when its window
    ends, when it is used up, or when somebody asks. The connection's requests record, one at a time; all else is the sensor's.
    """

    __slots__ = ("_is_kept", "_sensor", "counted", "last_ns", "lent", "most", "most_at_once", "until_ns", "used")

    def __init__(self, sensor: "RateSensor", *, is_kept: bool = True) -> None:
        """Without ``is_kept`` it is for one request, which asks the sensor."""
        self._sensor = sensor
        self._is_kept = is_kept
        self.most_at_once = sensor.most_at_once
        self.used = self.counted = self.lent = 0.0
        self.most = -1.0
        """The connection asks the sensor when it has used more, ..."""
        self.until_ns = 0
        """... or at this time."""
        self.last_ns = 0

    def record(self, value: float, now_ns: int) -> int:
        """Record a use; return how many milliseconds the client has to wait."""
        used = self.used + value
        if used <= self.most and now_ns < self.until_ns:
            self.used = used
            self.last_ns = now_ns
            return 0
        return self._sensor.record(value, now_ns // 1_000_000, self if self._is_kept else None)

    def take_back(self, value: float, now_ns: int) -> None:
        """Take back what was recorded."""
        self._sensor.take_back(value, now_ns // 1_000_000)

    def end(self) -> None:
        """Have the sensor count what was used. To be called by the connection's request when the next ones record elsewhere."""
        self._sensor.end(self)


class RateSensor(Sensor):
    """A rate of bytes, or of thread time in percent."""

    __slots__ = ("_allowances", "_least_window_s", "_lent", "_max_ms", "_until_ms", "most_at_once")

    def __init__(self, tags: Tags, windows: QuotaWindows, limit: float, now_ms: int, max_throttle_ms: int = _MAX_MS) -> None:
        super().__init__(tags, windows, limit, now_ms)
        self._max_ms = max_throttle_ms
        self._least_window_s = max((windows.samples - 1) * windows.window_ms, 1) / 1000
        self.most_at_once = self._most_at_once()
        """The most that a client may use at once without having to wait in any case."""
        self._allowances: dict[Allowance, None] = {}
        self._lent = 0.0
        self._until_ms = 0

    def record(self, value: float, now_ms: int, allowance: Allowance | None = None) -> int:
        """Record a use, of what is left of an allowance or beyond it; return how long the client has to wait."""
        with self._lock:
            if allowance is not None:
                self._count(allowance)
            self._record(value, now_ms)
            # Most clients are far below their limit: then no sample needs to be looked at.
            free = self.limit * self._least_window_s - self._rate.at_most - self._lent
            if free < 0:
                self._count_all()
                return self._throttle_ms(now_ms)
            if allowance is not None:
                self._lend(allowance, free / _SHARES)
            return 0

    def take_back(self, value: float, now_ms: int) -> None:
        """Take back what was recorded."""
        with self._lock:
            self._record(-value, now_ms)

    def end(self, allowance: Allowance) -> None:
        """End an allowance."""
        with self._lock:
            self._count(allowance)
            self._allowances.pop(allowance, None)

    def _record(self, value: float, now_ms: int) -> None:
        if now_ms >= self._until_ms:
            self._count_all()  # into the sample in which it was used
        self.last_ms = now_ms
        self._rate.record(value, now_ms)

    def _lend(self, allowance: Allowance, value: float) -> None:
        allowance.used = allowance.counted = 0.0
        if value != math.inf:
            allowance.lent = value
            self._lent += value
        self._until_ms = self._rate.window_end_ms
        allowance.until_ns = self._until_ms * 1_000_000
        self._allowances[allowance] = None
        allowance.most = value

    def _count(self, allowance: Allowance) -> None:
        """End an allowance, and record what was used of it."""
        allowance.most = -1.0
        used = allowance.used
        if used != allowance.counted:
            self.last_ms = max(self.last_ms, allowance.last_ns // 1_000_000)
            self._rate.record(used - allowance.counted, self.last_ms)
            allowance.counted = used
        self._lent -= allowance.lent
        allowance.lent = 0.0

    def _count_all(self) -> None:
        for allowance in self._allowances:
            self._count(allowance)
        self._allowances.clear()
        self._lent = 0.0

    def change_limit(self, limit: float) -> None:
        """Have another limit apply from now on."""
        with self._lock:
            self._count_all()
            self.limit = limit
            self.most_at_once = self._most_at_once()

    def _most_at_once(self) -> float:
        return self.limit * (self._windows.samples - 1) * self._windows.window_ms / 1000

    def rate(self, now_ms: int) -> float:
        """Return the use per second."""
        with self._lock:
            self._count_all()
            return self._rate.measure(now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        """Return how long the client has to wait with its present limit."""
        with self._lock:
            self._count_all()
            return self._throttle_ms(now_ms)

    def _throttle_ms(self, now_ms: int) -> int:
        rate, window_ms = self._rate.measure_with_window(now_ms)
        limit = self.limit
        if rate <= limit:
            return 0
        if limit <= 0:
            return min(self._windows.total_ms, self._max_ms)
        return min(math.floor(min((rate - limit) / limit * window_ms, _MAX_MS) + 0.5), self._max_ms)


class TokenSensor(Sensor):
    """Controller mutations: their rate, and the tokens that are left."""

    __slots__ = ("_bucket",)

    def __init__(self, tags: Tags, windows: QuotaWindows, limit: float, now_ms: int) -> None:
        super().__init__(tags, windows, limit, now_ms)
        self._bucket = TokenBucket(windows.samples, windows.window_ms)

    def take_if_any(self, tokens: float, now_ms: int) -> int:
        """Take tokens unless there are less than none; return how long the client has to wait, 0 if it got them."""
        with self._lock:
            self.last_ms = now_ms
            wait_ms = self._wait_ms(self._bucket.measure(self.limit, now_ms))
            if not wait_ms:
                self._rate.record(tokens, now_ms)
                self._bucket.take(tokens, self.limit, now_ms)
            return wait_ms

    def take(self, tokens: float, now_ms: int) -> int:
        """Take tokens in any case; return how long the client has to wait after that."""
        with self._lock:
            self.last_ms = now_ms
            self._rate.record(tokens, now_ms)
            return self._wait_ms(self._bucket.take(tokens, self.limit, now_ms))

    def throttle_ms(self, now_ms: int) -> int:
        """Return how long the client has to wait with its present limit."""
        with self._lock:
            return self._wait_ms(self._bucket.measure(self.limit, now_ms))

    def _wait_ms(self, tokens: float) -> int:
        if tokens >= 0:
            return 0
        if self.limit <= 0:
            return self._windows.total_ms
        return max(1, math.floor(min(-tokens / self.limit * 1000, _MAX_MS) + 0.5))

    def tokens(self, now_ms: int) -> float:
        """Return how many tokens are left."""
        with self._lock:
            return self._bucket.measure(self.limit, now_ms)
