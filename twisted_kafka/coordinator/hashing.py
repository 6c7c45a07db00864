"""Which partition of an internal topic a key belongs to: as Java hashes strings, for all brokers and tools must agree."""

import struct
from functools import lru_cache

REMEMBERED_HASHES = 8192
_MASK = 0xFFFF_FFFF
_SIGN = 0x8000_0000


@lru_cache(maxsize=REMEMBERED_HASHES)
def positive_hash(key: str) -> int:
    """Return Java's ``String.hashCode`` made positive as Kafka does (the smallest integer becomes 0)."""
    data = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & _MASK
    if value == _SIGN:
        return 0
    return value if value < _SIGN else _MASK + 1 - value


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of a topic with ``partition_count`` partitions that holds the key's records."""
    return positive_hash(key) % partition_count
