"""The metrics over HTTP, for Prometheus: ``GET /metrics`` at the address of the key ``metrics.listener``."""

from typing import Any
from weakref import WeakSet

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.web.http import NOT_FOUND
from twisted.web.http import Request as HttpRequest
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from twisted_kafka.metrics.prometheus import CONTENT_TYPE, render
from twisted_kafka.metrics.registry import MetricsRegistry

TIMEOUT_S = 60
"""A connection on which nothing happens for so long is closed."""

BACKLOG = 50


class ListenError(OSError):
    """The address cannot be bound; the message is one line for the operator."""


class MetricsPage(Resource):
    """All metrics of a registry as text at /metrics, and nothing anywhere else."""

    isLeaf = True  # noqa: N815 Twisted's name

    def __init__(self, registry: MetricsRegistry) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._registry = registry

    def render_GET(self, request: Request) -> bytes:
        """Answer with the metrics of this moment."""
        if request.path != b"/metrics":
            request.setResponseCode(NOT_FOUND)
            return b"The metrics are at /metrics\n"
        request.setHeader("content-type", CONTENT_TYPE)  # type: ignore[no-untyped-call]
        return render(self._registry).encode()


class _Site(Site):
    """A site that says nothing of each request and knows its connections."""

    noisy = False

    def __init__(self, root: Resource, reactor: Any) -> None:
        super().__init__(root, timeout=TIMEOUT_S, reactor=reactor)  # type: ignore[no-untyped-call]
        self.connections: WeakSet[Any] = WeakSet()

    def buildProtocol(self, address: Any) -> Any:
        connection = super().buildProtocol(address)  # type: ignore[no-untyped-call]
        self.connections.add(connection)
        return connection

    def log(self, request: HttpRequest) -> None:
        """Say nothing: a line every few seconds about being read would hide what matters."""


class MetricsListener:
    """Serves the page on a reactor, on whose thread `start` and `stop` are to be called."""

    def __init__(self, reactor: Any, host: str, port: int, registry: MetricsRegistry) -> None:
        self._site = _Site(MetricsPage(registry), reactor)
        self._reactor = reactor
        self._host = host
        self._bound_port = port
        self._port: Any = None

    def start(self) -> None:
        """Listen; raise ListenError when that cannot be."""
        try:
            self._port = self._reactor.listenTCP(self._bound_port, self._site, BACKLOG, self._host)
        except CannotListenError as error:
            reason = getattr(error.socketError, "strerror", None) or error.socketError
            raise ListenError(f"Cannot listen at {self._host}:{self._bound_port} (metrics.listener): {reason}") from error
        self._bound_port = self._port.getHost().port

    @property
    def url(self) -> str:
        """Where the page is."""
        host = f"[{self._host}]" if ":" in self._host else self._host or "localhost"
        return f"http://{host}:{self._bound_port}/metrics"

    def stop(self) -> "Deferred[None] | None":
        """Free the port and end the connections; what was answered is still sent."""
        for connection in list(self._site.connections):
            if connection.transport is not None:
                connection.transport.loseConnection()
        port, self._port = self._port, None
        return port.stopListening() if port is not None else None
