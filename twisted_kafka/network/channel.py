"""One client connection: frames in, one request under way, responses out in order."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twisted_kafka.network.channel_state import (
    CLOSED,
    DISCONNECTED,
    NOT_MUTED,
    REQUEST_RECEIVED,
    RESPONSE_PENDING,
    RESPONSE_SENT,
    next_state,
)
from twisted_kafka.network.framing import FrameReader, InvalidReceiveError
from twisted_kafka.network.header_reader import HeaderReader
from twisted_kafka.network.interfaces import IChannelTransport
from twisted_kafka.network.request import ConnectionInfo, Request
from twisted_kafka.protocol.regions import Buffer

if TYPE_CHECKING:
    from twisted_kafka.network.processor import Processor

READ_AHEAD_BYTES = 64 * 1024
"""A muted channel goes on reading until it holds more than this: muting for a short request costs no system call."""


class KafkaChannel:
    """The protocol on one connection. All of it runs on its processor's thread."""

    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_processor",
        "_reader",
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

    # What the transport calls.

    def wanted(self) -> memoryview | None:
        """Where the next bytes go when a big frame is under way; None: to ``dataReceived``."""
        return self._reader.wanted()

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
        self._processor.process_completed_send(self)

    def progressed(self) -> None:
        """Note that the client took a part of its response."""
        self.last_active_ns = self._processor.now_ns()

    def ended(self) -> bool:
        """Note that the client sends no more; return whether it left requests behind, which are served before the end.

        A producer with acks=0 sends and goes: what it sent must not be lost for its haste. (Kafka: CloseMode.GRACEFUL.)
        """
        if not self._backlog:
            return False
        self.is_ended = True
        self.pause()
        return True

    def connectionLost(self, reason: object = None) -> None:
        """Note that the connection is closed."""
        self.state = next_state(self.state, DISCONNECTED)
        self._backlog = None
        self._processor.process_disconnected(self)

    # What the processor calls.

    def request_received(self, request: Request) -> None:
        """Begin with a request: nothing further is taken until it is answered."""
        # What nearly always happens need not look into the table.
        self.state = RESPONSE_PENDING if self.state == NOT_MUTED else next_state(self.state, REQUEST_RECEIVED)
        self.in_flight = request

    def response_sent(self) -> None:
        """Be done with the request under way."""
        self.state = NOT_MUTED if self.state == RESPONSE_PENDING else next_state(self.state, RESPONSE_SENT)
        self.in_flight = None

    def next_request(self) -> None:
        """Take the next frame that waits, or read on."""
        if self.state != NOT_MUTED or self._processor.is_full:
            return
        if self._backlog:
            frame = self._backlog.popleft()
            self._backlog_bytes -= len(frame)
            self._processor.receive(self, frame)
        elif self.is_ended:
            self.close()
        elif self.is_paused:
            self.is_paused = False
            self.transport.resumeProducing()

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
        processor = self._processor
        if frames and self.state == NOT_MUTED and not self._backlog:
            # The frames behind the first are kept before it is processed: that may be over before receive returns.
            if len(frames) > 1:
                self._keep(frames[1:])
            processor.receive(self, frames[0])
        elif frames:
            self._keep(frames)
        if processor.is_full or (self.state != NOT_MUTED and self._backlog_bytes + self._reader.held_bytes > READ_AHEAD_BYTES):
            self.pause()

    def _keep(self, frames: Sequence[Buffer]) -> None:
        if self._backlog is None:
            self._backlog = deque()
        self._backlog.extend(frames)
        self._backlog_bytes += sum(map(len, frames))
