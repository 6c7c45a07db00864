"""What strangers can do to the page for Prometheus: on a memory transport, with the clock turned by hand."""

import gzip
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock, StringTransport

from twisted_kafka.metrics import listener
from twisted_kafka.metrics.listener import MAX_BODY_BYTES, MAX_CONNECTIONS, TIMEOUT_S, MetricsListener
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.timing.clock import ManualClock

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class Transport(StringTransport):
    """One that tells its protocol of its end when the reactor comes to it, as TCP's."""

    protocol: Any
    reactor: Any
    is_aborted = False

    def loseConnection(self) -> None:
        if not self.disconnecting:
            self.disconnecting = True
            self.reactor.callLater(0, self.protocol.connectionLost)

    def abortConnection(self) -> None:
        self.is_aborted = True
        self.loseConnection()


class Served:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.registry = MetricsRegistry(self.clock)
        self.pages = 0
        self.takes_ms = 0.0
        self.registry.gauge("T", "Made", self.made)
        self.reactor = MemoryReactorClock()  # type: ignore[no-untyped-call]
        MetricsListener(self.reactor, "", 0, self.registry).start()
        self.factory = self.reactor.tcpServers[0][1]
        self.factory.doStart()

    def made(self) -> int:
        self.pages += 1
        self.clock.advance_ms(self.takes_ms)
        return self.pages

    def connect(self) -> Transport:
        transport = Transport()  # type: ignore[no-untyped-call]
        transport.reactor = self.reactor
        transport.protocol = self.factory.buildProtocol(None)
        transport.protocol.makeConnection(transport)
        return transport

    def ask(self, data: bytes = GET) -> Transport:
        transport = self.connect()
        transport.protocol.dataReceived(data)
        return transport


@pytest.fixture
def served() -> Served:
    return Served()


def test_a_connection_is_for_one_request(served: Served) -> None:
    client = served.ask(GET * 10_000)
    assert client.disconnecting
    assert client.value().count(b"HTTP/1.1 200 OK") == 1  # type: ignore[no-untyped-call]
    assert b"Connection: close" in client.value()  # type: ignore[no-untyped-call]
    assert served.pages == 1


def test_making_pages_takes_a_tenth_of_the_time_at_most(served: Served) -> None:
    served.takes_ms = 30
    for _ in range(20):
        assert b"made 1.0\n" in served.ask().value()  # type: ignore[no-untyped-call]
    served.clock.advance_ms(269)
    assert b"made 1.0\n" in served.ask().value()  # type: ignore[no-untyped-call]
    served.clock.advance_ms(1)
    assert b"made 2.0\n" in served.ask().value()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("kind", ["declared", "chunked"])
def test_bodies_are_not_kept_and_long_ones_end_the_connection(served: Served, kind: str) -> None:
    header = b"Content-Length: 10000000000" if kind == "declared" else b"Transfer-Encoding: chunked"
    client = served.ask(b"POST /metrics HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n")
    piece = b"x" * 1000
    sent = 0
    while not client.disconnecting:
        client.protocol.dataReceived(piece if kind == "declared" else b"3e8\r\n" + piece + b"\r\n")
        sent += len(piece)
        assert sent <= MAX_BODY_BYTES + 1000
    assert sent > MAX_BODY_BYTES
    assert not client.value()  # type: ignore[no-untyped-call]


def test_a_short_body_is_passed_over(served: Served) -> None:
    assert b" 405 " in served.ask(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc").value()  # type: ignore[no-untyped-call]


def test_nothing_lasts_longer_than_its_time(served: Served) -> None:
    client = served.connect()
    for _ in range(TIMEOUT_S - 1):
        client.protocol.dataReceived(b"G")
        served.reactor.advance(1)
    assert not client.disconnecting
    served.reactor.advance(1)
    assert client.disconnecting


def test_too_many_connections_cost_the_oldest(served: Served) -> None:
    clients = [served.connect() for _ in range(MAX_CONNECTIONS)]
    clients[0].protocol.dataReceived(GET)
    assert clients[0].disconnecting, "it is done with"
    served.reactor.advance(0)
    clients += [served.connect() for _ in range(3)]
    assert [client.disconnecting for client in clients[1:]] == [True, True] + [False] * (MAX_CONNECTIONS)
    assert b"200 OK" in served.ask().value()  # type: ignore[no-untyped-call]


def test_slow_readers_hold_a_bounded_number_of_bytes(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    size_bytes = len(served.ask().value().partition(b"\r\n\r\n")[2])  # type: ignore[no-untyped-call]
    served.reactor.advance(0)
    monkeypatch.setattr(listener, "MAX_HELD_BYTES", 2 * size_bytes + size_bytes // 2)
    clients = [served.connect() for _ in range(4)]
    for client in clients:
        client.protocol.dataReceived(GET)  # and reads nothing of the answer
    assert [client.is_aborted for client in clients] == [True, True, False, False]
    served.reactor.advance(0)  # the others have read it
    monkeypatch.setattr(listener, "MAX_HELD_BYTES", 1)
    assert b"200 OK" in served.ask().value()  # type: ignore[no-untyped-call]


def test_head_is_answered_without_the_page(served: Served) -> None:
    answer = served.ask(GET.replace(b"GET", b"HEAD")).value()  # type: ignore[no-untyped-call]
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 0" not in answer
    assert b"Content-Length: " in answer


def test_a_client_that_accepts_gzip_gets_less(served: Served) -> None:
    plain = served.ask().value()  # type: ignore[no-untyped-call]
    asked = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip, br\r\n\r\n"
    headers, _, body = served.ask(asked).value().partition(b"\r\n\r\n")  # type: ignore[no-untyped-call]
    assert b"Content-Encoding: gzip" in headers
    page = gzip.decompress(body)
    assert page.splitlines()[:2] == plain.partition(b"\r\n\r\n")[2].splitlines()[:2]
    assert len(body) < len(page)


def test_a_health_check_costs_no_page(served: Served) -> None:
    for _ in range(3):
        answer = served.ask(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").value()  # type: ignore[no-untyped-call]
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(b"ok\n")
    assert served.pages == 0
    assert served.ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").value().startswith(b"HTTP/1.1 404 ")  # type: ignore[no-untyped-call]
