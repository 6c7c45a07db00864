"""All quotas of clients; their configs in ``/config/users`` and ``/config/clients``. (Kafka: QuotaFactory, QuotaConfigHandler.)"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.python_class import instance_of
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.quota.client_quota_callback import DEFAULT, AnyName, ClientQuotaType, IClientQuotaCallback, QuotaEntity
from twisted_kafka.quota.client_quota_manager import ClientBandwidthQuotaManager, ClientQuotaManager, ClientRequestQuotaManager
from twisted_kafka.quota.client_sensors import ClientSensors
from twisted_kafka.quota.controller_mutation_quota_manager import ControllerMutationQuotaManager
from twisted_kafka.quota.entities import entity_name
from twisted_kafka.quota.sensors import QuotaWindows
from twisted_kafka.quota.throttled_channels import ThrottledChannels
from twisted_kafka.system.client_text import TEXT_CHARACTERS
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler
from twisted_kafka.timing.timer import Timer

CALLBACK_CLASS: Final = "client.quota.callback.class"

EXPIRE_MS: Final = 30_000
"""How often idle sensors are removed (Kafka: Metrics.ExpireSensorTask)."""

_USERS: Final = "users"
_CLIENTS: Final = "clients"

_log = Logger()


class QuotaManagers:
    """The managers of the four types of quota, and the channels that each throttles."""

    def __init__(self, config: KafkaConfig, clock: IClock, metrics: MetricsRegistry, timer: Timer) -> None:
        """Raises ConfigError if ``client.quota.callback.class`` cannot be loaded."""
        windows = QuotaWindows(config.int("quota.window.num"), config.int("quota.window.size.seconds") * 1000)
        of_controller = QuotaWindows(
            config.int("controller.quota.window.num"), config.int("controller.quota.window.size.seconds") * 1000
        )
        self._callback = callback = _load_callback(config)
        self.produce = ClientBandwidthQuotaManager(ClientQuotaType.PRODUCE, windows, clock, metrics, callback)
        self.fetch = ClientBandwidthQuotaManager(ClientQuotaType.FETCH, windows, clock, metrics, callback)
        self.request = ClientRequestQuotaManager(windows, clock, metrics, callback)
        self.controller_mutation = ControllerMutationQuotaManager(of_controller, clock, metrics, callback)
        self.is_enabled = callback is not None
        """Whether any type of quota is enabled: without, requests pass by with this one test."""
        self._observe_requests: Callable[[], object] | None = None
        self._managers: dict[str, ClientQuotaManager[Any]] = {
            "producer_byte_rate": self.produce,
            "consumer_byte_rate": self.fetch,
            "request_percentage": self.request,
            "controller_mutation_rate": self.controller_mutation,
        }
        self.generation = object()
        """Replaced when quotas change or sensors are dropped: those on connections may no longer be their clients'."""
        for manager in self._managers.values():
            manager.changed = self._begin_generation
        self._throttled = {manager.quota_type: ThrottledChannels(clock, timer) for manager in self._managers.values()}
        for quota_type, throttled in self._throttled.items():
            metrics.gauge(quota_type.value, "queue-size", throttled.__len__)

    # Configs.

    def start(self, configs: ConfigRepository, scheduler: IScheduler, observe_requests: Callable[[], object]) -> None:
        """Apply the present quotas, and follow their changes.

        ``observe_requests`` is called once, when request quotas are enabled: the time of sending is measured from then on.
        """
        self._observe_requests = observe_requests
        self._enable(self.request)
        configs.add_listener(_USERS, self.update_user)
        configs.add_listener(_CLIENTS, self.update_client)
        users = configs.names(_USERS)
        both = [f"{user}/{_CLIENTS}/{client}" for user in users for client in configs.names(f"{_USERS}/{user}/{_CLIENTS}")]
        for kind, names, update in (
            (_USERS, [*users, *both], self.update_user),
            (_CLIENTS, configs.names(_CLIENTS), self.update_client),
        ):
            for name, config in zip(names, configs.each(f"{kind}/{name}" for name in names), strict=True):
                update(name, config)
        scheduler.schedule("expire-quota-sensors", self.expire, EXPIRE_MS, EXPIRE_MS)

    def update_user(self, name: str, config: Mapping[str, str]) -> None:
        """Apply the config of a user, or of a user and a client id: ``alice``, ``alice/clients/app``."""
        user, _, client = name.partition(f"/{_CLIENTS}/")
        self._update(QuotaEntity(_name(user), _name(client) if client else None), config)

    def update_client(self, name: str, config: Mapping[str, str]) -> None:
        """Apply the config of a client id."""
        self._update(QuotaEntity(client_id=_name(name)), config)

    def _update(self, entity: QuotaEntity, config: Mapping[str, str]) -> None:
        """Apply a config. A value that is not a number is logged, and the quota stays as it is."""
        for key, manager in self._managers.items():
            text = config.get(key)
            try:
                limit = None if text is None else float(text)
                if limit is not None and math.isnan(limit):
                    raise ValueError
            except ValueError:
                _log.error("Ignoring the invalid value {key}={text} of {entity}", key=key, text=text, entity=entity)
                continue
            manager.update_quota(entity, limit)
            self._enable(manager)
            self._shorten(manager)

    def _enable(self, manager: ClientQuotaManager[Any]) -> None:
        if manager.is_enabled:
            self.is_enabled = True
            if manager is self.request and self._observe_requests is not None:
                self._observe_requests()
                self._observe_requests = None

    def _shorten(self, manager: ClientQuotaManager[Any]) -> None:
        """End throttling earlier where quotas have become larger."""
        throttled = self._throttled[manager.quota_type]
        if len(throttled):
            now_ms = manager.now_ms()
            throttled.shorten(lambda request: manager.sensor_of(request.context).throttle_ms(now_ms))

    def cluster_changed(self, cluster: Any) -> None:
        """Inform the callback, and ask for all limits again if it says so. Without a callback it does nothing."""
        if self._callback is not None and self._callback.update_cluster_metadata(cluster):
            for manager in self._managers.values():
                manager.update_limits()
                self._shorten(manager)

    def expire(self) -> None:
        """Forget idle and disconnected clients."""
        for manager in self._managers.values():
            manager.expire()
        for throttled in self._throttled.values():
            throttled.forget_closed()

    def close(self) -> None:
        """Close the callback, as the broker stops."""
        if self._callback is not None:
            self._callback.close()

    # Sensors.

    def _begin_generation(self) -> None:
        self.generation = object()

    def sensors_of(self, context: RequestContext) -> ClientSensors:
        """Return the sensors of the client that sent a request. They are kept on its connection, unless its id is long."""
        connection = context.connection
        sensors: ClientSensors | None = connection.quota_sensors
        generation = self.generation  # of before they are looked up
        if sensors is None or sensors.generation is not generation or sensors.client_id != context.client_id:
            sensors = ClientSensors(context.client_id, generation, self.request.exempt)
            # Another callback may return other tags for the next request.
            if self._callback is None and len(context.client_id or "") <= TEXT_CHARACTERS:
                connection.quota_sensors = sensors
        return sensors

    def most_fetched(self, context: RequestContext) -> float:
        """Return the most bytes that a client may get at once: more than this always delays the client."""
        if not self.fetch.is_enabled:
            return math.inf
        sensors: ClientSensors | None = context.connection.quota_sensors
        if sensors is None or sensors.generation is not self.generation or sensors.client_id != context.client_id:
            sensors = self.sensors_of(context)
        return (sensors.fetch or sensors.look_up_fetch(self.fetch, context)).most_at_once

    # Throttling.

    def throttle(self, manager: ClientQuotaManager[Any], channel: RequestChannel, request: Request, throttle_ms: int) -> None:
        """Mute the channel of a request that has not been answered, because of a quota of this type."""
        sensor = manager.sensor_of(request.context)
        sensor.note_throttle(throttle_ms, manager.now_ms())
        request.throttle_ns = throttle_ms * 1_000_000
        self._throttled[manager.quota_type].throttle(channel, request, throttle_ms)


def _name(node: str) -> str | AnyName:
    name = entity_name(node)
    return DEFAULT if name is None else name


def _load_callback(config: KafkaConfig) -> Any:
    name = config.optional_string(CALLBACK_CLASS)
    if not name:
        return None
    return instance_of(
        name, CALLBACK_CLASS, IClientQuotaCallback.names(), lambda callback: callback.configure(dict(config.originals))
    )
