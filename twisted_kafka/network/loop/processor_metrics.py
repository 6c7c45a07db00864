"""The metrics of processors and of the memory pool, under Kafka's names.

A processor only counts (``ConnectionStats``); rates, means and ratios are computed when they are read. The group
``socket-server-metrics`` uses the names of Kafka's clients: there, a *request* is outgoing data, which is the broker's response.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from twisted_kafka.metrics.idle_ratio import IdleRatio
from twisted_kafka.metrics.instruments import Gauge
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.metrics.windows import WindowedMax, WindowedMean, WindowedRate
from twisted_kafka.network.connection.framing import SIZE_BYTES
from twisted_kafka.network.loop.processor import Processor
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.timing.clock import IClock

SOCKET_SERVER_METRICS = "kafka.server:socket-server-metrics"

UNLIMITED_BYTES = 2**63 - 1
"""The available memory without a pool (Kafka: MemoryPool.NONE)."""

_NS = 1e-9


class ProcessorMetrics:
    """The gauges of one processor, from its creation to ``remove``."""

    def __init__(self, metrics: MetricsRegistry, clock: IClock, processor: Processor, prefix: str) -> None:
        """``prefix`` is the plane's metric prefix: ``ControlPlane`` or empty."""
        self._metrics = metrics
        self._clock = clock
        self._processor = processor
        self._started_ns = clock.steady_ns()
        self._tags = {"listener": processor.settings.listener_name, "networkProcessor": processor.number}
        self._names: list[tuple[str, str, dict[str, object]]] = []
        number = processor.number
        queue = Gauge(lambda: processor.response_queue_size)
        self._add_as("RequestChannel", f"{prefix}ResponseQueueSize", queue, {"processor": number})
        idle = Gauge(IdleRatio(clock, processor.waited_ns, lambda: 1))
        self._add_as("Processor", "IdlePercent", idle, {"networkProcessor": number})
        self._add_traffic()
        self._add_connections()
        self._add_authentications()
        self._add_times()
        metrics.collector(SOCKET_SERVER_METRICS, "connections", self._connections_by_software, **self._tags)

    def remove(self) -> None:
        """Unregister them."""
        for type_, name, tags in self._names:
            self._metrics.remove(type_, name, **tags)
        self._metrics.remove(SOCKET_SERVER_METRICS, "connections", **self._tags)

    def _add_traffic(self) -> None:
        processor, stats = self._processor, self._processor.stats
        self._add_total("incoming-byte", lambda: stats.request_bytes + SIZE_BYTES * processor.received_requests)
        self._add_total("outgoing-byte", lambda: stats.response_bytes)
        self._add_total("request", lambda: stats.responses)
        self._add_total("response", lambda: processor.received_requests)
        self._add_total("network-io", lambda: processor.received_requests + stats.responses)
        self._add("request-size-avg", WindowedMean(lambda: stats.response_bytes, lambda: stats.responses))

        def take_max() -> int:
            greatest, stats.max_response_bytes = stats.max_response_bytes, 0
            return greatest

        self._add("request-size-max", WindowedMax(take_max))

    def _add_connections(self) -> None:
        processor, stats = self._processor, self._processor.stats
        self._add("connection-count", Gauge(lambda: len(processor.channels)))
        self._add_total("connection-creation", lambda: stats.connections_created)
        self._add_total("connection-close", lambda: stats.connections_closed)
        self._add("expired-connections-killed-count", Gauge(lambda: stats.expired_connections_killed))

    def _add_authentications(self) -> None:
        stats = self._processor.stats
        self._add_total("successful-authentication", lambda: stats.successful_authentications)
        self._add("successful-authentication-no-reauth-total", Gauge(lambda: stats.successful_authentications_no_reauth))
        self._add_total("failed-authentication", lambda: stats.failed_authentications)
        self._add_total("successful-reauthentication", lambda: stats.successful_reauthentications)
        self._add_total("failed-reauthentication", lambda: stats.failed_reauthentications)
        latency = WindowedMean(lambda: stats.reauthentication_ms, lambda: stats.successful_reauthentications)
        self._add("reauthentication-latency-avg", latency)

        def take_max() -> float:
            greatest, stats.max_reauthentication_ms = stats.max_reauthentication_ms, 0
            return greatest

        self._add("reauthentication-latency-max", WindowedMax(take_max))

    def _add_times(self) -> None:
        processor = self._processor
        waited, polls = processor.waited_ns, processor.polls
        self._add_total("select", polls)
        for at_work, time, names in (
            (waited, "io-wait", ("io-wait-time-ns", "io-waittime-total")),
            (self._busy_ns, "io", ("io-time-ns", "iotime-total")),
        ):
            self._add(f"{time}-ratio", WindowedRate(self._clock, at_work, _NS))
            self._add(f"{names[0]}-avg", WindowedMean(at_work, polls))
            self._add(f"{names[0]}-total", Gauge(at_work))
            self._add(names[1], Gauge(at_work))  # the same under an older name

    def _busy_ns(self) -> int:
        return self._clock.steady_ns() - self._started_ns - self._processor.waited_ns()

    def _connections_by_software(self) -> Iterator[tuple[dict[str, object], object]]:
        # The processor's thread keeps running: list() copies in one step.
        connections = list(self._processor.channels)
        counts = Counter((connection.software_name, connection.software_version) for connection in connections)
        for (name, version), count in counts.items():
            yield {"clientSoftwareName": name, "clientSoftwareVersion": version, **self._tags}, count

    def _add_total(self, name: str, total: Callable[[], int]) -> None:
        self._add(f"{name}-total", Gauge(total))
        self._add(f"{name}-rate", WindowedRate(self._clock, total))

    def _add(self, name: str, gauge: Gauge) -> None:
        self._add_as(SOCKET_SERVER_METRICS, name, gauge, self._tags)

    def _add_as(self, type_: str, name: str, gauge: Gauge, tags: dict[str, object]) -> None:
        self._metrics.add(gauge, type_, name, **tags)
        self._names.append((type_, name, tags))


def register_memory_pool(metrics: MetricsRegistry, clock: IClock, pool: MemoryPool | None) -> None:
    """Register the gauges of the memory pool. Without a pool everything is available, as in Kafka."""
    metrics.gauge("SocketServer", "MemoryPoolAvailable", lambda: pool.available_bytes if pool is not None else UNLIMITED_BYTES)
    metrics.gauge("SocketServer", "MemoryPoolUsed", lambda: pool.used_bytes if pool is not None else 0)

    def depleted_ns() -> int:
        return pool.depleted_ns() if pool is not None else 0

    metrics.add(WindowedRate(clock, depleted_ns, _NS), SOCKET_SERVER_METRICS, "MemoryPoolAvgDepletedPercent")
    metrics.gauge(SOCKET_SERVER_METRICS, "MemoryPoolDepletedTimeTotal", lambda: depleted_ns() / 1e6)
