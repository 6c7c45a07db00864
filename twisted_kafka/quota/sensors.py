"""The sensors of clients: what each has used, its limit, and how long it has to wait. (Kafka: Sensor, Rate, QuotaUtils.)"""

import math
from typing import Final, NamedTuple

from typing_extensions import override

from twisted_kafka.metrics.sampled import SampledAverage, SampledRate
from twisted_kafka.system import machine

_MAX_MS: Final = (1 << 31) - 1
_THROTTLE_SAMPLES: Final = 2
_THROTTLE_WINDOW_MS: Final = 30_000
"""How the mean of throttle times is sampled: Kafka's defaults for metrics."""

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
        self._lock = machine.Lock()
        self._rate = SampledRate(windows.samples, windows.window_ms)
        self._throttle = SampledAverage(_THROTTLE_SAMPLES, _THROTTLE_WINDOW_MS)

    def change_limit(self, limit: float) -> None:
        """Apply another limit from now on."""
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
        """Return the mean of the throttle times; NaN without any."""
        with self._lock:
            return self._throttle.measure(now_ms)


class RateSensor(Sensor):
    """A rate of bytes, or of thread time in percent."""

    __slots__ = ("_max_ms", "most_at_once")

    def __init__(self, tags: Tags, windows: QuotaWindows, limit: float, now_ms: int, max_throttle_ms: int = _MAX_MS) -> None:
        super().__init__(tags, windows, limit, now_ms)
        self._max_ms = max_throttle_ms
        self.most_at_once = self._most_at_once()
        """The most that a client may use at once: more than this always delays the client."""

    def record(self, value: float, now_ms: int) -> int:
        """Record a use; return how many milliseconds the client has to wait."""
        with self._lock:
            self.last_ms = now_ms
            rate = self._rate
            rate.record(value, now_ms)
            # Most clients are far below their limit: then no sample needs to be looked at.
            return 0 if rate.at_most <= self.most_at_once else self._throttle_ms(now_ms)

    def take_back(self, value: float, now_ms: int) -> None:
        """Take back a recorded value."""
        with self._lock:
            self._rate.record(-value, now_ms)

    @override
    def change_limit(self, limit: float) -> None:
        """Apply another limit from now on."""
        with self._lock:
            self.limit = limit
            self.most_at_once = self._most_at_once()

    def _most_at_once(self) -> float:
        return self.limit * (self._windows.samples - 1) * self._windows.window_ms / 1000

    @override
    def throttle_ms(self, now_ms: int) -> int:
        """Return how long the client has to wait with its present limit."""
        with self._lock:
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
        """Take tokens, even if there are not enough; return how long the client then has to wait."""
        with self._lock:
            self.last_ms = now_ms
            self._rate.record(tokens, now_ms)
            return self._wait_ms(self._bucket.take(tokens, self.limit, now_ms))

    @override
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


class TokenBucket:
    """Tokens that return at a rate, up to the burst: as many as return in all windows (KIP-599; Kafka: TokenBucket).

    The number of tokens may become negative. Not thread-safe.
    """

    __slots__ = ("_burst_s", "_last_ms", "_tokens")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._burst_s = samples * window_ms / 1000
        self._tokens = 0.0
        self._last_ms: int | None = None

    def measure(self, rate: float, now_ms: int) -> float:
        """Return how many tokens there are; infinitely many without a limit."""
        if math.isinf(rate):
            return math.inf
        burst = self._burst_s * rate
        if self._last_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + rate * (now_ms - self._last_ms) / 1000)
        self._last_ms = now_ms
        return self._tokens

    def take(self, tokens: float, rate: float, now_ms: int) -> float:
        """Take tokens, whether they are there or not; return how many are left."""
        left = self.measure(rate, now_ms)
        if not math.isinf(rate):
            self._tokens = left = left - tokens
        return left
