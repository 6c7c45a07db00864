"""The memory that all connections of a processor hold, and the choice of connections to close if it is too much."""

from typing import Final

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.requests.request import Request
from twisted_kafka.protocol.regions import FileRegion

NOTE_BYTES: Final = 256
"""The memory of a note for the access log: a tuple, its texts and its place."""

STUCK_NS: Final = 2_000_000_000
"""A client that reads its response takes a part of it within this time."""

FAR_TOO_MUCH: Final = 3
"""Beyond the limit times this, a client is closed that may only be slow."""


class HeldBytes:
    """The bytes that each connection holds. The sum should stay within ``max_bytes``."""

    __slots__ = ("_held", "max_bytes", "total_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.total_bytes = 0
        self._held: dict[KafkaChannel, int] = {}

    def note(self, channel: KafkaChannel, size_bytes: int) -> bool:
        """Note how much a connection holds from now on; return whether all of them hold too much."""
        held = self._held
        before = held.pop(channel, 0)
        if size_bytes:
            held[channel] = size_bytes
        self.total_bytes += size_bytes - before
        return self.total_bytes > self.max_bytes

    def longest_silent(self) -> KafkaChannel | None:
        """Return the holder that has been silent for the longest time, if possible one that waits for no answer."""
        return min(self._held, key=_last_active, default=None)

    def longest_stuck(self, now_ns: int) -> KafkaChannel | None:
        """Return the connection to close: the longest silent one, if silent for ``STUCK_NS`` or if all hold several times too much.

        A single connection is never closed for its bytes: its response may be larger than the limit.
        """
        if len(self._held) < 2:
            return None
        channel = self.longest_silent()
        is_far_too_much = self.total_bytes > FAR_TOO_MUCH * self.max_bytes
        return channel if channel is not None and (is_far_too_much or now_ns - channel.last_active_ns > STUCK_NS) else None


def response_bytes(request: Request) -> int:
    """Return how many bytes of memory a request takes until its response is sent: parts in files take none, its notes do."""
    context = request.context
    notes = len(context.topics or ()) + len(context.resources or ())
    return sum([len(part) for part in request.parts if not isinstance(part, FileRegion)]) + NOTE_BYTES * notes


def _last_active(channel: KafkaChannel) -> tuple[bool, int]:
    return channel.in_flight is not None, channel.last_active_ns
