import pytest

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.inter_broker_protocol import is_at_least


@pytest.mark.parametrize(
    ("value", "allowed", "refused"),
    [
        ("2.7-IV1", "2.7-IV1", "2.7-IV2"),
        ("2.7", "2.7-IV2", "2.8-IV0"),
        ("2.8.1", "2.8-IV1", "3.0-IV0"),
        ("0.10.2.1", "0.10.2-IV0", "0.11.0-IV0"),
        ("1.0", "1.0-IV0", "1.1-IV0"),
    ],
)
def test_a_release_is_its_last_version(value: str, allowed: str, refused: str) -> None:
    config = KafkaConfig.embedded({"inter.broker.protocol.version": value})
    assert is_at_least(config, allowed)
    assert not is_at_least(config, refused)


def test_the_default_is_that_of_kafka_3_9() -> None:
    assert is_at_least(KafkaConfig.embedded({}), "3.9-IV0")
    assert not is_at_least(KafkaConfig.embedded({}), "4.0-IV0")
