"""How the parts of a running broker react to changed settings.

(Kafka: DynamicThreadPool, DynamicListenerConfig, DynamicLogConfig, and SocketServer as a BrokerReconfigurable.)
"""

from collections.abc import Callable, Iterable
from typing import Final

from twisted_kafka.broker.main_reactor import MainReactor
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS, TOPIC_KEYS
from twisted_kafka.config.keys.declare import BROKER
from twisted_kafka.config.prefixes import base_key
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.log.cleaner.log_cleaner import RECONFIGURABLE as LOG_CLEANER_KEYS
from twisted_kafka.log.cleaner.log_cleaner import LogCleaner
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.network.accepting import connection_quotas
from twisted_kafka.network.socket_server import NETWORK_THREADS, SocketServer

_LISTENER_KEYS: Final = frozenset(("listeners", "advertised.listeners", "listener.security.protocol.map"))
_UNLIMITED: Final = -1
_AS_TOTAL: Final = -2
_SECURITY_PREFIXES: Final = ("ssl.", "sasl.", "principal.builder.class")


def concerns_listeners(name: str) -> bool:
    """Whether listeners depend on a setting, which may have prefixes."""
    key = BROKER_KEYS.get(base_key(name) or "")
    return name in _LISTENER_KEYS or (key is not None and key.scope != BROKER)


def ensure_gentle(name: str, old: int, new: int) -> None:
    """Raise ConfigError for a number of threads that is more than twice or less than half the present one."""
    failed = f"Invalid value {new} for {name}: Dynamic thread count update validation failed"
    if new != old:
        if new < 1:
            raise ConfigError(f"{failed}, value should be at least 1")
        if new < old // 2:
            raise ConfigError(f"{failed}, value should be at least half the current value {old}")
        if new > old * 2:
            raise ConfigError(f"{failed}, value should not be greater than double the current value {old}")


class ThreadPool:
    """Resizes a pool of threads. Without ``resize`` it only validates: that pool reads its size when it is made."""

    rereads_files = False

    def __init__(self, key: str, resize: Callable[[int], object] = lambda _: None) -> None:
        self.reconfigurable_keys = frozenset((key,))
        self._key = key
        self._resize = resize

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Refuse a number that is too far from the present one."""
        ensure_gentle(self._key, old.int(self._key), new.int(self._key))

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Resize the pool."""
        self._resize(new.int(self._key))


class NetworkThreads:
    """Resizes the network threads of each listener of the data plane."""

    reconfigurable_keys = frozenset((NETWORK_THREADS,))
    rereads_files = False

    def __init__(self, sockets: SocketServer, main: MainReactor) -> None:
        self._sockets = sockets
        self._main = main

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Refuse a number that is too far from the present one, for any listener."""
        for end_point in old.listeners:
            name = end_point.listener_name
            before, after = old.for_listener(name, NETWORK_THREADS), new.for_listener(name, NETWORK_THREADS)
            assert isinstance(before, int)
            assert isinstance(after, int)
            key = NETWORK_THREADS if after == new[NETWORK_THREADS] else f"listener.name.{name.lower()}.{NETWORK_THREADS}"
            ensure_gentle(key, before, after)

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Start and stop threads."""
        self._main.call(lambda: self._sockets.resize_threads(new))


class ConnectionLimits:
    """Sets the limits of connections and of their rates."""

    reconfigurable_keys = frozenset(connection_quotas.KEYS)
    rereads_files = False

    def __init__(self, sockets: SocketServer) -> None:
        self._quotas = sockets.quotas

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Refuse overrides that cannot be parsed."""
        connection_quotas.parse_overrides(new.string(connection_quotas.MAX_CONNECTIONS_PER_IP_OVERRIDES))

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Set the limits."""
        self._quotas.configure(new)


