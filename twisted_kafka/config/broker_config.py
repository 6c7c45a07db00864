"""KafkaConfig: the broker's settings, parsed and validated, with defaults."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Self, TypeVar

from typing_extensions import override

from twisted_kafka.config.effects import HONOURED, PLUGIN_HONOURED
from twisted_kafka.config.endpoints import (
    CONSOLE,
    ConsoleAddress,
    EndPoint,
    ensure_distinct,
    local_host_name,
    parse_address,
    parse_console_address,
    parse_end_points,
    parse_protocol_map,
)
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS, BROKER_SYNONYMS, TOPIC_KEYS
from twisted_kafka.config.keys.declare import CLASS, PASSWORD, ConfigKey, TopicKey, Value
from twisted_kafka.config.keys.groups import GROUP_KEYS, GroupKey
from twisted_kafka.config.prefixes import base_key, similar_key, why_without_effect
from twisted_kafka.config.typed import TypedValues
from twisted_kafka.config.values import HIDDEN, parse_value, value_text
from twisted_kafka.system.interpreter import HAS_INTERPRETER_LOCK
from twisted_kafka.system.numbers import INT32_MAX, decimal

_K = TypeVar("_K", ConfigKey, TopicKey, GroupKey)

_MS_PER_MINUTE = 60_000
_MS_PER_HOUR = 3_600_000
_META_ADDRESS = "0.0.0.0"
_MAX_SHOWN_KEYS = 40
_CLEANER_MIN_BYTES = 1024 * 1024
_REPLICATION_FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)

# With the interpreter lock more threads would only take turns: see docs/architecture.md.
_WITH_LOCK: dict[str, Value] = {"num.network.threads": 1, "num.io.threads": 4}

# Kafka's 50 suits an acceptor with a CPU core of its own. Ours shares the interpreter lock: a burst of clients overflows such a
# backlog, and each client then waits a second before its TCP connects again.
_ACCEPTING: dict[str, Value] = {"socket.listen.backlog.size": 1024}

# A broker that is alone cannot hold three replicas. With zookeeper.connect it is one of several, and has Kafka's defaults: with one
# replica, a cluster would lose offsets and transactions with a broker.
_SINGLE_BROKER: dict[str, Value] = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}

# Both group protocols and migration between them, as in Kafka 4: docs/adr/0008-both-group-protocols.md.
_KAFKA_4: dict[str, Value] = {
    "group.coordinator.rebalance.protocols": ("classic", "consumer"),
    "group.consumer.migration.policy": "bidirectional",
}

# Defaults for a broker that lives as long as a test: groups form soon, and there are few files.
_IN_PROCESS: dict[str, Value] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
    # A member gets its partitions with its second heartbeat.
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.min.heartbeat.interval.ms": 500,
}


class Edition(NamedTuple):
    """The settings of another version of Kafka, as differences from this broker's."""

    defaults: Mapping[str, str]
    """The defaults that differ, as texts by key."""
    hidden: frozenset[str]
    """Keys of brokers, topics and groups that the version does not have."""
    features: Mapping[str, int]
    """Levels of the features of a new cluster."""


ALL_LOG_DIRS: Final = "*"
"""All log directories, in ``cordoned.log.dirs``."""

OWN_EDITION: Final = Edition({}, frozenset(), {"group.version": 1, "share.version": 2, "streams.version": 1})
"""This broker's own settings. The features are those of a broker in another program; one that is a program has none."""


