"""Who has quotas, which, and under what name in the metadata store. (Kafka: ClientQuotaEntity, QuotaConfigs, Sanitizer.)"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from twisted_kafka.config.keys.declare import DOUBLE, INT, LONG

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

DEFAULT_NODE: Final = "<default>"
"""The node of those that have none of their own."""

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

CLIENT_KEYS: Final[Mapping[str, str]] = {
    "producer_byte_rate": LONG,
    "consumer_byte_rate": LONG,
    "request_percentage": DOUBLE,
    "controller_mutation_rate": DOUBLE,
}
"""Quotas of users and clients, by their types."""

IP_KEYS: Final[Mapping[str, str]] = {CONNECTION_CREATION_RATE: INT}
"""Quotas of addresses."""

Entity = tuple[tuple[str, str | None], ...]
"""Types and names, sorted by type; without a name it is the default of that type."""


def node_name(name: str | None) -> str:
    """Return the name as a node's, percent-encoded."""
    return DEFAULT_NODE if name is None else quote(name, safe="").replace("~", "%7E")


def entity_name(node: str) -> str | None:
    """Return what a node's name stands for."""
    return None if node == DEFAULT_NODE else unquote(node)
