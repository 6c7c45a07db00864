"""One client connection: frames in, one request in flight, responses out in order."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twisted_kafka.network.connection.channel_state import (
    CLOSED,
    DISCONNECTED,
    MUTE,
    MUTED,
    MUTED_AND_RESPONSE_PENDING,
    MUTED_AND_THROTTLED,
    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
    NOT_MUTED,
    REQUEST_RECEIVED,
    RESPONSE_SENT,
    THROTTLE_ENDED,
    THROTTLE_STARTED,
    next_state,
)
from twisted_kafka.network.connection.connection_stats import ConnectionStats
from twisted_kafka.network.connection.framing import NOT_NOW, FrameReader, InvalidReceiveError
from twisted_kafka.network.connection.header_reader import HeaderReader, authenticating_header_reader
from twisted_kafka.network.requests.authenticator import IAuthenticator
from twisted_kafka.network.requests.memory_pool import MemoryPool
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.protocol.headers import read_request_header
from twisted_kafka.protocol.regions import Buffer, FileRegion

if TYPE_CHECKING:
    from twisted_kafka.network.connection.transport import KafkaTransport
    from twisted_kafka.network.loop.processor import Processor

READ_BYTES = 64 * 1024
"""Size of one read for small frames, and for the beginning of a large one."""

SHORT_READ_BYTES = 4 * 1024
"""The same while little may be held: thousands of clients may then begin large requests at the same time."""

READ_AHEAD_BYTES = 64 * 1024
"""A muted channel keeps reading until it holds more than this, so muting for a short request costs no system call.