class KafkaConfig(TypedValues):
    """The broker's settings: a mapping from key to parsed value, which only `adopt` changes.

    Values are bool, int, float, str, a tuple of str for a LIST, or None. `originals` holds the texts as they were set.
    Raises ConfigError, with a message of one line, for the first invalid setting.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        in_process: bool = False,
        edition: Edition = OWN_EDITION,
        is_layered: bool = False,
    ) -> None:
        """``is_layered``: with dynamic settings, which may have prefixes of listeners that do not exist yet."""
        self.originals: dict[str, str] = dict(properties)
        self.in_process = in_process
        self._edition = edition
        self.generation = 0
        """The number of changes so far: anything computed from the values is valid for one generation only."""
        self.unknown_keys: tuple[str, ...] = tuple(sorted(key for key in self.originals if base_key(key) is None))
        self._defaults = _defaults(in_process, alone=not self.originals.get("zookeeper.connect"))
        self._defaults |= {name: parse_value(BROKER_KEYS[name], text) for name, text in edition.defaults.items()}
        super().__init__(dict(self._defaults))
        self._prefixed: dict[str, Value] = {}
        for name, text in self.originals.items():
            if name in BROKER_KEYS:
                self._values[name] = parse_value(BROKER_KEYS[name], text)
            elif (base := base_key(name)) is not None and base in BROKER_KEYS:
                self._prefixed[name] = parse_value(BROKER_KEYS[base]._replace(name=name), text)
        _check(self)
        self._is_layered = is_layered
        if not is_layered and self.useless_prefixes:
            name, why = next(iter(self.useless_prefixes.items()))
            raise ConfigError(f"{name} would have no effect: {why}")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Return the configuration of a broker that runs as a program; raise ConfigError."""
        return cls(properties)

    @classmethod
    def embedded(cls, properties: Mapping[str, str], edition: Edition = OWN_EDITION) -> Self:
        """Return the configuration of a broker embedded in another program, with defaults that suit tests; raise ConfigError."""
        return cls(properties, in_process=True, edition=edition)

    def updated(self, changes: Mapping[str, str | None]) -> Self:
        """Return a configuration with some settings changed, or removed where the value is None; raise ConfigError."""
        properties = {**self.originals, **{key: text for key, text in changes.items() if text is not None}}
        for key, text in changes.items():
            if text is None:
                properties.pop(key, None)
        return self.with_properties(properties)

    def with_properties(self, properties: Mapping[str, str]) -> Self:
        """Return a configuration with these settings instead, and the same defaults otherwise; raise ConfigError."""
        return type(self)(properties, in_process=self.in_process, edition=self._edition, is_layered=self._is_layered)

    def layered(self, settings: Mapping[str, str]) -> Self:
        """Return a copy in which dynamic settings override this one's; settings without effect are allowed. Raise ConfigError."""
        return type(self)({**self.originals, **settings}, in_process=self.in_process, edition=self._edition, is_layered=True)

    def take_broker_id(self, broker_id: int) -> None:
        """Set the broker id that the cluster has assigned to this broker."""
        self._values = {**self._values, "broker.id": broker_id}

    def adopt(self, other: "KafkaConfig") -> None:
        """Take over the values of another configuration, after a dynamic change (KIP-226).

        All users of this object see the new values. `originals`, the settings at the broker's start, stay.
        """
        self._values = {**other._values, "broker.id": self._values["broker.id"]}
        self._prefixed = other._prefixed
        for name in _CACHED:
            self.__dict__.pop(name, None)
        self.generation += 1

    def copy(self) -> Self:
        """Return an independent configuration with the same values."""
        config = self.updated({})
        config._values, config._prefixed = self._values, self._prefixed
        return config

    def changed_keys(self, other: "KafkaConfig") -> frozenset[str]:
        """Return the keys, including those with a listener prefix, whose values differ in the other configuration."""
        ours, theirs = {**self._values, **self._prefixed}, {**other._values, **other._prefixed}
        return frozenset(key for key in ours.keys() | theirs.keys() if key != "broker.id" and ours.get(key) != theirs.get(key))

    def is_set(self, key: str) -> bool:
        """Return whether the key was set explicitly (in DescribeConfigs: a static broker config)."""
        return key in self.originals

    @property
    def initial_features(self) -> Mapping[str, int]:
        """The features of a new cluster, by their levels. A cluster that exists keeps its features."""
        return self._edition.features if self.in_process else {}

    @property
    def broker_keys(self) -> Mapping[str, ConfigKey]:
        """The broker keys that clients can see."""
        return _shown(BROKER_KEYS, self._edition.hidden)

    @property
    def topic_keys(self) -> Mapping[str, TopicKey]:
        """The keys that topics can have."""
        return _shown(TOPIC_KEYS, self._edition.hidden)

    @property
    def group_keys(self) -> Mapping[str, GroupKey]:
        """The keys that groups can have."""
        return _shown(GROUP_KEYS, self._edition.hidden)

    def default(self, key: str) -> Value:
        """Return the key's default value."""
        return self._defaults[key]

    def text(self, key: str) -> str | None:
        """Return the key's value in Kafka's text form, with passwords hidden."""
        return value_text(BROKER_KEYS[key], self._values[key])

    def for_listener(self, listener_name: str, key: str) -> Value:
        """Return a key's value for a listener: `listener.name.<name>.<key>` when set, otherwise the key's own value (KIP-103)."""
        return self._prefixed.get(f"listener.name.{listener_name.lower()}.{key}", self._values[key])

    def prefixed(self, name: str) -> Value:
        """Return the value of a key with a listener prefix, None when it is not set."""
        return self._prefixed.get(name)

    @cached_property
    def without_effect(self) -> tuple[str, ...]:
        """The known keys that are set but have no effect in this broker yet."""
        known = ((key, base_key(key)) for key in self.originals)
        return tuple(sorted(key for key, base in known if base is not None and base not in HONOURED | PLUGIN_HONOURED))

    @property
    def useless_prefixes(self) -> Mapping[str, str]:
        """Settings with the prefix of a listener that have no effect, and why."""
        listeners = [end_point.listener_name for end_point in self.listeners] + list(self.controller_listener_names)
        if self.console_listener is not None and self.console_listener.is_tls:
            listeners.append(CONSOLE)
        found = {name: why_without_effect(name, listeners) for name in self.originals}
        return {name: why for name, why in found.items() if why is not None}

    @property
    def class_names(self) -> frozenset[str]:
        """The classes in the settings, and the classes that dynamic settings may name."""
        values = {**self._values, **self._prefixed}
        named = {value for name, value in values.items() if BROKER_KEYS[base_key(name) or ""].type == CLASS}
        return frozenset({str(value) for value in named if value} | set(self.list("dynamic.class.names")))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the operator at the start, one line each."""
        return _warnings(self)

    @property
    def is_kraft(self) -> bool:
        """Whether the settings are those of a KRaft node."""
        return bool(self.list("process.roles"))

    @property
    def broker_id(self) -> int:
        """broker.id, or node.id if only that is set; -1 when the cluster has to assign one."""
        broker_id = self.int("broker.id")
        return broker_id if broker_id >= 0 else self.int("node.id")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The log directories: log.dirs, otherwise log.dir."""
        text = self.optional_string("log.dirs")
        if text is None:
            text = self.string("log.dir")
        return tuple(item.strip() for item in text.split(",") if item.strip())

    @property
    def log_retention_ms(self) -> int:
        """How long records are kept, from log.retention.ms, .minutes or .hours; -1: forever."""
        age_ms = self._first_of(
            ("log.retention.ms", 1), ("log.retention.minutes", _MS_PER_MINUTE), ("log.retention.hours", _MS_PER_HOUR)
        )
        return max(age_ms, -1)

    @cached_property
    def security_protocol_map(self) -> dict[str, str]:
        """The security protocol of each listener name."""
        protocols = parse_protocol_map("listener.security.protocol.map", self.string("listener.security.protocol.map"))
        if self.is_kraft and not self.is_set("listener.security.protocol.map"):
            for name in self.controller_listener_names:
                protocols.setdefault(name, "PLAINTEXT")
        return protocols

    @property
    def controller_listener_names(self) -> tuple[str, ...]:
        """Names of KRaft's controller listeners, which this broker does not open."""
        names = self.optional_string("controller.listener.names") or ""
        return tuple(name.strip().upper() for name in names.split(",") if name.strip())

    @cached_property
    def listeners(self) -> tuple[EndPoint, ...]:
        """The broker's listeners, without the controller listeners of a KRaft configuration."""
        end_points = parse_end_points("listeners", self.string("listeners"), self.security_protocol_map)
        return tuple(end_point for end_point in end_points if end_point.listener_name not in self.controller_listener_names)

    @cached_property
    def advertised_listeners(self) -> tuple[EndPoint, ...]:
        """The addresses that clients connect to; an empty host is replaced with this machine's name, port 0 stays 0."""
        text = self.optional_string("advertised.listeners")
        key = "advertised.listeners"
        end_points = self.listeners if text is None else parse_end_points(key, text, self.security_protocol_map)
        return tuple(
            end_point if end_point.host else end_point._replace(host=local_host_name())
            for end_point in end_points
            if end_point.listener_name not in self.controller_listener_names
        )

    @cached_property
    def metrics_listener(self) -> tuple[str, int] | None:
        """Host and port of the HTTP listener for metrics; None without ``metrics.listener``."""
        text = self.optional_string("metrics.listener")
        return parse_address("metrics.listener", text) if text else None

    @cached_property
    def console_listener(self) -> ConsoleAddress | None:
        """Where the console listens; None without ``console.listener``."""
        text = self.optional_string("console.listener")
        return parse_console_address("console.listener", text) if text else None

    @property
    def authenticates(self) -> bool:
        """Whether the broker has authentication or an authorizer: then the console's users log in."""
        has_sasl = any(end_point.security_protocol.startswith("SASL_") for end_point in self.listeners)
        return has_sasl or bool(self.optional_string("authorizer.class.name"))

    @cached_property
    def inter_broker_listener_name(self) -> str:
        """The listener that brokers use among themselves; without a name, the one named after the protocol."""
        name = self.optional_string("inter.broker.listener.name")
        return name.upper() if name is not None else self.string("security.inter.broker.protocol")

    @property
    def control_plane_listener_name(self) -> str | None:
        """The listener reserved for requests of the controller (KIP-291); None if they share the data plane."""
        name = self.optional_string("control.plane.listener.name")
        return None if name is None else name.upper()

    @override
    def __repr__(self) -> str:
        shown = {key: HIDDEN if _is_secret(key) else text for key, text in self.originals.items()}
        return f"KafkaConfig({shown!r})"

    def _first_of(self, *candidates: tuple[str, int]) -> int:
        for key, factor in candidates:
            value = self._values[key]
            if value is not None:
                assert isinstance(value, int)
                return value * factor
        raise AssertionError(f"the last of {BROKER_SYNONYMS[candidates[0][0]]} has a default")


