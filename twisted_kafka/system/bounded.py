"""Caches and queues that clients fill: bounded in bytes, which is the unit that a client pays in."""

import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from twisted_kafka.system import machine

K = TypeVar("K")
V = TypeVar("V")

ENTRY_BYTES: Final = 256
"""The memory of an entry besides its content: its objects, and its place in the cache or queue."""

LARGEST_SHARE: Final = 8
"""A cache keeps no entry larger than this part of it, so that one entry does not displace all others."""


class BoundedCache(Generic[K, V]):
    """Keeps values until their sizes exceed ``max_bytes``; then the oldest go. Thread-safe.

    ``size_of(key, value)`` returns the bytes of an entry's content. A lookup is one of a dictionary, without a lock.
    """

    __slots__ = ("_bytes", "_lock", "_max_bytes", "_size_of", "_values", "get")

    def __init__(self, max_bytes: int, size_of: Callable[[K, V], int]) -> None:
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._values: OrderedDict[K, V] = OrderedDict()  # finds the oldest at once; a dict would search for it
        self._lock = machine.Lock()
        self._bytes = 0
        self.get: Callable[[K], V | None] = self._values.get
        """Return the value of a key, or None."""

    def __len__(self) -> int:
        """How many values it keeps."""
        return len(self._values)

    @property
    def held_bytes(self) -> int:
        """The size of the kept entries, with ``ENTRY_BYTES`` for each entry."""
        return self._bytes

    def put(self, key: K, value: V) -> None:
        """Keep a value, unless it is too large. A value that the key had is replaced."""
        size_bytes = self._size_of(key, value) + ENTRY_BYTES
        with self._lock:
            self._drop(key)
            if size_bytes > self._max_bytes // LARGEST_SHARE:
                return
            while self._bytes + size_bytes > self._max_bytes:
                oldest, dropped = self._values.popitem(last=False)
                self._bytes -= self._size_of(oldest, dropped) + ENTRY_BYTES
            self._values[key] = value
            self._bytes += size_bytes

    def discard(self, key: K) -> None:
        """Forget the value of a key, if there is one."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def _drop(self, key: K) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self._bytes -= self._size_of(key, value) + ENTRY_BYTES


class BoundedQueue(Generic[V]):
    """A queue whose items have at most ``max_bytes`` together, and of at most ``max_items``; it refuses the rest. Thread-safe.

    ``size_of(item)`` returns the bytes of an item's content.
    """

    __slots__ = ("_bytes", "_items", "_lock", "_max_bytes", "_max_items", "_size_of")

    def __init__(
        self,
        max_bytes: int,
        size_of: Callable[[V], int] = len,  # type: ignore[assignment]
        max_items: int = sys.maxsize,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._size_of = size_of
        self._items: deque[V] = deque()
        self._lock = machine.Lock()
        self._bytes = 0

    def __len__(self) -> int:
        """How many items wait."""
        return len(self._items)

    @property
    def held_bytes(self) -> int:
        """The size of the items that wait, with ``ENTRY_BYTES`` for each."""
        return self._bytes

    def put(self, item: V) -> bool:
        """Append an item; return False if there is no room for it."""
        size_bytes = self._size_of(item) + ENTRY_BYTES
        items = self._items
        with self._lock:
            held_bytes = self._bytes + size_bytes
            if held_bytes > self._max_bytes or len(items) >= self._max_items:
                return False
            items.append(item)
            self._bytes = held_bytes
        return True

    def take(self, most: int, enough_bytes: int = sys.maxsize) -> list[V]:
        """Remove the first items and return them: at most ``most``, and no more once they have ``enough_bytes``."""
        taken: list[V] = []
        taken_bytes = 0
        with self._lock:
            items = self._items
            while items and len(taken) < most and taken_bytes < enough_bytes:
                item = items.popleft()
                taken.append(item)
                taken_bytes += self._size_of(item) + ENTRY_BYTES
            self._bytes -= taken_bytes
        return taken
