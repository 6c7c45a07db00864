"""All keys of the broker and of topics, each declared in one of the modules beside this one.

The keys, types, defaults and ranges are those of Apache Kafka 3.9 (KafkaConfig, LogConfig); `own.py` adds a few of ours.
"""

from twisted_kafka.config.keys import cluster, coordinators, log, network, observing, own, replication, security, tiering
from twisted_kafka.config.keys.declare import ConfigKey, TopicKey
from twisted_kafka.config.keys.topic import TOPIC_KEYS as _TOPIC_KEYS

BROKER_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for area in (network, log, replication, coordinators, cluster, security, observing, tiering, own)
    for key in area.KEYS
}
"""Every broker key by name."""

TOPIC_KEYS: dict[str, TopicKey] = {key.name: key for key in _TOPIC_KEYS}
"""Every topic key by name."""

OWN_KEYS: frozenset[str] = frozenset(key.name for key in own.KEYS)
"""The broker keys that Apache Kafka does not have."""

# Keys that say the same thing in other units, first wins (Kafka: DynamicBrokerConfig.brokerConfigSynonyms).
_SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.dirs", "log.dir"),
    ("delegation.token.secret.key", "delegation.token.master.key"),
)

BROKER_SYNONYMS: dict[str, tuple[str, ...]] = {name: group for group in _SYNONYMS for name in group}
"""For a key that has synonyms, all of them in the order of precedence, itself included."""
