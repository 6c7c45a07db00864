"""What of a client the access log shows: fields can be left out, or replaced by a keyed hash that still tells clients apart."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from typing import Final

_HASH_BYTES: Final = 8
_CONNECTION: Final = re.compile(r"^(?P<local>.*?:\d+-)(?P<remote>.*):(?P<port>\d+)(?P<index>-\d+)$")


class FieldPolicy:
    """Which fields of a connection are left out, and which are hashed.

    `key` makes the hashes: with the same key a client has the same hash on every broker and after a restart. Without one a key is
    drawn at random, so that a log alone never tells whether a guessed name is in it.
    """

    def __init__(self, excluded: tuple[str, ...] = (), hashed: tuple[str, ...] = (), key: str | None = None) -> None:
        self._excluded = frozenset(excluded)
        self._hashed = frozenset(hashed)
        self._key = hashlib.sha256(key.encode()).digest() if key else secrets.token_bytes(32)

    def shown(self, values: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the fields as the log shows them."""
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
