"""What a server of keys may do to the broker that asks it."""

import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.eventually import join
from twisted_kafka.security.oauth import fetching
from twisted_kafka.security.oauth.fetching import fetch


class Server:
    """Answers each connection by ``talk``, until the client is gone."""

    def __init__(self) -> None:
        self.talk: Callable[[socket.socket], object] = lambda _: None
        self.sent_bytes = 0
        self.hears_first = True
        self._lock = threading.Lock()
        self._is_closed = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._connection = self._listening
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/jwks"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                with self._lock:
                    if self._is_closed:
                        return
                    self._connection = connection
                try:
                    if self.hears_first:
                        connection.recv(65536)
                    self.talk(connection)
                except OSError:
                    continue

    def repeat(self, data: bytes) -> Callable[[socket.socket], object]:
        def talk(connection: socket.socket) -> None:
            while True:
                self.sent_bytes += connection.send(data)

        return talk

    def close(self) -> None:
        """End the latest connection, too.

        A client that reads all that it was sent and leaves sends no RST. If its window was closed, Linux lets a sender wait for a
        minute to hear of that.
        """
        with self._lock:
            self._is_closed = True
        for each in (self._listening, self._connection):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        join([self._thread])
        self._listening.close()


def sending(data: bytes) -> Callable[[socket.socket], object]:
    return lambda connection: connection.sendall(data)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    yield server
    server.close()


def test_an_answer(server: Server, tmp_path: Path) -> None:
    server.talk = sending(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    assert fetch(server.url) == b"{}"
    path = tmp_path / "keys.json"
    path.write_bytes(b"[]")
    assert fetch(path.as_uri()) == b"[]"


def test_an_answer_over_tls(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("CN=issuer", ["127.0.0.1"]).write_pem(tmp_path / "issuer.pem"))

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(65536)
            secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server.hears_first = False
    server.talk = talk
    url = server.url.replace("http", "https", 1)
    with pytest.raises(OSError, match="certificate"):
        fetch(url)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.write_trust(tmp_path / "trusted.pem")))
    assert fetch(url) == b"{}"


@pytest.mark.medium
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_talks_without_end_is_left_in_time(server: Server, scheme: str) -> None:
    """Each read has some bytes, so that no timeout of a socket ends it."""
    hello_requests = b"\x16\x03\x03\x00\x04\x00\x00\x00\x00"
    server.talk = server.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" if scheme == "http" else hello_requests)
    with pytest.raises(TimeoutError, match=r"took more than 0\.1 seconds"):
        fetch(server.url.replace("http", scheme, 1), 0.1)


def test_no_more_is_read_than_an_answer_may_have(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", 5)
    server.talk = sending(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(6))
    with pytest.raises(ValueError, match="more than 5 bytes"):
        fetch(server.url)


def test_the_text_of_a_redirection_is_not_read(server: Server) -> None:
    endless = server.repeat(bytes(1 << 16))

    def talk(connection: socket.socket) -> None:
        connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {server.url}\r\n\r\n".encode())
        endless(connection)

    server.talk = talk
    with pytest.raises(OSError, match="redirect"):
        fetch(server.url)
    assert server.sent_bytes < 200 << 20


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200, b"HTTP/1.1 500 No\r\n\r\n"]
)
def test_an_answer_that_is_none(server: Server, answer: bytes) -> None:
    server.talk = sending(answer)
    with pytest.raises(OSError):
        fetch(server.url)


def test_addresses_of_other_schemes_are_refused(server: Server) -> None:
    for url in ("ftp://issuer/jwks", "data:,{}", "jwks.json"):
        with pytest.raises(ValueError, match="must begin"):
            fetch(url)
    for location in (b"ftp://127.0.0.1/jwks", b"file:///etc/passwd"):
        answer = b"HTTP/1.1 302 Found\r\nLocation: %s\r\n\r\n" % location
        server.talk = sending(answer)
        with pytest.raises(OSError):
            fetch(server.url)


def test_a_file_that_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for url in ((tmp_path / "pipe").as_uri(), "file:///dev/zero"):
        with pytest.raises(OSError, match="not a regular file"):
            fetch(url)
    with pytest.raises(ValueError, match="names no host"):
        fetch("file://elsewhere/keys.json")
