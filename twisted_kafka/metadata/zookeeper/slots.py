"""The number of requests that may be unanswered (``zookeeper.max.in.flight.requests``)."""

import threading


class Slots:
    """A semaphore that wakes those who wait only when half of its places are free.

    Otherwise a thread that sends many requests would be woken for each answer, to send one request.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._enough = max(1, most // 2)
        self._condition = threading.Condition(threading.Lock())

    def acquire(self, timeout_s: float) -> bool:
        """Take a place; return False if none becomes free within ``timeout_s``."""
        with self._condition:
            if not self._free and not self._condition.wait_for(lambda: self._free >= self._enough, timeout_s) and not self._free:
                return False
            self._free -= 1
            return True

    def release(self) -> None:
        """Give a place back."""
        with self._condition:
            self._free += 1
            if self._free >= self._enough:
                self._condition.notify()
