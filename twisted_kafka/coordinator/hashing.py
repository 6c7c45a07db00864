"""The partition of an internal topic that a key maps to, by Java's string hash: all brokers and tools must agree on it."""

import struct
from functools import lru_cache

REMEMBERED_HASHES = 8192
_MASK = 0xFFFF_FFFF
_SIGN = 0x8000_0000


@lru_cache(maxsize=REMEMBERED_HASHES)
def positive_hash(key: str) -> int:
    """Return the absolute value of Java's ``String.hashCode``; the smallest integer becomes 0 (Kafka: Utils.abs)."""
    data = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & _MASK
    if value == _SIGN:
        return 0
    return value if value < _SIGN else _MASK + 1 - value


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition that holds the key's records, in a topic with ``partition_count`` partitions."""
    return positive_hash(key) % partition_count
