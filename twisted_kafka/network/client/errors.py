"""Why a request got no response."""


class NetworkClientError(Exception):
    """A request got no response; whether it was carried out is unknown unless a subclass says so."""


class ConnectError(NetworkClientError):
    """The node could not be connected to, or not in time: the request was not sent."""


class AuthenticationError(NetworkClientError):
    """One side refused the other: a certificate, its host name, or what this side showed. Trying again will hardly help."""


class DisconnectedError(NetworkClientError):
    """The connection was lost before the response came."""


class ResponseTimeoutError(NetworkClientError):
    """There was no response in time."""


class InvalidResponseError(NetworkClientError):
    """The node sent what is no response to what it was asked; its connection is closed."""


class TooManyRequestsError(NetworkClientError):
    """As many requests as may wait for a node are waiting: this one was not sent."""


class ClientClosedError(NetworkClientError):
    """The client was closed."""