def parse_overrides(settings: Sequence[str]) -> dict[str, str]:
    """Return the keys and values of KEY=VALUE settings; raise ConfigError for one that does not have this form."""
    overrides = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"Invalid setting {setting!r}: must be KEY=VALUE")
        overrides[key.strip()] = value.strip()
    return overrides


def _shown(keys: Mapping[str, _K], hidden: frozenset[str]) -> Mapping[str, _K]:
    return {name: key for name, key in keys.items() if name not in hidden} if hidden else keys


def _defaults(in_process: bool, alone: bool) -> dict[str, Value]:
    defaults = _DECLARED_DEFAULTS | _ACCEPTING | _KAFKA_4
    if alone:
        defaults.update(_SINGLE_BROKER)
    if HAS_INTERPRETER_LOCK:
        defaults.update(_WITH_LOCK)
    if in_process:
        defaults.update(_IN_PROCESS)
    return defaults


def _is_secret(key: str) -> bool:
    base = base_key(key)
    return base is None or (base in BROKER_KEYS and BROKER_KEYS[base].type == PASSWORD)


def _check(config: KafkaConfig) -> None:
    """Raise ConfigError for the first violated rule between settings (Kafka: KafkaConfig.validateValues)."""
    _check_identity(config)
    _check_listeners(config)
    _check_limits(config)
    _check_log(config)
    _check_groups(config)


