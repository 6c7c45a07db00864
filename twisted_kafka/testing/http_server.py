"""An HTTP listener by twisted.web on its own thread, for the kit's APIs. Handlers run on a pool of threads and may block."""

from collections.abc import Callable
from io import BytesIO
from typing import Any, Final

from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from twisted.web.http import HTTPChannel
from twisted.web.http import Request as AnyRequest
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from typing_extensions import override

from twisted_kafka.broker.main_reactor import MainReactor
from twisted_kafka.system.listening import why_not_bound
from twisted_kafka.timing.clock import SystemClock

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_CONNECTIONS: Final = 200
"""Connections beyond this number are closed."""
MAX_UNDER_WAY: Final = 64
"""At most this many requests are handled at a time; most of them wait. The server rejects further ones."""
IDLE_S: Final = 60
BACKLOG: Final = 50
_HTTP_PORTS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}

_log = Logger()


class HttpRequest(Request):
    """A request with a body of a bounded size, in memory. The body is dropped if the server does not accept the request."""

    channel: "_Channel"
    content: BytesIO
    is_accepted = False
    is_too_long = False
    _body_bytes = 0
    _is_over = False

    @override
    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()
        self.is_accepted = self.channel.factory.accepts(self)

    @override
    def handleContentChunk(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > MAX_BODY_BYTES:
            # The rest is read and dropped, up to a limit, so that the client gets the reason.
            self.is_too_long = True
            self.content.truncate(0)
            if self._body_bytes > 4 * MAX_BODY_BYTES:
                self.channel.transport.abortConnection()
            return
        if self.is_accepted:
            self.content.write(data)

    def read(self) -> tuple[str, str, bytes]:
        """Return the method, the path with the query, and the body."""
        return self.method.decode("latin-1"), self.uri.decode("latin-1"), self.content.getvalue()

    def header(self, name: str) -> str:
        """Return the first value of a header; empty if it is absent."""
        return self.requestHeaders.getRawHeaders(name.encode(), [b""])[0].decode("latin-1")

    @property
    def peer(self) -> str:
        """The client's address, host:port."""
        address: Any = self.channel.transport.getPeer()
        return f"{address.host}:{address.port}"

    def answer(self, status: int, body: bytes, content_type: str) -> None:
        """Answer, unless the client has gone."""
        if self._is_over:
            return
        self._head(status, body, content_type)
        self.write(body)  # type: ignore[no-untyped-call]
        self.finish()  # type: ignore[no-untyped-call]

    def answer_half(self, status: int, body: bytes, content_type: str) -> None:
        """Send half of an answer, and close the connection."""
        if self._is_over:
            return
        self._head(status, body, content_type)
        self.write(body[: len(body) // 2])  # type: ignore[no-untyped-call]
        self.channel.transport.loseConnection()

    def _head(self, status: int, body: bytes, content_type: str) -> None:
        self.setResponseCode(status)
        self.setHeader(b"content-type", content_type.encode())  # type: ignore[no-untyped-call]
        self.setHeader(b"content-length", b"%d" % len(body))  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Close the connection without an answer."""
        if not self._is_over:
            self.channel.transport.abortConnection()

    @override
    def connectionLost(self, reason: Failure) -> None:
        self._is_over = True
        super().connectionLost(reason)  # type: ignore[no-untyped-call]


class HttpServer:
    """Listens until it is stopped. Any thread may start and stop it."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        render: Callable[[HttpRequest], object],
        accepts: Callable[[HttpRequest], bool] = lambda _: True,
    ) -> None:
        """``render`` gets each request, on the listener's thread, and answers it later. Port 0 is a free port.

        The body of a request is read only if ``accepts`` is true of its headers.
        """
        self._host = host
        self._bound_port = port
        self._main = MainReactor(None, SystemClock(), name)
        self.pool = ThreadPool(0, MAX_UNDER_WAY, name)
        """Runs calls that may block."""
        self._site = _Site(_All(render), accepts, self._main.reactor)
        self._port: Any = None

    @property
    def reactor(self) -> Any:
        """The reactor of the listener's thread."""
        return self._main.reactor

    @property
    def port(self) -> int:
        """The port, 0 before the start if it is a free one."""
        return self._bound_port

    @property
    def url(self) -> str:
        """Its address, without a path."""
        host = _HTTP_PORTS.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{self._bound_port}"

    def start(self) -> None:
        """Listen. Raises OSError, one line."""
        self._main.start()
        self.pool.start()
        try:
            self._main.call(self._listen)
        except BaseException:
            self.stop()
            raise

    def _listen(self) -> None:
        try:
            self._port = self._main.reactor.listenTCP(self._bound_port, self._site, BACKLOG, self._host)
        except CannotListenError as error:
            raise OSError(f"cannot listen at {self._host}:{self._bound_port}: {why_not_bound(error.socketError)}") from None
        self._bound_port = self._port.getHost().port

    def stop(self) -> None:
        """Close all connections."""
        self._main.call(self._close)
        self._main.stop()
        self.pool.stop()

    def _close(self) -> None:
        if self._port is not None:
            self._port.stopListening()
        self._site.close()


class _All(Resource):
    """Answers all paths."""

    isLeaf = True  # noqa: N815 Twisted's name

    def __init__(self, render: Callable[[HttpRequest], object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._render = render

    @override
    def render(self, request: HttpRequest) -> int:
        """Hand a request over."""
        self._render(request)
        return NOT_DONE_YET


class _Channel(HTTPChannel):
    """A connection, registered with its site."""

    factory: "_Site"
    transport: ITCPTransport

    @override
    def connectionMade(self) -> None:
        super().connectionMade()  # type: ignore[no-untyped-call]
        self.factory.opened(self)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.factory.connections.discard(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]


class _Site(Site):
    """A site that logs no requests, and knows its connections."""

    noisy = False
    protocol = _Channel  # type: ignore[assignment]

    def __init__(self, root: Resource, accepts: Callable[[HttpRequest], bool], reactor: Any) -> None:
        super().__init__(root, timeout=IDLE_S, requestFactory=HttpRequest, reactor=reactor)  # type: ignore[no-untyped-call]
        self.connections: set[_Channel] = set()
        self.accepts = accepts

    def opened(self, connection: _Channel) -> None:
        if len(self.connections) >= MAX_CONNECTIONS:
            connection.transport.abortConnection()
            return
        self.connections.add(connection)

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self.connections):
            connection.transport.abortConnection()

    @override
    def log(self, request: AnyRequest) -> None:
        """Log nothing: only requests to the broker matter."""
