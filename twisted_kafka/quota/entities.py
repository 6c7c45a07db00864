"""Quota entities, their keys, and their names in the metadata store. (Kafka: ClientQuotaEntity, QuotaConfigs, Sanitizer.)"""

from collections.abc import Mapping
from typing import Final

from twisted_kafka.config.keys.declare import DOUBLE, INT, LONG
from twisted_kafka.metadata.znode_json import desanitized, sanitized
from twisted_kafka.metadata.znodes import DEFAULT_ENTITY

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

CLIENT_KEYS: Final[Mapping[str, str]] = {
    "producer_byte_rate": LONG,
    "consumer_byte_rate": LONG,
    "request_percentage": DOUBLE,
    "controller_mutation_rate": DOUBLE,
}
"""The quota keys of users and clients, with their types."""

IP_KEYS: Final[Mapping[str, str]] = {CONNECTION_CREATION_RATE: INT}
"""The quota keys of IP addresses."""

Entity = tuple[tuple[str, str | None], ...]
"""Pairs of type and name, sorted by type; the name None means the default entity."""


def node_name(name: str | None) -> str:
    """Return the node name of an entity, percent-encoded."""
    return DEFAULT_ENTITY if name is None else sanitized(name)


def entity_name(node: str) -> str | None:
    """Return the entity name of a node; None for the default."""
    return None if node == DEFAULT_ENTITY else desanitized(node)
