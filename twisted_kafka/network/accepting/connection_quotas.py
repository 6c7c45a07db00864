"""Limits on the number of connections and on how fast they are created. (Kafka: ConnectionQuotas; KIP-402, KIP-612.)

An acceptor counts each connection before a processor gets it: ``record_accept`` returns how long to wait for the accept rates,
``slot_available`` whether one more connection is allowed, and ``inc`` counts it. The processor's ``dec`` stops counting it. Nothing
here blocks: an acceptor that has to wait is called back.
"""

from collections.abc import Callable, Mapping
from functools import partial

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys.declare import MAX_INT
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.metrics.sampled import RateQuota, SampledAverage
from twisted_kafka.network.accepting.host_names import UnknownHostError, addresses
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MAX_CONNECTIONS = "max.connections"
MAX_CONNECTIONS_PER_IP = "max.connections.per.ip"
MAX_CONNECTIONS_PER_IP_OVERRIDES = "max.connections.per.ip.overrides"
MAX_CREATION_RATE = "max.connection.creation.rate"

KEYS = (MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP, MAX_CONNECTIONS_PER_IP_OVERRIDES, MAX_CREATION_RATE)
"""The keys that apply here; the first and the last also with a listener's prefix."""

MAX_IP_RATES = 10_000
"""Most addresses whose rates are tracked; the least recently seen one is dropped first."""

_GROUP = "socket-server-metrics"

_log = Logger()


class TooManyConnectionsError(Exception):
    """An address has reached its maximum of connections."""

    def __init__(self, address: str, limit: int) -> None:
        super().__init__(f"{address} already has the configured maximum of {limit} connections")
        self.address = address
        self.limit = limit


class ConnectionThrottledError(Exception):
    """An address exceeds its ``connection_creation_rate``: close this connection after ``throttle_ms``."""

    def __init__(self, address: str, throttle_ms: int) -> None:
        super().__init__(f"{address} is throttled for {throttle_ms} ms")
        self.address = address
        self.throttle_ms = throttle_ms


class _Listener:
    """The limits and the connection count of one listener."""

    __slots__ = ("count", "ip_throttle_ms", "limit", "quota", "throttle_ms")

    def __init__(self) -> None:
        self.limit = MAX_INT
        self.count = 0
        self.quota = RateQuota(MAX_INT)
        self.throttle_ms = SampledAverage()
        self.ip_throttle_ms = SampledAverage()


