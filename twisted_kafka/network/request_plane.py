"""Data plane and control plane: requests of clients, and requests of the controller to brokers (KIP-291).

Each plane has its own request channel, network threads and handlers, so that neither waits for the other. (Kafka:
DataPlaneAcceptor, ControlPlaneAcceptor.)
"""

from twisted_kafka.metrics.idle_ratio import IdleRatio
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.loop.network_thread import NetworkThread
from twisted_kafka.network.loop.processor import Processor
from twisted_kafka.network.loop.processor_metrics import ProcessorMetrics
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.timing.clock import IClock

DATA_PLANE = "data-plane"
CONTROL_PLANE = "control-plane"

CONTROL_PLANE_QUEUE_SIZE = 20
"""Size of the control plane's request queue (Kafka: ControlPlaneAcceptor)."""

METRIC_PREFIXES = {DATA_PLANE: "", CONTROL_PLANE: "ControlPlane"}


class RequestPlane:
    """A request channel and the network threads that feed it. Modified only on the main reactor's thread."""

    def __init__(
        self,
        name: str,
        request_channel: RequestChannel,
        clock: IClock,
        metrics: MetricsRegistry,
    ) -> None:
        """``name`` is DATA_PLANE or CONTROL_PLANE."""
        self.name = name
        self.metric_prefix = METRIC_PREFIXES[name]
        self.request_channel = request_channel
        self.threads: tuple[NetworkThread, ...] = ()
        self.clock = clock
        self.metrics = metrics
        self._processor_metrics: dict[int, ProcessorMetrics] = {}
        self._expired_before = 0
        self._register_metrics()

    def add(self, thread: NetworkThread) -> None:
        """Add a thread and register its metrics."""
        self.threads = (*self.threads, thread)
        number = thread.processor.number
        self._processor_metrics[number] = ProcessorMetrics(self.metrics, self.clock, thread.processor, self.metric_prefix)

    def remove(self, thread: NetworkThread) -> None:
        """Remove a thread that is about to end, and its metrics. Call ``forget`` when it has ended."""
        self.threads = tuple(each for each in self.threads if each is not thread)
        self._expired_before += thread.processor.stats.expired_connections_killed
        self._processor_metrics.pop(thread.processor.number).remove()

    def forget(self, thread: NetworkThread) -> None:
        """Stop waking a thread's processor for responses. From any thread."""
        self.request_channel.remove_processor(thread.processor)

    @property
    def processors(self) -> list[Processor]:
        """The processors of all its threads."""
        return [thread.processor for thread in self.threads]

    def _register_metrics(self) -> None:
        gauge, prefix = self.metrics.gauge, self.metric_prefix
        gauge("RequestChannel", f"{prefix}RequestQueueSize", lambda: self.request_channel.size)
        gauge("RequestChannel", f"{prefix}ResponseQueueSize", lambda: sum(each.response_queue_size for each in self.processors))
        idle = IdleRatio(self.clock, lambda: sum(each.waited_ns() for each in self.processors), lambda: len(self.threads))
        gauge("SocketServer", f"{prefix}NetworkProcessorAvgIdlePercent", idle)
        gauge("SocketServer", f"{prefix}ExpiredConnectionsKilledCount", self._expired)

    def _expired(self) -> int:
        return self._expired_before + sum(each.stats.expired_connections_killed for each in self.processors)
