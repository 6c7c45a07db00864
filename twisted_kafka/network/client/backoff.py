"""Pauses that grow with each failure. (Kafka: ExponentialBackoff.)"""

from collections.abc import Callable
from typing import Final

MULTIPLIER: Final = 2.0
JITTER: Final = 0.2
"""A pause is so much shorter or longer, as chance will have it: so that not all who lost a broker return at once."""

_EXPONENT_MAX: Final = 30


class ExponentialBackoff:
    """``first`` after no failure, twice as much after each, ``last`` at most; 20 % more or less."""

    __slots__ = ("_first", "_last", "_random")

    def __init__(self, first: float, last: float, random: Callable[[], float]) -> None:
        """``random`` gives numbers from 0 to 1."""
        self._first = first
        self._last = max(first, last)
        self._random = random

    def pause(self, failures: int) -> float:
        """Return how long after so many failures in a row, in the unit of ``first``."""
        pause = min(self._first * MULTIPLIER ** min(failures, _EXPONENT_MAX), self._last)
        return pause * (1 - JITTER + 2 * JITTER * self._random())
