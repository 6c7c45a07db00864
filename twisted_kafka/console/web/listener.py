"""The console's listener: twisted.web on the main reactor, with TLS if the address asks for it. All limits of connections are here.

A request's head is checked before anything else (``guard.py``). Handlers run elsewhere; only bytes pass here.
"""

import ipaddress
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Final

from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.http import Request as AnyRequest
from twisted.web.resource import Resource
from twisted.web.server import Request, Site
from typing_extensions import override

from twisted_kafka.config.endpoints import ConsoleAddress
from twisted_kafka.console.web.guard import SECURITY_HEADERS, STRICT_TRANSPORT, TOO_LONG, Guard, Refusal
from twisted_kafka.system.listening import why_not_bound

MOST_CONNECTIONS: Final = 256
"""A further connection closes the oldest one without a complete request under way."""
MOST_BODY_BYTES: Final = 1024 * 1024
READ_ANYWAY: Final = 4
"""The connection of a body this many times as long is closed without an answer."""
MOST_BODIES_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of all bodies that are being received."""
MOST_HEAD_BYTES: Final = 48 * 1024
"""Of a request's first line and headers."""
IDLE_S: Final = 60
"""A connection is closed unless a request is complete within this time of the connection's start, or of the last answer."""
BACKLOG: Final = 50
PAGE_TYPE: Final = "text/html; charset=utf-8"

_log = Logger()


class ListenError(OSError):
    """The address cannot be bound. The message is one line for the operator."""


class ConsoleRequest(Request):
    """A request whose head is checked before anything else. Its body is in memory; that of a too long one is dropped."""

    channel: "_Channel"
    content: BytesIO
    refusal: Refusal | None = None
    is_over = is_complete = False
    _read_bytes = _held_bytes = 0

    @override
    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()
        if length is not None and length > MOST_BODY_BYTES:
            self.refusal = Refusal(413, "The form is longer than 1 MiB")

    @override
    def handleContentChunk(self, data: bytes) -> None:
        self._read_bytes += len(data)
        if self.refusal is None and self._read_bytes > MOST_BODY_BYTES:
            self.refusal = Refusal(413, "The form is longer than 1 MiB")
            self._drop_body()
        site = self.channel.factory
        if self.refusal is not None:
            # The rest is read and dropped, up to a limit, so that the client gets the reason.
            if self._read_bytes > READ_ANYWAY * MOST_BODY_BYTES:
                self.channel.transport.abortConnection()
        elif site.body_bytes + len(data) > MOST_BODIES_BYTES:
            self.channel.transport.abortConnection()
        else:
            site.body_bytes += len(data)
            self._held_bytes += len(data)
            self.content.write(data)

    @override
    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Process the request. Unlike its base, this parses no form: that is done elsewhere, if at all."""
        self.is_complete = True
        self.method, self.uri, self.clientproto = command, path, version
        self.path = path.partition(b"?")[0]
        self.args = {}
        if self.is_over:
            return
        self._count_out()
        site = self.channel.factory
        if self.refusal is None:
            self.refusal = site.guard.refusal(command.decode("latin-1"), path.decode("latin-1"), self.values_of)
        site.take(self)

    def _drop_body(self) -> None:
        self._count_out()
        self.content = BytesIO()

    def _count_out(self) -> None:
        """Count the body as received: the limit of all requests under way holds from here on."""
        self.channel.factory.body_bytes -= self._held_bytes
        self._held_bytes = 0

    @override
    def connectionLost(self, reason: Failure) -> None:
        self.is_over = True
        self._count_out()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

    def values_of(self, name: str) -> list[str]:
        """Return the values of a header."""
        return [value.decode("latin-1") for value in self.requestHeaders.getRawHeaders(name.encode(), [])]

    def cookie(self, name: str) -> str:
        """Return a cookie's value; empty without it, or with several of this name."""
        pairs = [pair.strip().partition("=") for header in self.values_of("cookie") for pair in header.split(";")]
        values = [value for key, _, value in pairs if key == name]
        return values[0] if len(values) == 1 else ""

    @property
    def address(self) -> str:
        """The client's address."""
        return str(getattr(self.channel.transport.getPeer(), "host", ""))

    def answer(self, status: int, body: bytes, kind: str, headers: Mapping[str, str], cookies: tuple[str, ...] = ()) -> None:
        """Answer, unless the client has gone."""
        if self.is_over:
            return
        self.begin(status, kind, headers, cookies)
        self._set("content-length", str(len(body)))
        if self.method != b"HEAD":
            self.write(body)  # type: ignore[no-untyped-call]
        self.finish()  # type: ignore[no-untyped-call]

    def begin(self, status: int, kind: str, headers: Mapping[str, str], cookies: tuple[str, ...] = ()) -> None:
        """Set the head of the answer."""
        self.setResponseCode(status)
        self._set("content-type", kind)
        self._set("cache-control", "no-store")
        self.responseHeaders.removeHeader(b"server")
        for name, value in {**SECURITY_HEADERS, **dict(self.channel.factory.more_headers), **headers}.items():
            self._set(name, value)
        if cookies:
            self.responseHeaders.setRawHeaders("set-cookie", list(cookies))

    def _set(self, name: str, value: str) -> None:
        self.setHeader(name.encode(), value.encode("latin-1", "replace"))  # type: ignore[no-untyped-call]


