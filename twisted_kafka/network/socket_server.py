"""The listeners and the threads behind them. (Kafka: SocketServer.)

Start-up is in two steps: ``start`` binds (a taken port is known then, and a client that connects waits in the backlog),
``enable_request_processing`` begins to accept. Shutdown too: ``stop_processing_requests`` closes the ports and lets what
is under way be answered, ``shutdown`` ends the threads. The main reactor may be anybody's: nothing here blocks it
but ``shutdown``, which may be called from another thread.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.base import ReactorBase
from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.acceptor import Acceptor, SocketOptions
from twisted_kafka.network.channel_builder import BuilderOf, IChannelBuilder, plaintext_builder
from twisted_kafka.network.idle import IdleRatio
from twisted_kafka.network.interfaces import IRequestObserver
from twisted_kafka.network.processor import Processor, ProcessorSettings
from twisted_kafka.network.reactors import close_reactor, make_reactor
from twisted_kafka.network.request_channel import RequestChannel
from twisted_kafka.timing.clock import IClock

DRAIN_S = 1.0
"""At shutdown, requests under way have so long to be answered."""

STOP_S = 5.0
"""And the network threads so long to end."""

BACKLOG = 1024
"""Connections that the system keeps until they are accepted, unless ``socket.listen.backlog.size`` is set.

