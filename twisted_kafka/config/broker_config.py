"""KafkaConfig: the broker's settings, parsed, checked and completed with defaults."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Self

from twisted_kafka.config import rules
from twisted_kafka.config.effects import HONOURED
from twisted_kafka.config.endpoints import EndPoint, local_host_name, parse_address, parse_end_points, parse_protocol_map
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.interpreter import HAS_INTERPRETER_LOCK
from twisted_kafka.config.keys import BROKER_KEYS, BROKER_SYNONYMS
from twisted_kafka.config.keys.declare import PASSWORD, Value
from twisted_kafka.config.prefixes import base_key
from twisted_kafka.config.typed import TypedValues
from twisted_kafka.config.values import HIDDEN, parse_value, value_text

_MS_PER_MINUTE = 60_000
_MS_PER_HOUR = 3_600_000

# With the interpreter lock more threads only take turns: see the figures in docs/architecture.md.
_WITH_LOCK: dict[str, Value] = {"num.network.threads": 1, "num.io.threads": 4}

# One broker cannot hold three replicas of anything; with zookeeper.connect, which is ignored so far, there is one as well.
_ALONE: dict[str, Value] = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}

# Both group protocols, and the way between them, as Kafka 4 serves them: docs/adr/0008-both-group-protocols.md.
_AS_KAFKA_4: dict[str, Value] = {
    "group.coordinator.rebalance.protocols": ("classic", "consumer"),
    "group.consumer.migration.policy": "bidirectional",
}

# What a test wants of a broker that lives as long as the test: groups form at once, few files.
_IN_PROCESS: dict[str, Value] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}


class KafkaConfig(TypedValues):
    """The broker's settings: a mapping from key to parsed value, which only `adopt` changes.

    Values are bool, int, float, str, a tuple of str for a LIST, or None. `originals` is the text that was given.
    Raises ConfigError, one line, for the first setting that the broker cannot start with.
    """

    def __init__(self, properties: Mapping[str, str], *, in_process: bool = False) -> None:
        self.originals: dict[str, str] = dict(properties)
        self.in_process = in_process
        self.generation = 0
        """Counts the changes: what was computed from one generation's values is good for that only."""
        self.unknown_keys: tuple[str, ...] = tuple(sorted(key for key in self.originals if base_key(key) is None))
        self._defaults = _defaults(in_process)
        super().__init__(dict(self._defaults))
        self._prefixed: dict[str, Value] = {}
        for name, text in self.originals.items():
            if name in BROKER_KEYS:
                self._values[name] = parse_value(BROKER_KEYS[name], text)
            elif (base := base_key(name)) is not None and base in BROKER_KEYS:
                self._prefixed[name] = parse_value(BROKER_KEYS[base]._replace(name=name), text)
        rules.check(self)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Make the configuration of a broker started from settings; raise ConfigError."""
        return cls(properties)

    @classmethod
    def embedded(cls, properties: Mapping[str, str]) -> Self:
        """Make the configuration of a broker inside another program, with defaults that suit a test; raise ConfigError."""
        return cls(properties, in_process=True)

    def updated(self, changes: Mapping[str, str | None]) -> Self:
        """Return a configuration with some settings changed, or taken back where the value is None; raise ConfigError."""
        properties = {**self.originals, **{key: text for key, text in changes.items() if text is not None}}
        for key, text in changes.items():
            if text is None:
                properties.pop(key, None)
        return type(self)(properties, in_process=self.in_process)

    def take_broker_id(self, broker_id: int) -> None:
        """Note the number that the cluster gave to this broker."""
        self._values = {**self._values, "broker.id": broker_id}

    def adopt(self, other: "KafkaConfig") -> None:
        """Have the values of another configuration from now on: what was changed while the broker runs (KIP-226).

        Whoever holds this one and asks it again sees them. `originals`, what the broker was started with, stay.
        """
        self._values = {**other._values, "broker.id": self._values["broker.id"]}
        self._prefixed = other._prefixed
        for name in _CACHED:
            self.__dict__.pop(name, None)
        self.generation += 1

    def copy(self) -> Self:
        """Return a configuration with the same values, which does not change with this one."""
        config = self.updated({})
        config._values, config._prefixed = self._values, self._prefixed
        return config

    def changed_keys(self, other: "KafkaConfig") -> frozenset[str]:
        """Return the keys, those with a listener's prefix too, whose values are others there."""
        ours, theirs = {**self._values, **self._prefixed}, {**other._values, **other._prefixed}
        return frozenset(key for key in ours.keys() | theirs.keys() if key != "broker.id" and ours.get(key) != theirs.get(key))

    def is_set(self, key: str) -> bool:
        """Tell whether the key was given a value (a static broker config, in the words of DescribeConfigs)."""
        return key in self.originals

    def default(self, key: str) -> Value:
        """Return what the key's value is when it is not set."""
        return self._defaults[key]

    def text(self, key: str) -> str | None:
        """Return the key's value as Kafka writes it, passwords hidden."""
        return value_text(BROKER_KEYS[key], self._values[key])

    def for_listener(self, listener_name: str, key: str) -> Value:
        """Return a key's value for one listener: `listener.name.<name>.<key>` when set, else the key's own (KIP-103)."""
        return self._prefixed.get(f"listener.name.{listener_name.lower()}.{key}", self._values[key])

    def prefixed(self, name: str) -> Value:
        """Return the value of a key with a listener's prefix, None when it is not set."""
        return self._prefixed.get(name)

    @cached_property
    def without_effect(self) -> tuple[str, ...]:
        """The keys that are set and known but that the broker does not act on at present."""
        return tuple(sorted(key for key in self.originals if (base := base_key(key)) is not None and base not in HONOURED))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the operator should be told at the start, one line each."""
        return rules.warnings(self)

    @property
    def is_kraft(self) -> bool:
        """Whether the settings are those of a KRaft node."""
        return bool(self.list("process.roles"))

    @property
    def broker_id(self) -> int:
        """broker.id, or node.id where only that is set; -1 when the cluster is to give one."""
        broker_id = self.int("broker.id")
        return broker_id if broker_id >= 0 else self.int("node.id")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The log directories: log.dirs, else log.dir."""
        text = self.optional_string("log.dirs") or self.string("log.dir")
        return tuple(item.strip() for item in text.split(",") if item.strip())

    @property
    def log_retention_ms(self) -> int:
        """How long records are kept, from log.retention.ms, .minutes or .hours; -1: for ever."""
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
        """Where the broker listens; the controller listeners of a KRaft configuration are left out."""
        end_points = parse_end_points("listeners", self.string("listeners"), self.security_protocol_map)
        return tuple(end_point for end_point in end_points if end_point.listener_name not in self.controller_listener_names)

    @cached_property
    def advertised_listeners(self) -> tuple[EndPoint, ...]:
        """What clients are told to connect to; an empty host has become this machine's name, port 0 is still 0."""
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
        """Host and port at which the metrics are served over HTTP; None: nowhere."""
        text = self.optional_string("metrics.listener")
        return parse_address("metrics.listener", text) if text else None

    @cached_property
    def inter_broker_listener_name(self) -> str:
        """The listener that brokers use among themselves, by name or as the first of its protocol."""
        name = self.optional_string("inter.broker.listener.name")
        return name.upper() if name is not None else self.string("security.inter.broker.protocol")

    @property
    def control_plane_listener_name(self) -> str | None:
        """The listener reserved for the controller's requests (KIP-291); None: they share the data plane."""
        name = self.optional_string("control.plane.listener.name")
        return None if name is None else name.upper()

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
    """Return the keys and values of KEY=VALUE settings; raise ConfigError for one that is not of that form."""
    overrides = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"Invalid setting {setting!r}: must be KEY=VALUE")
        overrides[key.strip()] = value.strip()
    return overrides


def _defaults(in_process: bool) -> dict[str, Value]:
    defaults = _DECLARED_DEFAULTS | _AS_KAFKA_4 | _ALONE
    if HAS_INTERPRETER_LOCK:
        defaults.update(_WITH_LOCK)
    if in_process:
        defaults.update(_IN_PROCESS)
    return defaults


def _is_secret(key: str) -> bool:
    base = base_key(key)
    return base is None or (base in BROKER_KEYS and BROKER_KEYS[base].type == PASSWORD)


_CACHED = tuple(name for name, value in vars(KafkaConfig).items() if isinstance(value, cached_property))

_DECLARED_DEFAULTS: dict[str, Value] = {key.name: key.default for key in BROKER_KEYS.values()}
