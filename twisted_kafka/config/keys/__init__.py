"""All keys of the broker and of topics; the modules of this package declare them by area.

The keys, types, defaults and ranges are those of Apache Kafka 3.9 (KafkaConfig, LogConfig); `kafka_4.py` adds keys of Kafka 4, and
`extensions.py` keys that Apache Kafka does not have. `groups.py` has the keys of groups.
"""

from twisted_kafka.config.keys import (
    cluster,
    coordinators,
    extensions,
    kafka_4,
    log,
    monitoring,
    network,
    replication,
    security,
    tiering,
)
from twisted_kafka.config.keys.declare import ConfigKey, TopicKey
from twisted_kafka.config.keys.topic import TOPIC_KEYS as _TOPIC_KEYS

BROKER_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for area in (network, log, replication, coordinators, cluster, security, monitoring, tiering, kafka_4, extensions)
    for key in area.KEYS
}
"""Every broker key by name."""

TOPIC_KEYS: dict[str, TopicKey] = {key.name: key for key in (*_TOPIC_KEYS, *kafka_4.TOPIC_KEYS)}
"""Every topic key by name."""

KAFKA_4_KEYS: frozenset[str] = frozenset(key.name for key in kafka_4.KEYS)
"""The broker keys that Apache Kafka has had since 4.0 or later."""

KAFKA_4_TOPIC_KEYS: frozenset[str] = frozenset(key.name for key in kafka_4.TOPIC_KEYS)
"""Such keys of topics."""

EXTENSION_KEYS: frozenset[str] = frozenset(key.name for key in extensions.KEYS)
"""The broker keys that Apache Kafka does not have."""

# Keys for the same setting, in order of precedence (Kafka: DynamicBrokerConfig.brokerConfigSynonyms).
_SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.dirs", "log.dir"),
    ("delegation.token.secret.key", "delegation.token.master.key"),
)

BROKER_SYNONYMS: dict[str, tuple[str, ...]] = {name: group for group in _SYNONYMS for name in group}
"""The synonyms of a key in order of precedence, including the key itself; keys without synonyms are missing."""
