"""The token bucket of controller mutations (KIP-599; Kafka: TokenBucket)."""

import math


class TokenBucket:
    """Tokens that return at a rate, up to the burst, which is the number of tokens that return in all windows.

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
