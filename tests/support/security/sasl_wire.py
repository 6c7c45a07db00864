"""A client of SASL listeners that says exactly what a test wants."""

import socket
import struct
from typing import Any

from tests.support.eventually import WAIT_S
from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest


class Wire:
    """A client that speaks over a socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)

    def frame(self, data: bytes) -> bytes | None:
        """Send a frame; return the next one from the broker, None if it has closed the connection."""
        self.socket.sendall(struct.pack(">i", len(data)) + data)
        return self.receive()

    def receive(self) -> bytes | None:
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def _exactly(self, count: int) -> bytes | None:
        found = b""
        while len(found) < count:
            try:
                more = self.socket.recv(count - len(found))
            except ConnectionResetError:
                return None
            if not more:
                return None
            found += more
        return found

    def send(self, request: Message, version: int) -> Any:
        data = self.frame(encode_request_header(request.KEY, version, 7, "wire") + request.encode(version))
        if data is None:
            return None
        _, offset = parse_response_header(request.KEY, version, data)
        return response_class(request.KEY).decode(data, version, offset)

    def log_in(self, token: bytes, mechanism: str = "PLAIN") -> Any:
        assert self.send(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
        answer = self.send(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert answer.error_code == 0
        return answer
