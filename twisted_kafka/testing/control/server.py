"""The control API's listener: HTTP by twisted.web on its own thread. Handlers run on a pool of threads and may block.

with ControlServer(broker) as control:
    ...  # control.url, with the header "Authorization: Bearer " + control.token
"""

import hmac
import json
import secrets
from io import BytesIO
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote

from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from twisted.web.http import HTTPChannel
from twisted.web.http import Request as HttpRequest
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from typing_extensions import override

from twisted_kafka.broker.main_reactor import MainReactor
from twisted_kafka.system.listening import why_not_bound
from twisted_kafka.testing.broker import Broker, BrokerError
from twisted_kafka.testing.cluster import Cluster
from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.errors import ControlError, bad
from twisted_kafka.testing.control.routes import find
from twisted_kafka.testing.control.target import Target
from twisted_kafka.timing.clock import SystemClock

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_CONNECTIONS: Final = 200
"""Connections beyond this number are closed."""
MAX_UNDER_WAY: Final = 64
"""At most this many requests are handled at a time; most of them wait. The server answers further ones with 503."""
IDLE_S: Final = 60
BACKLOG: Final = 50
_TOKEN_BYTES: Final = 24

_log = Logger()


class ControlServer:
    """Serves the control API of a running broker or cluster until it is stopped. Any thread may start and stop it."""

    def __init__(self, served: Broker | Cluster, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        """Clients have to send ``token``; by default it is random. Port 0 is a free port.

        Raises ValueError for an empty token.
        """
        if token == "":
            raise ValueError("the token is empty: leave it out for a random one")
        self.token = token if token is not None else secrets.token_urlsafe(_TOKEN_BYTES)
        self._host = host
        self._bound_port = port
        self._main = MainReactor(None, SystemClock(), "kafka-control")
        self._pool = ThreadPool(0, MAX_UNDER_WAY, "kafka-control")
        self._target = Target(served)
        self._site = _Site(_Api(self._target, self._main.reactor, self._pool), self.token, self._main.reactor)
        self._port: Any = None

    @property
    def url(self) -> str:
        """Its address, without a path."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{self._bound_port}"

    def start(self) -> None:
        """Listen. Raises OSError, one line."""
        self._main.start()
        self._pool.start()
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
        """Close all connections, and end all waits."""
        self._target.is_closed = True
        self._main.call(self._close)
        self._main.stop()
        self._pool.stop()

    def _close(self) -> None:
        if self._port is not None:
            self._port.stopListening()
        self._site.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()


class _Api(Resource):
    """Answers all paths."""

    isLeaf = True  # noqa: N815 Twisted's name

    def __init__(self, target: Target, reactor: Any, pool: ThreadPool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._target = target
        self._reactor = reactor
        self._pool = pool
        self._under_way = 0

    @override
    def render(self, request: "_Request") -> int:
        """Reject an invalid request at once, and handle others on the pool."""
        try:
            self._check(request)
        except ControlError as error:
            request.answer(error.status, {"error": str(error), **error.more})
            return NOT_DONE_YET
        self._under_way += 1
        deferToThreadPool(self._reactor, self._pool, self._handle, request.read()).addCallback(
            lambda answer: self._done(request, answer)
        ).addErrback(lambda failure: _log.failure("A control request could not be answered", failure))
        return NOT_DONE_YET

    def _check(self, request: "_Request") -> None:
        if not request.has_token:
            raise ControlError(
                401, "expected the header 'Authorization: Bearer TOKEN', with the token that the server printed at its start"
            )
        if request.is_too_long:
            raise ControlError(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
        if self._under_way >= MAX_UNDER_WAY:
            raise ControlError(503, f"{MAX_UNDER_WAY} requests are under way: wait until one is answered")

    def _handle(self, read: tuple[str, str, bytes]) -> tuple[int, Any]:
        """Return the status and the answer. Called on the pool."""
        method, uri, body = read
        try:
            return 200, self._handled(method, uri, body)
        except ControlError as error:
            return error.status, {"error": str(error), **error.more}
        except (BrokerError, RuntimeError, ConnectionError) as error:  # ConnectionError: of a broker that stops
            return 409, {"error": _line(error)}
        except KeyError as error:
            return 404, {"error": str(error.args[0])}
        except ValueError as error:
            return 400, {"error": _line(error)}
        except TimeoutError as error:
            return 504, {"error": _line(error)}
        except Exception as error:  # noqa: BLE001 the client gets the error, and the log the traceback
            _log.failure("A control request failed: {method} {uri}", method=method, uri=uri)
            return 500, {"error": f"{type(error).__name__}: {_line(error)}"}

    def _handled(self, method: str, uri: str, body: bytes) -> Any:
        path, _, query = uri.partition("?")
        handler, names = find(method, [unquote(part) for part in path.split("/")[1:]])
        try:
            asked = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=100))
            given = json.loads(body) if body else None
        except (ValueError, RecursionError) as error:
            raise bad(f"expected a body of JSON and a query like a=1&b=2: {_line(error)}") from None
        return handler(Call(self._target, names, asked, given))

    def _done(self, request: "_Request", answer: tuple[int, Any]) -> None:
        self._under_way -= 1
        request.answer(*answer)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


class _Request(Request):
    """A request with a body of a bounded size, in memory, and an answer in JSON. Without the token its body is dropped."""

    channel: "_Channel"
    content: BytesIO
    has_token = False
    is_too_long = False
    _body_bytes = 0
    _is_over = False

    @override
    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()
        self.has_token = self.channel.factory.is_allowed(self)

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
        if self.has_token:
            self.content.write(data)

    def read(self) -> tuple[str, str, bytes]:
        """Return the method, the path with the query, and the body."""
        return self.method.decode("latin-1"), self.uri.decode("latin-1"), self.content.getvalue()

    def answer(self, status: int, form: Any) -> None:
        """Answer one line of JSON, unless the client has gone."""
        if self._is_over:
            return
        line = json.dumps(form, separators=(",", ":"), default=str).encode() + b"\n"
        self.setResponseCode(status)
        self.setHeader(b"content-type", b"application/json")  # type: ignore[no-untyped-call]
        self.setHeader(b"content-length", b"%d" % len(line))  # type: ignore[no-untyped-call]
        self.write(line)  # type: ignore[no-untyped-call]
        self.finish()  # type: ignore[no-untyped-call]

    @override
    def connectionLost(self, reason: Failure) -> None:
        self._is_over = True
        super().connectionLost(reason)  # type: ignore[no-untyped-call]


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

    def __init__(self, root: Resource, token: str, reactor: Any) -> None:
        super().__init__(root, timeout=IDLE_S, requestFactory=_Request, reactor=reactor)  # type: ignore[no-untyped-call]
        self.connections: set[_Channel] = set()
        self._expected = b"Bearer " + token.encode()

    def is_allowed(self, request: HttpRequest) -> bool:
        """Whether the request's headers have the token."""
        given = request.requestHeaders.getRawHeaders(b"authorization", [b""])[0]
        return hmac.compare_digest(given, self._expected)

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
    def log(self, request: HttpRequest) -> None:
        """Log nothing: only requests to the broker matter."""
