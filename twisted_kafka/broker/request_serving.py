"""RequestServing: the parts that answer a broker's requests, and the observers of answered requests."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from twisted_kafka.broker.api_families import ApiDependencies, make_families
from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient
from twisted_kafka.broker.personas import Persona
from twisted_kafka.broker.running import Running
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.request_plane import RequestPlane
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_metrics import RequestMetrics
from twisted_kafka.network.requests.request_observer import IRequestObserver
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.server.authorization import TrustingAuthorizer
from twisted_kafka.server.diagnoses import AdvertisedAddresses, Diagnoses, advertised_to_others
from twisted_kafka.server.dispatch import ApiRegistry
from twisted_kafka.server.inner_requests import InnerRequests, Serving
from twisted_kafka.server.interception import IRequestInterceptor
from twisted_kafka.server.kafka_apis import KafkaApis
from twisted_kafka.server.large_requests import MOST_BROKER_ELEMENTS, MOST_ELEMENTS
from twisted_kafka.server.request_handler import IRequestHandling, KafkaRequestHandlerPool
from twisted_kafka.server.request_throttler import RequestThrottler
from twisted_kafka.timing.clock import IClock

if TYPE_CHECKING:
    from twisted_kafka.console.cluster.in_process import LocalBroker
    from twisted_kafka.console.live.live import Live

InFlightRow = tuple[str, int, int, int, str, int, str]
"""Records of a share group in one state: topic, partition, first and last offset, state, delivery count, and the member's id."""


class Guise(NamedTuple):
    """Changes that tests make to a broker: another persona, and an interceptor."""

    persona: Persona | None = None
    """The version of Kafka as which the broker answers."""
    interceptor: IRequestInterceptor | None = None
    """Sees each request before its handler, and each response last."""


