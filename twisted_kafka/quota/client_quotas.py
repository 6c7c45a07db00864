"""Describing and altering quotas. (Kafka: ZkAdminManager.describeClientQuotas, alterClientQuotas.)"""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from twisted_kafka.config.keys.declare import DOUBLE, INT
from twisted_kafka.config.values import java_double
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.network.accepting.host_names import UnknownHostError, addresses
from twisted_kafka.protocol.errors import InvalidRequestError, UnsupportedVersionError
from twisted_kafka.quota.entities import CLIENT_ID, CLIENT_KEYS, IP, IP_KEYS, USER, Entity, entity_name, node_name

_WHOLE = 1e-6
"""A value this close to an integer counts as that integer."""

_BITS = {INT: 31}
_LONG_BITS = 63


class Match(IntEnum):
    """How a component of a filter matches; the codes of DescribeClientQuotas."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Component(NamedTuple):
    """The component of a filter for one entity type: an exact name, the default, or any entity that has a name of this type."""

    match: Match
    name: str | None

    def accepts(self, name: str | None) -> bool:
        """Return whether the name of an entity, None for the default, matches."""
        if self.match is Match.SPECIFIED:
            return True
        return name == (self.name if self.match is Match.EXACT else None)


class Operation(NamedTuple):
    """A new value of a quota; None removes it."""

    key: str
    value: float | None


class ClientQuotas:
    """Reads and writes the quotas in the metadata store."""

    def __init__(self, configs: ConfigRepository) -> None:
        self._configs = configs

    def describe(self, components: Mapping[str, Component], *, strict: bool) -> list[tuple[Entity, dict[str, float]]]:
        """Return the matching entities with their quotas; with ``strict``, only entities that have no other types than the filter.

        The filter's types have passed ``ensure_filter_type``. Raises InvalidRequestError for an invalid combination.
        """
        if IP in components and len(components) > 1:
            raise InvalidRequestError("Invalid combination: a filter for IP addresses cannot be for users or clients too")
        found = []
        # By the names first: only configs of entities that match are read.
        matching = [each for each in self._entities(components) if _matches(dict(each[0]), components, strict=strict)]
        for (entity, keys, _), config in zip(matching, self._configs.each(path for _, _, path in matching), strict=True):
            quotas = {key: _number(config[key]) for key in keys if key in config}
            if quotas:
                found.append((entity, quotas))
        return found

    def _entities(self, components: Mapping[str, Component]) -> Iterator[tuple[Entity, Mapping[str, str], str]]:
        """Yield entities with the keys of their quotas and the paths of their configs: all that may match, and others."""
        if IP not in components:
            users = components.get(USER)
            for user in self._configs.names("users"):
                if users is not None and not users.accepts(entity_name(user)):
                    continue
                yield ((USER, entity_name(user)),), CLIENT_KEYS, f"users/{user}"
                for client in self._configs.names(f"users/{user}/clients"):
                    both = ((CLIENT_ID, entity_name(client)), (USER, entity_name(user)))
                    yield both, CLIENT_KEYS, f"users/{user}/clients/{client}"
            for client in self._configs.names("clients"):
                yield ((CLIENT_ID, entity_name(client)),), CLIENT_KEYS, f"clients/{client}"
        if not components or IP in components:
            for address in self._configs.names("ips"):
                yield ((IP, entity_name(address)),), IP_KEYS, f"ips/{address}"

    def alter(self, entity: Sequence[tuple[str, str | None]], operations: Sequence[Operation], *, validate_only: bool) -> None:
        """Set and remove quotas of an entity.

        Raises InvalidRequestError for an invalid entity, key or value. Other contents of a user's config, such as credentials,
        stay.
        """
        names = _checked(entity)
        keys, path = (IP_KEYS, f"ips/{node_name(names[IP])}") if IP in names else (CLIENT_KEYS, _client_path(names))

        def alter(config: dict[str, str]) -> dict[str, str] | None:
            for operation in operations:
                if operation.value is None:
                    config.pop(operation.key, None)
                elif operation.key not in keys:
                    raise InvalidRequestError(f"Invalid quota key {operation.key}: this entity has no such quota")
                else:
                    config[operation.key] = _text(operation.key, keys[operation.key], operation.value)
            return None if validate_only else config

        self._configs.change(path, alter)


def ensure_filter_type(kind: str) -> None:
    """Raise InvalidRequestError or UnsupportedVersionError for a type that no entity has."""
    if not kind:
        raise InvalidRequestError("The entity type of a filter is empty")
    if kind not in (USER, CLIENT_ID, IP):
        raise UnsupportedVersionError(f"Entity type '{kind}' is not supported: it is unknown")


def _matches(names: Mapping[str, str | None], components: Mapping[str, Component], *, strict: bool) -> bool:
    if any(kind not in names or not component.accepts(names[kind]) for kind, component in components.items()):
        return False
    return not strict or names.keys() == components.keys()


def _checked(entity: Sequence[tuple[str, str | None]]) -> dict[str, str | None]:
    if not entity:
        raise InvalidRequestError("Invalid entity: it is empty")
    known = (USER, CLIENT_ID, IP)
    for kind, name in entity:
        if kind in known and name == "":
            raise InvalidRequestError(f"Empty {kind} is not supported")
    for kind, _ in entity:
        if kind not in known:
            raise InvalidRequestError(f"Entity type '{kind}' is not supported: it is unknown")
    names = dict(entity)
    if IP in names:
        if len(names) > 1:
            raise InvalidRequestError("Invalid combination: an IP address cannot be combined with a user or client")
        address = names[IP]
        if address is not None:
            try:
                addresses(address)
            except UnknownHostError as error:
                raise InvalidRequestError(f"{address} is not a valid IP or resolvable host.") from error
    return names


def _client_path(names: Mapping[str, str | None]) -> str:
    parts = []
    if USER in names:
        parts.append(f"users/{node_name(names[USER])}")
    if CLIENT_ID in names:
        parts.append(f"clients/{node_name(names[CLIENT_ID])}")
    return "/".join(parts)


def _text(key: str, kind: str, value: float) -> str:
    if kind == DOUBLE:
        return java_double(value)
    limit = 1 << _BITS.get(kind, _LONG_BITS)
    if not math.isfinite(value) or abs(int(value + _WHOLE) - value) > _WHOLE:
        raise InvalidRequestError(f"{key} must be a whole number")
    number = int(value + _WHOLE)
    if not 0 <= number < limit:
        raise InvalidRequestError(f"{key} must be from 0 to {limit - 1}")
    return str(number)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
