"""Effective configs with their sources and synonyms (Kafka: ConfigHelper)."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from typing_extensions import override

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.client_metrics import CLIENT_METRICS_KEYS
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.group_configs import group_value
from twisted_kafka.config.keys import BROKER_KEYS, BROKER_SYNONYMS
from twisted_kafka.config.keys.declare import PASSWORD, READ_ONLY, ConfigKey, TopicKey
from twisted_kafka.config.keys.groups import GroupKey
from twisted_kafka.config.topic_config import topic_defaults
from twisted_kafka.config.values import parse_value, value_text
from twisted_kafka.metadata.config_repository import ConfigRepository

UNKNOWN_SOURCE: Final = 0
TOPIC_SOURCE: Final = 1
DYNAMIC_BROKER: Final = 2
DYNAMIC_DEFAULT_BROKER: Final = 3
STATIC_BROKER: Final = 4
DEFAULT: Final = 5
DYNAMIC_BROKER_LOGGER: Final = 6
DYNAMIC_CLIENT_METRICS: Final = 7
DYNAMIC_GROUP: Final = 8
"""Sources of values, with their codes in the protocol (KIP-226)."""

_TYPES: Final = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9}

_WITH_OTHER_UNITS: Final = ("log.roll.", "log.flush.", "log.retention.")
"""Prefixes of keys for which Kafka lists the keys with other units (hours, minutes, milliseconds) as synonyms."""


_K = TypeVar("_K")


class Synonym(NamedTuple):
    """A key that defines the value, or would if those before it were unset."""

    name: str
    value: str | None
    source: int


class Entry(NamedTuple):
    """An effective config; its value is that of the first synonym."""

    name: str
    value: str | None
    source: int
    read_only: bool
    is_sensitive: bool
    config_type: int
    documentation: str
    synonyms: list[Synonym]


class ConfigDescriber:
    """Describes configs, using the broker's current settings."""

    def __init__(self, config: KafkaConfig, repository: ConfigRepository) -> None:
        self._config = config
        self._repository = repository
        # node.id and broker.id are two names of one config.
        given = config.originals
        ids = {name: given[other] for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")) if other in given}
        self._static = {**ids, **given}

    def of_one_request(self) -> "ConfigDescriber":
        """Return a describer that reads the brokers' dynamic configs at most once: a request may name very many resources."""
        return _DescriberOfOneRequest(self._config, self._repository)

    def topic(self, overrides: Mapping[str, str], wanted: Iterable[str] | None = None) -> list[Entry]:
        """Return a topic's effective configs, all or the ``wanted`` ones; ``overrides`` are its own."""
        dynamic = self._dynamic()
        defaults = topic_defaults(self._config)
        return [
            self._topic_entry(key, overrides.get(key.name), value_text(key, defaults[key.name]), dynamic)
            for key in _selected(self._config.topic_keys, wanted)
        ]

    def _topic_entry(self, key: TopicKey, own: str | None, default: str | None, dynamic: "_Dynamic") -> Entry:
        synonyms = [] if own is None else [Synonym(key.name, _normal(key, own), TOPIC_SOURCE)]
        for name, _ in key.synonyms[:1]:
            synonyms += self._broker_synonyms(name, dynamic)
        value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (default, DEFAULT)
        return Entry(key.name, value, source, False, False, _TYPES[key.type], key.doc, synonyms)

    def broker(self, wanted: Iterable[str] | None = None) -> list[Entry]:
        """Return this broker's effective configs, all or the ``wanted`` ones."""
        dynamic = self._dynamic()
        keys = [key for key in _selected(self._config.broker_keys, wanted) if not key.internal or self._config.is_set(key.name)]
        return [self._broker_entry(key, dynamic) for key in keys]

    def _broker_entry(self, key: ConfigKey, dynamic: "_Dynamic") -> Entry:
        synonyms = self._broker_synonyms(key.name, dynamic)
        is_sensitive = key.type == PASSWORD
        in_force = synonyms[0] if synonyms else Synonym(key.name, None, DEFAULT)
        value = None if is_sensitive else in_force.value
        read_only = key.update_mode == READ_ONLY
        return Entry(key.name, value, in_force.source, read_only, is_sensitive, _TYPES[key.type], key.doc, synonyms)

    def dynamic_broker_defaults(self, wanted: Iterable[str] | None = None) -> list[Entry]:
        """Return the dynamic configs of all brokers (the cluster-wide default)."""
        return self._dynamic_entries(self._dynamic().everywhere, DYNAMIC_DEFAULT_BROKER, wanted)

    def _dynamic_entries(self, config: Mapping[str, str], source: int, wanted: Iterable[str] | None) -> list[Entry]:
        entries = []
        for key in _selected(BROKER_KEYS, wanted):
            if key.name in config:
                is_sensitive = key.type == PASSWORD
                value = None if is_sensitive else config[key.name]
                synonyms = [Synonym(key.name, value, source)]
                entries.append(Entry(key.name, value, source, False, is_sensitive, _TYPES[key.type], key.doc, synonyms))
        return entries

    def client_metrics(self, config: Mapping[str, str], wanted: Iterable[str] | None) -> list[Entry]:
        """Return the configs that are set for a client metrics subscription."""
        return [
            Entry(key.name, config[key.name], DYNAMIC_CLIENT_METRICS, False, False, _TYPES[key.type], key.doc, [])
            for key in _selected(CLIENT_METRICS_KEYS, wanted)
            if key.name in config
        ]

    def group(self, own: Mapping[str, str], wanted: Iterable[str] | None) -> list[Entry]:
        """Return a group's effective configs, all or the ``wanted`` ones; ``own`` are its own."""
        dynamic = self._dynamic()
        keys = [key for key in _selected(self._config.group_keys, wanted) if not key.internal or key.name in own]
        return [self._group_entry(key, own.get(key.name), dynamic) for key in keys]

    def _group_entry(self, key: GroupKey, own: str | None, dynamic: "_Dynamic") -> Entry:
        synonyms = [] if own is None else [Synonym(key.name, _normal(key, own), DYNAMIC_GROUP)]
        if key.synonym is None:
            synonyms.append(Synonym(key.name, value_text(key, group_value(self._config, {}, key.name)), DEFAULT))
        else:
            synonyms += self._broker_synonyms(key.synonym, dynamic)
        in_force = synonyms[0]
        return Entry(key.name, in_force.value, in_force.source, False, False, _TYPES[key.type], key.doc, synonyms)

    def _dynamic(self) -> "_Dynamic":
        own, everywhere = self._repository.configs([f"brokers/{self._config.broker_id}", "brokers/<default>"])
        return _Dynamic(own, everywhere)

    def _broker_synonyms(self, name: str, dynamic: "_Dynamic") -> list[Synonym]:
        """Return the synonyms of a key in order of precedence; within one source, the key precedes those with other units."""
        family = BROKER_SYNONYMS[name] if name.startswith(_WITH_OTHER_UNITS) and name in BROKER_SYNONYMS else (name,)
        names = family[family.index(name) :]
        sources = ((dynamic.own, DYNAMIC_BROKER), (dynamic.everywhere, DYNAMIC_DEFAULT_BROKER), (self._static, STATIC_BROKER))
        found = [
            Synonym(each, _shown(BROKER_KEYS[each], values[each]), source)
            for values, source in sources
            for each in names
            if each in values
        ]
        for each in names:
            key, default = BROKER_KEYS[each], self._config.default(each)
            if default is not None:
                found.append(Synonym(each, None if key.type == PASSWORD else value_text(key, default), DEFAULT))
        # Kafka lists no synonyms if the key itself is not set, even if a key with another unit defines the value.
        return found if found and found[0].name == name else []


class _DescriberOfOneRequest(ConfigDescriber):
    def __init__(self, config: KafkaConfig, repository: ConfigRepository) -> None:
        super().__init__(config, repository)
        self._read: _Dynamic | None = None

    @override
    def _dynamic(self) -> "_Dynamic":
        if self._read is None:
            self._read = super()._dynamic()
        return self._read


class _Dynamic(NamedTuple):
    """The dynamic configs of this broker, and those of all brokers."""

    own: Mapping[str, str]
    everywhere: Mapping[str, str]


def _selected(keys: Mapping[str, _K], wanted: Iterable[str] | None) -> list[_K]:
    if wanted is None:
        return list(keys.values())
    names = keys.keys() & set(wanted)
    return [key for name, key in keys.items() if name in names] if names else []


def _normal(key: ConfigKey | TopicKey | GroupKey, text: str) -> str | None:
    """Return the value in Kafka's canonical text form."""
    try:
        return value_text(key, parse_value(key, text))
    except ConfigError:
        return text


def _shown(key: ConfigKey, text: str) -> str | None:
    return None if key.type == PASSWORD else _normal(key, text)
