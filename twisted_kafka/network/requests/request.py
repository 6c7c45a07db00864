"""A request on its way: who sent it, its bytes, the marks of its phases, its response."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.regions import Buffer, Part

if TYPE_CHECKING:
    from twisted_kafka.network.connection.channel import KafkaChannel

# Kinds of response (Kafka: RequestChannel.Response's subclasses).
NO_ANSWER_YET = 0
SEND = 1
NO_OP = 2
CLOSE_CONNECTION = 3
START_THROTTLING = 4
END_THROTTLING = 5


class Request:
    """A request and, once there is one, its response.

    The marks are nanoseconds of the monotonic clock, 0 until they are set; when it is completed, all are.
    Each is written by one thread: the processor (received, response_dequeued, sent), the handler (dequeued,
    local_complete), whoever completes it (response_ready).
    """

    __slots__ = (
        "_unanswered",
        "body_offset",
        "channel",
        "context",
        "dequeued_ns",
        "frame",
        "local_complete_ns",
        "memory_pool",
        "parts",
        "received_ns",
        "request_bytes",
        "response_bytes",
        "response_dequeued_ns",
        "response_kind",
        "response_ready_ns",
        "sent_ns",
        "throttle_ns",
    )

    def __init__(self, context: RequestContext, frame: Buffer, body_offset: int, channel: "KafkaChannel", received_ns: int) -> None:
        self.context = context
        self.frame: Buffer = frame
        self.body_offset = body_offset
        self.channel = channel
        self.request_bytes = len(frame)
        self.response_bytes = 0
        self.received_ns = received_ns
        self.dequeued_ns = self.local_complete_ns = self.response_ready_ns = 0
        self.response_dequeued_ns = self.sent_ns = self.throttle_ns = 0
        self.response_kind = NO_ANSWER_YET
        self.parts: Sequence[Part] = ()
        self.memory_pool: MemoryPool | None = None
        self._unanswered = [True]

    def claim(self) -> bool:
        """Return True to the first who asks: the one that may answer this request."""
        try:
            return self._unanswered.pop()
        except IndexError:
            return False

    def release_buffer(self) -> None:
        """Let go of its bytes, and give them back to the pool if they are of one; harmless when that was done.

        To be called by whoever has the request: the processor until it is queued, then its handler.
        """
        pool = self.memory_pool
        if pool is not None:
            self.memory_pool = None
            self.frame = b""
            pool.release(self.request_bytes)

    def phases_ns(self) -> tuple[int, int, int, int, int, int, int]:
        """Nanoseconds in the request queue, local, remote, throttled, in the response queue, sending; and in all.

        To be asked when the request is completed: all marks are set then, also those of a response that was dropped.
        """
        dequeued, local, ready, queued, sent = (
            self.dequeued_ns,
            self.local_complete_ns,
            self.response_ready_ns,
            self.response_dequeued_ns,
            self.sent_ns,
        )
        received = self.received_ns
        return (
            dequeued - received,
            local - dequeued,
            ready - local,
            self.throttle_ns,
            queued - ready,
            sent - queued,
            sent - received,
        )


class ThrottleMark:
    """A response that sends nothing: START_THROTTLING or END_THROTTLING of the channel of a request."""

    __slots__ = ("channel", "response_kind")

    def __init__(self, channel: "KafkaChannel", response_kind: int) -> None:
        self.channel = channel
        self.response_kind = response_kind
