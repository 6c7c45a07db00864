"""One client connection: frames in, one request under way, responses out in order."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twisted_kafka.network.connection.channel_state import (
    CLOSED,
    DISCONNECTED,
    MUTE,
    MUTED,
    MUTED_AND_RESPONSE_PENDING,
    NOT_MUTED,
    REQUEST_RECEIVED,
    RESPONSE_SENT,
    THROTTLE_ENDED,
    THROTTLE_STARTED,
    next_state,
)
from twisted_kafka.network.connection.framing import NOT_NOW, FrameReader, InvalidReceiveError
from twisted_kafka.network.connection.header_reader import HeaderReader
from twisted_kafka.network.interfaces import IChannelTransport
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.protocol.regions import Buffer

if TYPE_CHECKING:
    from twisted_kafka.network.loop.processor import Processor

READ_AHEAD_BYTES = 64 * 1024
"""A muted channel goes on reading until it holds more than this: muting for a short request costs no system call.

Not with a memory pool: there, what a channel holds beyond its share of the pool is what it was sent at once.
"""


class KafkaChannel:
    """The protocol on one connection. All of it runs on its processor's thread."""

    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_pool",
        "_processor",
        "_read_ahead_bytes",
        "_reader",
        "_reserved_bytes",
        "connection",
        "headers",
        "in_flight",
        "is_ended",
        "is_paused",
        "last_active_ns",
        "state",
        "transport",
    )

    transport: IChannelTransport

    def __init__(self, connection: ConnectionInfo, processor: "Processor", max_request_bytes: int) -> None:
        self.connection = connection
        self._processor = processor
        self._reader = FrameReader(max_request_bytes)
        self._backlog: deque[Buffer] | None = None
        self._backlog_bytes = 0
        self._pool: MemoryPool | None = processor.memory_pool
        self._read_ahead_bytes = READ_AHEAD_BYTES if self._pool is None else 0
        self._reserved_bytes = 0
        """What it has taken of the memory pool for the frame under way, which is the next to become a request."""
        self.headers = HeaderReader()
        self.state = NOT_MUTED
        self.in_flight: Request | None = None
        self.is_paused = False
        self.is_ended = False
        self.last_active_ns = 0

    @property
    def connection_id(self) -> str:
        """``local:port-remote:port-index``."""
        return self.connection.connection_id

    @property
    def processor(self) -> "Processor":
        """The processor that owns it."""
        return self._processor

    @property
    def is_open(self) -> bool:
        """Whether something can still be sent."""
        return self.state != CLOSED

    @property
    def holds_memory(self) -> bool:
        """Whether it has taken memory for a request that is not complete."""
        return bool(self._reserved_bytes)

    @property
    def has_waiting_requests(self) -> bool:
        """Whether further requests were received behind the one under way."""
        return bool(self._backlog)

    # What the transport calls.

    def wanted(self) -> memoryview | None:
        """Where the next bytes go when a big frame is under way; None: to ``dataReceived``; NOT_NOW: nothing is to be read."""
        view = self._reader.wanted()
        if view is None and self._processor.is_full:
            self._processor.stop_reading(self)
            return NOT_NOW
        return view

    def dataReceived(self, data: bytes) -> None:
        """Take bytes from the connection."""
        try:
            frames = self._reader.feed(data)
        except InvalidReceiveError as error:
            self._processor.refuse(self, str(error))
            return
        self._take(frames)

    def received(self, count: int) -> None:
        """Note that ``count`` bytes were put where ``wanted`` said."""
        self._take(self._reader.received(count))

    def sent(self) -> None:
        """Note that the response under way is gone."""
        request = self.in_flight
        if request is not None:
            request.sent_ns = self._processor.now_ns()
            self._processor.process_completed_send(self, request)

    def progressed(self) -> None:
        """Note that the client took a part of its response."""
        self.last_active_ns = self._processor.now_ns()

    def ended(self) -> bool:
        """Note that the client sends no more; return whether requests are left, which are served before the end.

        A producer with acks=0 sends and goes: what it sent must not be lost for its haste. One that has only shut down its
        sending side reads what it is answered. (Kafka's CloseMode.GRACEFUL does the first of these.)
        """
        if not self._backlog and self.in_flight is None:
            return False
        self.is_ended = True
        self.pause()
        self._processor.half_closed(self)
        return True

    def connectionLost(self, reason: object = None) -> None:
        """Note that the connection is closed."""
        self.state = next_state(self.state, DISCONNECTED)
        self._backlog = None
        self._backlog_bytes = 0
        if self._pool is not None and self._reserved_bytes:
            self._pool.release(self._reserved_bytes)
            self._reserved_bytes = 0
        self._processor.process_disconnected(self)

    # What the processor calls.

    def request_received(self, request: Request) -> None:
        """Begin with a request: nothing further is taken until it is answered."""
        # What nearly always happens need not look into the table, here and below.
        self.state = MUTED_AND_RESPONSE_PENDING if self.state <= MUTED else next_state(self.state, REQUEST_RECEIVED)
        self.in_flight = request

    def response_sent(self) -> None:
        """Be done with the request under way."""
        self.state = MUTED if self.state == MUTED_AND_RESPONSE_PENDING else next_state(self.state, RESPONSE_SENT)
        self.in_flight = None

    def throttle_started(self) -> None:
        """Take no further request until ``throttle_ended``, although the one under way is answered."""
        self.state = next_state(self.state, THROTTLE_STARTED)

    def throttle_ended(self) -> None:
        """Be throttled no more."""
        self.state = next_state(self.state, THROTTLE_ENDED)

    def mute(self) -> None:
        """Take no request, and read nothing, until ``next_request``."""
        self.state = next_state(self.state, MUTE)
        self.pause()

    def next_request(self) -> None:
        """Take the next frame that waits, or read on; nothing, while it is muted for a reason."""
        if self.state > MUTED:
            return
        processor = self._processor
        if processor.is_full:
            processor.stop_reading(self)
        elif self._backlog:
            frame = self._backlog.popleft()
            self._backlog_bytes -= len(frame)
            processor.process_completed_receive(self, frame)
        elif self.is_ended:
            self.close()
        elif self._pool is None or self._reserve():
            self.state = NOT_MUTED
            if self.is_paused:
                self.is_paused = False
                self.transport.resumeProducing()

    def take_memory(self, frame: Buffer) -> bool:
        """Have memory of the pool for this frame, which becomes a request; if there is none, keep it until there is."""
        if self._reserved_bytes:
            self._reserved_bytes = 0  # the request has it now
            return True
        if self._pool is None or self._pool.try_allocate(len(frame), self._processor):
            return True
        if self._backlog is None:
            self._backlog = deque()
        self._backlog.appendleft(frame)
        self._backlog_bytes += len(frame)
        self._processor.is_full = True
        self._processor.stop_reading(self)
        return False

    def close(self) -> None:
        """Close at once: a client that does not read must not keep its connection open."""
        if self.state != CLOSED:
            self.transport.abortConnection()

    def pause(self) -> None:
        """Read no more until ``next_request`` finds nothing else to do."""
        if not self.is_paused and self.state != CLOSED:
            self.is_paused = True
            self.transport.pauseProducing()

    def _take(self, frames: Sequence[Buffer]) -> None:
        if frames and self.state == NOT_MUTED and not self._backlog:
            # The frames behind the first are kept before it is processed: that may be over before the call returns.
            if len(frames) > 1:
                self._keep(frames[1:])
            self._processor.process_completed_receive(self, frames[0])
        elif frames:
            self._keep(frames)
        else:
            self.last_active_ns = self._processor.now_ns()  # a part of a request is a sign of life, too
        if self.state != NOT_MUTED and self._backlog_bytes + self._reader.held_bytes > self._read_ahead_bytes:
            self.pause()
        elif self._pool is not None and self.state == NOT_MUTED:
            self._reserve()

    def _keep(self, frames: Sequence[Buffer]) -> None:
        if self._backlog is None:
            self._backlog = deque()
        self._backlog.extend(frames)
        self._backlog_bytes += sum(map(len, frames))

    def _reserve(self) -> bool:
        """Have memory of the pool for the frame under way, if one is; return False when that has to be waited for.

        Only for the next frame, when no other waits here: so every byte taken of the pool belongs to a request that is complete, or
        that needs nothing but its client's bytes to be, and connections cannot wait for each other.
        """
        size = self._reader.frame_bytes
        if self._pool is None or not size or self._reserved_bytes:
            return True
        if self._pool.try_allocate(size, self._processor):
            self._reserved_bytes = size
            return True
        self._processor.is_full = True
        self._processor.stop_reading(self)
        return False
