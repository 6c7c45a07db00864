"""The consumer embedded protocol: subscriptions in JoinGroup's metadata and assignments in SyncGroup (Kafka: ConsumerProtocol).

An int16 version precedes the message. A reader that only knows older versions reads the fields it knows of a newer one.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from twisted_kafka.protocol.messages.coordinators.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
LAST_VERSION: Final = 3

MOST_ELEMENTS: Final = 100_000
"""Most topics and partitions in a subscription or an assignment, as in a request: the objects take twenty times as many bytes."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a subscription of any version (all versions begin with them).

    Raises ValueError if the bytes are not a subscription: a client that is not a consumer may put anything there.
    """
    try:
        if _INT16.unpack_from(metadata, 0)[0] < 0:
            raise ValueError("the subscription's version is negative")
        count = _INT32.unpack_from(metadata, 2)[0]
        position = 6
        if count < 0:
            raise ValueError(f"the subscription has a negative number of topics, {count}")
        if count > MOST_ELEMENTS:
            raise ValueError(f"the subscription has {count} topics, more than {MOST_ELEMENTS}")
        topics = set()
        for _ in range(count):
            size = _INT16.unpack_from(metadata, position)[0]
            position += _INT16.size
            if size < 0 or position + size > len(metadata):
                raise ValueError("the subscription ends inside a topic name")
            topics.add(metadata[position : position + size].decode())
            position += size
    except struct.error as error:
        raise ValueError(f"the subscription is truncated: {error}") from error
    return frozenset(topics)


def version_of(metadata: bytes) -> int:
    """Return the version at the start of a subscription or assignment, at most ``LAST_VERSION``.

    Raises ValueError if it is missing or negative.
    """
    if len(metadata) < _INT16.size or metadata[0] & 0x80:
        raise ValueError("the consumer protocol's version is missing or negative")
    version: int = _INT16.unpack_from(metadata)[0]
    return min(version, LAST_VERSION)


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription in a member's metadata. Raises ValueError if it is malformed."""
    return ConsumerProtocolSubscription.decode(metadata, version_of(metadata), _INT16.size, MOST_ELEMENTS)


def decode_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Return a member's assignment; empty bytes are an empty one. Raises ValueError if it is malformed."""
    if not assignment:
        return ConsumerProtocolAssignment()
    return ConsumerProtocolAssignment.decode(assignment, version_of(assignment), _INT16.size, MOST_ELEMENTS)


def encode_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    """Return an assignment in the embedded protocol's format."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=sorted(indexes))
            for topic, indexes in sorted(partitions.items())
        ]
    )
    return _INT16.pack(version) + message.encode(version)
