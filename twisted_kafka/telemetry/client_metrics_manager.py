"""Subscriptions to client metrics, and the clients that push them (KIP-714; Kafka: ``ClientMetricsManager``)."""

import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.client_metrics import ALL_METRICS, ClientMetricsConfig
from twisted_kafka.protocol.compiler.types import NO_UUID, random_uuid, uuid_text
from twisted_kafka.protocol.errors import (
    InvalidRequestError,
    KafkaError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from twisted_kafka.protocol.records.compression import Compression, decompress
from twisted_kafka.system import machine
from twisted_kafka.system.client_text import bounded_text
from twisted_kafka.system.installation import install_command
from twisted_kafka.telemetry.exposed_metrics import ExposedMetrics
from twisted_kafka.telemetry.otlp import MISSING, is_available, read_metrics
from twisted_kafka.timing.clock import IClock

_log = Logger()

DEFAULT_INTERVAL_MS: Final = 300_000
"""Push interval of clients without a subscription: they ask for one at this interval."""

MAX_INSTANCES: Final = 16_384
"""Maximum number of client instances in the cache; the least recently used is evicted (Kafka: CLIENT_METRICS_CACHE_MAX_SIZE)."""

EXPIRY_INTERVALS: Final = 3
"""Number of push intervals after which an inactive client expires."""

MAX_RATIO: Final = 4
"""Limit of a decompressed push, as a multiple of ``telemetry.max.bytes``, the limit of a compressed one.

Decoded, it takes far more memory.
"""

ACCEPTED: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""Codecs that clients may use, in order of preference."""

Client = Mapping[str, str]
"""The attributes that subscriptions match on; the keys are ``config.client_metrics.SELECTORS``."""


class Subscription(NamedTuple):
    """The metrics that a client has to push, and the interval."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]


class _Instance:
    """A client instance with its subscription."""

    __slots__ = ("asked_ms", "client", "generation", "is_terminating", "may_ask_again", "pushed_ms", "seen_ms", "subscription")

    def __init__(self, client: Client, subscription: Subscription, generation: int) -> None:
        self.client = client
        self.subscription = subscription
        self.generation = generation
        self.asked_ms = self.pushed_ms = -1
        self.seen_ms = 0
        self.is_terminating = False
        self.may_ask_again = False


class ClientMetricsManager:
    """Subscriptions by name, clients by instance id. Methods may be called on any thread."""

    def __init__(self, clock: IClock, exposed: ExposedMetrics, max_bytes: int, max_instances: int = MAX_INSTANCES) -> None:
        """``max_bytes`` is ``telemetry.max.bytes``."""
        self.max_bytes = max_bytes
        self._clock = clock
        self._exposed = exposed
        self._max_instances = max_instances
        self._lock = machine.Lock()
        self._configs: dict[str, ClientMetricsConfig] = {}
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()
        self._generation = 0

    def update(self, name: str, config: Mapping[str, str]) -> None:
        """Set the configs of a subscription; empty ones delete it. Where metrics cannot be read, clients are not asked for any."""
        try:
            parsed = ClientMetricsConfig.parse(config) if config else None
        except KafkaError as error:
            _log.error("Ignoring invalid configs of client metrics subscription {name}: {error}", name=name, error=error)
            return
        if parsed is not None and not is_available():
            _log.error(
                "No client pushes metrics for subscription {name}: {why}",
                name=name,
                why=f"{MISSING}: {install_command('client-metrics')}",
            )
        with self._lock:
            if parsed is None:
                self._configs.pop(name, None)
            else:
                self._configs[name] = parsed
            self._generation += 1

    def subscribe(self, instance_id: bytes, client: Client) -> tuple[bytes, Subscription]:
        """Return the client's instance id, a new one if it has none yet, and its subscription.

        Raises ThrottlingQuotaExceededError if the client asks again before the push interval has passed.
        """
        instance_id = random_uuid() if instance_id == NO_UUID else instance_id
        now_ms = self._clock.wall_ms()
        with self._lock:
            self._expire(now_ms)
            instance = self._instance(instance_id, client)
            too_early = instance.asked_ms >= 0 and now_ms < instance.asked_ms + instance.subscription.interval_ms
            if too_early and not instance.may_ask_again:
                raise ThrottlingQuotaExceededError(
                    f"Client {uuid_text(instance_id)} asked again before its push interval had passed"
                )
            instance.asked_ms = instance.seen_ms = now_ms
            instance.may_ask_again = False
            return instance_id, instance.subscription

    def push(self, instance_id: bytes, subscription_id: int, codec: int, data: bytes, client: Client, *, is_last: bool) -> None:
        """Take a client's metrics, compressed by ``codec`` of the record format; ``is_last`` if the client terminates.

        Raises InvalidRequestError after its last push or without an instance id, ThrottlingQuotaExceededError before its interval
        is over, UnknownSubscriptionIdError, UnsupportedCompressionTypeError, or TelemetryTooLargeError.
        """
        if instance_id == NO_UUID:
            raise InvalidRequestError("Invalid client instance id: it is not set")
        now_ms = self._clock.wall_ms()
        with self._lock:
            self._expire(now_ms)
            instance = self._instance(instance_id, client)
            self._ensure_may_push(instance, subscription_id, codec, len(data), now_ms, is_last)
        if data:
            samples = read_metrics(decompress(Compression(codec), data, limit_bytes=MAX_RATIO * self.max_bytes))
            self._exposed.take(instance_id, _labels(instance_id, instance.client), samples)
            with self._lock:
                # The client may have been forgotten meanwhile: nothing else would remove its metrics.
                if self._instances.get(instance_id) is not instance:
                    self._exposed.forget(instance_id, _labels(instance_id, instance.client))
        if is_last:
            with self._lock:
                instance.is_terminating = True

    def _ensure_may_push(
        self, instance: _Instance, subscription_id: int, codec: int, size_bytes: int, now_ms: int, is_last: bool
    ) -> None:
        if instance.is_terminating:
            raise InvalidRequestError("The client has already sent its last push")
        too_early = instance.pushed_ms >= 0 and now_ms < instance.pushed_ms + instance.subscription.interval_ms
        if too_early and not is_last:
            raise ThrottlingQuotaExceededError("The client pushed before its push interval had passed")
        instance.pushed_ms = instance.seen_ms = now_ms
        is_asked_for = instance.asked_ms >= 0 and (instance.subscription.metrics or not is_available())
        if subscription_id != instance.subscription.subscription_id or not is_asked_for:
            instance.may_ask_again = True
            raise UnknownSubscriptionIdError(
                f"Unknown subscription id {subscription_id}: the client has to fetch its subscription, which may be empty"
            )
        if codec and codec not in ACCEPTED:
            instance.may_ask_again = True
            raise UnsupportedCompressionTypeError(f"Unknown compression type {codec}")
        if size_bytes > self.max_bytes:
            raise TelemetryTooLargeError(f"The push of {size_bytes} bytes is larger than telemetry.max.bytes ({self.max_bytes})")

    def _instance(self, instance_id: bytes, client: Client) -> _Instance:
        instance = self._instances.get(instance_id)
        client = {name: bounded_text(text) for name, text in client.items()}
        client["client_instance_id"] = uuid_text(instance_id)
        if instance is None:
            instance = _Instance(client, self._subscription(instance_id, client), self._generation)
            self._instances[instance_id] = instance
            if len(self._instances) > self._max_instances:
                self._forget(next(iter(self._instances)))
        elif instance.generation != self._generation:
            instance.subscription = self._subscription(instance_id, client)
            instance.generation = self._generation
            instance.may_ask_again = True
        self._instances.move_to_end(instance_id)
        return instance

    def _subscription(self, instance_id: bytes, client: Client) -> Subscription:
        configs = self._configs.values() if is_available() else ()
        fitting = [config for config in configs if config.applies_to(client)]
        interval_ms = min((config.interval_ms for config in fitting), default=DEFAULT_INTERVAL_MS)
        metrics = sorted({metric for config in fitting for metric in config.metrics})
        wanted = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics)
        digest = zlib.crc32(repr((wanted, interval_ms)).encode(), zlib.crc32(instance_id))
        return Subscription(digest - (1 << 32) if digest >= 1 << 31 else digest, interval_ms, wanted)

    def _expire(self, now_ms: int) -> None:
        # The least recently used come first. As all intervals are of the same order, checking the first ones suffices.
        while self._instances:
            instance_id, instance = next(iter(self._instances.items()))
            if now_ms < instance.seen_ms + EXPIRY_INTERVALS * instance.subscription.interval_ms:
                return
            self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        instance = self._instances.pop(instance_id)
        self._exposed.forget(instance_id, _labels(instance_id, instance.client))


def _labels(instance_id: bytes, client: Client) -> dict[str, str]:
    shown: Iterable[str] = ("client_id", "client_software_name", "client_software_version", "client_source_address")
    return {"client_instance_id": uuid_text(instance_id), **{name: client.get(name, "") for name in shown}}
