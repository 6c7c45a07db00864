"""What an operator's own code has to say about new topics and changed configs (KIP-108, KIP-133).

``create.topic.policy.class.name`` and ``alter.config.policy.class.name`` name Python classes, ``package.module.Class``, that
provide ``ICreateTopicPolicy`` or ``IAlterConfigPolicy``. An exception of another kind refuses the change as well, and is logged.
"""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from twisted.logger import Logger
from twisted.python.reflect import namedAny
from zope.interface import Interface

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.protocol.errors import KafkaError, UnknownServerError

CREATE_TOPIC_POLICY = "create.topic.policy.class.name"
ALTER_CONFIG_POLICY = "alter.config.policy.class.name"

_log = Logger()


class TopicOrder(NamedTuple):
    """A topic that somebody wants to make: either both numbers, or the assignment of each partition to brokers."""

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str]


class ConfigOrder(NamedTuple):
    """Configs that somebody wants to give to ``topics/orders``, ``brokers/1`` ...: those named in the request."""

    entity_path: str
    configs: Mapping[str, str | None]


class ICreateTopicPolicy(Interface):
    """Allows or refuses topics (Kafka: ``CreateTopicPolicy``)."""

    def configure(configs: Mapping[str, str]) -> None:
        """Take the broker's settings, as text, before anything else."""

    def validate(order: TopicOrder) -> None:
        """Raise PolicyViolationError, with the reason, when there shall be no such topic."""

    def close() -> None:
        """Let go of what is held: the broker stops."""


class IAlterConfigPolicy(Interface):
    """Allows or refuses changes of configs (Kafka: ``AlterConfigPolicy``)."""

    def configure(configs: Mapping[str, str]) -> None:
        """Take the broker's settings, as text, before anything else."""

    def validate(order: ConfigOrder) -> None:
        """Raise PolicyViolationError, with the reason, when these configs shall not be set."""

    def close() -> None:
        """Let go of what is held: the broker stops."""


class Policies:
    """The broker's policies, where it has any."""

    def __init__(self, config: KafkaConfig) -> None:
        """Raises ConfigError when a class cannot be had."""
        self._create_topic = _made(config, CREATE_TOPIC_POLICY)
        self._alter_config = _made(config, ALTER_CONFIG_POLICY)

    def ensure_topic(self, order: TopicOrder) -> None:
        """Raise the KafkaError with which the policy refuses the topic."""
        _ask(self._create_topic, order)

    def ensure_configs(self, order: ConfigOrder) -> None:
        """Raise the KafkaError with which the policy refuses the configs."""
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
    try:
        policy = namedAny(name)()  # type: ignore[no-untyped-call]
        missing = [method for method in ("configure", "validate", "close") if not callable(getattr(policy, method, None))]
        if missing:
            raise TypeError(f"it has no method {', '.join(missing)}")
        policy.configure(dict(config.originals))
    except Exception as error:
        raise ConfigError(f"Invalid value {name!r} for {key}: must be a class that can be made ({error})") from error
    return policy


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
