"""The hash with which Kafka's clients choose the partition of a key."""

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash, unsigned. (Kafka: Utils.murmur2.)"""
    size = len(data)
    found = _SEED ^ size
    whole = size & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        found = (found * _MULTIPLIER & _MASK) ^ word
    if size > whole:
        found = (found ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    found = (found ^ found >> 13) * _MULTIPLIER & _MASK
    return found ^ found >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition of a key, as Kafka's clients choose it."""
    return (murmur2(key) & _POSITIVE) % partitions
