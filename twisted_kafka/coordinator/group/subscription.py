"""The consumer protocol inside the classic one: what consumers put into JoinGroup's metadata and SyncGroup's assignments.

An int16 version, then the message in that version; whoever knows only older versions reads what it knows of a newer one.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from twisted_kafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
LAST_VERSION: Final = 3

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a subscription of any version (they come first in all of them).

    Raises ValueError when the bytes are none: other clients may put anything there.
    """
    try:
        if _INT16.unpack_from(metadata, 0)[0] < 0:
            raise ValueError("negative version of a subscription")
        count = _INT32.unpack_from(metadata, 2)[0]
        position = 6
        if count < 0 or count * _INT16.size > len(metadata):
            raise ValueError(f"a subscription of {len(metadata)} bytes claims {count} topics")
        topics = set()
        for _ in range(count):
            size = _INT16.unpack_from(metadata, position)[0]
            position += _INT16.size
            if size < 0 or position + size > len(metadata):
                raise ValueError("a subscription ends inside a topic's name")
            topics.add(metadata[position : position + size].decode())
            position += size
    except struct.error as error:
        raise ValueError(f"a subscription stops short: {error}") from error
    return frozenset(topics)


def version_of(metadata: bytes) -> int:
    """Return the version that the bytes say they are in, as far as it's known here. Raises ValueError."""
    if len(metadata) < _INT16.size or metadata[0] & 0x80:
        raise ValueError("no version in what should be of the consumer protocol")
    version: int = _INT16.unpack_from(metadata)[0]
    return min(version, LAST_VERSION)


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription in a member's metadata. Raises ValueError when it is none."""
    return ConsumerProtocolSubscription.decode(metadata, version_of(metadata), _INT16.size)


def decode_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Return what a member was assigned; no bytes at all mean nothing. Raises ValueError when it is no assignment."""
    if not assignment:
        return ConsumerProtocolAssignment()
    return ConsumerProtocolAssignment.decode(assignment, version_of(assignment), _INT16.size)


def encode_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    """Return an assignment as consumers read it."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=sorted(indexes))
            for topic, indexes in sorted(partitions.items())
        ]
    )
    return _INT16.pack(version) + message.encode(version)