def _with_advice(unknown: str) -> str:
    near = similar_key(unknown)
    return f"{unknown} (did you mean {near}?)" if near else unknown


def _warnings(config: KafkaConfig) -> tuple[str, ...]:
    """Return warnings for the operator, one line each."""
    lines = []
    if config.unknown_keys:
        shown = _names(tuple(sorted(config.unknown_keys)), _with_advice)
        lines.append(f"Unknown configuration keys, which are ignored: {shown}")
    if config.is_kraft:
        lines.append("KRaft is not supported: process.roles is ignored, and this broker runs alone with an embedded metadata store")
    factors = [f"{key}={config.int(key)}" for key in _REPLICATION_FACTORS if config.int(key) > 1]
    if factors and not config.optional_string("zookeeper.connect"):
        lines.append(
            f"This broker is the only one, so topics cannot be created with {', '.join(factors)}: the replication factor must be 1"
        )
    explained = {"process.roles"}
    silent = tuple(key for key in config.without_effect if key not in explained)
    if silent:
        lines.append(f"Configuration keys that have no effect in this broker yet: {_names(silent)}")
    return tuple(lines)


def _names(keys: tuple[str, ...], written: Callable[[str], str] = str) -> str:
    more = len(keys) - _MAX_SHOWN_KEYS
    return ", ".join(map(written, keys[:_MAX_SHOWN_KEYS])) + (f" and {more} more" if more > 0 else "")