class Listeners:
    """Opens and closes listeners, and registers the broker's new addresses."""

    reconfigurable_keys = _LISTENER_KEYS
    rereads_files = False

    def __init__(self, sockets: SocketServer, main: MainReactor, register: Callable[[], object]) -> None:
        self._sockets = sockets
        self._main = main
        self._register = register

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Reject another security protocol for a listener, and settings without an inter-broker listener."""
        before = {end_point.listener_name: end_point for end_point in old.listeners}
        for end_point in new.listeners:
            known = before.get(end_point.listener_name)
            if known is not None and known.security_protocol != end_point.security_protocol:
                raise ConfigError(f"Security protocol cannot be updated for existing listener {end_point.listener_name}")
        if new.inter_broker_listener_name not in {end_point.listener_name for end_point in new.advertised_listeners}:
            raise ConfigError(f"Advertised listener must be specified for inter-broker listener {new.inter_broker_listener_name}")
        self._sockets.try_out(new)

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Open and close listeners. A port that cannot be bound is logged; the others are opened."""
        try:
            self._main.call(lambda: self._sockets.update_listeners(new))
        finally:
            self._register()


class ListenerSecurity:
    """Certificates and other security settings of listeners. Reconfiguring reads their files again."""

    rereads_files = True

    def __init__(self, sockets: SocketServer, keys: Iterable[str]) -> None:
        self.reconfigurable_keys = frozenset(key for key in keys if key.startswith(_SECURITY_PREFIXES))
        self._sockets = sockets

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Refuse settings with which new connections would fail."""
        self._sockets.validate_security(new)

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Use the settings for new connections."""
        self._sockets.reconfigure_security(new)


class LogDefaults:
    """The broker's defaults for topic configs."""

    reconfigurable_keys = frozenset(name for key in TOPIC_KEYS.values() for name, _ in key.synonyms) | {"producer.id.expiration.ms"}
    rereads_files = False

    def __init__(self, config: KafkaConfig, logs: LogManager, controller: KafkaController) -> None:
        self._config = config
        self._logs = logs
        self._controller = controller

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Refuse a negative expiration of producer ids, and local retention above total retention."""
        expiration_ms = new.int("producer.id.expiration.ms")
        if expiration_ms < 0:
            raise ConfigError(f"Invalid value '{expiration_ms}' for producer.id.expiration.ms: must be at least 0")
        _ensure_local_is_less(new, "log.local.retention.ms", "log.retention.ms", new.log_retention_ms)
        _ensure_local_is_less(new, "log.local.retention.bytes", "log.retention.bytes", new.long("log.retention.bytes"))

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Apply the defaults to all logs; elect unclean leaders where they are newly allowed."""
        self._logs.reconfigure(self._config)
        key = "unclean.leader.election.enable"
        if new.boolean(key) and not old.boolean(key):
            self._controller.elect_for_offline()


class CordonedDirectories:
    """The log directories that get no new replicas; the config's own rules check them."""

    reconfigurable_keys = frozenset(("cordoned.log.dirs",))
    rereads_files = False

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Refuse nothing."""

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Choose other directories for new logs from now on."""
        self._logs.cordon(new)


def _ensure_local_is_less(config: KafkaConfig, key: str, total_key: str, total: int) -> None:
    """Raise ConfigError if the local retention of tiered logs exceeds their total retention."""
    local = config.long(key)
    if total != _UNLIMITED and local != _AS_TOTAL and not 0 <= local <= total:
        raise ConfigError(f"Invalid value {local} for {key}: must be at most {total_key}, {total}, or {_AS_TOTAL} for the same")


class LogCleaning:
    """The threads and memory of the log cleaner."""

    reconfigurable_keys = LOG_CLEANER_KEYS
    rereads_files = False

    def __init__(self, cleaner: LogCleaner) -> None:
        self._cleaner = cleaner

    def validate_reconfiguration(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Refuse impossible sizes, and a number of threads that is too far from the present one."""
        LogCleaner.validate(old, new)

    def reconfigure(self, old: KafkaConfig, new: KafkaConfig) -> None:
        """Apply the settings."""
        self._cleaner.reconfigure(new)
