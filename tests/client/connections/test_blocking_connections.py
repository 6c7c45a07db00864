"""Connections that block: the timeout of each request, bytes that are no response, and the reasons of a peer that refuses."""

import socket

import pytest
from OpenSSL import SSL

from tests.support.fake import Fake
from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.client.connections.tls_stream import TlsStream
from twisted_kafka.client.errors import NotAResponseError, PeerRefusedError, Refusal
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, HeartbeatResponse

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
ALERT = b"\x15\x03\x03\x00\x02\x02"
"""A TLS record with a fatal alert, whose number follows."""


class FakeStream(Fake):
    """Gives the bytes of a peer, and then its end."""

    def __init__(self, received: bytes = b"") -> None:
        self.received = received
        self.timeouts_s: list[float] = []

    def settimeout(self, timeout_s: float) -> None:
        self.timeouts_s.append(timeout_s)

    def sendall(self, data: bytes) -> None:
        pass

    def recv(self, size_bytes: int) -> bytes:
        part, self.received = self.received[:size_bytes], self.received[size_bytes:]
        return part

    def close(self) -> None:
        pass


def connected(stream: FakeStream) -> SocketConnection:
    def secured(plain: socket.socket, host: str, timeout_s: float) -> TlsStream:
        plain.close()
        return stream

    with socket.create_server(("127.0.0.1", 0)) as server:
        return SocketConnection(server.getsockname(), "me", 60.0, secure=secured)


def response(correlation_id: int, body: bytes) -> bytes:
    return (4 + len(body)).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + body


def test_each_request_has_its_own_timeout() -> None:
    answer = HeartbeatResponse(error_code=0).encode(0)
    stream = FakeStream(response(1, answer) + response(2, answer))
    connection = connected(stream)
    connection.ask(REQUEST, 0, 7.5)
    connection.ask(REQUEST, 0, 0.5)
    assert stream.timeouts_s == [7.5, 0.5]


@pytest.mark.parametrize(
    "received",
    [
        b"",
        response(2, bytes(2)),
        response(1, bytes(2))[:-1],
        b"\x00\x00\x00\x03\x00\x00\x00\x01",
        b"\x7f\xff\xff\xff\x00\x00\x00\x01",
    ],
    ids=["nothing", "of another request", "cut off", "too small", "too large"],
)
def test_other_bytes_are_no_response(received: bytes) -> None:
    with pytest.raises(NotAResponseError):
        connected(FakeStream(received)).ask(REQUEST, 0, 1.0)


@pytest.mark.parametrize(
    ("received", "refusal"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Refusal.NO_TLS),
        (ALERT + b"\x28", Refusal.TLS),  # handshake_failure
        (ALERT + b"\x30", Refusal.OWN_CERTIFICATE),  # unknown_ca
        (ALERT + b"\x2a", Refusal.OWN_CERTIFICATE),  # bad_certificate
    ],
    ids=["no TLS", "nothing in common", "unknown authority", "bad certificate"],
)
def test_a_handshake_says_why_the_peer_refuses(received: bytes, refusal: Refusal) -> None:
    ours, peers = socket.socketpair()
    with peers:
        peers.sendall(received)
        with pytest.raises(PeerRefusedError) as raised:
            TlsStream(ours, SSL.Context(SSL.TLS_CLIENT_METHOD), "localhost", 10.0, verifies_host=False)
    assert raised.value.refusal is refusal
    assert ours.fileno() == -1