def _ensure(condition: bool, config: KafkaConfig, key: str, allowed: str) -> None:
    if not condition:
        raise ConfigError(f"Invalid value {config.text(key)!r} for {key}: must be {allowed}")


def _check_identity(config: KafkaConfig) -> None:
    broker_id, node_id = config.int("broker.id"), config.int("node.id")
    if config.is_kraft:
        _ensure(
            "broker" in config.list("process.roles"),
            config,
            "process.roles",
            "a list that contains broker",
        )
    if config.is_set("broker.id") and config.is_set("node.id"):
        _ensure(broker_id == node_id, config, "node.id", f"equal to broker.id, {broker_id}")
    if config.boolean("broker.id.generation.enable"):
        _ensure(broker_id >= -1, config, "broker.id", "at least -1")
        if not config.is_kraft:
            highest = config.int("reserved.broker.max.id")
            _ensure(broker_id <= highest, config, "broker.id", f"at most reserved.broker.max.id, {highest}")
    elif not config.is_kraft:
        _ensure(config.broker_id >= 0, config, "broker.id", "at least 0 when broker.id.generation.enable is false")


def _check_listeners(config: KafkaConfig) -> None:
    ensure_distinct("listeners", config.listeners, ports=True)
    ensure_distinct("advertised.listeners", _advertised(config), ports=False)
    _ensure(bool(config.listeners), config, "listeners", "a list with at least one listener")
    _ = config.metrics_listener  # raises for a malformed address
    _check_console(config)
    names = {end_point.listener_name for end_point in config.listeners}
    given = "advertised.listeners" if config.is_set("advertised.listeners") else "listeners"
    for end_point in _advertised(config):
        _ensure(
            end_point.host != _META_ADDRESS,
            config,
            given,
            f"a routable address, not {_META_ADDRESS}: set advertised.listeners",
        )
        _ensure(end_point.listener_name in names, config, "advertised.listeners", "a list of names that listeners contains")
    _check_between_brokers(config, given)


def _check_console(config: KafkaConfig) -> None:
    """Passwords and changes do not pass a network in clear text."""
    address = config.console_listener
    if address is None or address.is_tls or address.is_loopback:
        return
    allowed = "https://host:port, or an address of this machine alone such as 127.0.0.1:8080, "
    _ensure(not config.authenticates, config, "console.listener", allowed + "because users log in")
    _ensure(not config.boolean("console.write.enable"), config, "console.listener", allowed + "if console.write.enable is true")


def _check_between_brokers(config: KafkaConfig, given: str) -> None:
    advertised = {end_point.listener_name for end_point in _advertised(config)}
    allowed = f"one of the names in {given}"
    key = "inter.broker.listener.name"
    if config.is_set(key):
        protocol = "security.inter.broker.protocol"
        _ensure(not config.is_set(protocol), config, protocol, f"unset when {key} is set")
    elif config.is_set("security.inter.broker.protocol"):
        key = "security.inter.broker.protocol"
    name = config.inter_broker_listener_name
    # Kafka requires a listener named PLAINTEXT if neither key is set: a broker that is alone does without.
    is_alone = not config.optional_string("zookeeper.connect")
    _ensure(name in advertised or (is_alone and not config.is_set(key)), config, key, allowed)
    control_plane = config.control_plane_listener_name
    if control_plane is not None:
        _ensure(control_plane in advertised, config, "control.plane.listener.name", allowed)
        _ensure(control_plane != name, config, "control.plane.listener.name", "a listener other than the inter-broker listener")
    if name in advertised and config.security_protocol_map[name].startswith("SASL_"):
        _check_inter_broker_mechanism(config, name)


def _check_inter_broker_mechanism(config: KafkaConfig, listener_name: str) -> None:
    key, enabled_key = "sasl.mechanism.inter.broker.protocol", "sasl.enabled.mechanisms"
    mechanism, enabled = (config.for_listener(listener_name, each) for each in (key, enabled_key))
    names = enabled if isinstance(enabled, tuple) else ()
    if mechanism not in names:
        raise ConfigError(
            f"Invalid value {mechanism!r} for {key}: must be one of {enabled_key} of the inter-broker listener {listener_name}: "
            f"{', '.join(names) or 'it is empty'}"
        )


def _advertised(config: KafkaConfig) -> tuple[EndPoint, ...]:
    # Without advertised.listeners, the listeners are checked instead: looking up the machine's name may take a while.
    return config.advertised_listeners if config.is_set("advertised.listeners") else config.listeners