It is 0 with a memory pool for all requests: a channel then holds no more unaccounted bytes than it got in one read.
"""

MOST_CUT = 32
"""Most frames of one read that are cut at a time: a frame of two bytes takes up thirty times its size once it is an object."""

LOADED_NS = 1_000_000_000
"""Records count as in the page cache for this long after a handler has loaded them."""

FRAME_BYTES = 64
"""The memory of a waiting frame besides its bytes: its size prefix, its object, and its place in the backlog."""


class KafkaChannel:
    """The protocol on one connection. Everything runs on its processor's thread."""

    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_loaded_ns",
        "_noted_bytes",
        "_owner",
        "_pool",
        "_read_ahead_bytes",
        "_reader",
        "_reserved_bytes",
        "_reserved_ns",
        "connection",
        "has_sent",
        "in_flight",
        "is_eof",
        "is_paused",
        "last_active_ns",
        "read_header",
        "state",
        "transport",
    )

    # Set by its processor.
    transport: "KafkaTransport"
    last_active_ns: int

    def __init__(self, connection: ConnectionInfo, owner: "Processor", max_request_bytes: int) -> None:
        self.connection = connection
        self._owner = owner
        self._reader = FrameReader(max_request_bytes, most_cut=MOST_CUT)
        self._backlog: deque[Buffer] | None = None
        self._backlog_bytes = 0
        self._pool: MemoryPool | None = owner.memory_pool
        self._read_ahead_bytes = READ_AHEAD_BYTES if self._pool is None or self._pool.least_bytes else 0
        self._noted_bytes = 0
        self._loaded_ns = 0
        self._reserved_bytes = 0
        """Allocated from the memory pool for the incomplete frame that becomes the next request."""
        self._reserved_ns = 0
        self.read_header: HeaderReader = read_request_header
        self.state = NOT_MUTED
        self.has_sent = False
        """Whether anything has come over the connection."""
        self.in_flight: Request | None = None
        self.is_paused = False
        self.is_eof = False

    def authenticate_with(self, authenticator: IAuthenticator, max_receive_bytes: int) -> None:
        """Require SASL. Until the client is authenticated, its requests may not be larger than ``max_receive_bytes``."""
        self.connection.authenticator = authenticator
        self.read_header = authenticating_header_reader(authenticator)
        self._reader.limit_until(max_receive_bytes, lambda: authenticator.is_authenticated)

    @property
    def connection_id(self) -> str:
        """``local:port-remote:port-index``."""
        return self.connection.connection_id

    @property
    def stats(self) -> ConnectionStats:
        """The counters of its processor."""
        return self._owner.stats

    @property
    def read_bytes(self) -> int:
        """How much to read at a time without a buffer of its own."""
        return self._owner.read_bytes

    @property
    def is_open(self) -> bool:
        """Whether responses can still be sent."""
        return self.state != CLOSED

    @property
    def is_throttled(self) -> bool:
        """Whether a quota holds its next request back."""
        return self.state in (MUTED_AND_THROTTLED, MUTED_AND_THROTTLED_AND_RESPONSE_PENDING)

    @property
    def holds_memory(self) -> bool:
        """Whether memory is allocated for a request that is still incomplete."""
        return bool(self._reserved_bytes)

    def is_slower_than(self, bytes_per_s: int, whole_s: int, grace_ns: int) -> bool:
        """Whether it holds memory for a request that comes more slowly, or too slowly for ``whole_s``, after a time of grace."""
        if not self._reserved_bytes:
            return False
        late_ns = self._owner.now_ns() - self._reserved_ns - grace_ns
        least_bytes_per_s = max(bytes_per_s, self._reserved_bytes // whole_s)
        return self._reader.held_bytes * 1_000_000_000 < late_ns * least_bytes_per_s

    @property
    def has_waiting_requests(self) -> bool:
        """Whether more requests were received after the one in flight."""
        return bool(self._backlog or self._reader.uncut)

    # Called by the transport.

    def get_buffer(self) -> memoryview | None:
        """Return the buffer for the next bytes of a large frame; None to use ``dataReceived``; NOT_NOW to read nothing."""
        view = self._reader.get_buffer()
        if view is None and self._owner.is_full:
            self._owner.stop_reading(self)
            return NOT_NOW
        return view

    def dataReceived(self, data: bytes) -> None:
        """Process bytes from the connection."""
        try:
            frames = self._reader.feed(data)
        except InvalidReceiveError as error:
            self._owner.refuse(self, str(error))
            return
        self._process_frames(frames)

    def buffer_updated(self, count: int) -> None:
        """Process ``count`` bytes that were read into the buffer from ``get_buffer``."""
        self._process_frames(self._reader.buffer_updated(count))

    def send_completed(self) -> None:
        """Complete the request in flight: its response has been sent."""
        request = self.in_flight
        if request is not None:
            request.sent_ns = self._owner.now_ns()
            request.time_sensor = None
            self._owner.process_completed_send(self, request)

    def send_progressed(self) -> None:
        """Record that the client took a part of its response."""
        self.last_active_ns = self._owner.now_ns()

    def load(self, regions: Sequence[FileRegion]) -> bool:
        """Return whether a handler loads the rest of a response first; the transport continues after that.

        A client that reads slowly gets records that may have left the page cache meanwhile: a network thread that read them would
        wait for the disk, with all its connections.
        """
        request = self.in_flight
        if request is None:
            return False
        if self._owner.now_ns() - max(request.response_dequeued_ns, self._loaded_ns) < LOADED_NS:
            return False
        self._owner.load(self, regions)
        return True

    def loaded(self) -> None:
        """Continue with a response whose files have been loaded."""
        self._loaded_ns = self._owner.now_ns()
        if self.state != CLOSED:
            self.transport.resume_sending()

    def eof_received(self) -> bool:
        """Stop reading: the client sends no more. Return whether the connection stays open to serve the requests received so far.

        A producer with acks=0 may send and disconnect, and its requests must not be lost. A client that has only shut down its
        sending side still reads its responses. (Kafka handles the first case by CloseMode.GRACEFUL.)
        """
        if not self.has_waiting_requests and self.in_flight is None:
            return False
        self.is_eof = True
        self.pause()
        self._owner.process_half_closed(self)
        return True

    def refuse(self, why: str) -> None:
        """Close the connection because of its data, and log why."""
        self._owner.refuse(self, why)

    def tell_refusal(self, why: str) -> None:
        """Report to observers why the connection is closed."""
        self._owner.tell_refusal(self, why)

    def response_unreadable(self, why: str) -> None:
        """Log why the response cannot be read from its file; the transport closes the connection."""
        self._owner.log_unreadable_file(self, why)

    def close_after_failed_authentication(self) -> None:
        """Count the failure and close the connection after ``connection.failed.authentication.delay.ms``."""
        self._owner.close_after_failed_authentication(self)

    def connectionLost(self, reason: object = None) -> None:
        """Release everything: the connection is closed."""
        self.state = next_state(self.state, DISCONNECTED)
        self._backlog = None
        self._backlog_bytes = 0
        self._reader.drop()
        if self._pool is not None and self._reserved_bytes:
            self._pool.release(self._reserved_bytes)
            self._reserved_bytes = 0
        if self._noted_bytes:
            self._noted_bytes = 0
            self._owner.note_held(self, 0)
        self._owner.process_disconnected(self)

    # Called by the processor.

    def request_received(self, request: Request) -> None:
        """Start a request: no further one is processed until it is answered."""
        # The common transitions skip the table, here and below.
        self.state = MUTED_AND_RESPONSE_PENDING if self.state <= MUTED else next_state(self.state, REQUEST_RECEIVED)
        self.in_flight = request

    def response_sent(self) -> None:
        """Finish the request in flight."""
        self.state = MUTED if self.state == MUTED_AND_RESPONSE_PENDING else next_state(self.state, RESPONSE_SENT)
        self.in_flight = None

    def throttle_started(self) -> None:
        """Process no further request until ``throttle_ended``. The one in flight is still answered."""
        self.state = next_state(self.state, THROTTLE_STARTED)

    def throttle_ended(self) -> None:
        """Let requests be processed again, unless another is in flight; ``next_request`` processes the next one."""
        self.state = next_state(self.state, THROTTLE_ENDED)

    def mute(self) -> None:
        """Process no request and read nothing until ``next_request``."""
        self.state = next_state(self.state, MUTE)
        self.pause()

    def next_request(self) -> None:
        """Process the next waiting frame, or resume reading without one. Does nothing while the channel must stay muted."""
        if self.state > MUTED:
            return
        owner = self._owner
        if owner.is_full:
            owner.stop_reading(self)
            return
        held_bytes = self._reader.held_bytes
        if held_bytes and not self._backlog and self._reader.uncut and not self._cut():
            return
        if self._backlog:
            frame = self._backlog.popleft()
            self._backlog_bytes -= len(frame) + FRAME_BYTES
            if self._noted_bytes:
                self._note_held()
                if self.state == CLOSED:
                    return
            owner.process_completed_receive(self, frame)
        elif self.is_eof:
            self.close()
        elif not held_bytes or self._reserve():
            self.state = NOT_MUTED
            if self.is_paused:
                self.is_paused = False
                self.transport.resumeProducing()

    def allocate_memory(self, frame: Buffer) -> bool:
        """Allocate memory for a frame that becomes a request. If the pool is exhausted, keep the frame and return False."""
        if self._reserved_bytes:
            self._reserved_bytes = 0  # the request owns it now
            return True
        if self._owner.reserve_memory(self, len(frame)):
            return True
        if self._backlog is None:
            self._backlog = deque()
        self._backlog.appendleft(frame)
        self._backlog_bytes += len(frame) + FRAME_BYTES
        return False

    def close(self) -> None:
        """Close at once, so that a client that does not read cannot keep its connection open."""
        if self.state != CLOSED:
            self.transport.abortConnection()

    def pause(self) -> None:
        """Stop reading until ``next_request`` has nothing else to do."""
        if not self.is_paused and self.state != CLOSED:
            self.is_paused = True
            self.transport.pauseProducing()  # type: ignore[no-untyped-call]  # Twisted's

    def _process_frames(self, frames: Sequence[Buffer]) -> None:
        self.has_sent = True
        if frames and self.state == NOT_MUTED and not self._backlog:
            # Keep the later frames first: the first request may already be answered when the call returns.
            if len(frames) > 1:
                self._keep(frames[1:])
            self._owner.process_completed_receive(self, frames[0])
        elif frames:
            self._keep(frames)
        else:
            self.last_active_ns = self._owner.now_ns()  # part of a request counts as activity
        if self._reader.held_bytes or self._backlog_bytes or self._noted_bytes:
            self._hold()

    def _hold(self) -> None:
        """Take memory for the next request if it is incomplete, and note other held bytes; stop reading if there are too many."""
        if self.state == NOT_MUTED:
            self._reserve()
        may_read_ahead = self._note_held()
        if self.state != NOT_MUTED and (not may_read_ahead or self._noted_bytes > self._read_ahead_bytes):
            self.pause()

    def _note_held(self) -> bool:
        held_bytes = self._backlog_bytes
        if not self._reserved_bytes:  # otherwise the pool counts the incomplete frame
            held_bytes += self._reader.memory_bytes
        self._noted_bytes = held_bytes
        return self._owner.note_held(self, held_bytes)

    def _keep(self, frames: Sequence[Buffer]) -> None:
        if self._backlog is None:
            self._backlog = deque()
        self._backlog.extend(frames)
        self._backlog_bytes += sum(map(len, frames)) + FRAME_BYTES * len(frames)

    def _cut(self) -> bool:
        """Cut the next frames of the read data. Return False if that closes the channel."""
        try:
            self._keep(self._reader.cut())
        except InvalidReceiveError as error:
            self._owner.refuse(self, str(error))
            return False
        return True

    def _reserve(self) -> bool:
        """Allocate memory for the incomplete frame, if there is one. Return False if it has to wait for memory.

        Only the next frame gets memory, and only when no other frame waits here. So all allocated memory belongs to requests that
        are complete or that wait for nothing but their client, and connections cannot deadlock on the pool.
        """
        size = self._reader.frame_bytes
        if not size or self._reserved_bytes or self._pool is None or size < self._pool.least_bytes:
            return True
        if self._owner.reserve_memory(self, size):
            self._reserved_bytes = size
            self._reserved_ns = self._owner.now_ns()
            return True
        return False
