"""A quota on the bytes per second with which replicas are copied (Kafka: ``ReplicationQuotaManager``)."""

from collections import deque

from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock


class ReplicationQuota:
    """Measures the rate over the last windows, and compares it with the bound. At first there is no bound."""

    def __init__(self, clock: IClock, window_count: int, window_ms: int) -> None:
        self._clock = clock
        self._count = window_count
        self._window_ms = window_ms
        self._lock = machine.Lock()
        self._windows: deque[list[int]] = deque()  # of [begin in ms, bytes]
        self._bytes_per_s: float | None = None

    def update(self, bytes_per_s: float | None) -> None:
        """Set the bound; None removes it."""
        self._bytes_per_s = bytes_per_s

    @property
    def bound(self) -> float | None:
        """The bound in bytes per second."""
        return self._bytes_per_s

    def record(self, size_bytes: int) -> None:
        """Count copied bytes."""
        now_ms = self._now_ms()
        with self._lock:
            if not self._windows or now_ms - self._windows[-1][0] >= self._window_ms:
                self._windows.append([now_ms, 0])
            self._windows[-1][1] += size_bytes

    @property
    def rate(self) -> float:
        """The bytes per second over the last ``window_count`` windows."""
        now_ms = self._now_ms()
        with self._lock:
            while self._windows and now_ms - self._windows[0][0] >= self._count * self._window_ms:
                self._windows.popleft()
            if not self._windows:
                return 0.0
            took_ms = max(now_ms - self._windows[0][0], self._window_ms)
            return sum(size for _, size in self._windows) * 1000 / took_ms

    @property
    def is_exceeded(self) -> bool:
        """Whether copying has to wait."""
        bound = self._bytes_per_s
        return bound is not None and self.rate > bound

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000
