import errno
import socket
from typing import Any

import pytest

from tests.network.network_fakes import FakeReactor
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.network.acceptor import PAUSE_S, RETRY_S, Acceptor, SocketOptions
from twisted_kafka.timing.clock import ManualClock


class FakeProcessor:
    def __init__(self, room: int) -> None:
        self.room = room
        self.accepted: list[socket.socket] = []

    def accept(self, connected: socket.socket, peer: Any, blocked: Any = None) -> bool:
        if self.room == 0:
            return False
        self.room -= 1
        self.accepted.append(connected)
        return True


class ReadersReactor(FakeReactor):
    def __init__(self) -> None:
        super().__init__()
        self.readers: set[object] = set()

    def addReader(self, reader: object) -> None:
        self.readers.add(reader)

    def removeReader(self, reader: object) -> None:
        self.readers.discard(reader)


def make(rooms: list[int]) -> tuple[Acceptor, ReadersReactor, list[FakeProcessor], Meter]:
    clock = ManualClock()
    reactor = ReadersReactor()
    meter = Meter(clock)
    acceptor = Acceptor(EndPoint("127.0.0.1", 0, "L", "PLAINTEXT"), reactor, SocketOptions(), clock, meter)
    processors = [FakeProcessor(room) for room in rooms]
    acceptor.processors = processors  # type: ignore[assignment]
    acceptor.start()
    return acceptor, reactor, processors, meter


def test_round_robin_and_the_next_when_one_is_full() -> None:
    acceptor, _, processors, _ = make([9, 1, 9])
    clients = [socket.create_connection(("127.0.0.1", acceptor.port), timeout=5) for _ in range(7)]
    acceptor.doRead()
    assert [len(p.accepted) for p in processors] == [3, 1, 3]
    accepted = processors[0].accepted[0]
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    acceptor.close()
    for each in [*clients, *(c for p in processors for c in p.accepted)]:
        each.close()


def test_waits_when_all_are_full_and_drops_nothing() -> None:
    acceptor, reactor, processors, meter = make([1])
    clients = [socket.create_connection(("127.0.0.1", acceptor.port), timeout=5) for _ in range(3)]
    acceptor.doRead()
    assert acceptor not in reactor.readers
    reactor.advance(RETRY_S)
    assert acceptor not in reactor.readers
    processors[0].room = 9
    reactor.advance(RETRY_S)
    assert acceptor in reactor.readers
    assert meter.count >= 0
    acceptor.doRead()
    assert len(processors[0].accepted) == 3
    acceptor.close()
    for each in [*clients, *processors[0].accepted]:
        each.close()


def test_too_many_open_files_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    acceptor, reactor, _, _ = make([9])
    real = acceptor._socket

    class Exhausted:
        def accept(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    acceptor._socket = Exhausted()  # type: ignore[assignment]
    acceptor.doRead()
    assert acceptor not in reactor.readers
    reactor.advance(PAUSE_S)
    assert acceptor in reactor.readers
    acceptor._socket = real
    acceptor.close()
