"""The effective configs of topics and brokers, where each value comes from, and what else would give one (Kafka: ConfigHelper)."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.client_metrics import CLIENT_METRICS_KEYS
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS, BROKER_SYNONYMS, TOPIC_KEYS
from twisted_kafka.config.keys.declare import PASSWORD, READ_ONLY, ConfigKey, TopicKey
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
"""Sources of a value, by the codes of KIP-226."""

_TYPES: Final = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7, "CLASS": 8, "PASSWORD": 9}

_WITH_SIBLINGS: Final = ("log.roll.", "log.flush.", "log.retention.")
"""Beginnings of the keys of which Kafka names the siblings that say the same in another unit."""


_K = TypeVar("_K")


class Synonym(NamedTuple):
    """A key that gives, or would give, a value, with its source."""

    name: str
    value: str | None
    source: int


class Entry(NamedTuple):
    """One effective config; the first synonym is the one in force."""

    name: str
    value: str | None
    source: int
    read_only: bool
    is_sensitive: bool
    config_type: int
    documentation: str
    synonyms: list[Synonym]


class ConfigDescriber:
    """Describes configs with the broker's settings as they are now."""

    def __init__(self, config: KafkaConfig, repository: ConfigRepository) -> None:
        self._config = config
        self._repository = repository
        # The two names of a broker's id stand for each other.
        given = config.originals
        ids = {name: given[other] for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")) if other in given}
        self._static = {**ids, **given}

    def topic(self, overrides: Mapping[str, str], wanted: Iterable[str] | None = None) -> list[Entry]:
        """Return the effective configs of a topic with these settings of its own, only the ``wanted`` ones."""
        dynamic = self._dynamic()
        defaults = topic_defaults(self._config)
        return [
            self._topic_entry(key, overrides.get(key.name), value_text(key, defaults[key.name]), dynamic)
            for key in _selected(TOPIC_KEYS, wanted)
        ]

    def _topic_entry(self, key: TopicKey, own: str | None, default: str | None, dynamic: "_Dynamic") -> Entry:
        synonyms = [] if own is None else [Synonym(key.name, _normal(key, own), TOPIC_SOURCE)]
        for name, _ in key.synonyms[:1]:
            synonyms += self._broker_synonyms(name, dynamic)
        value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (default, DEFAULT)
        return Entry(key.name, value, source, False, False, _TYPES[key.type], key.doc, synonyms)

    def broker(self, wanted: Iterable[str] | None = None) -> list[Entry]:
        """Return the effective configs of this broker, only the ``wanted`` ones."""
        dynamic = self._dynamic()
        keys = {name: key for name, key in BROKER_KEYS.items() if not key.internal or self._config.is_set(name)}
        return [self._broker_entry(key, dynamic) for key in _selected(keys, wanted)]

    def _broker_entry(self, key: ConfigKey, dynamic: "_Dynamic") -> Entry:
        synonyms = self._broker_synonyms(key.name, dynamic)
        is_sensitive = key.type == PASSWORD
        in_force = synonyms[0] if synonyms else Synonym(key.name, None, DEFAULT)
        value = None if is_sensitive else in_force.value
        read_only = key.update_mode == READ_ONLY
        return Entry(key.name, value, in_force.source, read_only, is_sensitive, _TYPES[key.type], key.doc, synonyms)

    def dynamic_broker_defaults(self, wanted: Iterable[str] | None = None) -> list[Entry]:
        """Return the settings made for all brokers at once."""
        return self._dynamic_entries(self._repository.broker_config(None), DYNAMIC_DEFAULT_BROKER, wanted)

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
        """Return what is set of a subscription to client metrics."""
        return [
            Entry(key.name, config[key.name], DYNAMIC_CLIENT_METRICS, False, False, _TYPES[key.type], key.doc, [])
            for key in _selected(CLIENT_METRICS_KEYS, wanted)
            if key.name in config
        ]

    def group(self, own: Mapping[str, str], defaults: Mapping[str, int], wanted: Iterable[str] | None) -> list[Entry]:
        """Return the effective configs of a group with these settings of its own."""
        entries = []
        for name, default in _selected({name: (name, value) for name, value in defaults.items()}, wanted):
            synonyms = [Synonym(name, own[name], DYNAMIC_GROUP)] if name in own else []
            synonyms.append(Synonym(name, str(default), DEFAULT))
            in_force = synonyms[0]
            doc = BROKER_KEYS[f"group.{name}"].doc
            entries.append(Entry(name, in_force.value, in_force.source, False, False, _TYPES["INT"], doc, synonyms))
        return entries

    def _dynamic(self) -> "_Dynamic":
        own, everywhere = self._repository.configs([f"brokers/{self._config.broker_id}", "brokers/<default>"])
        return _Dynamic(own, everywhere)

    def _broker_synonyms(self, name: str, dynamic: "_Dynamic") -> list[Synonym]:
        """Return what gives the key's value, first wins: where it is set itself, that, and then its siblings in other units."""
        family = BROKER_SYNONYMS[name] if name.startswith(_WITH_SIBLINGS) and name in BROKER_SYNONYMS else (name,)
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
        # Kafka says nothing of siblings that give a value to a key that is not set, though they do.
        return found if found and found[0].name == name else []


class _Dynamic(NamedTuple):
    """The dynamic settings of this broker, and those of all."""

    own: Mapping[str, str]
    everywhere: Mapping[str, str]


def _selected(keys: Mapping[str, _K], wanted: Iterable[str] | None) -> list[_K]:
    if wanted is None:
        return list(keys.values())
    names = set(wanted)
    return [key for name, key in keys.items() if name in names]


def _normal(key: ConfigKey | TopicKey, text: str) -> str | None:
    """Return the text as Kafka would write the value."""
    try:
        return value_text(key, parse_value(key, text))
    except ConfigError:
        return text


def _shown(key: ConfigKey, text: str) -> str | None:
    return None if key.type == PASSWORD else _normal(key, text)
