"""The broker's identity: its cluster id and broker id, from the settings, the log directories and the metadata store."""

from pathlib import Path
from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.log.directories.meta_properties import MetaProperties, claim_directories, load_meta_properties
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.registration import cluster_id
from twisted_kafka.metadata.store import IMetadataStore

_GENERATED: Final = -1
"""The value of ``broker.id`` for an id that the first start generates."""


def establish(config: KafkaConfig, logs: LogManager, store: IMetadataStore) -> str:
    """Return the cluster id, set the broker id in the configuration, and write both into every log directory.

    (Kafka: KafkaServer.startup.) A directory whose meta.properties cannot be read or written goes offline. Raises ConfigError if
    broker.id differs from the directories', MetaPropertiesError if they belong to another cluster.
    """

    def online() -> list[Path]:
        return [directory.path for directory in logs.directories if directory.is_online]

    def failed(path: Path, error: OSError) -> None:
        logs.directory_failed(logs.directory_named(str(path)), error)

    known = load_meta_properties(online(), failed)
    cluster = cluster_id(store, known.cluster_id)
    broker_id = config.broker_id
    check_broker_id(config, known)
    if broker_id == _GENERATED:
        broker_id = known.broker_id if known.broker_id is not None else _generated(config, store)
    claim_directories(online(), cluster, broker_id, failed)
    config.take_broker_id(broker_id)
    return cluster


def check_broker_id(config: KafkaConfig, known: MetaProperties) -> None:
    """Raise ConfigError if broker.id is set, and differs from the id in the log directories."""
    broker_id = config.broker_id
    if broker_id != _GENERATED and known.broker_id not in (None, broker_id):
        raise ConfigError(
            f"Invalid value '{broker_id}' for broker.id: must be {known.broker_id}, as the log directories have it. "
            "Remove broker.id from the settings to keep the directories' id, or use other log directories for another broker"
        )


def _generated(config: KafkaConfig, store: IMetadataStore) -> int:
    # The version of a node counts its writes: each write gives an id that nobody had before.
    return config.int("reserved.broker.max.id") + store.set(znodes.BROKER_SEQUENCE, b"").version
