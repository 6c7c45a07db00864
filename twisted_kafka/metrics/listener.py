"""The metrics over HTTP for Prometheus: ``GET /metrics`` at the address of the key ``metrics.listener``; and ``/health``.

The listener shares the main reactor with the broker's own work, so a client must not be able to keep it busy or to fill memory or
the disk: one request per connection, no bodies, limits on the number and duration of connections and on how often a page is
rendered.
"""

import gzip
from io import BytesIO
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IDelayedCall, ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import NOT_FOUND, HTTPChannel
from twisted.web.http import Request as HttpRequest
from twisted.web.resource import Resource
from twisted.web.server import Request, Site
from typing_extensions import override

from twisted_kafka.metrics.prometheus import CONTENT_TYPE, render, render_process
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.system.listening import why_not_bound

TIMEOUT_S = 60
"""Longest time that a connection stays open, even if it is used."""

BACKLOG = 50

MAX_CONNECTIONS = 100
"""Most open connections; a further one closes the oldest."""

MAX_HELD_BYTES = 64 * 1024 * 1024
"""Most bytes of pages that clients have still to read: with many topics a page has megabytes, and each client has a copy.

Beyond it, the oldest connections are closed. The newest client gets a page of any size.
"""

MAX_BODY_BYTES = 64 * 1024
"""A request body is discarded; the connection of a longer one is closed."""

PAUSES = 9
"""A page is served from cache for this many times as long as it took to render, so rendering takes at most a tenth of the time."""


HEALTH = b"/health"
"""A path for health checks: the main reactor runs. It costs no page."""

GZIP_LEVEL = 1
"""The fastest one. It makes a tenth of a page."""


class ListenError(OSError):
    """The address cannot be bound. The message is one line for the operator."""


class MetricsPage(Resource):
    """All metrics of a registry at /metrics, and ok at /health; NOT_FOUND for other paths."""

    isLeaf = True  # noqa: N815 Twisted's name

    def __init__(self, registry: MetricsRegistry) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._registry = registry
        self._page = self._compressed = b""
        self._expires_ns = 0

    def render_GET(self, request: Request) -> bytes:
        """Answer with the current metrics, or with those of a moment ago; compressed if the client accepts gzip."""
        if request.path == HEALTH:
            return b"ok\n"
        if request.path != b"/metrics":
            request.setResponseCode(NOT_FOUND)
            return b"The metrics are at /metrics\n"
        request.setHeader("content-type", CONTENT_TYPE)  # type: ignore[no-untyped-call]
        now_ns = self._registry.clock.monotonic_ns
        started_ns = now_ns()
        if started_ns >= self._expires_ns:
            self._page = render(self._registry) + render_process()
            self._compressed = b""
            ended_ns = now_ns()
            self._expires_ns = ended_ns + PAUSES * (ended_ns - started_ns)
        request.setHeader(b"vary", b"accept-encoding")  # type: ignore[no-untyped-call]
        if b"gzip" not in (request.getHeader(b"accept-encoding") or b""):
            return self._page
        request.setHeader(b"content-encoding", b"gzip")  # type: ignore[no-untyped-call]
        if not self._compressed:
            self._compressed = gzip.compress(self._page, compresslevel=GZIP_LEVEL)
        return self._compressed

    @override
    def render_HEAD(self, request: Request) -> bytes:
        """Answer like GET, without the page. Twisted's own implementation logs a line for each request."""
        request.setHeader(b"content-length", b"%d" % len(self.render_GET(request)))  # type: ignore[no-untyped-call]
        return b""


class _Request(Request):
    """A request whose body is discarded."""

    channel: "_Channel"
    _body_bytes = 0

    @override
    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()

    @override
    def handleContentChunk(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > MAX_BODY_BYTES:
            self.channel.transport.abortConnection()

    @override
    def write(self, data: bytes) -> None:
        self.channel.factory.holds(self.channel, len(data))
        super().write(data)  # type: ignore[no-untyped-call]


class _Channel(HTTPChannel):
    """A connection for one request, registered with its site."""

    factory: "_Site"
    transport: ITCPTransport
    _end: IDelayedCall

    @override
    def connectionMade(self) -> None:
        super().connectionMade()  # type: ignore[no-untyped-call]
        self._end = self.factory.reactor.callLater(TIMEOUT_S, self.transport.abortConnection)
        self.factory.opened(self)

    @override
    def checkPersistence(self, request: HttpRequest, version: bytes) -> bool:
        request.responseHeaders.setRawHeaders(b"connection", [b"close"])
        return False

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._end.active():
            self._end.cancel()
        self.factory.closed(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]


class _Site(Site):
    """A site that does not log requests and keeps track of its connections."""

    noisy = False
    protocol = _Channel  # type: ignore[assignment]

    def __init__(self, root: Resource, reactor: Any) -> None:
        super().__init__(root, timeout=TIMEOUT_S, requestFactory=_Request, reactor=reactor)  # type: ignore[no-untyped-call]
        self.connections: dict[_Channel, None] = {}
        self._held: dict[_Channel, int] = {}
        """The bytes that each connection was given, until it is closed; first the oldest."""
        self._held_bytes = 0

    def opened(self, connection: _Channel) -> None:
        if len(self.connections) >= MAX_CONNECTIONS:
            oldest = next(iter(self.connections))
            del self.connections[oldest]  # ``closed`` is called later, perhaps after further connections
            oldest.transport.abortConnection()
        self.connections[connection] = None

    def closed(self, connection: _Channel) -> None:
        self.connections.pop(connection, None)
        self._held_bytes -= self._held.pop(connection, 0)

    def holds(self, connection: _Channel, size_bytes: int) -> None:
        """A connection is given bytes to send."""
        self._held[connection] = self._held.get(connection, 0) + size_bytes
        self._held_bytes += size_bytes
        while self._held_bytes > MAX_HELD_BYTES and len(self._held) > 1:
            oldest = next(iter(self._held))
            self._held_bytes -= self._held.pop(oldest)
            oldest.transport.abortConnection()

    @override
    def log(self, request: HttpRequest) -> None:
        """Log nothing: a line per scrape would hide what matters."""


class MetricsListener:
    """Serves the page on a reactor. ``start`` and ``stop`` are called on its thread."""

    def __init__(self, reactor: Any, host: str, port: int, registry: MetricsRegistry) -> None:
        self._site = _Site(MetricsPage(registry), reactor)
        self._reactor = reactor
        self._host = host
        self._bound_port = port
        self._port: Any = None

    def start(self) -> None:
        """Listen; raises ListenError."""
        try:
            self._port = self._reactor.listenTCP(self._bound_port, self._site, BACKLOG, self._host)
        except CannotListenError as error:
            reason = why_not_bound(error.socketError)
            raise ListenError(f"Cannot listen at {self._host}:{self._bound_port} (metrics.listener): {reason}") from error
        self._bound_port = self._port.getHost().port

    @property
    def url(self) -> str:
        """The URL of the page."""
        host = f"[{self._host}]" if ":" in self._host else self._host or "localhost"
        return f"http://{host}:{self._bound_port}/metrics"

    def stop(self) -> "Deferred[None] | None":
        """Free the port and close the connections after their responses have been sent."""
        for connection in list(self._site.connections):
            if connection.transport is not None:
                connection.transport.loseConnection()
        port, self._port = self._port, None
        return port.stopListening() if port is not None else None
