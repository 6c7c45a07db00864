"""A TLS listener among clients that break off, send noise or nothing: the honest ones are served, and nothing is left over."""

import os
import random
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.clients]

THREADS, CONNECTIONS = 6, 80
HANDSHAKE_MS = 1500
REQUEST = struct.pack(">ihhih", 10, 18, 0, 7, -1)
RESET = struct.pack("ii", 1, 0)


class Clients(threading.Thread):
    """Honest and hostile clients of one seed, one after the other."""

    def __init__(self, seed: int, port: int, context: ssl.SSLContext) -> None:
        super().__init__()
        self.dice = random.Random(seed)
        self.port = port
        self.context = context
        self.served = 0
        self.failures: list[str] = []
        self.silent: list[socket.socket] = []

    def run(self) -> None:
        for _ in range(CONNECTIONS):
            try:
                if self.dice.random() < 0.4:
                    self.be_honest()
                else:
                    self.dice.choice((self.send_noise, self.reset, self.be_silent, self.break_off, self.corrupt, self.flood))()
            except (OSError, EOFError) as error:
                self.failures.append(repr(error))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def secure(self) -> ssl.SSLSocket:
        return self.context.wrap_socket(self.connect(), server_hostname="localhost")

    def be_honest(self) -> None:
        with self.secure() as client:
            client.sendall(REQUEST * 3)
            for _ in range(3):
                (size,) = struct.unpack(">i", read(client, 4))
                read(client, size)
        self.served += 1

    def send_noise(self) -> None:
        with self.connect() as client:
            client.sendall(self.dice.choice((b"", b"\x16\x03\x01")) + self.dice.randbytes(self.dice.randrange(1, 600)))

    def reset(self) -> None:
        with self.connect() as client:
            client.sendall(b"\x16\x03\x01" + self.dice.randbytes(100))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def be_silent(self) -> None:
        self.silent.append(self.connect())

    def break_off(self) -> None:
        with self.secure() as client:
            client.sendall(REQUEST[: self.dice.randrange(1, 14)])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def corrupt(self) -> None:
        with self.secure() as client, socket.socket(fileno=os.dup(client.fileno())) as raw:
            raw.sendall(b"\x17\x03\x03\x00\x20" + self.dice.randbytes(32))

    def flood(self) -> None:
        with self.secure() as client:
            client.sendall(REQUEST * 500)


def read(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        some = client.recv(size - len(data))
        if not some:
            raise EOFError("the broker closed the connection")
        data += some
    return data


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ServedBroker]]:
    started: list[ServedBroker] = []

    def start(port: int, *overrides: str) -> ServedBroker:
        broker = ServedBroker(tmp_path / "data", *overrides)
        broker.listeners += f",SSL://127.0.0.1:{port}"
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.kill()


def test_the_honest_are_served_and_nothing_is_left(tmp_path: Path, serve: Callable[..., ServedBroker]) -> None:
    authority = Authority()
    authority.issue("CN=broker", ["localhost"]).write_pem(tmp_path / "key.pem")
    port = free_port()
    broker = serve(
        port,
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={tmp_path / 'key.pem'}",
        f"ssl.handshake.timeout.ms={HANDSHAKE_MS}",
        "ssl.handshake.max.pending=100",
    )
    assert broker.process is not None
    descriptors = Path(f"/proc/{broker.process.pid}/fd")
    context = ssl.create_default_context(cadata=authority.pem)
    Clients(THREADS, port, context).be_honest()
    eventually(lambda: [*(tmp_path / "data" / "access").rglob("*.jsonl")])  # which stays open
    before = len(list(descriptors.iterdir()))
    threads = [Clients(seed, port, context) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [thread.failures for thread in threads] == [[]] * THREADS
    assert sum(thread.served for thread in threads) > THREADS * CONNECTIONS / 4
    eventually(lambda: len(list(descriptors.iterdir())) <= before + 2)
    assert broker.stop() == 0
    text = broker.output.read_text()
    assert "Traceback" not in text, text[-3000:]
    assert "similar lines were suppressed before" in text or text.count("Failed authentication") < 100
