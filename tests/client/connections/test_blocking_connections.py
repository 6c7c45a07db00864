"""Connections that block: the timeout of each request, bytes that are no response, and the reasons of a peer that refuses."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from OpenSSL import SSL
from OpenSSL.crypto import X509

from tests.support.certificates import Authority
from tests.support.eventually import join
from tests.support.fake import Fake
from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.client.connections.tls_stream import TlsStream
from twisted_kafka.client.errors import NotAResponseError, PeerRefusedError, Refusal
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, HeartbeatResponse
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

REQUEST = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
ALERT = b"\x15\x03\x03\x00\x02\x02"
"""A TLS record with a fatal alert, whose number follows."""


class FakeStream(Fake):
    """Gives the bytes of a peer, and then its end."""

    def __init__(self, received: bytes = b"") -> None:
        self.received = received
        self.timeouts_s: list[float] = []
        self.is_closed = False

    def settimeout(self, timeout_s: float) -> None:
        self.timeouts_s.append(timeout_s)

    def sendall(self, data: bytes) -> None:
        pass

    def recv(self, size_bytes: int) -> bytes:
        part, self.received = self.received[:size_bytes], self.received[size_bytes:]
        return part

    def close(self) -> None:
        self.is_closed = True


class Login(Fake):
    """Sends one token, which each server may refuse."""

    mechanism = "PLAIN"
    is_complete = True

    def evaluate(self, challenge: bytes) -> bytes:
        return b"token"


def connected(stream: FakeStream, sasl: Login | None = None) -> SocketConnection:
    def secured(plain: socket.socket, host: str, timeout_s: float) -> TlsStream:
        plain.close()
        return stream

    with socket.create_server(("127.0.0.1", 0)) as server:
        return SocketConnection(server.getsockname(), "me", 60.0, secure=secured, sasl=sasl)


def response(correlation_id: int, body: bytes) -> bytes:
    return (4 + len(body)).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + body


def test_each_request_has_its_own_timeout() -> None:
    answer = HeartbeatResponse(error_code=0).encode(0)
    stream = FakeStream(response(1, answer) + response(2, answer))
    connection = connected(stream)
    connection.ask(REQUEST, 0, 7.5)
    first = list(stream.timeouts_s)
    connection.ask(REQUEST, 0, 0.5)
    assert (first[0], max(first)) == (7.5, 7.5)
    assert max(stream.timeouts_s[len(first) :]) == 0.5


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


def test_a_login_that_is_refused_closes_the_connection() -> None:
    chosen = response(1, SaslHandshakeResponse(mechanisms=["PLAIN"]).encode(1))
    wrong = response(2, SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no").encode(1))
    stream = FakeStream(chosen + wrong)
    with pytest.raises(PeerRefusedError, match=r"^no$"):
        connected(stream, Login())
    assert stream.is_closed


@pytest.fixture(scope="module")
def certified() -> tuple[SSL.Context, SSL.Context]:
    """Contexts of a server for localhost and 127.0.0.1, and of a client that trusts it."""
    authority = Authority()
    identity = authority.issue("CN=broker", ["localhost", "127.0.0.1"])
    server, client = SSL.Context(SSL.TLS_SERVER_METHOD), SSL.Context(SSL.TLS_CLIENT_METHOD)
    server.use_certificate(identity.certificate)
    server.use_privatekey(identity.key)
    store = client.get_cert_store()
    assert store is not None
    store.add_cert(X509.from_cryptography(authority.certificate))
    client.set_verify(SSL.VERIFY_PEER, lambda *arguments: bool(arguments[-1]))
    return server, client


@pytest.fixture
def to_server(certified: tuple[SSL.Context, SSL.Context]) -> Iterator[socket.socket]:
    """The client's end of a connection to a server that completes a handshake."""
    ours, servers = socket.socketpair()
    secured = SSL.Connection(certified[0], servers)
    secured.set_accept_state()

    def handshake() -> None:
        with contextlib.suppress(SSL.Error):
            secured.do_handshake()

    thread = threading.Thread(target=handshake)
    thread.start()
    yield ours
    ours.close()
    join([thread])
    servers.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_certificate_for_the_host_is_accepted(certified: Any, to_server: socket.socket, host: str) -> None:
    TlsStream(to_server, certified[1], host, 10.0, verifies_host=True).close()


@pytest.mark.parametrize("host", ["kafka-1", "127.0.0.2"])
def test_a_certificate_for_another_host_is_not(certified: Any, to_server: socket.socket, host: str) -> None:
    with pytest.raises(PeerRefusedError, match=f"not valid for {host}") as raised:
        TlsStream(to_server, certified[1], host, 10.0, verifies_host=True)
    assert raised.value.refusal is Refusal.HOST
