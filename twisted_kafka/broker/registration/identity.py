"""The broker's identity: its cluster id and broker id, from the settings, the log directories and the metadata store."""

from pathlib import Path

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.log.directories.meta_properties import claim_directories, load_meta_properties
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.registration import cluster_id
from twisted_kafka.metadata.store import IMetadataStore


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
    if broker_id < 0:
        broker_id = known.broker_id if known.broker_id is not None else _generated(config, store)
    elif known.broker_id not in (None, broker_id):
        raise ConfigError(f"Invalid value '{broker_id}' for broker.id: must be {known.broker_id}, as the log directories have it")
    claim_directories(online(), cluster, broker_id, failed)
    config.take_broker_id(broker_id)
    return cluster


def _generated(config: KafkaConfig, store: IMetadataStore) -> int:
    # The version of a node counts its writes: each write gives an id that nobody had before.
    return config.int("reserved.broker.max.id") + store.set(znodes.BROKER_SEQUENCE, b"").version