Kafka's default of 50 is for an acceptor with a processor core of its own. Ours shares the interpreter lock: a burst of clients
overruns 50 and each then waits a second for its next attempt.
"""

DATA_PLANE = "data-plane"

ReactorFactory = Callable[[IClock], ReactorBase]

_log = Logger()


class NetworkThread:
    """One processor, its reactor, and the thread that runs it."""

    __slots__ = ("_reactor", "processor", "thread")

    def __init__(self, processor: Processor, reactor: ReactorBase, name: str) -> None:
        self.processor = processor
        self._reactor = reactor
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self._reactor.run(installSignalHandlers=False)
        except Exception:  # noqa: BLE001 it is the thread's end: say so
            _log.failure("Network thread {name} ended with an error", name=self.thread.name)

    def stop(self, timeout_s: float) -> None:
        """Close what is open and end the thread, waiting at most ``timeout_s`` seconds."""
        if self.thread.ident is None:
            close_reactor(self._reactor)
            return
        self.processor.close_all()
        self._reactor.callFromThread(self._reactor.stop)
        self.thread.join(timeout_s)
        if self.thread.is_alive():
            _log.warn("Network thread {name} did not end within {seconds} s", name=self.thread.name, seconds=timeout_s)
        else:
            close_reactor(self._reactor)


class SocketServer:
    """All listeners of a broker and their network threads."""

    def __init__(
        self,
        config: KafkaConfig,
        reactor: Any,
        request_channel: RequestChannel,
        clock: IClock,
        metrics: MetricsRegistry,
        observers: Sequence[IRequestObserver] = (),
        reactor_factory: ReactorFactory = make_reactor,
        builder_of: BuilderOf = plaintext_builder,
    ) -> None:
        self._config = config
        self._reactor = reactor
        self._request_channel = request_channel
        self._clock = clock
        self._metrics = metrics
        self._observers = tuple(observers)
        self._reactor_factory = reactor_factory
        self._builder_of = builder_of
        self._builders: dict[str, IChannelBuilder] = {}
        self._acceptors: list[Acceptor] = []
        self._threads: list[NetworkThread] = []
        self._is_stopping = False

    def start(self) -> None:
        """Bind all listeners in their order and start the network threads, without serving yet.

        Raises BindError, after which nothing is left open.
        """
        try:
            for end_point in self._in_bind_order():
                self._add_listener(end_point)
        except Exception:
            self.stop_processing_requests()
            raise
        self._register_metrics()
        for thread in self._threads:
            thread.thread.start()

    def enable_request_processing(self) -> None:
        """Begin to accept connections."""
        for acceptor in self._acceptors:
            acceptor.start()

    def bound_port(self, listener_name: str) -> int:
        """Say which port a listener has, also when it was configured as 0. Raises KeyError for an unknown listener."""
        for acceptor in self._acceptors:
            if acceptor.end_point.listener_name == listener_name:
                return acceptor.port
        raise KeyError(f"there is no listener {listener_name}")

    def bound_end_points(self) -> list[EndPoint]:
        """All listeners with the ports that they have."""
        return [acceptor.end_point._replace(port=acceptor.port) for acceptor in self._acceptors]

    def stop_processing_requests(self) -> None:
        """Close the ports and take no more requests; those under way are still answered."""
        if self._is_stopping:
            return
        self._is_stopping = True
        for acceptor in self._acceptors:
            acceptor.close()
        for thread in self._threads:
            if thread.thread.ident is not None:
                thread.processor.begin_shutdown()

    def shutdown(self, drain_s: float = DRAIN_S) -> None:
        """Wait at most ``drain_s`` seconds for requests under way, then close all connections and end the threads."""
        self.stop_processing_requests()
        deadline_ns = self._clock.monotonic_ns() + int(drain_s * 1e9)
        pause = threading.Event()
        while self.connection_count and self._clock.monotonic_ns() < deadline_ns:
            pause.wait(0.005)
        for thread in self._threads:
            thread.stop(STOP_S)

    def validate_security(self, config: KafkaConfig) -> None:
        """Raise ConfigError when ``reconfigure_security`` could not do with these settings; change nothing."""
        for builder in self._builders.values():
            builder.validate_reconfiguration(config)

    def reconfigure_security(self, config: KafkaConfig) -> None:
        """Give the listeners' channel builders new settings, and have them read their files anew. Raises ConfigError."""
        for builder in self._builders.values():
            builder.reconfigure(config)

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return sum(len(thread.processor.channels) for thread in self._threads if thread.thread.is_alive())

    @property
    def processors(self) -> list[Processor]:
        """All processors."""
        return [thread.processor for thread in self._threads]

    def _in_bind_order(self) -> list[EndPoint]:
        # As Kafka: the listener among brokers first, the others in the order in which they are given.
        inter_broker = self._config.inter_broker_listener_name
        return sorted(self._config.listeners, key=lambda end_point: end_point.listener_name != inter_broker)

    def _add_listener(self, end_point: EndPoint) -> None:
        config = self._config
        options = SocketOptions(
            config.int("socket.listen.backlog.size") if config.is_set("socket.listen.backlog.size") else BACKLOG,
            config.int("socket.send.buffer.bytes"),
            config.int("socket.receive.buffer.bytes"),
        )
        blocked = self._metrics.meter("Acceptor", "AcceptorBlockedPercent", listener=end_point.listener_name)
        acceptor = Acceptor(end_point, self._reactor, options, self._clock, blocked)
        self._acceptors.append(acceptor)
        settings = ProcessorSettings(
            end_point.listener_name,
            end_point.security_protocol,
            config.int("socket.request.max.bytes"),
            config.long("connections.max.idle.ms"),
        )
        settings.is_privileged = end_point.listener_name == config.inter_broker_listener_name
        settings.channel_builder = self._builders[end_point.listener_name] = self._builder_of(end_point)
        threads = [self._new_thread(settings) for _ in range(config.int("num.network.threads"))]
        acceptor.processors = [thread.processor for thread in threads]

    def _new_thread(self, settings: ProcessorSettings) -> NetworkThread:
        number = len(self._threads)
        reactor = self._reactor_factory(self._clock)
        processor = Processor(number, settings, reactor, self._request_channel, self._clock, self._observers)
        name = (
            f"{DATA_PLANE}-kafka-network-thread-{self._config.broker_id}-ListenerName({settings.listener_name})"
            f"-{settings.security_protocol}-{number}"
        )
        thread = NetworkThread(processor, reactor, name)
        self._threads.append(thread)
        return thread

    def _register_metrics(self) -> None:
        metrics, processors = self._metrics, self.processors
        metrics.gauge("RequestChannel", "RequestQueueSize", lambda: self._request_channel.size)
        metrics.gauge("RequestChannel", "ResponseQueueSize", lambda: sum(p.response_queue_size for p in processors))
        for processor in processors:
            self._register_processor(processor)
        idle = IdleRatio(self._clock, lambda: sum(p.waited_ns() for p in processors), lambda: len(processors))
        metrics.gauge("SocketServer", "NetworkProcessorAvgIdlePercent", idle)
        metrics.gauge(
            "SocketServer", "ExpiredConnectionsKilledCount", lambda: sum(p.expired_connections_killed for p in processors)
        )

    def _register_processor(self, processor: Processor) -> None:
        metrics, number = self._metrics, processor.number
        metrics.gauge("RequestChannel", "ResponseQueueSize", lambda: processor.response_queue_size, processor=number)
        metrics.gauge("Processor", "IdlePercent", IdleRatio(self._clock, processor.waited_ns, lambda: 1), networkProcessor=number)
