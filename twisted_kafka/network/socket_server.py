"""The listeners and the threads behind them. (Kafka: SocketServer.)

Starting takes two steps: ``start`` binds, so that a port in use is noticed early while connecting clients wait in the backlog, and
``enable_request_processing`` begins to accept. Stopping does too: ``stop_processing_requests`` closes the ports and lets requests
in flight be answered, ``shutdown`` ends the threads. Listeners, their threads and their limits may change in between. The main
reactor may belong to the application: nothing here blocks it except ``shutdown``, which may be called on another thread.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from twisted.internet.base import ReactorBase
from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.accepting.acceptor import Acceptor, BindError, SocketOptions
from twisted_kafka.network.accepting.connection_quotas import ConnectionQuotas
from twisted_kafka.network.connection.channel_builder import BuilderOf, IChannelBuilder, plaintext_builder
from twisted_kafka.network.listener import Listener
from twisted_kafka.network.loop.network_thread import NetworkThread, drain_and_stop
from twisted_kafka.network.loop.processor import Processor
from twisted_kafka.network.loop.processor_metrics import register_memory_pool
from twisted_kafka.network.loop.processor_settings import ProcessorSettings
from twisted_kafka.network.loop.reactors import make_reactor
from twisted_kafka.network.loop.stall_watch import StallWatch
from twisted_kafka.network.request_plane import CONTROL_PLANE, CONTROL_PLANE_QUEUE_SIZE, RequestPlane
from twisted_kafka.network.requests.memory_pool import LARGE_BYTES, LARGE_REQUESTS_BYTES, MemoryPool
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_observer import IRequestObserver
from twisted_kafka.system import machine
from twisted_kafka.system.threads import make_thread
from twisted_kafka.timing.clock import IClock

DRAIN_S = 1.0
"""How long requests in flight may take to be answered at shutdown, and when a listener or network thread is removed."""

NETWORK_THREADS = "num.network.threads"

ReactorFactory = Callable[[IClock], ReactorBase]

_log = Logger()


class SocketServer:
    """All listeners of a broker and their network threads. Modified only on the main reactor's thread."""

    def __init__(
        self,
        config: KafkaConfig,
        reactor: Any,
        data_plane: RequestPlane,
        observers: Sequence[IRequestObserver] = (),
        reactor_factory: ReactorFactory = make_reactor,
        builder_of: BuilderOf = plaintext_builder,
    ) -> None:
        """The server has the clock and the metrics of ``data_plane``."""
        clock, metrics = data_plane.clock, data_plane.metrics
        self._config = config
        self._reactor = reactor
        self._clock = clock
        self._metrics = metrics
        self._observers = tuple(observers)
        self._reactor_factory = reactor_factory
        self._builder_of = builder_of
        self._builders: dict[str, IChannelBuilder] = {}
        self.quotas = ConnectionQuotas(config, clock, metrics)
        self._data_plane = data_plane
        self._control_plane: RequestPlane | None = None
        if config.control_plane_listener_name is not None:
            channel = RequestChannel(CONTROL_PLANE_QUEUE_SIZE, clock)
            self._control_plane = RequestPlane(CONTROL_PLANE, channel, clock, metrics)
        planes = [plane for plane in (self._control_plane, data_plane) if plane is not None]
        self._watch = StallWatch([plane.request_channel for plane in planes], clock, f"kafka-stall-watch-{config.broker_id}")
        pool_bytes = config.long("queued.max.request.bytes")
        self._memory_pool = MemoryPool(pool_bytes, clock) if pool_bytes > 0 else None
        register_memory_pool(metrics, clock, self._memory_pool)
        if self._memory_pool is None:
            self._memory_pool = MemoryPool(LARGE_REQUESTS_BYTES, clock, LARGE_BYTES + 1)
        self._listeners: dict[str, Listener] = {}
        self._next_number = 0
        self._retirements: list[machine.Thread] = []
        self._is_started = self._is_enabled = self._is_stopping = False

    @property
    def control_plane(self) -> RequestPlane | None:
        """The control plane, or None if its requests share the data plane."""
        return self._control_plane

    def add_observer(self, observer: IRequestObserver) -> None:
        """Notify another observer of completed requests. From any thread."""
        self._observers = (*self._observers, observer)
        for processor in self.processors:  # one that was made meanwhile may have it already
            processor.add_observer(observer)

    def remove_observer(self, observer: IRequestObserver) -> None:
        """Notify an observer no more. From any thread."""
        self._observers = tuple(each for each in self._observers if each is not observer)
        for processor in self.processors:
            processor.remove_observer(observer)

    # Start and stop.

    def start(self) -> None:
        """Bind all listeners in order and start the network threads, without accepting yet.

        Raises BindError, after which nothing is left open.
        """
        try:
            for end_point in self._in_bind_order():
                self._add_listener(self._config, end_point)
        except Exception:
            self.stop_processing_requests()
            raise
        self._is_started = True
        self._watch.start()
        for listener in self._listeners.values():
            listener.start_threads()

    def enable_request_processing(self) -> None:
        """Begin to accept connections."""
        self._is_enabled = True
        for listener in self._listeners.values():
            listener.acceptor.start()

    def stop_processing_requests(self) -> None:
        """Close the ports and accept no more requests. Those in flight are still answered."""
        if self._is_stopping:
            return
        self._is_stopping = True
        for listener in self._listeners.values():
            listener.acceptor.close()
        for thread in self._threads:
            thread.begin_shutdown()

    def give_up_unanswered(self) -> None:
        """Wait for no response that nobody makes: the request handlers, and what completes requests later, have ended.

        Such a request came while they ended, or waited for something that does not happen any more. (Kafka waits for none.)
        """
        for processor in self.processors:
            processor.give_up_unanswered()

    def shutdown(self, drain_s: float = DRAIN_S) -> None:
        """Wait at most ``drain_s`` seconds for requests in flight, then close all connections and end the threads."""
        self.stop_processing_requests()
        drain_and_stop(self._threads, self._clock, drain_s)
        for retirement in self._retirements:
            retirement.join()  # bounded, since stopping a thread is
        self._watch.stop()
        for name in list(self._builders):
            self._builders.pop(name).close()

    # State.

    def bound_port(self, listener_name: str) -> int:
        """Return the port that a listener is bound to, also if it was configured as 0. Raises KeyError for an unknown listener."""
        listener = self._listeners.get(listener_name)
        if listener is None:
            raise KeyError(f"there is no listener {listener_name}")
        return listener.acceptor.port

    def bound_end_points(self) -> list[EndPoint]:
        """Return the end points of all listeners, with the ports that are bound."""
        return [listener.bound for listener in self._listeners.values()]

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return sum(thread.connection_count for thread in self._threads)

    @property
    def processors(self) -> list[Processor]:
        """All processors, of both planes."""
        return [thread.processor for thread in self._threads]

    @property
    def _threads(self) -> list[NetworkThread]:
        control = () if self._control_plane is None else self._control_plane.threads
        return [*control, *self._data_plane.threads]

    # Changes while it runs.

    def validate_security(self, config: KafkaConfig) -> None:
        """Raise ConfigError if ``reconfigure_security`` would fail with these settings; change nothing."""
        for builder in self._builders.values():
            builder.validate_reconfiguration(config)

    def try_out(self, config: KafkaConfig) -> None:
        """Raise ConfigError if a listener that is not open could not work with these settings; change nothing."""
        for end_point in config.listeners:
            if end_point.listener_name not in self._builders:
                self._builder_of(config, end_point).close()

    def reconfigure_security(self, config: KafkaConfig) -> None:
        """Apply new settings to the listeners' channel builders, which reread their files. Raises ConfigError."""
        for builder in self._builders.values():
            builder.reconfigure(config)

    def refresh_security(self, config: KafkaConfig) -> None:
        """Make the listeners use changed files, of certificates for instance, and log which certificates expire soon."""
        for builder in list(self._builders.values()):
            builder.refresh(config)

    def resize_threads(self, config: KafkaConfig) -> None:
        """Set the number of network threads of each data-plane listener from ``config``. Does nothing while stopping."""
        if self._is_stopping:
            return
        for listener in self._listeners.values():
            if self._plane_of(config, listener.name) is self._data_plane:
                ending = listener.resize(_network_threads(config, listener.name), start=self._is_started)
                self._retire(self._data_plane, ending)

    def update_listeners(self, config: KafkaConfig) -> None:
        """Open the new listeners of ``config`` and close the removed ones. A changed address means close and reopen.

        Raises BindError if a listener cannot be opened, after opening the others. Does nothing while stopping.
        """
        if self._is_stopping:
            return
        wanted = {end_point.listener_name: end_point for end_point in config.listeners}
        for name, listener in list(self._listeners.items()):
            if wanted.get(name) != listener.configured:
                self._remove_listener(listener)
        errors = []
        for end_point in wanted.values():
            if end_point.listener_name not in self._listeners:
                try:
                    listener = self._add_listener(config, end_point)
                except (BindError, ConfigError) as error:
                    errors.append(str(error))
                    continue
                try:
                    listener.start_threads()
                except RuntimeError as error:
                    errors.append(f"Listener {listener.name}: {error}")
                    self._remove_listener(listener)
                    continue
                if self._is_enabled:
                    listener.acceptor.start()
                _log.info("Added listener {end_point}", end_point=listener.bound.text)
        if errors:
            raise BindError("; ".join(errors))

    def _remove_listener(self, listener: Listener) -> None:
        _log.info("Removing listener {end_point}", end_point=listener.bound.text)
        del self._listeners[listener.name]
        builder = self._builders.pop(listener.name, None)
        if builder is not None:
            builder.close()
        listener.acceptor.close()
        self.quotas.remove_listener(listener.name)
        plane = self._plane_of(self._config, listener.name)
        self._metrics.remove("Acceptor", f"{plane.metric_prefix}AcceptorBlockedPercent", listener=listener.name)
        self._retire(plane, listener.resize(0, start=False))

    def _retire(self, plane: RequestPlane, threads: Sequence[NetworkThread]) -> None:
        """End network threads in the background, after their requests in flight have been answered."""
        if not threads:
            return
        for thread in threads:
            plane.remove(thread)
            self.quotas.remove_check(thread.processor.check_connections)

        def end() -> None:
            drain_and_stop(threads, self._clock, DRAIN_S)
            for thread in threads:
                plane.forget(thread)

        self._retirements = [each for each in self._retirements if each.is_alive()]
        retirement = make_thread(end, "kafka-network-thread-retirement")
        try:
            retirement.start()
        except RuntimeError:  # the system has no thread to give
            end()
        else:
            self._retirements.append(retirement)

    # Construction.

    def _in_bind_order(self) -> Iterable[EndPoint]:
        # As in Kafka: the control plane, then the inter-broker listener, then the others as configured.
        first = (self._config.control_plane_listener_name, self._config.inter_broker_listener_name)
        return sorted(
            self._config.listeners,
            key=lambda end_point: first.index(end_point.listener_name) if end_point.listener_name in first else len(first),
        )

    def _plane_of(self, config: KafkaConfig, listener_name: str) -> RequestPlane:
        control = self._control_plane
        return control if control is not None and listener_name == config.control_plane_listener_name else self._data_plane

    def _add_listener(self, config: KafkaConfig, end_point: EndPoint) -> Listener:
        name = end_point.listener_name
        plane = self._plane_of(config, name)
        blocked = self._metrics.meter("Acceptor", f"{plane.metric_prefix}AcceptorBlockedPercent", listener=name)
        acceptor = Acceptor(end_point, self._reactor, _socket_options(config), self._clock, blocked, self.quotas)
        try:
            settings = self._processor_settings(config, end_point)
        except Exception:
            acceptor.close()
            raise
        self.quotas.add_listener(config, name)
        listener = self._listeners[name] = Listener(end_point, acceptor, lambda: self._new_thread(plane, settings))
        listener.resize(1 if plane is self._control_plane else _network_threads(config, name), start=False)
        return listener

    def _processor_settings(self, config: KafkaConfig, end_point: EndPoint) -> ProcessorSettings:
        name = end_point.listener_name
        settings = ProcessorSettings(
            name, end_point.security_protocol, config.int("socket.request.max.bytes"), config.long("connections.max.idle.ms")
        )
        if self._plane_of(config, name) is self._data_plane:  # clients that exhaust the pool must not delay the controller
            settings.memory_pool = self._memory_pool
        settings.is_privileged = name == (config.control_plane_listener_name or config.inter_broker_listener_name)
        settings.failed_authentication_delay_ms = config.int("connection.failed.authentication.delay.ms")
        settings.quotas = self.quotas
        settings.channel_builder = self._builders[name] = self._builder_of(config, end_point)
        return settings

    def _new_thread(self, plane: RequestPlane, settings: ProcessorSettings) -> NetworkThread:
        number = self._next_number
        self._next_number += 1
        reactor = self._reactor_factory(self._clock)
        processor = Processor(number, settings, reactor, plane.request_channel, self._clock, self._observers)
        name = (
            f"{plane.name}-kafka-network-thread-{self._config.broker_id}-ListenerName({settings.listener_name})"
            f"-{settings.security_protocol}-{number}"
        )
        thread = NetworkThread(processor, reactor, name, lambda: self._reactor_factory(self._clock))
        plane.add(thread)
        self.quotas.add_check(settings.listener_name, processor.check_connections)
        return thread


def _network_threads(config: KafkaConfig, listener_name: str) -> int:
    count = config.for_listener(listener_name, NETWORK_THREADS)
    assert isinstance(count, int)
    return count


def _socket_options(config: KafkaConfig) -> SocketOptions:
    return SocketOptions(
        config.int("socket.listen.backlog.size"),
        config.int("socket.send.buffer.bytes"),
        config.int("socket.receive.buffer.bytes"),
    )
