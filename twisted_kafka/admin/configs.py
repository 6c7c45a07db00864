"""Changes configs on behalf of clients: validates them, writes the node, and notifies the brokers (Kafka: ``ZkAdminManager``)."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, Protocol, runtime_checkable

from twisted_kafka.admin.policies import ConfigOrder, Policies
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.protocol.errors import InvalidConfigurationError, InvalidRequestError


class ConfigOperation(IntEnum):
    """What to do with one config entry; the codes of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One entry of an incremental change; the operation's code may be unknown."""

    name: str
    operation: int
    value: str | None


class IConfigResource(Protocol):
    """A type of entities that have configs: topics, brokers, groups, client metrics."""

    def entity_path(self, name: str) -> str:
        """Return the path of the entity's config, such as ``topics/orders``; raise a KafkaError if there is no such entity."""

    def list_default(self, key: str) -> str:
        """Return the default of a list-valued key; raise InvalidConfigurationError for any other key."""

    def validate(self, name: str, config: Mapping[str, str], changed: Iterable[str]) -> None:
        """Raise a KafkaError if the config is not valid for the entity; the ``changed`` keys are new in it."""


@runtime_checkable
class IHasSecrets(Protocol):
    """A type of entities whose configs may contain passwords, which are stored encrypted."""

    def loaded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return a stored config with its passwords decrypted."""

    def stored(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the config in the form in which it is stored; raise InvalidRequestError if it has no such form."""


class ConfigAdmin:
    """Changes configs for clients. All changes of an entity are applied, or none."""

    def __init__(self, repository: ConfigRepository, policies: Policies) -> None:
        self._repository = repository
        self._policies = policies

    def replace(
        self, resource: IConfigResource, name: str, settings: Iterable[tuple[str, str | None]], *, validate_only: bool = False
    ) -> None:
        """Replace the entity's config by settings that passed ``ensure_settings``; raises a KafkaError if they are refused."""
        config = {key: value for key, value in settings if value is not None}
        entity_path = resource.entity_path(name)
        altered = self._altered(resource, name, config, config)
        if not validate_only:
            self._repository.write(entity_path, altered)

    def change(self, resource: IConfigResource, name: str, changes: Iterable[ConfigChange], *, validate_only: bool = False) -> None:
        """Change some settings of the entity and keep the others (KIP-339); raises a KafkaError if they are refused.

        The caller has checked the changes with ``ensure_changes``.
        """
        changes = list(changes)
        ordered = {each.name: each.value for each in changes}

        def alter(config: dict[str, str]) -> dict[str, str] | None:
            if isinstance(resource, IHasSecrets):
                config = resource.loaded(config)
            for each in changes:
                _apply(resource, config, each)
            altered = self._altered(resource, name, config, ordered)
            return None if validate_only else altered

        self._repository.change(resource.entity_path(name), alter)

    def _altered(
        self, resource: IConfigResource, name: str, config: dict[str, str], ordered: Mapping[str, str | None]
    ) -> dict[str, str]:
        """Return the config as it is stored; raises a KafkaError if it is refused."""
        resource.validate(name, config, ordered)
        self._policies.ensure_configs(ConfigOrder(resource.entity_path(name), dict(ordered)))
        return resource.stored(config) if isinstance(resource, IHasSecrets) else config


def ensure_settings(settings: Collection[tuple[str, str | None]]) -> None:
    """Raise InvalidRequestError for a duplicate or null key. Kafka checks this first, for resources of every type."""
    _ensure_once(key for key, _ in settings)
    _ensure_values(key for key, value in settings if value is None)


def ensure_changes(changes: Collection[ConfigChange]) -> None:
    """Raise InvalidRequestError for a duplicate key, or a null value unless the operation is DELETE. Kafka checks this first."""
    _ensure_once(each.name for each in changes)
    _ensure_values(each.name for each in changes if each.value is None and each.operation != ConfigOperation.DELETE)


def _ensure_once(keys: Iterable[str]) -> None:
    repeated = [key for key, times in Counter(keys).items() if times > 1]
    if repeated:
        raise InvalidRequestError(f"Duplicate configs in the request: {', '.join(repeated)}")


def _ensure_values(without: Iterable[str]) -> None:
    keys = list(without)
    if keys:
        raise InvalidRequestError(f"Null value not supported for these configs: {', '.join(keys)}")


def _apply(resource: IConfigResource, config: dict[str, str], change: ConfigChange) -> None:
    value = change.value or ""
    if change.operation == ConfigOperation.SET:
        config[change.name] = value
    elif change.operation == ConfigOperation.DELETE:
        config.pop(change.name, None)
    elif change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        default = resource.list_default(change.name)
        present = _items(config.get(change.name, default))
        given = _items(value)
        if change.operation == ConfigOperation.APPEND:
            items = present + _without(given, present)
        else:
            items = _without(present, given)
        config[change.name] = ",".join(items)
    else:
        raise InvalidRequestError(f"Unknown operation {change.operation} on configs")


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _without(items: Iterable[str], others: Iterable[str]) -> list[str]:
    left_out = frozenset(others)
    return [item for item in items if item not in left_out]


def ensure_list(is_list: bool, key: str) -> None:
    """Raise InvalidConfigurationError unless the key is list-valued."""
    if not is_list:
        raise InvalidConfigurationError(f"Append and subtract are not allowed for {key}, which is not a list")
