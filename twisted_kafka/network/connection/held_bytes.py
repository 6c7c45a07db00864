"""What the connections of a processor hold in memory together, and which of them to close if that is too much."""

from typing import Final

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.requests.request import Request
from twisted_kafka.protocol.regions import FileRegion

NOTE_BYTES: Final = 256
"""What a note for the access log takes: a tuple, its texts and its place."""


class HeldBytes:
    """The bytes of each connection, of which at most ``max_bytes`` are to be held together."""

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


def response_bytes(request: Request) -> int:
    """Return how many bytes of memory a request takes until its response is sent: parts in files take none, its notes do."""
    context = request.context
    notes = len(context.topics or ()) + len(context.resources or ())
    return sum([len(part) for part in request.parts if not isinstance(part, FileRegion)]) + NOTE_BYTES * notes


def _last_active(channel: KafkaChannel) -> tuple[bool, int]:
    return channel.in_flight is not None, channel.last_active_ns
