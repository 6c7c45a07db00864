"""The clock that everything is given, so that a test can hold time still and move it."""

import time

from zope.interface import Interface, implementer


class IClock(Interface):
    """What time it is."""

    def wall_ms() -> int:
        """Milliseconds since the epoch: timestamps of records and files."""

    def monotonic_ns() -> int:
        """Nanoseconds of a clock that never goes back: durations and deadlines."""


@implementer(IClock)
class SystemClock:
    """The machine's clock."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)


@implementer(IClock)
class ManualClock:
    """A clock that moves only when told, both of its times together."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ns = wall_ms * 1_000_000
        self._monotonic_ns = 1_000_000_000

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._wall_ns // 1_000_000

    def monotonic_ns(self) -> int:
        """Nanoseconds since some moment."""
        return self._monotonic_ns

    def advance_ms(self, ms: float) -> None:
        """Let ``ms`` milliseconds pass."""
        passed = int(ms * 1_000_000)
        self._wall_ns += passed
        self._monotonic_ns += passed
