"""Limits the bytes of requests in memory: key ``queued.max.request.bytes``. (Kafka: SimpleMemoryPool, not strict.)

Without the key, only large requests take memory from a pool, of ``LARGE_REQUESTS_BYTES``: clients that begin requests and do not
end them must not use up the machine's memory. Small ones are bounded otherwise (``Processor``).

The rule: an allocation succeeds in full as long as any memory is left, so that the largest request cannot starve. The pool may be
overdrawn by that one request. Memory is released when its request has been handled or refused, or its connection is closed. A
processor whose allocation fails is notified once when memory is available.
"""

from collections.abc import Callable
from typing import Final

from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

LARGE_BYTES: Final = 64 * 1024
"""A larger request is a large one."""

LARGE_REQUESTS_BYTES: Final = 32 * 1024 * 1024
"""Memory for large requests: as much as 32 producers with batches of a megabyte have under way."""


class MemoryPool:
    """Counts allocated bytes. Thread-safe."""

    def __init__(self, size_bytes: int, clock: IClock, least_bytes: int = 0) -> None:
        """Requests of fewer than ``least_bytes`` take no memory from it."""
        self.least_bytes = least_bytes
        if size_bytes <= 0:
            raise ValueError(f"invalid pool size: {size_bytes} bytes")
        self._size_bytes = size_bytes
        self._now_ns = clock.monotonic_ns
        self._lock = machine.Lock()
        self._available = size_bytes
        self._waiters: list[Callable[[], object]] = []
        self._depleted_ns = 0
        self._depleted_since_ns = 0

    def try_allocate(self, size_bytes: int, waiter: Callable[[], object]) -> bool:
        """Allocate ``size_bytes`` and return True.

        With no memory left, return False and call ``waiter`` once when there is some.
        """
        with self._lock:
            if self._available > 0:
                self._available -= size_bytes
                return True
            if waiter not in self._waiters:
                self._waiters.append(waiter)
            if not self._depleted_since_ns:
                self._depleted_since_ns = self._now_ns()
            return False

    def release(self, size_bytes: int) -> None:
        """Release allocated bytes. Raises ValueError for more than was allocated, which is an accounting error."""
        with self._lock:
            if self._available + size_bytes > self._size_bytes:
                raise ValueError(f"{size_bytes} bytes released, {self._size_bytes - self._available} allocated")
            self._available += size_bytes
            if self._available <= 0 or not self._waiters:
                return
            waiters, self._waiters = self._waiters, []
            self._depleted_ns += self._now_ns() - self._depleted_since_ns
            self._depleted_since_ns = 0
        for waiter in waiters:
            waiter()

    @property
    def available_bytes(self) -> int:
        """Bytes left, negative when overdrawn (Kafka's metric MemoryPoolAvailable)."""
        return self._available

    @property
    def used_bytes(self) -> int:
        """Bytes allocated (Kafka's metric MemoryPoolUsed)."""
        return self._size_bytes - self._available

    def waited_for_ns(self) -> int:
        """Return for how many nanoseconds a waiter has been waiting; 0 without one."""
        since = self._depleted_since_ns
        return self._now_ns() - since if since else 0

    def depleted_ns(self) -> int:
        """Return the total nanoseconds during which a waiter waited (Kafka: MemoryPoolDepletedTimeTotal, in ms there)."""
        with self._lock:
            since = self._depleted_since_ns
            return self._depleted_ns + (self._now_ns() - since if since else 0)
