"""How much work a query may do: records, bytes and time. A query says which of them ended it."""

from dataclasses import dataclass
from typing import Final

from twisted_kafka.timing.clock import IClock

MOST_SCANNED: Final = 10_000
"""Most records that one query reads."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of records that one query reads."""
MOST_S: Final = 5.0
"""The longest time of one query that reads records, in seconds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one query."""

    records: int = MOST_SCANNED
    size_bytes: int = MOST_BYTES
    seconds: float = MOST_S


DEFAULT: Final = Bounds()


class Budget:
    """What is left of the limits."""

    def __init__(self, bounds: Bounds, clock: IClock) -> None:
        self._bounds = bounds
        self._clock = clock
        self._end_ns = clock.monotonic_ns() + int(bounds.seconds * 1e9)
        self.records = 0
        """Records that were read."""
        self.size_bytes = 0
        """Their size."""

    def spend(self, size_bytes: int) -> None:
        """Count a record."""
        self.records += 1
        self.size_bytes += size_bytes

    @property
    def left_records(self) -> int:
        """How many records may still be read, 0 if none."""
        return max(0, self._bounds.records - self.records)

    def allow_bytes_again(self) -> None:
        """Forget the bytes that were read in vain."""
        self.size_bytes = 0

    @property
    def is_time_over(self) -> bool:
        """Whether the query has taken its time."""
        return self._clock.monotonic_ns() >= self._end_ns

    @property
    def stopped(self) -> str:
        """Why the query has to end, empty if it may go on."""
        if self.records >= self._bounds.records:
            return f"after {self._bounds.records:,} records"
        if self.size_bytes >= self._bounds.size_bytes:
            return f"after {self._bounds.size_bytes / 1e6:,.0f} MB"
        if self.is_time_over:
            return f"after {self._bounds.seconds:g} s"
        return ""
