"""One request over a plain-text connection of its own: for tools and tests that ask a broker now and then, and may block."""

from typing import Any

from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.protocol.compiler.codec import Message


def ask(address: tuple[str, int], request: Message, version: int, client_id: str, timeout_s: float) -> Any:
    """Connect to host and port, send the request in this version, and return the response.

    ``timeout_s`` is for each step. Raises OSError, NotAResponseError, or MalformedMessageError for what cannot be decoded.
    """
    with SocketConnection(address, client_id, timeout_s) as connection:
        return connection.ask(request, version, timeout_s)