def _check_limits(config: KafkaConfig) -> None:
    max_request_bytes = config.int("socket.request.max.bytes")
    queued_bytes = config.int("queued.max.request.bytes")
    allowed = f"-1, or at least socket.request.max.bytes, {max_request_bytes}"
    _ensure(queued_bytes <= 0 or queued_bytes >= max_request_bytes, config, "queued.max.request.bytes", allowed)
    delay_ms, idle_ms = config.int("connection.failed.authentication.delay.ms"), config.long("connections.max.idle.ms")
    allowed = f"less than connections.max.idle.ms, {idle_ms}, or failures would not be answered"
    _ensure(delay_ms < idle_ms or idle_ms < 0, config, "connection.failed.authentication.delay.ms", allowed)
    wait_ms = config.int("replica.fetch.wait.max.ms")
    for key in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        _ensure(config.int(key) >= wait_ms, config, key, f"at least replica.fetch.wait.max.ms, {wait_ms}")
    overrides = config.string("max.connections.per.ip.overrides")
    allowed = "at least 1, unless max.connections.per.ip.overrides is set"
    _ensure(config.int("max.connections.per.ip") > 0 or bool(overrides), config, "max.connections.per.ip", allowed)
    for pair in filter(None, overrides.split(",")):
        host, _, count = pair.rpartition(":")
        is_right = bool(host.strip()) and decimal(count.strip(), INT32_MAX) is not None
        _ensure(is_right, config, "max.connections.per.ip.overrides", "a list of host:count")


def _check_log(config: KafkaConfig) -> None:
    _ensure(bool(config.log_dirs), config, "log.dirs", "a list with at least one directory")
    places = {os.path.realpath(directory) for directory in config.log_dirs}
    _ensure(len(places) == len(config.log_dirs), config, "log.dirs", "a list without duplicates")
    cordoned = config.list("cordoned.log.dirs")
    is_valid = cordoned == (ALL_LOG_DIRS,) or (set(cordoned) <= set(config.log_dirs) and len(set(cordoned)) == len(cordoned))
    _ensure(is_valid, config, "cordoned.log.dirs", "entries of log.dirs, each once, or * alone")
    for key, low in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        _ensure(config[key] is None or config.int(key) >= low, config, key, f"at least {low}")
    for key in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        _ensure(config[key] is None or config.int(key) >= 1 or config.int(key) == -1, config, key, "at least 1, or -1 for no limit")
    each_bytes = config.long("log.cleaner.dedupe.buffer.size") // max(config.int("log.cleaner.threads"), 1)
    _ensure(
        each_bytes > _CLEANER_MIN_BYTES, config, "log.cleaner.dedupe.buffer.size", "more than 1 MiB for each of log.cleaner.threads"
    )
    acks, factor = config.int("offsets.commit.required.acks"), config.int("offsets.topic.replication.factor")
    allowed = f"from -1 to offsets.topic.replication.factor, {factor}"
    _ensure(-1 <= acks <= factor, config, "offsets.commit.required.acks", allowed)


def _check_groups(config: KafkaConfig) -> None:
    shortest = config.int("group.min.session.timeout.ms")
    allowed = f"at least group.min.session.timeout.ms, {shortest}"
    _ensure(config.int("group.max.session.timeout.ms") >= shortest, config, "group.max.session.timeout.ms", allowed)
    _ensure("classic" in config.list("group.coordinator.rebalance.protocols"), config, "group.coordinator.rebalance.protocols",
            "a list that contains classic")  # fmt: skip
    for name in ("session.timeout.ms", "heartbeat.interval.ms"):
        low, high = f"group.consumer.min.{name}", f"group.consumer.max.{name}"
        _ensure(config.int(high) >= config.int(low), config, high, f"at least {low}, {config.int(low)}")
        key = f"group.consumer.{name}"
        allowed = f"from {low}, {config.int(low)}, to {high}, {config.int(high)}"
        _ensure(config.int(low) <= config.int(key) <= config.int(high), config, key, allowed)


_CACHED = tuple(name for name, value in vars(KafkaConfig).items() if isinstance(value, cached_property))

_DECLARED_DEFAULTS: dict[str, Value] = {key.name: key.default for key in BROKER_KEYS.values()}