class RequestServing:
    """The request handlers of a broker, its APIs, and the observers that every broker has."""

    def __init__(
        self, config: KafkaConfig, clock: IClock, metrics: MetricsRegistry, on_fatal: Callable[[str], object], guise: Guise
    ) -> None:
        """``on_fatal`` is called when a handler's thread cannot continue."""
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._on_fatal = on_fatal
        self._persona, self._interceptor = guise
        self._request_metrics = RequestMetrics(metrics)
        self.diagnoses = Diagnoses(clock, None if self._interceptor is None else self._interceptor.own_client_id)
        self._disabled_apis: Callable[[], frozenset[int]] = frozenset
        self._data_plane: RequestPlane | None = None
        self._serving: Serving | None = None
        self._handling: IRequestHandling | None = None
        self.supported_apis: dict[int, tuple[int, int]] = {}
        """The versions of each API that are served, from the start of the handlers on."""

    @property
    def observers(self) -> list[IRequestObserver]:
        """The observers of answered requests."""
        return [self._request_metrics, self.diagnoses]

    def observe_addresses(self, sockets: SocketServer) -> None:
        """Find clients that Metadata sends to addresses of this machine only, if the broker advertises such addresses."""
        if addresses := advertised_to_others(self._config.listeners, self._config.advertised_listeners):
            sockets.add_observer(AdvertisedAddresses(self.diagnoses, addresses))

    @property
    def tells_features(self) -> bool:
        """Whether ApiVersions reports features."""
        return self._persona is None or self._persona.tells_features

    def told_apis(self) -> Mapping[int, tuple[int, int]]:
        """Return the APIs and versions that ApiVersions reports: those of share and streams groups only if these are enabled."""
        told = self.supported_apis if self._persona is None else self._persona.told(self.supported_apis)
        disabled = self._disabled_apis()
        return {key: versions for key, versions in told.items() if key not in disabled} if disabled else told

    def local_broker(self, metadata: MetadataCache, authorizer: Any, client: InterBrokerClient) -> "LocalBroker":
        """Return what asks this broker in process, for the console, and others with ``client``.

        Called once the handlers have started.
        """
        from twisted_kafka.console.cluster.in_process import KeptResults, LocalBroker  # few brokers have a console
        from twisted_kafka.console.cluster.other_brokers import OtherBrokers

        assert self._serving is not None, "the handlers have started"
        name = self._config.inter_broker_listener_name
        listener = name, self._config.security_protocol_map[name]
        others = OtherBrokers(
            client.send, lambda broker: metadata.node(broker, name), self._clock, has_authorizer=authorizer is not None
        )

        def state() -> tuple[object, ...] | None:
            generation = 0 if authorizer is None else getattr(authorizer, "generation", None)
            return None if generation is None else (metadata.snapshot, generation)

        return LocalBroker(lambda: self._config.broker_id, self._serving, self.told_apis, listener, others, state, KeptResults())

    def live(self, running: Running, in_flight: Callable[[str], list[InFlightRow]]) -> "Live":
        """Return what only this broker knows, for the console. Called once the handlers have started."""
        from twisted_kafka.console.live.capture import Capture  # few brokers have a console
        from twisted_kafka.console.live.live import Live, Parts

        assert self._data_plane is not None, "the handlers have started"
        assert self._handling is not None
        assert running.sockets is not None
        assert running.handlers is not None
        assert running.groups is not None
        assert running.replicas is not None
        capture = Capture(running.handlers, self._handling, running.sockets, self._clock)
        channel, metrics, settings = self._data_plane.request_channel, self._metrics, self._config.originals
        readers, leader_of = running.groups.readers, running.replicas.online_leader

        def may_have_open(where: TopicPartition) -> bool:
            partition = leader_of(where)
            return partition is None or partition.log.limits.first_unstable is not None

        asked = readers, in_flight, may_have_open
        return Live(Parts(capture, running.sockets, channel, metrics, self.diagnoses, *asked, settings, self._clock))

    def start(
        self,
        dependencies: ApiDependencies,
        metadata: MetadataCache,
        planes: tuple[RequestPlane, RequestPlane | None],
        throttler: RequestThrottler,
        running: Running,
    ) -> KafkaRequestHandlerPool:
        """Start the handlers of the data plane and, where there is one, of the control plane; return the former."""
        data_plane, control_plane = planes
        access_log = dependencies.access_log
        observers = [*self.observers, *([] if access_log is None else [access_log])]
        self._serving = serving = Serving(data_plane.request_channel, observers, self._clock)
        registry = self._make_registry(dependencies._replace(make_inner=partial(InnerRequests, serving)))
        self._disabled_apis = dependencies.disabled_apis
        self.supported_apis = registry.supported
        self._request_metrics.register(self.supported_apis)

        def make_apis(channel: RequestChannel) -> KafkaApis:
            has_cluster = bool(self._config.optional_string("zookeeper.connect"))
            return KafkaApis(registry, channel, self._clock, throttler, MOST_BROKER_ELEMENTS if has_cluster else MOST_ELEMENTS)

        def make_pool(plane: RequestPlane, threads: int) -> KafkaRequestHandlerPool:
            apis: IRequestHandling
            if self._interceptor is None:
                apis = make_apis(plane.request_channel)
            else:
                apis = self._interceptor.intercept(make_apis, plane.request_channel, metadata.topic_name)
            self._handling = self._handling or apis
            return KafkaRequestHandlerPool(plane, apis.handle, threads, self._clock, self._metrics, self._on_fatal, apis)

        self._data_plane = data_plane
        running.handlers = handlers = make_pool(data_plane, self._config.int("num.io.threads"))
        handlers.start()
        if running.timer is not None:
            running.timer.hand_to(data_plane.request_channel.send_callback)
        if control_plane is not None:
            running.control_plane_handlers = make_pool(control_plane, 1)
            running.control_plane_handlers.start()
        return handlers

    def _make_registry(self, dependencies: ApiDependencies) -> ApiRegistry:
        if self._interceptor is not None and dependencies.authorizer is not None:
            trusting = TrustingAuthorizer(dependencies.authorizer, self._interceptor.own_client_id)
            dependencies = dependencies._replace(authorizer=trusting)
        families, persona = make_families(dependencies), self._persona
        if persona is None:
            return ApiRegistry(families)
        return ApiRegistry(families, persona.served, tells_supported=persona.tells_supported)
