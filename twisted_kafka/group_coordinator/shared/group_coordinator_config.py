"""The group coordinator's configuration, read once at startup."""

from enum import Enum
from typing import NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig


class MigrationPolicy(Enum):
    """The values of ``group.consumer.migration.policy`` (Kafka: ConsumerGroupMigrationPolicy)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether classic groups may be converted to consumer groups."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """Whether consumer groups may be converted to classic groups."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A new member cannot send heartbeats before its join is answered; it is removed if one rebalance takes longer (as in Kafka)."""

MS_PER_MINUTE = 60 * 1000


class GroupCoordinatorConfig(NamedTuple):
    """Values of ``group.*``, ``offsets.*`` and ``offset.metadata.max.bytes``, with Kafka's defaults; times in milliseconds."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * MS_PER_MINUTE
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    offsets_commit_required_acks: int = -1
    offsets_topic_compression_codec: int = 0
    offsets_load_buffer_size: int = 5_242_880
    consumer_max_size: int = 2_147_483_647
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    share_max_size: int = 200
    share_initialize_retry_interval_ms: int = 30_000
    streams_max_size: int = 2_147_483_647

    @classmethod
    def from_config(cls, config: KafkaConfig) -> "GroupCoordinatorConfig":
        """Return the values of the broker's configuration."""
        return cls(
            min_session_timeout_ms=config.int("group.min.session.timeout.ms"),
            max_session_timeout_ms=config.int("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
            max_size=config.int("group.max.size"),
            offset_metadata_max_bytes=config.int("offset.metadata.max.bytes"),
            offsets_retention_ms=config.int("offsets.retention.minutes") * MS_PER_MINUTE,
            offsets_retention_check_interval_ms=config.long("offsets.retention.check.interval.ms"),
            offsets_commit_timeout_ms=config.int("offsets.commit.timeout.ms"),
            offsets_commit_required_acks=config.int("offsets.commit.required.acks"),
            offsets_topic_compression_codec=config.int("offsets.topic.compression.codec"),
            offsets_load_buffer_size=config.int("offsets.load.buffer.size"),
            consumer_max_size=config.int("group.consumer.max.size"),
            migration_policy=MigrationPolicy(config.string("group.consumer.migration.policy").lower()),
            share_max_size=config.int("group.share.max.size"),
            share_initialize_retry_interval_ms=config.int("group.share.initialize.retry.interval.ms"),
            streams_max_size=config.int("group.streams.max.size"),
        )
