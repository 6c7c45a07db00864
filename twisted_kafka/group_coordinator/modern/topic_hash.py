"""The hash of the topics that a group subscribes to: if it changes, the group gets a new epoch (KIP-1101; Kafka: Utils).

Its value is stored with the group, so it is Kafka's: XXH3 of 64 bits over little-endian numbers and UTF-16 texts.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from twisted_kafka.metadata.cache import MetadataSnapshot

_MAGIC: Final = b"\0"
"""The version of the hash."""
_NO_TOPICS: Final = 0

_INT32 = struct.Struct("<i")
_UINT64 = struct.Struct("<Q")
_HALVES = struct.Struct(">QQ")


class _Known(NamedTuple):
    """A topic's hash, and the topic from which it was computed."""

    topic_id: bytes
    partitions: object
    racks: frozenset[tuple[int, str | None]]
    hash: bytes


class TopicHashes:
    """Computes the hashes of groups, with a memory of the topics' own. Only a changed topic's is computed again."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def group_hash(self, snapshot: MetadataSnapshot, names: Iterable[str]) -> int:
        """Return the hash of the topics of ``names`` that exist, as a signed number; 0 without any."""
        found = [self._topic_hash(snapshot, name) for name in sorted(names) if self._exists(snapshot, name)]
        if not found:
            return _NO_TOPICS
        value = _xxh3(b"".join(found))
        return value - (1 << 64) if value >> 63 else value

    def _exists(self, snapshot: MetadataSnapshot, name: str) -> bool:
        if name in snapshot.topics and name in snapshot.topic_ids:
            return True
        self._known.pop(name, None)
        return False

    def _topic_hash(self, snapshot: MetadataSnapshot, name: str) -> bytes:
        topic_id, partitions, racks = snapshot.topic_ids[name], snapshot.topics[name], _racks(snapshot)
        known = self._known.get(name)
        if known is None or known.partitions is not partitions or (known.topic_id, known.racks) != (topic_id, racks):
            value = _UINT64.pack(_xxh3(_described(snapshot, name)))
            known = self._known[name] = _Known(topic_id, partitions, racks, value)
        return known.hash


def _racks(snapshot: MetadataSnapshot) -> frozenset[tuple[int, str | None]]:
    found: frozenset[tuple[int, str | None]] | None = snapshot.derived.get("racks")
    if found is None:
        found = snapshot.derived["racks"] = frozenset((each.id, each.rack) for each in snapshot.brokers.values() if each.rack)
    return found


def _described(snapshot: MetadataSnapshot, name: str) -> bytes:
    """Return the bytes that a topic's hash covers."""
    partitions = snapshot.topics[name]
    parts = [_MAGIC, *(_UINT64.pack(half) for half in _HALVES.unpack(snapshot.topic_ids[name])), _text(name)]
    parts.append(_INT32.pack(len(partitions)))
    for index, state in partitions.items():
        parts.append(_INT32.pack(index))
        brokers = (snapshot.brokers.get(replica) for replica in (state.replicas if state is not None else ()))
        for rack in sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None):
            parts += (_INT32.pack(_length(rack)), _text(rack))
    return b"".join(parts)


def _length(text: str) -> int:
    """Return a text's length in Java's characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _INT32.pack(_length(text))


def _xxh3(data: bytes) -> int:
    import xxhash  # a shared library, needed only for share groups

    return xxhash.xxh3_64_intdigest(data)
