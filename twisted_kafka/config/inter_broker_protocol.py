"""The protocol between brokers that ``inter.broker.protocol.version`` allows (Kafka: ``MetadataVersion.isAtLeast``)."""

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.keys.versions import KAFKA_VERSIONS


def is_at_least(config: KafkaConfig, version: str) -> bool:
    """Return whether brokers may use the features of ``version``, a name in ``KAFKA_VERSIONS`` such as 2.7-IV2."""
    return _position(config.string("inter.broker.protocol.version")) >= KAFKA_VERSIONS.index(version)


def _position(value: str) -> int:
    """Return the position of a version; a release, as 2.8 or 2.8.1, is the last of its versions."""
    if value in KAFKA_VERSIONS:
        return KAFKA_VERSIONS.index(value)
    numbers = value.split(".")
    release = ".".join(numbers[: 3 if numbers[0] == "0" else 2])
    return max(at for at, name in enumerate(KAFKA_VERSIONS) if name == release or name.startswith(f"{release}-"))
