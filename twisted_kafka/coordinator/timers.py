"""Timers of a shard, on the coordinator's timer."""

from collections.abc import Callable

from twisted_kafka.timing.timer import Timer, TimerEntry


class ShardTimer:
    """A timer that has been set; it may be cancelled even when it has expired and waits for the shard's lock."""

    __slots__ = ("action", "entry")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action
        """None after a cancellation."""
        self.entry: TimerEntry

    def cancel(self) -> None:
        """Cancel the timer, with the shard's lock held; does nothing if its action has run."""
        self.action = None
        self.entry.cancel()


class ShardTimers:
    """Sets the timers of one shard."""

    __slots__ = ("_expired", "_timer")

    def __init__(self, timer: Timer, expired: Callable[[ShardTimer], None]) -> None:
        """``expired`` runs a timer's action with the shard locked. It is called on the timer's thread and must not block."""
        self._timer = timer
        self._expired = expired

    def after(self, name: str, delay_ms: float, action: Callable[[], None]) -> ShardTimer:
        """Call ``action`` after ``delay_ms`` milliseconds with the shard locked, if the shard is still active then."""
        timer = ShardTimer(action)
        timer.entry = self._timer.add(delay_ms, lambda: self._expired(timer))
        return timer
