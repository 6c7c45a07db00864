"""The parts that all shards of the share coordinator share."""

from typing import NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.timing.clock import IClock


class ShareCoordinatorConfig(NamedTuple):
    """Values of ``share.coordinator.*``, with Kafka's defaults (Kafka: ShareCoordinatorConfig); times in milliseconds."""

    num_partitions: int = 50
    load_buffer_size: int = 5_242_880
    compression: Compression = Compression.NONE
    write_timeout_ms: int = 5_000
    updates_per_snapshot: int = 500
    prune_interval_ms: int = 300_000
    cold_snapshot_interval_ms: int = 300_000

    @classmethod
    def from_config(cls, config: KafkaConfig) -> "ShareCoordinatorConfig":
        """Return the values of the broker's configuration."""
        return cls(
            num_partitions=config.int("share.coordinator.state.topic.num.partitions"),
            load_buffer_size=config.int("share.coordinator.load.buffer.size"),
            compression=Compression(config.int("share.coordinator.state.topic.compression.codec")),
            write_timeout_ms=config.int("share.coordinator.write.timeout.ms"),
            updates_per_snapshot=config.int("share.coordinator.snapshot.update.records.per.snapshot"),
            prune_interval_ms=config.int("share.coordinator.state.topic.prune.interval.ms"),
            cold_snapshot_interval_ms=config.int("share.coordinator.cold.partition.snapshot.interval.ms"),
        )


class ShareEnvironment(NamedTuple):
    """The configuration and services that every shard uses."""

    clock: IClock
    config: ShareCoordinatorConfig
    metadata: MetadataCache
