"""Limits the I/O rate of all cleaner threads together (``log.cleaner.io.max.bytes.per.second``)."""

import threading

from twisted_kafka.timing.clock import IClock

MAX_DELAY_S = 10.0
"""The longest wait, so that a very low rate does not block a thread for hours."""


class CleanerThrottle:
    """Computes the delays that keep the long-term rate at ``bytes_per_second``."""

    def __init__(self, clock: IClock, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at_ns = 0

    def delay_s(self, size_bytes: int) -> float:
        """Record ``size_bytes`` read or written; returns how long to wait, which may be 0."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            self._free_at_ns = max(self._free_at_ns, now_ns) + int(size_bytes / max(1.0, self.bytes_per_second) * 1e9)
            delay_s = min((self._free_at_ns - now_ns) / 1e9, MAX_DELAY_S)
            self._free_at_ns = now_ns + int(delay_s * 1e9)
            return delay_s
