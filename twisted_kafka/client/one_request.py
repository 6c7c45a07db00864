"""One request over a plain-text connection of its own: for tools and tests that ask a broker now and then, and may block."""

import socket
from typing import Any, Final

from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header

_SIZE_BYTES: Final = 4
_CORRELATION_ID: Final = 1
_CORRELATION_ID_BYTES: Final = 4
_MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024


class NotAResponseError(Exception):
    """The other side closed the connection, or sent something that is not a Kafka response."""

    def __init__(self, received: bytes) -> None:
        """``received``: its first bytes, at most 4."""
        super().__init__(f"received {received!r} instead of a response")
        self.received = received


def ask(address: tuple[str, int], request: Message, version: int, client_id: str, timeout_s: float) -> Any:
    """Connect to host and port, send the request in this version, and return the response.

    ``timeout_s`` is for each step. Raises OSError, NotAResponseError, or MalformedMessageError for what cannot be decoded.
    """
    frame = encode_request_header(request.KEY, version, _CORRELATION_ID, client_id) + request.encode(version)
    with socket.create_connection(address, timeout_s) as connection:
        connection.sendall(len(frame).to_bytes(_SIZE_BYTES, "big") + frame)
        with connection.makefile("rb") as stream:
            head = stream.read(_SIZE_BYTES + _CORRELATION_ID_BYTES)
            size_bytes = int.from_bytes(head[:_SIZE_BYTES], "big")
            # The correlation id distinguishes a response from the first bytes of other protocols.
            if head[_SIZE_BYTES:] != _CORRELATION_ID.to_bytes(_CORRELATION_ID_BYTES, "big") or size_bytes > _MAX_RESPONSE_BYTES:
                raise NotAResponseError(head[:_SIZE_BYTES])
            body = head[_SIZE_BYTES:] + stream.read(size_bytes - _CORRELATION_ID_BYTES)
    if len(body) != size_bytes:
        raise NotAResponseError(head[:_SIZE_BYTES])
    return response_class(request.KEY).decode(body, version, parse_response_header(request.KEY, version, body)[1])
