"""Per-group configs (resource type GROUP, stored in the metadata store under ``/config/groups``; Kafka: GroupConfigManager).

``consumer.session.timeout.ms`` and ``consumer.heartbeat.interval.ms`` override the broker's ``group.consumer.*`` keys, within
the broker's minimum and maximum.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote

from twisted.logger import Logger

from twisted_kafka.admin.configs import ensure_list
from twisted_kafka.group_coordinator.group_coordinator_config import GroupCoordinatorConfig
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
ENTITY_TYPE: Final = "groups"


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

    log = Logger()

    def __init__(self, config: GroupCoordinatorConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._values: dict[str, dict[str, int]] = {}

    @property
    def defaults(self) -> dict[str, int]:
        """The broker's values by key: those of a group without configs."""
        return {
            SESSION_TIMEOUT: self._config.consumer_session_timeout_ms,
            HEARTBEAT_INTERVAL: self._config.consumer_heartbeat_interval_ms,
        }

    def validate(self, settings: Mapping[str, str]) -> dict[str, int]:
        """Return the parsed values. Raises InvalidConfigurationError."""
        config = self._config
        bounds = {
            SESSION_TIMEOUT: (config.consumer_min_session_timeout_ms, config.consumer_max_session_timeout_ms),
            HEARTBEAT_INTERVAL: (config.consumer_min_heartbeat_interval_ms, config.consumer_max_heartbeat_interval_ms),
        }
        values: dict[str, int] = {}
        for key, text in settings.items():
            if key not in bounds:
                raise InvalidConfigurationError(f"Unknown group config name: {key}")
            least, most = bounds[key]
            try:
                value = int(text)
            except ValueError:
                raise InvalidConfigurationError(f"Invalid value {text} for configuration {key}: Not a number of type INT") from None
            if not least <= value <= most:
                raise InvalidConfigurationError(
                    f"Invalid value {value} for configuration {key}: the broker allows values from {least} to {most}."
                )
            values[key] = value
        effective = self.defaults | values
        if effective[SESSION_TIMEOUT] <= effective[HEARTBEAT_INTERVAL]:
            raise InvalidConfigurationError(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}.")
        return values

    def update(self, group_id: str, settings: Mapping[str, str]) -> None:
        """Apply the content of a group's node; invalid configs are ignored with a line in the log."""
        try:
            values = self.validate(settings)
        except InvalidConfigurationError as error:
            self.log.warn("Ignoring the configs of group {group}: {error}", group=group_id, error=error)
            values = {}
        with self._lock:
            if values:
                self._values[group_id] = values
            else:
                self._values.pop(group_id, None)

    def session_timeout_ms(self, group_id: str) -> int:
        """Return the session timeout of the group's members that use the consumer group protocol."""
        return self._values.get(group_id, {}).get(SESSION_TIMEOUT, self._config.consumer_session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the heartbeat interval of the group's members that use the consumer group protocol."""
        return self._values.get(group_id, {}).get(HEARTBEAT_INTERVAL, self._config.consumer_heartbeat_interval_ms)


class GroupConfigResource:
    """Groups as a resource type with configs; a group need not exist (Kafka: GroupConfig)."""

    def __init__(self, configs: GroupConfigManager) -> None:
        self._configs = configs

    def entity_path(self, name: str) -> str:
        """Return the path of the group's config node. Raises InvalidRequestError."""
        return group_entity_path(name)

    def list_default(self, key: str) -> str:
        """Raise InvalidConfigurationError: no group config is a list."""
        ensure_list(False, key)
        return ""

    def validate(self, name: str, config: Mapping[str, str], changed: Iterable[str]) -> None:
        """Raise InvalidConfigurationError if the config is invalid for a group."""
        self._configs.validate(config)
