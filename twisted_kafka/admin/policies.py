"""The operator's policies for new topics and changed configs (KIP-108, KIP-133).

``create.topic.policy.class.name`` and ``alter.config.policy.class.name`` name Python classes, ``package.module.Class``, that
provide ``ICreateTopicPolicy`` or ``IAlterConfigPolicy``. Any other exception rejects the change too, and is logged.
"""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from twisted.logger import Logger
from typing_extensions import override
from zope.interface import Interface

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.python_class import instance_of
from twisted_kafka.protocol.errors import KafkaError, UnknownServerError

CREATE_TOPIC_POLICY = "create.topic.policy.class.name"
ALTER_CONFIG_POLICY = "alter.config.policy.class.name"

_log = Logger()


class TopicOrder(NamedTuple):
    """A topic to be created: with both numbers, or with the brokers of each partition."""

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str]


class ConfigOrder(NamedTuple):
    """Requested configs of an entity such as ``topics/orders`` or ``brokers/1``."""

    entity_path: str
    configs: Mapping[str, str | None]

    @override
    def __repr__(self) -> str:
        return f"ConfigOrder({self.entity_path!r}, {', '.join(self.configs)})"  # values may be passwords


class ICreateTopicPolicy(Interface):
    """Allows or rejects new topics (Kafka: ``CreateTopicPolicy``)."""

    def configure(configs: Mapping[str, str]) -> None:
        """Called first, with the broker's settings as text."""

    def validate(order: TopicOrder) -> None:
        """Raise PolicyViolationError, with the reason, to reject the topic."""

    def close() -> None:
        """Release resources, as the broker stops."""


class IAlterConfigPolicy(Interface):
    """Allows or rejects config changes (Kafka: ``AlterConfigPolicy``)."""

    def configure(configs: Mapping[str, str]) -> None:
        """Called first, with the broker's settings as text."""

    def validate(order: ConfigOrder) -> None:
        """Raise PolicyViolationError, with the reason, to reject the configs."""

    def close() -> None:
        """Release resources, as the broker stops."""


class Policies:
    """The configured policies."""

    def __init__(self, config: KafkaConfig) -> None:
        """Raises ConfigError if a class cannot be loaded."""
        self._create_topic = _made(config, CREATE_TOPIC_POLICY)
        self._alter_config = _made(config, ALTER_CONFIG_POLICY)

    def ensure_topic(self, order: TopicOrder) -> None:
        """Raise a KafkaError if the policy rejects the topic."""
        _ask(self._create_topic, order)

    def ensure_configs(self, order: ConfigOrder) -> None:
        """Raise a KafkaError if the policy rejects the configs."""
        _ask(self._alter_config, order)

    def close(self) -> None:
        """Close the policies."""
        for policy in (self._create_topic, self._alter_config):
            if policy is not None:
                policy.close()


def _made(config: KafkaConfig, key: str) -> Any:
    name = config.optional_string(key)
    if not name:
        return None
    return instance_of(name, key, ("configure", "validate", "close"), lambda policy: policy.configure(dict(config.originals)))


def _ask(policy: Any, order: TopicOrder | ConfigOrder) -> None:
    if policy is None:
        return
    try:
        policy.validate(order)
    except KafkaError:
        raise
    except Exception as error:
        _log.failure("{policy} failed on {order}", policy=type(policy).__name__, order=order)
        raise UnknownServerError(f"The policy failed: {error}") from error