class ConnectionQuotas:
    """Counts connections by broker, listener and address. Thread-safe."""

    def __init__(self, config: KafkaConfig, clock: IClock, metrics: MetricsRegistry) -> None:
        self._now_ns = clock.monotonic_ns
        self._metrics = metrics
        self._lock = machine.Lock()
        self._protected = (config.inter_broker_listener_name, config.control_plane_listener_name)
        self._listeners: dict[str, _Listener] = {}
        self._removed_counts: dict[str, int] = {}
        """Open connections of listeners that were removed."""
        self._counts: dict[str, int] = {}
        self._total = 0
        self._claimed = 0
        """How many excess connections processors are about to close."""
        self._broker = RateQuota(MAX_INT)
        self._ip_rates: dict[str, int] = {}
        self._default_ip_rate = MAX_INT
        self._ip_quotas: dict[str, RateQuota] = {}
        self._waiting: dict[Callable[[], object], None] = {}
        self._checks: list[tuple[str, Callable[[], object]]] = []
        self._limit = self._limit_per_ip = MAX_INT
        self._overrides: Mapping[str, int] = {}
        metrics.gauge(_GROUP, "broker-connection-accept-rate", lambda: self._measure(self._broker))
        self.configure(config)

    # Limits.

    def configure(self, config: KafkaConfig) -> None:
        """Apply the limits of ``config``. Raises ConfigError for an override whose host cannot be resolved."""
        overrides = parse_overrides(config.string(MAX_CONNECTIONS_PER_IP_OVERRIDES))
        with self._lock:
            self._limit = config.int(MAX_CONNECTIONS)
            self._limit_per_ip = config.int(MAX_CONNECTIONS_PER_IP)
            self._overrides = overrides
            self._broker.limit = config.int(MAX_CREATION_RATE)
            for name, listener in self._listeners.items():
                self._configure_listener(config, name, listener)
        self._changed()

    def add_listener(self, config: KafkaConfig, name: str) -> None:
        """Start counting a listener's connections, with its limits from ``config``."""
        with self._lock:
            if name in self._listeners:
                return
            listener = self._listeners[name] = _Listener()
            listener.count = self._removed_counts.pop(
                name, 0
            )  # a listener that moves to another address keeps its open connections
            self._configure_listener(config, name, listener)
        gauge = self._metrics.gauge
        gauge(_GROUP, "connection-accept-rate", lambda: self._measure(listener.quota), listener=name)
        gauge(_GROUP, "connection-accept-throttle-time", lambda: self._average(listener.throttle_ms), listener=name)
        gauge(_GROUP, "ip-connection-accept-throttle-time", lambda: self._average(listener.ip_throttle_ms), listener=name)
        self._changed()

    def remove_listener(self, name: str) -> None:
        """Remove a listener. Its open connections still count for the broker and for their addresses."""
        with self._lock:
            listener = self._listeners.pop(name, None)
            if listener is not None and listener.count:
                self._removed_counts[name] = listener.count
        for metric in ("connection-accept-rate", "connection-accept-throttle-time", "ip-connection-accept-throttle-time"):
            self._metrics.remove(_GROUP, metric, listener=name)
        self._changed()

    def _configure_listener(self, config: KafkaConfig, name: str, listener: _Listener) -> None:
        # Without a value of its own a listener has the broker's limit, which then adds no restriction.
        limit, rate = config.for_listener(name, MAX_CONNECTIONS), config.for_listener(name, MAX_CREATION_RATE)
        assert isinstance(limit, int)
        assert isinstance(rate, int)
        listener.limit = limit
        listener.quota.limit = rate

    def set_ip_rate(self, address: str | None, rate: int | None) -> None:
        """Set the ``connection_creation_rate`` of an address, or the default for None; a rate of None removes the setting."""
        with self._lock:
            if address is None:
                self._default_ip_rate = MAX_INT if rate is None else rate
            elif rate is None:
                self._ip_rates.pop(address, None)
            else:
                self._ip_rates[address] = rate
            for known, quota in self._ip_quotas.items():
                quota.limit = self._ip_rates.get(known, self._default_ip_rate)

    def add_check(self, listener_name: str, check: Callable[[], object]) -> None:
        """Call ``check``, the ``check_connections`` of one of the listener's processors, when there are too many connections."""
        with self._lock:
            self._checks.append((listener_name, check))

    def remove_check(self, check: Callable[[], object]) -> None:
        """Stop calling ``check``."""
        with self._lock:
            self._checks = [pair for pair in self._checks if pair[1] != check]

    # Called by acceptors.

    def record_accept(self, listener_name: str) -> int:
        """Record a connection in the rates of its listener and the broker; return how many milliseconds it has to wait."""
        now_ms = self._now_ms()
        with self._lock:
            throttle_ms = 0 if self._is_protected(listener_name) else self._broker.record(now_ms)
            listener = self._listeners[listener_name]
            throttle_ms = max(throttle_ms, listener.quota.record(now_ms))
            if throttle_ms:
                listener.throttle_ms.record(throttle_ms, now_ms)
        return throttle_ms

    def slot_available(self, listener_name: str, retry: Callable[[], object]) -> bool:
        """Return whether one more connection is allowed; if not, ``retry`` is called once when a slot may be free."""
        with self._lock:
            listener = self._listeners[listener_name]
            if listener.count < listener.limit and (self._is_protected(listener_name) or self._total < self._limit):
                return True
            self._waiting[retry] = None
            return False

    def inc(self, listener_name: str, address: str) -> None:
        """Count a connection.

        Raises ConnectionThrottledError if it was not counted, or TooManyConnectionsError if it was: call ``dec`` then.
        """
        now_ms = self._now_ms()
        with self._lock:
            listener = self._listeners[listener_name]
            self._record_ip(listener, address, now_ms)
            count = self._counts.get(address, 0)
            self._counts[address] = count + 1
            self._total += 1
            listener.count += 1
            limit = self._overrides.get(address, self._limit_per_ip)
            is_exceeded = self._total > self._limit
        if is_exceeded:
            self._check_connections()
        if count >= limit:
            raise TooManyConnectionsError(address, limit)

    def _record_ip(self, listener: _Listener, address: str, now_ms: int) -> None:
        rate = self._ip_rates.get(address, self._default_ip_rate)
        if rate == MAX_INT:
            return
        quota = self._ip_quotas.pop(address, None)
        if quota is None:
            quota = self._add_ip_quota(address, rate)
        self._ip_quotas[address] = quota  # moved to the end: most recently seen
        throttle_ms = quota.record(now_ms)
        if throttle_ms:
            quota.unrecord(now_ms)
            listener.ip_throttle_ms.record(throttle_ms, now_ms)
            raise ConnectionThrottledError(address, throttle_ms)

    def _add_ip_quota(self, address: str, rate: int) -> RateQuota:
        if len(self._ip_quotas) >= MAX_IP_RATES:
            oldest = next(iter(self._ip_quotas))
            del self._ip_quotas[oldest]
            self._metrics.remove(_GROUP, "connection-accept-rate", ip=oldest)
        quota = RateQuota(rate)
        self._metrics.gauge(_GROUP, "connection-accept-rate", partial(self._measure, quota), ip=address)
        return quota

    # Called by processors.

    def dec(self, listener_name: str, address: str) -> None:
        """Stop counting a connection."""
        with self._lock:
            count = self._counts.get(address, 0)
            listener = self._listeners.get(listener_name)
            if not count:
                _log.error("A closed connection of {address} had not been counted; the count of its address stays", address=address)
                return
            if count == 1:
                del self._counts[address]
            else:
                self._counts[address] = count - 1
            self._total -= 1
            if self._claimed:
                self._claimed -= 1  # whichever connection this was, there is one less to close
            if listener is not None:
                listener.count -= 1
            elif (left := self._removed_counts.pop(listener_name, 0)) > 1:
                self._removed_counts[listener_name] = left - 1
        self._retry_waiting()

    def claim_excess(self, listener_name: str) -> bool:
        """Return whether the caller must close one of this listener's connections; True once per excess connection."""
        with self._lock:
            if self._total - self._claimed <= self._limit or self._is_protected(listener_name):
                return False
            self._claimed += 1
            return True

    # For diagnostics and tests.

    @property
    def total(self) -> int:
        """How many connections are counted."""
        return self._total

    def count(self, address: str) -> int:
        """Return how many connections of this address are counted."""
        return self._counts.get(address, 0)

    def listener_count(self, listener_name: str) -> int:
        """Return how many connections of this listener are counted."""
        return self._listeners[listener_name].count

    def _is_protected(self, listener_name: str) -> bool:
        # Kafka protects only the first: there, clients of a full broker can lock out the controller.
        return listener_name in self._protected and len(self._listeners) > 1

    def _changed(self) -> None:
        self._retry_waiting()
        if self._total > self._limit:
            self._check_connections()

    def _retry_waiting(self) -> None:
        if self._waiting:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            for retry in waiting:
                retry()

    def _check_connections(self) -> None:
        for listener_name, check in self._checks:
            if not self._is_protected(listener_name):
                check()

    def _now_ms(self) -> int:
        return self._now_ns() // 1_000_000

    def _measure(self, quota: RateQuota) -> float:
        with self._lock:
            return quota.rate.measure(self._now_ms())

    def _average(self, average: SampledAverage) -> float:
        with self._lock:
            return average.measure(self._now_ms())


def parse_overrides(text: str) -> dict[str, int]:
    """Return limits by address from host:count pairs; raises ConfigError for a host that cannot be resolved."""
    limits = {}
    for pair in filter(None, (item.strip() for item in text.split(","))):
        host, _, count = pair.rpartition(":")
        try:
            found = addresses(host.strip().strip("[]"))
        except UnknownHostError as error:
            key = MAX_CONNECTIONS_PER_IP_OVERRIDES
            raise ConfigError(f"Invalid value {pair!r} for {key}: the host cannot be resolved: {error}") from error
        limits.update(dict.fromkeys(found, int(count)))
    return limits
