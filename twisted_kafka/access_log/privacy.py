"""Privacy of the access log: fields about clients can be omitted, or replaced by a keyed hash that still distinguishes them."""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from twisted_kafka.system import machine

_HASH_BYTES: Final = 8
_CONNECTION: Final = re.compile(r"^(?P<local>.*?:\d+-)(?P<remote>.*):(?P<port>\d+)(?P<index>-\d+)$")

_IMPLIED: Final = {"client_id": "member_id"}
"""Fields that are treated like another one: a member id begins with the client's id."""


class FieldPolicy:
    """Which fields of a connection are omitted, and which are hashed.

    ``key`` is the key of the hashes: with the same key a client has the same hash on every broker and after a restart. Without one
    the key is random, so that a guessed name cannot be confirmed from the log.
    """

    def __init__(self, excluded: tuple[str, ...] = (), hashed: tuple[str, ...] = (), key: str | None = None) -> None:
        self._excluded = _with_implied(excluded)
        self._hashed = _with_implied(hashed)
        self._key = hashlib.sha256(key.encode()).digest() if key else machine.random_bytes(32)

    def shown(self, values: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the fields as they appear in the log."""
        return {name: self._of(name, value) for name, value in values.items() if name not in self._excluded}

    def _of(self, name: str, value: str | None) -> str | None:
        if value is None or name not in self._hashed:
            return value
        if name != "connection":
            return self._hash(value)
        parts = _CONNECTION.match(value)
        if parts is None:
            return self._hash(value)
        return (
            f"{parts['local']}{self._hash(parts['remote'])}:{self._hash(parts['remote'] + ':' + parts['port'])[:4]}{parts['index']}"
        )

    def _hash(self, value: str) -> str:
        return hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=self._key, digest_size=_HASH_BYTES).hexdigest()


def _with_implied(fields: tuple[str, ...]) -> frozenset[str]:
    return frozenset(fields) | {_IMPLIED[each] for each in fields if each in _IMPLIED}
