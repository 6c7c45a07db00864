"""Reading the topics out of the consumer protocol's subscription, for the rules that depend on them."""

import struct

CONSUMER_PROTOCOL_TYPE = "consumer"

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a ConsumerProtocolSubscription of any version (they come first in all of them).

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
