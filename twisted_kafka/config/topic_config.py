"""LogConfig: the effective settings of a topic, from its overrides and the broker's defaults."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Self

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import TOPIC_KEYS
from twisted_kafka.config.keys.declare import MAX_LONG, TopicKey, Value
from twisted_kafka.config.keys.kafka_4 import MAX_ARRAY_BYTES
from twisted_kafka.config.values import parse_value
from twisted_kafka.protocol.errors import InvalidConfigurationError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """A topic's settings; each attribute has the name of a topic key, with underscores for dots, and its unit."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    errors_deadletterqueue_group_enable: bool = False
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = MAX_LONG
    max_decompressed_message_bytes: int = MAX_ARRAY_BYTES
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_format_version: str = "3.0-IV1"
    message_timestamp_after_max_ms: int = MAX_LONG
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_difference_max_ms: int = MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def compact(self) -> bool:
        """Whether the topic keeps the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether old segments are deleted."""
        return "delete" in self.cleanup_policy

    @classmethod
    def from_broker(cls, config: KafkaConfig, overrides: Mapping[str, str] | None = None) -> Self:
        """Return the settings of a topic with these overrides.

        Raises InvalidConfigurationError for an invalid value. Unknown keys are ignored, because the metadata may contain keys of
        a newer broker.
        """
        values = dict(topic_defaults(config))
        for name, text in (overrides or {}).items():
            if name in TOPIC_KEYS:
                values[name] = _parse(name, text)
        _prefer_difference(values, overrides or {})
        return cls(**{_attribute(name): value for name, value in values.items()})  # type: ignore[arg-type]


def topic_defaults(config: KafkaConfig) -> Mapping[str, Value]:
    """Return the value of every topic key for a topic without overrides: that of its first broker synonym that is not null."""
    return _topic_defaults(config, config.generation)


@functools.lru_cache(maxsize=16)
def _topic_defaults(config: KafkaConfig, _generation: int) -> Mapping[str, Value]:
    values: dict[str, Value] = {}
    for key in TOPIC_KEYS.values():
        value = key.default
        for synonym, factor in key.synonyms:
            given = config[synonym]
            if given is not None:
                value = given * factor if factor != 1 and isinstance(given, int) else given
                break
        values[key.name] = value
    values["retention.ms"] = config.log_retention_ms
    return values


def ensure_no_null(overrides: Mapping[str, str | None]) -> None:
    """Raise InvalidConfigurationError when an override has no value."""
    without_value = [name for name, text in overrides.items() if text is None]
    if without_value:
        raise InvalidConfigurationError(f"Null value not supported for topic configs: {', '.join(without_value)}")


def validate_topic_configs(overrides: Mapping[str, str | None], keys: Mapping[str, TopicKey] = TOPIC_KEYS) -> None:
    """Raise InvalidConfigurationError, with a message of one line, for the first invalid override (Kafka: LogConfig.validate)."""
    ensure_no_null(overrides)
    for name in overrides:
        if name not in keys:
            raise InvalidConfigurationError(f"Unknown topic config name: {name}")
    for name, text in overrides.items():
        assert text is not None
        _parse(name, text)
    max_lag_ms = _number(overrides, "max.compaction.lag.ms")
    min_lag_ms = _number(overrides, "min.compaction.lag.ms")
    if min_lag_ms > max_lag_ms:
        allowed = f"at most max.compaction.lag.ms, {max_lag_ms}"
        raise InvalidConfigurationError(f"Invalid value {min_lag_ms} for min.compaction.lag.ms: must be {allowed}")


def validated_overrides(config: KafkaConfig, overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Return the overrides if they are valid for a topic of this broker, otherwise raise InvalidConfigurationError."""
    if not overrides:
        return {}
    validate_topic_configs(overrides, config.topic_keys)
    valid = {name: value for name, value in overrides.items() if value is not None}
    effective = LogConfig.from_broker(config, valid)
    if effective.remote_storage_enable and not config.boolean("remote.log.storage.system.enable"):
        raise InvalidConfigurationError(
            "Invalid value 'true' for remote.storage.enable: tiered storage is disabled, remote.log.storage.system.enable is false"
        )
    return valid


def _parse(name: str, text: str) -> Value:
    try:
        return parse_value(TOPIC_KEYS[name], text)
    except ConfigError as error:
        raise InvalidConfigurationError(str(error)) from None


def _number(overrides: Mapping[str, str | None], name: str) -> int:
    text = overrides.get(name)
    value = TOPIC_KEYS[name].default if text is None else _parse(name, text)
    assert isinstance(value, int)
    return value


def _prefer_difference(values: dict[str, Value], overrides: Mapping[str, str]) -> None:
    # The older key applies in both directions as long as the newer ones have their default (KIP-937).
    difference = values["message.timestamp.difference.max.ms"]
    if difference == MAX_LONG:
        return
    for name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"):
        if values[name] == MAX_LONG and name not in overrides:
            values[name] = difference


@functools.cache
def _attribute(name: str) -> str:
    return name.replace(".", "_")
