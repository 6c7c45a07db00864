"""How many bytes of requests may be in memory at a time: key ``queued.max.request.bytes``. (Kafka: SimpleMemoryPool, not strict.)

The rule: whoever finds anything left gets all that it asks for, so that the largest request cannot starve; the pool may be
overdrawn by that one request. What is taken is given back when the request was handled, refused, or its connection closed.
Who finds nothing left is told once when that changes.
"""

import threading

from zope.interface import Interface

from twisted_kafka.timing.clock import IClock


class IMemoryWaiter(Interface):
    """A processor that found the pool empty."""

    def memory_available() -> None:
        """There is memory again; called from any thread."""


class MemoryPool:
    """Counts bytes taken and given back; every method is for any thread."""

    def __init__(self, size_bytes: int, clock: IClock) -> None:
        if size_bytes <= 0:
            raise ValueError(f"a pool of {size_bytes} bytes")
        self._size_bytes = size_bytes
        self._now_ns = clock.monotonic_ns
        self._lock = threading.Lock()
        self._available = size_bytes
        self._waiters: list[IMemoryWaiter] = []
        self._depleted_ns = 0
        self._depleted_since_ns = 0

    def try_allocate(self, size_bytes: int, waiter: IMemoryWaiter) -> bool:
        """Take ``size_bytes`` and return True; with nothing left return False, and tell ``waiter`` when there is."""
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
        """Give back what was taken. Raises ValueError for more than that: it would be an error in the accounting."""
        with self._lock:
            if self._available + size_bytes > self._size_bytes:
                raise ValueError(f"{size_bytes} bytes given back of {self._size_bytes - self._available} taken")
            self._available += size_bytes
            if self._available <= 0 or not self._waiters:
                return
            waiters, self._waiters = self._waiters, []
            self._depleted_ns += self._now_ns() - self._depleted_since_ns
            self._depleted_since_ns = 0
        for waiter in waiters:
            waiter.memory_available()

    @property
    def available_bytes(self) -> int:
        """What is left; below 0 when it is overdrawn (Kafka's metric MemoryPoolAvailable)."""
        return self._available

    @property
    def used_bytes(self) -> int:
        """What is taken (Kafka's metric MemoryPoolUsed)."""
        return self._size_bytes - self._available

    def waited_for_ns(self) -> int:
        """Nanoseconds for which somebody has been waiting now; 0 when nobody is."""
        since = self._depleted_since_ns
        return self._now_ns() - since if since else 0

    def depleted_ns(self) -> int:
        """Nanoseconds in which somebody waited for memory (Kafka: MemoryPoolDepletedTimeTotal, in ms there)."""
        with self._lock:
            since = self._depleted_since_ns
            return self._depleted_ns + (self._now_ns() - since if since else 0)
