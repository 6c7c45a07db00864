"""The last requests, with their bytes. They are captured while somebody looks, and a broker that nobody looks at pays nothing.

Looking puts a function of this module before the functions that handlers call, and an observer behind the processors. They are
removed when nobody has looked for a minute.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from twisted_kafka.console.live.request_row import RequestRow, row_of
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestBundle
from twisted_kafka.network.socket_server import SocketServer
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.server.inner_requests import InnerRequests
from twisted_kafka.server.request_handler import IRequestHandling, KafkaRequestHandlerPool
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MOST_REQUESTS: Final = 10_000
"""Most requests that are kept; the oldest are dropped."""
MOST_BYTES: Final = 12 * 1024 * 1024
"""Most memory that they take up."""
LOOKING_NS: Final = 60 * 1_000_000_000
"""The capture ends this long after the last look."""
MOST_EACH_WINDOW: Final = 50
WINDOW_NS: Final = 100_000_000
"""At most 500 requests are captured each second, 50 in a tenth of it: a reader cannot follow more, and clients must not notice."""
MOST_PENDING: Final = 2_000
"""Most requests that are captured and not yet completed."""
KEPT_BYTES: Final = 4 * 1024
"""Most bytes of a request, and of a response, that are kept. Larger ones cannot be decoded."""

_ENTRY_BYTES: Final = 1_000
"""The memory of a request without its bytes and the texts in its row."""

SECRET: Final = frozenset(
    (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ENVELOPE,
    )
)
"""APIs whose bytes are not kept: they have passwords, tokens, or settings that may be secret; an Envelope has such a request."""


@dataclass(slots=True)
class Captured:
    """A completed request. The Request itself is not kept: its notes may be as large as its client chooses."""

    row: RequestRow
    api_key: int
    body_offset: int
    refusal: str | None
    frame: bytes
    """The request's bytes, of a large one the first."""
    response: tuple[bytes, ...] | None
    """The response's bytes; a region of a file is left out. None for a large response."""

    @property
    def size_bytes(self) -> int:
        """The memory that it takes up."""
        return _ENTRY_BYTES + self.row.text_bytes + len(self.frame) + sum(map(len, self.response or ()))


class Capture:
    """Puts itself into the path of requests, and takes itself out of it again."""

    def __init__(self, pool: KafkaRequestHandlerPool, handling: IRequestHandling, sockets: SocketServer, clock: IClock) -> None:
        """``handling`` is what the handlers of the pool call."""
        self._pool = pool
        self._handling = handling
        self._sockets = sockets
        self._clock = clock
        self._lock = machine.Lock()
        self._pending: dict[Request, bytes] = {}
        self._kept: deque[Captured] = deque()
        self._kept_bytes = 0
        self._next_number = 1
        self._looked_ns = 0
        self._window_ns = self._left = 0
        self._is_on = False
        self.left_out = 0
        """Requests that passed while more came than are captured."""

    @property
    def is_on(self) -> bool:
        """Whether requests are being captured."""
        return self._is_on

    def look(self) -> list[Captured]:
        """Return the requests, the oldest first, and capture those to come for a minute."""
        with self._lock:
            self._looked_ns = self._clock.monotonic_ns()
            if not self._is_on:
                self._is_on = True
                self._window_ns = self._looked_ns - WINDOW_NS  # the first request begins a window, also soon after a boot
                self._pool.redirect(_Noted(self._handling, self.note))
                self._sockets.add_observer(self)
            return list(self._kept)

    def stop(self) -> None:
        """End the capture. The requests are kept."""
        with self._lock:
            if self._is_on:
                self._is_on = False
                self._pool.redirect(self._handling)
                self._sockets.remove_observer(self)
                self._pending.clear()

    def note(self, request: Request) -> None:
        """Keep the bytes of a request that is about to be handled. On a handler's thread."""
        now_ns = request.dequeued_ns
        if now_ns - self._window_ns >= WINDOW_NS:
            self._window_ns, self._left = now_ns, MOST_EACH_WINDOW
            if now_ns - self._looked_ns > LOOKING_NS:
                self.stop()
                return
        if isinstance(request.processor, InnerRequests):  # a console's own, which would show itself
            return
        if self._left <= 0 or len(self._pending) >= MOST_PENDING:
            self.left_out += 1
            return
        self._left -= 1
        self._pending[request] = b"" if _is_secret(request) else bytes(request.frame[: KEPT_BYTES + 1])

    def request_completed(self, request: Request) -> None:
        """Keep a request that was noted (``IRequestObserver``). On a network thread."""
        frame = self._pending.pop(request, None)
        if frame is None:
            return
        response = None
        if request.response_bytes <= KEPT_BYTES or any(type(each) is FileRegion for each in request.parts):
            response = _bytes_of(request)
        request.parts = ()
        with self._lock:
            row = row_of(self._next_number, self._clock.wall_ms(), request)
            kept = Captured(row, request.context.api_key, request.body_offset, request.context.refusal, frame, response)
            self._next_number += 1
            self._kept.append(kept)
            self._kept_bytes += kept.size_bytes
            while len(self._kept) > MOST_REQUESTS or self._kept_bytes > MOST_BYTES:
                self._kept_bytes -= self._kept.popleft().size_bytes

    def find(self, number: int) -> Captured | None:
        """Return a request by its number, None if it is not kept any more."""
        with self._lock:
            first = self._kept[0].row.number if self._kept else number + 1
            return self._kept[number - first] if 0 <= number - first < len(self._kept) else None


def _is_secret(request: Request) -> bool:
    authenticator = request.context.connection.authenticator
    return request.context.api_key in SECRET or (authenticator is not None and not authenticator.is_authenticated)


def _bytes_of(request: Request) -> tuple[bytes, ...] | None:
    """Return the parts in memory; None if they are large, or secret."""
    if _is_secret(request):
        return None
    parts = tuple(b"" if isinstance(each, FileRegion) else bytes(each) for each in request.parts[:100])
    return parts if sum(map(len, parts)) <= KEPT_BYTES else None


class _Noted:
    """Stands before what the handlers call (``IRequestHandling``)."""

    def __init__(self, handling: IRequestHandling, note: Callable[[Request], object]) -> None:
        self._handling = handling
        self._note = note
        self.bundled = handling.bundled
        self.handle_bundle = handling.handle_bundle

    def handle(self, request: Request) -> None:
        """Note and handle a request."""
        self._note(request)
        self._handling.handle(request)

    def sort(self, requests: Sequence[Request]) -> list[RequestBundle]:
        """Note and sort requests."""
        for request in requests:
            self._note(request)
        return self._handling.sort(requests)
