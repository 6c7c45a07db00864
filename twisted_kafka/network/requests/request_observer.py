"""How other floors learn that a request is completed, or a connection refused: the metrics, the access log, the diagnoses."""

from typing import Protocol, runtime_checkable

from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import ConnectionInfo


class IRequestObserver(Protocol):
    """Gets each request that entered the request channel exactly once, when it is completed."""

    def request_completed(self, request: Request) -> None:
        """Record a request whose response was sent or dropped.

        Called on the request's processor thread, or on a handler's if the processor has ended. Must be fast and must not block.
        """


@runtime_checkable
class IRefusalObserver(Protocol):
    """An observer of requests, and of connections that are closed because of invalid data."""

    def connection_refused(self, connection: ConnectionInfo, why: str) -> None:
        """Take note; called on the connection's processor thread."""
