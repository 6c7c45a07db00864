"""Timers of groups' members: sessions, revocations, joins and syncs; and of groups' first assignments.

They are volatile: a broker that takes over the partition starts them again.
"""

from collections.abc import Callable
from typing import Final

from twisted_kafka.coordinator.effects import ShardTimer, ShardTimers
from twisted_kafka.timing.clock import IClock

NS_PER_MS: Final = 1_000_000

SESSION: Final = "session"
REVOCATION: Final = "revocation"
JOIN: Final = "join"
SYNC: Final = "sync"
INITIAL: Final = "initial"

Key = tuple[str, str, str]


class MemberTimers:
    """Timers by (kind, group id, member id).

    A heartbeat only moves the session's deadline; its timer is set again when it fires before the deadline.
    """

    def __init__(self, timers: ShardTimers, clock: IClock) -> None:
        self._timers = timers
        self._clock = clock
        self._handles: dict[Key, ShardTimer] = {}
        self._deadlines_ns: dict[Key, int] = {}

    def set(self, kind: str, group_id: str, member_id: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Call ``action`` after ``delay_ms``; replaces the timer set before."""
        key = (kind, group_id, member_id)
        self._cancel(key)

        def fire() -> None:
            self._handles.pop(key, None)
            action()

        self._handles[key] = self._timers.after(kind, delay_ms, fire)

    def set_if_absent(self, kind: str, group_id: str, member_id: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Call ``action`` after ``delay_ms``, unless the timer is already set."""
        if (kind, group_id, member_id) not in self._handles:
            self.set(kind, group_id, member_id, delay_ms, action)

    def is_set(self, kind: str, group_id: str, member_id: str) -> bool:
        """Return whether the timer will fire."""
        return (kind, group_id, member_id) in self._handles

    def touch(self, group_id: str, member_id: str, timeout_ms: int, action: Callable[[], None]) -> None:
        """Restart a member's session."""
        key = (SESSION, group_id, member_id)
        now_ns = self._clock.monotonic_ns()
        deadline_ns = now_ns + timeout_ms * NS_PER_MS
        old_ns = self._deadlines_ns.get(key)
        self._deadlines_ns[key] = deadline_ns
        if old_ns is None or deadline_ns < old_ns or key not in self._handles:
            self._cancel(key)
            self._watch(key, deadline_ns - now_ns, action)

    def _watch(self, key: Key, delay_ns: int, action: Callable[[], None]) -> None:
        def fire() -> None:
            self._handles.pop(key, None)
            left_ns = self._deadlines_ns.get(key, 0) - self._clock.monotonic_ns()
            if left_ns > 0:
                self._watch(key, left_ns, action)
            else:
                self._deadlines_ns.pop(key, None)
                action()

        self._handles[key] = self._timers.after(SESSION, delay_ns / NS_PER_MS, fire)

    def cancel(self, kind: str, group_id: str, member_id: str) -> None:
        """Cancel a timer; does nothing if it is not set."""
        self._cancel((kind, group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        """Cancel all timers of a member."""
        for kind in (SESSION, REVOCATION, JOIN, SYNC):
            self._cancel((kind, group_id, member_id))
        self._deadlines_ns.pop((SESSION, group_id, member_id), None)

    def close(self) -> None:
        """Cancel all timers."""
        for handle in self._handles.values():
            handle.cancel()

    def _cancel(self, key: Key) -> None:
        handle = self._handles.pop(key, None)
        if handle is not None:
            handle.cancel()
