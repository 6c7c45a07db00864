"""A request from its last byte to its response: its bytes, the timestamps of its phases, and its response."""

from collections.abc import Sequence
from typing import Protocol

from twisted_kafka.network.requests.memory_pool import LARGE_BYTES, MemoryPool
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.regions import Buffer, Part

# Kinds of response (Kafka: the subclasses of RequestChannel.Response).
NO_RESPONSE_YET = 0
SEND = 1
NO_OP = 2
CLOSE_CONNECTION = 3
"""The response, if there is one, is sent, and the connection closed."""
START_THROTTLING = 4
END_THROTTLING = 5
AUTHENTICATED = 6
"""Sent as SEND; the client has authenticated itself."""
AUTHENTICATION_FAILED = 7
"""The response, if there is one, is sent and the connection closed after ``connection.failed.authentication.delay.ms``."""
SESSION_EXPIRED = 8
"""No response is sent, and the connection is closed: its client has not re-authenticated in time."""


class ITimeSensor(Protocol):
    """Measures the time that clients use on threads."""

    def record(self, value: float, now_ms: int) -> object:
        """Record a part of it, in percent of a second."""


class IRequestOwner(Protocol):
    """Owns the connection of a request: a processor, or a client in this process."""

    def append_response(self, response: "Request | ThrottlingResponse") -> None:
        """Take a response, from any thread; ``wake_for_responses`` follows."""

    def wake_for_responses(self) -> None:
        """Wake the thread that sends responses, if it sleeps."""

    def has_channel(self, connection: ConnectionInfo) -> bool:
        """Whether it owns the connection, which is open."""


class Request:
    """A request and, once there is one, its response.

    The timestamps are nanoseconds of the monotonic clock and 0 until they are set; a completed request has all of them. Each has
    one writer: the processor sets ``received``, ``response_dequeued`` and ``sent``, the handler ``dequeued`` and
    ``local_complete``, and the thread that answers sets ``response_ready``.
    """

    __slots__ = (
        "_unanswered",
        "body_offset",
        "context",
        "dequeued_ns",
        "frame",
        "is_kept",
        "is_large",
        "local_complete_ns",
        "memory_pool",
        "parts",
        "processor",
        "received_ns",
        "request_bytes",
        "response_bytes",
        "response_dequeued_ns",
        "response_kind",
        "response_ready_ns",
        "sent_ns",
        "throttle_ns",
        "time_sensor",
    )

    def __init__(
        self, context: RequestContext, frame: Buffer, body_offset: int, processor: IRequestOwner, received_ns: int
    ) -> None:
        """``processor`` owns the connection ``context.connection`` and gets the response."""
        self.context = context
        self.frame: Buffer = frame
        self.body_offset = body_offset
        self.processor = processor
        self.request_bytes = size = len(frame)
        self.is_large = size > LARGE_BYTES
        """Whether it is handled while its processor reads others.

        Validating and writing it take long, mostly without the interpreter lock.
        """
        self.response_bytes = 0
        self.received_ns = received_ns
        self.dequeued_ns = self.local_complete_ns = self.response_ready_ns = 0
        self.response_dequeued_ns = self.sent_ns = self.throttle_ns = 0
        self.response_kind = NO_RESPONSE_YET
        self.parts: Sequence[Part] = ()
        self.memory_pool: MemoryPool | None = None
        self.time_sensor: ITimeSensor | None = None
        """Gets the time that sending the response takes the network thread; none if the socket does not take it at once."""
        self.is_kept = False
        """Whether its handler has left it to be handled later, with its frame."""
        self._unanswered = [True]

    def claim(self) -> bool:
        """Return True to the first caller only: that caller may answer the request."""
        try:
            return self._unanswered.pop()
        except IndexError:
            return False

    def release_buffer(self) -> None:
        """Drop the request's bytes and return their memory to the pool. Does nothing the second time, or without a pool.

        Called by the request's owner: the processor until the request is queued, then its handler.
        """
        pool = self.memory_pool
        if pool is not None:
            self.memory_pool = None
            self.frame = b""
            pool.release(self.request_bytes)

    def phases_ns(self) -> tuple[int, int, int, int, int, int, int]:
        """Return nanoseconds in the request queue, local, remote, throttled, in the response queue, sending, and in total.

        Valid once the request is completed, whether its response was sent or dropped.
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


class ThrottlingResponse:
    """Starts or ends throttling of a request's channel; sends nothing. (Kafka: StartThrottlingResponse, EndThrottlingResponse.)"""

    __slots__ = ("context", "response_kind")

    def __init__(self, context: RequestContext, response_kind: int) -> None:
        """``response_kind`` is START_THROTTLING or END_THROTTLING."""
        self.context = context
        self.response_kind = response_kind
