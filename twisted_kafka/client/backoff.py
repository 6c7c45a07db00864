"""Delays that grow with each failure. (Kafka: ExponentialBackoff.)"""

from collections.abc import Callable
from typing import Final

MULTIPLIER: Final = 2.0
JITTER: Final = 0.2
"""Random variation of a delay, so that the clients of a failed broker do not all reconnect at once."""

_EXPONENT_MAX: Final = 30


class ExponentialBackoff:
    """``first`` without a failure, twice as much after each, at most ``last``; with a jitter of 20 %."""

    __slots__ = ("_first", "_last", "_random")

    def __init__(self, first: float, last: float, random: Callable[[], float]) -> None:
        """``random`` returns numbers from 0 to 1."""
        self._first = first
        self._last = max(first, last)
        self._random = random

    def delay(self, failures: int) -> float:
        """Return the delay after this many failures in a row, in the unit of ``first``."""
        delay = min(self._first * MULTIPLIER ** min(failures, _EXPONENT_MAX), self._last)
        return delay * (1 - JITTER + 2 * JITTER * self._random())
