"""Per-group configs (resource type GROUP, stored in the metadata store under ``/config/groups``; Kafka: GroupConfigManager)."""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote

from twisted.logger import Logger

from twisted_kafka.admin.configs import ensure_list
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.group_configs import ShareGroupConfigs, StreamsGroupConfigs, group_value, validated_group_configs
from twisted_kafka.config.keys.declare import LIST, Value
from twisted_kafka.config.keys.groups import GROUP_KEYS
from twisted_kafka.config.typed import TypedValues
from twisted_kafka.config.values import value_text
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError
from twisted_kafka.system import machine

_log = Logger()

ENTITY_TYPE: Final = "groups"

_SHARE_KEYS: Final = tuple(name for name in GROUP_KEYS if name.startswith(("share.", "errors.")))

_STREAMS_KEYS: Final = ("streams.assignor.name", "streams.num.standby.replicas", "streams.rack.aware.assignment.tags")


def node_name(group_id: str) -> str:
    """Return the name of a group's node: a group id may contain slashes, a node name may not."""
    return quote(group_id, safe="")


def group_id_of(name: str) -> str:
    """Return the id of the group whose node has the name."""
    return unquote(name)


def group_entity_path(group_id: str) -> str:
    """Return the path of a group's config node, below ``/config``. Raises InvalidRequestError."""
    if not group_id:
        raise InvalidRequestError("The group id is empty: there is no default config of all groups.")
    return f"{ENTITY_TYPE}/{node_name(group_id)}"


class GroupConfigManager:
    """The configs of groups that have any. Methods may be called on any thread."""

    def __init__(self, config: KafkaConfig) -> None:
        """``config`` is the broker's, which may change."""
        self._config = config
        self._lock = machine.Lock()
        self._values: dict[str, dict[str, Value]] = {}

    def validate(self, settings: Mapping[str, str]) -> None:
        """Raise InvalidConfigurationError if a group may not have the settings."""
        validated_group_configs(self._config, settings)

    def update(self, group_id: str, settings: Mapping[str, str]) -> None:
        """Apply the content of a group's node; invalid configs are ignored with a line in the log."""
        try:
            values = validated_group_configs(self._config, settings)
        except InvalidConfigurationError as error:
            _log.warn("Ignoring the configs of group {group}: {error}", group=group_id, error=error)
            values = {}
        with self._lock:
            if values:
                self._values[group_id] = values
            else:
                self._values.pop(group_id, None)

    def number(self, group_id: str, key: str) -> int:
        """Return the effective value of a key that is a number."""
        value = group_value(self._config, self._values.get(group_id, {}), key)
        assert isinstance(value, int), key
        return value

    def share(self, group_id: str) -> ShareGroupConfigs:
        """Return the effective configs of a share group's partitions."""
        own = self._values.get(group_id, {})
        values = TypedValues({name: group_value(self._config, own, name) for name in _SHARE_KEYS})
        return ShareGroupConfigs(
            values.int("share.record.lock.duration.ms"),
            values.int("share.delivery.count.limit"),
            values.int("share.partition.max.record.locks"),
            values.string("share.isolation.level"),
            values.string("share.auto.offset.reset"),
            values.boolean("share.renew.acknowledge.enable"),
            values.string("errors.deadletterqueue.topic.name"),
            values.boolean("errors.deadletterqueue.copy.record.enable"),
        )

    def streams(self, group_id: str) -> StreamsGroupConfigs:
        """Return the effective configs of a streams group's assignments."""
        own = self._values.get(group_id, {})
        values = TypedValues({name: group_value(self._config, own, name) for name in _STREAMS_KEYS})
        return StreamsGroupConfigs(
            values.string("streams.assignor.name") or None,
            values.int("streams.num.standby.replicas"),
            tuple(values.list("streams.rack.aware.assignment.tags")),
        )


class GroupConfigResource:
    """Groups as a resource type with configs; a group need not exist (Kafka: GroupConfig)."""

    def __init__(self, configs: GroupConfigManager) -> None:
        self._configs = configs

    def entity_path(self, name: str) -> str:
        """Return the path of the group's config node. Raises InvalidRequestError."""
        return group_entity_path(name)

    def list_default(self, key: str) -> str:
        """Return the broker's value of a list-valued key; raise InvalidConfigurationError for any other key."""
        declared = GROUP_KEYS.get(key)
        ensure_list(declared is not None and declared.type == LIST, key)
        assert declared is not None
        return value_text(declared, declared.default) or ""

    def validate(self, name: str, config: Mapping[str, str], changed: Iterable[str]) -> None:
        """Raise InvalidConfigurationError if the config is invalid for a group."""
        self._configs.validate(config)
