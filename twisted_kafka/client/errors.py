"""The reasons why a request gets no response."""

from enum import Enum, auto


class Refusal(Enum):
    """Why one side rejects the other."""

    NO_TLS = auto()
    TLS = auto()
    """No TLS version or cipher suite in common, for example."""
    UNTRUSTED = auto()
    """This side does not trust the other's certificate."""
    HOST = auto()
    """The certificate is for another host."""
    OWN_CERTIFICATE = auto()
    """The other side does not trust this side's certificate, or misses one."""
    NO_SASL = auto()
    MECHANISM = auto()
    LOGIN = auto()


class PeerRefusedError(Exception):
    """One side rejected the other. The message gives the reason."""

    def __init__(self, text: str, refusal: Refusal = Refusal.LOGIN) -> None:
        super().__init__(text)
        self.refusal = refusal


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
