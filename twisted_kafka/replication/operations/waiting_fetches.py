"""How many partitions the fetches that wait may name together."""

from typing import Final

from twisted_kafka.replication.operations.delayed_fetch import DelayedFetch
from twisted_kafka.system import machine

MOST_PARTITIONS: Final = 200_000
"""Each takes some 400 bytes, and clients choose how long they wait: a thousand consumers of 200 partitions each reach it."""


class WaitingFetches:
    """The fetches that wait, oldest first. Beyond ``MOST_PARTITIONS`` the oldest are answered early. Thread-safe."""

    __slots__ = ("_count", "_fetches", "_lock", "_most")

    def __init__(self, most_partitions: int = MOST_PARTITIONS) -> None:
        self._most = most_partitions
        self._fetches: dict[DelayedFetch, int] = {}
        self._lock = machine.Lock()
        self._count = 0

    def add(self, fetch: DelayedFetch, partitions: int) -> None:
        """Add a fetch that is about to wait, with its number of partitions."""
        fetch.on_end = self._remove
        with self._lock:
            self._fetches[fetch] = partitions
            self._count += partitions
        while self._count > self._most:
            with self._lock:
                oldest = next(iter(self._fetches), None)
            if oldest is None or not oldest.force_complete():
                break  # another thread answers it, and removes it

    def _remove(self, fetch: DelayedFetch) -> None:
        with self._lock:
            self._count -= self._fetches.pop(fetch, 0)
