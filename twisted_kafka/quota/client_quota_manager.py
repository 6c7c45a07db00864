"""The quotas of one type: the sensors of all clients, and the limits that apply to them. (Kafka: ClientQuotaManager.)"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar

from typing_extensions import override

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.quota.client_quota_callback import ClientQuotaType, DefaultQuotaCallback, QuotaEntity
from twisted_kafka.quota.sensors import QuotaWindows, RateSensor, Sensor, Tags
from twisted_kafka.system import machine
from twisted_kafka.system.client_text import bounded_text
from twisted_kafka.timing.clock import IClock

EXPIRATION_MS: Final = 3_600_000
"""A sensor that was not used for this long is dropped (Kafka: InactiveSensorExpirationTimeSeconds)."""

MAX_SENSORS: Final = 10_000
"""Most sensors of one type of quota, as clients choose their ids. The least recently used tenth makes room for new ones."""

PERCENT_PER_NS: Final = 100 / 1e9
"""The percentage of a second that a nanosecond on a thread counts in request quotas."""

_S = TypeVar("_S", bound=Sensor)


class ClientQuotaManager(Generic[_S]):
    """The sensors and the limits of one type of quota. Thread-safe."""

    RATE_NAME = "byte-rate"

    def __init__(
        self,
        quota_type: ClientQuotaType,
        windows: QuotaWindows,
        clock: IClock,
        metrics: MetricsRegistry,
        callback: Any = None,
    ) -> None:
        """``callback`` provides IClientQuotaCallback; with None, quotas apply as they are set (``DefaultQuotaCallback``)."""
        self.changed: Callable[[], object] = lambda: None
        """Called when cached sensors may no longer apply to their clients."""
        self.quota_type = quota_type
        self.is_enabled = callback is not None
        """Whether use is measured: from the first quota that was set until the broker stops, as in Kafka."""
        self._windows = windows
        self._clock = clock
        self._callback: Any = DefaultQuotaCallback() if callback is None else callback
        self._is_custom = callback is not None
        self._lock = machine.Lock()  # guards changes of the tables; they are read without it
        self._sensors: dict[Tags, _S] = {}
        type_ = quota_type.value
        metrics.collector(type_, self.RATE_NAME, partial(self._measures, self._rate))
        metrics.collector(type_, "throttle-time", partial(self._measures, self._throttle_time))

    def now_ms(self) -> int:
        """Return the time that the sensors use."""
        return self._clock.monotonic_ns() // 1_000_000

    # Limits, from the config-change thread.

    def update_quota(self, entity: QuotaEntity, limit: float | None) -> None:
        """Set a quota, or remove it; it applies at once. The sensors are not looked at if nothing changes."""
        if not self._is_custom and not self._callback.would_change(entity, limit):
            return
        if limit is None:
            self._callback.remove_quota(self.quota_type, entity)
        else:
            self._callback.update_quota(self.quota_type, entity, limit)
            self.is_enabled = True
        self.update_limits()

    def update_limits(self) -> None:
        """Ask for the limit of every sensor again."""
        with self._lock:
            for sensor in self._sensors.values():
                sensor.change_limit(self._limit(sensor.tags))
        self.changed()

    def _limit(self, tags: Tags) -> float:
        limit = self._callback.quota_limit(self.quota_type, dict(tags))
        return math.inf if limit is None else float(limit)

    # Sensors.

    def sensor_of(self, context: RequestContext) -> _S:
        """Return the sensor of the client that sent a request."""
        found = self._callback.quota_metric_tags(self.quota_type, context.principal, context.client_id or "")
        if self._is_custom and self._callback.quota_reset_required(self.quota_type):
            self.update_limits()
        tags: Tags = tuple([(name, bounded_text(value)) for name, value in found.items()])
        sensor = self._sensors.get(tags)
        if sensor is None:
            with self._lock:
                if len(self._sensors) >= MAX_SENSORS:
                    self._drop(sorted(self._sensors.values(), key=lambda each: each.last_ms)[: MAX_SENSORS // 10])
                sensor = self._sensors.get(tags)
                if sensor is None:
                    sensor = self._sensors[tags] = self._make(tags, self._limit(tags))
        return sensor

    def _make(self, tags: Tags, limit: float) -> _S:
        raise NotImplementedError

    def expire(self) -> None:
        """Drop the sensors that were not used for EXPIRATION_MS. To be called from time to time."""
        before_ms = self.now_ms() - EXPIRATION_MS
        with self._lock:
            self._drop([sensor for sensor in self._sensors.values() if sensor.last_ms < before_ms])

    def _drop(self, sensors: list[_S]) -> None:
        if sensors:
            gone = {sensor.tags for sensor in sensors}
            self._sensors = {tags: sensor for tags, sensor in self._sensors.items() if tags not in gone}
            self.changed()

    def __len__(self) -> int:
        return len(self._sensors)

    # Metrics.

    def _measures(self, measure: Any) -> Iterator[tuple[dict[str, object], object]]:
        now_ms = self.now_ms()
        for sensor in list(self._sensors.values()):
            yield {name: value for name, value in sensor.tags if value}, measure(sensor, now_ms)

    @staticmethod
    def _rate(sensor: _S, now_ms: int) -> float:
        return sensor.rate(now_ms)

    @staticmethod
    def _throttle_time(sensor: _S, now_ms: int) -> float:
        return sensor.mean_throttle_ms(now_ms)


class ClientBandwidthQuotaManager(ClientQuotaManager[RateSensor]):
    """Quotas of the bytes that are produced, or fetched."""

    @override
    def _make(self, tags: Tags, limit: float) -> RateSensor:
        return RateSensor(tags, self._windows, limit, self.now_ms())


class ClientRequestQuotaManager(ClientQuotaManager[RateSensor]):
    """Quotas of the time on handler and network threads, in percent of one thread. (Kafka: ClientRequestQuotaManager.)

    A client has to wait one window at most (``quota.window.size.seconds``).
    """

    RATE_NAME = "request-time"

    def __init__(self, windows: QuotaWindows, clock: IClock, metrics: MetricsRegistry, callback: Any = None) -> None:
        super().__init__(ClientQuotaType.REQUEST, windows, clock, metrics, callback)
        self.exempt = RateSensor((), windows, math.inf, self.now_ms())
        """Requests that are never throttled: those among brokers, and produces with acks=0."""
        metrics.gauge(self.quota_type.value, "exempt-request-time", lambda: self.exempt.rate(self.now_ms()))

    @override
    def _make(self, tags: Tags, limit: float) -> RateSensor:
        return RateSensor(tags, self._windows, limit, self.now_ms(), self._windows.window_ms)
