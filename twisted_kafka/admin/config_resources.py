"""The types of entities whose configs clients can change: topics, brokers, client metrics."""

from collections.abc import Iterable, Mapping

from twisted_kafka.admin.config_resource_types import ensure_own_broker
from twisted_kafka.admin.configs import ensure_list
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.client_metrics import CLIENT_METRICS_KEYS, ClientMetricsConfig, subscription_path
from twisted_kafka.config.dynamic.dynamic_broker_config import DynamicBrokerConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS
from twisted_kafka.config.keys.declare import LIST, TopicKey
from twisted_kafka.config.prefixes import base_key
from twisted_kafka.config.topic_config import validated_overrides
from twisted_kafka.config.values import value_text
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import InvalidRequestError, UnknownTopicOrPartitionError


def list_default(keys: Mapping[str, TopicKey], key: str) -> str:
    """Return the default of a list-valued key, as text; raise InvalidConfigurationError for any other key."""
    declared = keys.get(key)
    ensure_list(declared is not None and declared.type == LIST, key)
    assert declared is not None
    return value_text(declared, declared.default) or ""


class TopicConfigs:
    """Topics, which must exist."""

    def __init__(self, config: KafkaConfig, metadata: MetadataCache) -> None:
        self._config = config
        self._metadata = metadata

    def entity_path(self, name: str) -> str:
        """Return the topic's entity path; raises InvalidRequestError."""
        if not name:
            raise InvalidRequestError("A topic needs a name: default configs of all topics are not allowed")
        return f"topics/{name}"

    def list_default(self, key: str) -> str:
        """Return the default of a list-valued topic key."""
        return list_default(self._config.topic_keys, key)

    def validate(self, name: str, config: Mapping[str, str], changed: Iterable[str]) -> None:
        """Raise UnknownTopicOrPartitionError, or InvalidConfigurationError if the config is not valid for a topic."""
        if not self._metadata.contains(name):
            raise UnknownTopicOrPartitionError(f"Topic {name!r} does not exist")
        validated_overrides(self._config, config)


class BrokerConfigs:
    """This broker, or all brokers if the name is empty (KIP-226)."""

    def __init__(self, dynamic: DynamicBrokerConfig, broker_id: int) -> None:
        self._dynamic = dynamic
        self._broker_id = broker_id

    def entity_path(self, name: str) -> str:
        """Return the entity path; raises InvalidRequestError for another broker's id."""
        if not name:
            return f"brokers/{znodes.DEFAULT_ENTITY}"
        ensure_own_broker(name, self._broker_id)
        return f"brokers/{self._broker_id}"

    def list_default(self, key: str) -> str:
        """Return the default of a list-valued broker key."""
        declared = BROKER_KEYS.get(base_key(key) or "")
        ensure_list(declared is not None and declared.type == LIST, key)
        assert declared is not None
        return value_text(declared, declared.default) or ""

    def validate(self, name: str, config: Mapping[str, str], changed: Iterable[str]) -> None:
        """Raise InvalidRequestError if these dynamic settings are not valid for this broker, or for all brokers."""
        try:
            self._dynamic.validate(config, per_broker=bool(name))
        except ConfigError as error:
            raise InvalidRequestError(str(error)) from None

    def loaded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return a stored config with its passwords decrypted."""
        return self._dynamic.loaded(stored)

    def stored(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return a config with its passwords encrypted; raises InvalidRequestError without ``password.encoder.secret``."""
        try:
            return self._dynamic.stored(config)
        except ConfigError as error:
            raise InvalidRequestError(str(error)) from None


class ClientMetricsConfigs:
    """Subscriptions to client metrics: one exists as long as its config has an entry (KIP-714)."""

    def entity_path(self, name: str) -> str:
        """Return where the subscription is kept; raises InvalidRequestError."""
        return subscription_path(name)

    def list_default(self, key: str) -> str:
        """Return the default of a list-valued key."""
        return list_default(CLIENT_METRICS_KEYS, key)

    def validate(self, name: str, config: Mapping[str, str], changed: Iterable[str]) -> None:
        """Raise InvalidConfigurationError if the config is not valid for a subscription."""
        ClientMetricsConfig.parse(config)