class _Channel(HTTPChannel):
    """A connection, registered with its site."""

    factory: "ConsoleSite"
    transport: ITCPTransport
    MAX_LENGTH = totalHeadersSize = MOST_HEAD_BYTES  # noqa: N815 Twisted's names

    @override
    def connectionMade(self) -> None:
        super().connectionMade()  # type: ignore[no-untyped-call]
        self.factory.opened(self)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.factory.connections.pop(self, None)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

    @override
    def headerReceived(self, line: bytes) -> bool:
        """Take a header; end the connection for one that Twisted cannot read, such as a length of thousands of digits."""
        try:
            return bool(super().headerReceived(line))  # type: ignore[no-untyped-call]
        except ValueError:
            self.transport.abortConnection()
            return False

    @override
    def lineLengthExceeded(self, line: bytes) -> None:
        """Answer a request whose first line does not end; Twisted would close the connection without a word."""
        more = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(TOO_LONG) + 1), "connection": "close"}
        headers = {**SECURITY_HEADERS, **dict(self.factory.more_headers), "cache-control": "no-store", **more}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 414 Request-URI Too Long\r\n{head}\r\n{TOO_LONG}\n".encode())
        self.transport.loseConnection()

    @override
    def resetTimeout(self) -> None:
        """Leave the end of the time where it is: a client that sends a byte now and then gains nothing."""

    @property
    def is_idle(self) -> bool:
        """Whether no complete request is under way."""
        return not any(each.is_complete for each in self.requests)


class ConsoleSite(Site):
    """Knows its connections, and hands each request over. It logs no requests."""

    noisy = False
    protocol = _Channel  # type: ignore[assignment]

    def __init__(self, render: Callable[[ConsoleRequest], object], guard: Guard, reactor: Any, *, is_tls: bool = False) -> None:
        """``render`` gets each complete request, on the reactor's thread, and answers it then or later."""
        super().__init__(Resource(), timeout=IDLE_S, requestFactory=ConsoleRequest, reactor=reactor)  # type: ignore[no-untyped-call]
        self.take = render
        self.guard = guard
        self.more_headers = (STRICT_TRANSPORT,) if is_tls else ()
        self.connections: dict[_Channel, None] = {}
        self.body_bytes = 0

    def opened(self, connection: _Channel) -> None:
        """Register a connection; beyond the limit, close the oldest idle one, or this one."""
        if len(self.connections) >= MOST_CONNECTIONS:
            idle = next((each for each in self.connections if each.is_idle), connection)
            self.connections.pop(idle, None)
            idle.transport.abortConnection()
            if idle is connection:
                return
        self.connections[connection] = None

    def close(self) -> None:
        """Close all connections once they have sent their answers."""
        for connection in list(self.connections):
            if connection.transport is not None:
                connection.transport.loseConnection()

    @override
    def log(self, request: AnyRequest) -> None:
        """Log nothing: the requests that a page sends to the broker are in its access log."""


class ConsoleListener:
    """Listens. ``start`` and ``stop`` are called on the reactor's thread."""

    def __init__(self, reactor: Any, address: ConsoleAddress, site: ConsoleSite, tls_context: Callable[[], Any] | None) -> None:
        """``tls_context`` returns OpenSSL's context for a new connection; None without TLS."""
        self._reactor = reactor
        self._address = address
        self._site = site
        self._tls_context = tls_context
        self._bound_port = address.port
        self._port: Any = None

    def start(self) -> None:
        """Listen; raises ListenError."""
        host, port = self._address.host, self._address.port
        try:
            self._port = self._reactor.listenTCP(port, self._factory(), BACKLOG, host)
        except CannotListenError as error:
            reason = why_not_bound(error.socketError)
            raise ListenError(f"Cannot listen at {host}:{port} (console.listener): {reason}") from error
        self._bound_port = self._port.getHost().port

    def _factory(self) -> Any:
        if self._tls_context is None:
            return self._site
        from twisted_kafka.console.web.tls import over_tls  # imports OpenSSL

        return over_tls(self._site, self._tls_context, self._reactor)

    @property
    def port(self) -> int:
        """The port, once it is bound."""
        return self._bound_port

    @property
    def url(self) -> str:
        """The URL of the first page, for a browser on this machine."""
        host = self._address.host
        name = f"[{host}]" if ":" in host and not _is_any(host) else "localhost" if _is_any(host) else host
        return f"{'https' if self._address.is_tls else 'http'}://{name}:{self._bound_port}/"

    def stop(self) -> Any:
        """Free the port, and close the connections once they have sent their answers."""
        self._site.close()
        port, self._port = self._port, None
        return port.stopListening() if port is not None else None


def _is_any(host: str) -> bool:
    try:
        return host == "" or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
