"""Places in topics with many partitions, which would be too long for an address: the address has a name for them instead."""

import hashlib
import zlib
from typing import Final

from twisted_kafka.system.bounded import BoundedCache

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of all kept places together: about a thousand of a topic with 1,000 partitions."""
LONGEST: Final = 2_000
"""Most characters of a place in an address."""

_MARK: Final = "~"
_NAME_BYTES: Final = 16


class Places:
    """Keeps long cursors of ``queries.records.messages`` until others need the room. Any thread may call it.

    A name is a hash of the place, so only a user who knows the place knows its name.
    """

    def __init__(self) -> None:
        self._kept: BoundedCache[str, bytes] = BoundedCache(MOST_BYTES, lambda name, data: len(name) + len(data))

    def named(self, cursor: str) -> str:
        """Return a cursor for an address: a short one itself, or else its name."""
        if len(cursor) <= LONGEST:
            return cursor
        data = cursor.encode()
        name = _MARK + hashlib.blake2b(data, digest_size=_NAME_BYTES).hexdigest()
        self._kept.put(name, zlib.compress(data))
        return name

    def cursor(self, text: str) -> str:
        """Return the cursor of an address. Raises ValueError if it is not kept any more."""
        if not text.startswith(_MARK):
            return text
        found = self._kept.get(text)
        if found is None:
            raise ValueError("this place in the topic is not kept any more: begin again without the cursor")
        return zlib.decompress(found).decode()
