"""The reasons why a request gets no response."""


class PeerRefusedError(Exception):
    """One side rejected the other: a certificate, a host name, a login. The message gives the reason."""


class NotAResponseError(Exception):
    """The other side closed the connection, or sent something that is not a Kafka response."""

    def __init__(self, received: bytes) -> None:
        """``received``: its first bytes, at most 4."""
        super().__init__(f"received {received!r} instead of a response")
        self.received = received


class NetworkClientError(Exception):
    """A request got no response. Whether it was executed is unknown unless a subclass says so."""


class ConnectError(NetworkClientError):
    """The connection to the node failed or timed out. The request was not sent."""


class AuthenticationError(NetworkClientError):
    """One side rejected the other, because of a certificate or a host name for instance. A retry will hardly help."""


class DisconnectedError(NetworkClientError):
    """The connection was lost before the response was received."""


class ResponseTimeoutError(NetworkClientError):
    """The request timed out."""


class InvalidResponseError(NetworkClientError):
    """The node sent something that is not a valid response to the request. Its connection is closed."""


class TooManyRequestsError(NetworkClientError):
    """The node's queue of requests is full. The request was not sent."""


class ClientClosedError(NetworkClientError):
    """The client was closed."""
