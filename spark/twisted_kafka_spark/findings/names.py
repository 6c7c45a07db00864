"""Names of clients and of the services that they are instances of."""

from __future__ import annotations

import re
from typing import Any

ANONYMOUS = "User:ANONYMOUS"
"""The principal of clients without an account."""
_CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}"
    r"|(?<![0-9A-Za-z])(?=[a-f]*[0-9])[0-9a-f]{4,}(?![0-9A-Za-z])"
    r"|(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}$"
    r"|[0-9]+"
)
"""Parts of client ids that differ between instances: UUIDs, hexadecimal and decimal numbers, and the ends of the names of pods."""


def service_of(client_id: str | None) -> str:
    """Return a client id without the parts that differ between instances of a service."""
    return _CHANGING.sub("#", client_id or "")


def name_of(client_id: str | None) -> str:
    """Return the name of a client at the beginning of a sentence."""
    return "A client without a client id" if not client_id else f"Client {client_id}"


def service_and_account(name: tuple[Any, ...]) -> tuple[str, Any]:
    """Return the service of a name that begins with a client id, and the principal, which is second."""
    return service_of(name[0]), name[1]


def owner_of(name: tuple[Any, ...]) -> str:
    """Return the principal of a name that begins with a client id and a principal; the service of a client without an account."""
    return service_of(name[0]) if name[1] in (None, ANONYMOUS) else name[1]
