"""The id of a connection in the field `connection`, which has the addresses of both its ends."""

from __future__ import annotations

import re
from typing import NamedTuple

_ID = re.compile(r"(.*):(\d+)-([^-]*):(\d+)-\d+(?:-\d+)?")
"""`local:port-remote:port-index`; since Kafka 4.0 with the number of the network thread before the index."""


class Ends(NamedTuple):
    """The addresses and ports of a connection."""

    broker: str
    broker_port: int
    client: str
    client_port: int


def ends(connection: str | None) -> Ends | None:
    """Return the ends of a connection, None if the log has a hash instead of its id."""
    found = _ID.fullmatch(connection or "")
    return None if found is None else Ends(found[1], int(found[2]), found[3], int(found[4]))


def address(connection: str | None) -> str | None:
    """Return the client's address, None if it is not known."""
    found = ends(connection)
    return found.client or None if found is not None else None
