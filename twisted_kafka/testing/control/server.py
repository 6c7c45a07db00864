"""The control API's listener. Handlers run on a pool of threads and may block.

with ControlServer(broker) as control:
    ...  # control.url, with the header "Authorization: Bearer " + control.token
"""

import hmac
import json
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qsl, unquote

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from typing_extensions import override

from twisted_kafka.system import machine
from twisted_kafka.testing.broker import Broker, BrokerError
from twisted_kafka.testing.cluster import Cluster
from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.errors import ControlError, bad
from twisted_kafka.testing.control.routes import find
from twisted_kafka.testing.control.target import Target
from twisted_kafka.testing.http_server import MAX_BODY_BYTES, MAX_UNDER_WAY, HttpRequest, HttpServer

if TYPE_CHECKING:
    from twisted_kafka.testing.registry.schema_registry import SchemaRegistry

_TOKEN_BYTES: Final = 24

_log = Logger()


class ControlServer:
    """Serves the control API of a running broker or cluster until it is stopped. Any thread may start and stop it."""

    def __init__(
        self,
        served: Broker | Cluster,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        registry: "SchemaRegistry | None" = None,
    ) -> None:
        """Clients have to send ``token``; by default it is random. Port 0 is a free port. ``registry`` is controlled, too.

        Raises ValueError for an empty token.
        """
        if token == "":
            raise ValueError("the token is empty: leave it out for a random one")
        self.token = token if token is not None else machine.random_text(_TOKEN_BYTES)
        self._expected = b"Bearer " + self.token.encode()
        self._target = Target(served, registry)
        self._under_way = 0
        self._server = HttpServer("kafka-control", host, port, self._render, self._is_allowed)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return self._server.url

    def start(self) -> None:
        """Listen. Raises OSError, one line."""
        self._server.start()

    def stop(self) -> None:
        """Close all connections, and end all waits."""
        self._target.is_closed = True
        self._server.stop()

    @override
    def __repr__(self) -> str:
        return f"<ControlServer {self.url}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def _is_allowed(self, request: HttpRequest) -> bool:
        """Whether the request's headers have the token."""
        return hmac.compare_digest(request.header("authorization").encode("latin-1"), self._expected)

    def _render(self, request: HttpRequest) -> None:
        """Reject an invalid request at once, and handle others on the pool."""
        try:
            self._check(request)
        except ControlError as error:
            _answer(request, error.status, {"error": str(error), **error.more})
            return
        self._under_way += 1
        deferToThreadPool(self._server.reactor, self._server.pool, self._handle, request.read()).addCallback(
            lambda answer: self._done(request, answer)
        ).addErrback(lambda failure: _log.failure("A control request could not be answered", failure))

    def _check(self, request: HttpRequest) -> None:
        if not request.is_accepted:
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

    def _done(self, request: HttpRequest, answer: tuple[int, Any]) -> None:
        self._under_way -= 1
        _answer(request, *answer)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _answer(request: HttpRequest, status: int, form: Any) -> None:
    """Answer one line of JSON."""
    line = json.dumps(form, separators=(",", ":"), default=str).encode() + b"\n"
    request.answer(status, line, "application/json")
