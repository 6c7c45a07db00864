import dataclasses

import pytest

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.keys import TOPIC_KEYS
from twisted_kafka.config.keys.declare import MAX_LONG
from twisted_kafka.config.topic_config import LogConfig, validate_topic_configs
from twisted_kafka.protocol.errors import InvalidConfigurationError


def test_the_attributes_are_the_topic_keys_with_their_defaults() -> None:
    expected = {key.name.replace(".", "_"): key.default for key in TOPIC_KEYS.values()}
    assert dataclasses.asdict(LogConfig()) == expected
    assert LogConfig.from_broker(KafkaConfig.from_properties({}), {}) == LogConfig()


def test_a_topics_settings_override_the_brokers() -> None:
    broker = KafkaConfig.from_properties(
        {
            "log.segment.bytes": "1000",
            "log.roll.hours": "2",
            "log.cleanup.policy": "compact",
            "log.flush.scheduler.interval.ms": "9",
        }
    )
    config = LogConfig.from_broker(broker, {"segment.bytes": "2000", "some.newer.key": "x"})
    assert config.segment_bytes == 2000
    assert config.segment_ms == 2 * 3_600_000
    assert config.flush_ms == 9
    assert config.compact
    assert not config.delete


def test_the_older_timestamp_limit_applies_in_both_directions() -> None:
    broker = KafkaConfig.from_properties({"log.message.timestamp.difference.max.ms": "1000"})
    config = LogConfig.from_broker(broker, {"message.timestamp.after.max.ms": "5"})
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (1000, 5)
    assert LogConfig().message_timestamp_before_max_ms == MAX_LONG


@pytest.mark.parametrize(
    "overrides",
    [
        {"segment.bytes": "13"},
        {"segment.bytes": "big"},
        {"no.such.key": "1"},
        {"cleanup.policy": None},
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
        {"leader.replication.throttled.replicas": "1-2"},
    ],
)
def test_the_error_of_an_invalid_override_is_one_line(overrides: dict[str, str | None]) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        validate_topic_configs(overrides)
    assert "\n" not in str(caught.value)


def test_valid_overrides_are_accepted() -> None:
    validate_topic_configs(
        {"cleanup.policy": "compact,delete", "leader.replication.throttled.replicas": "0:1,1:2", "retention.ms": "-1"}
    )
