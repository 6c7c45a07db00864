"""What hurts one connection, one request or one thread must not hurt the others: real sockets and threads, every wait bounded."""

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.logger import formatEvent, globalLogPublisher

from tests.network.socket_servers import Running, echo, is_closed
from tests.support.eventually import WAIT_S, eventually
from tests.support.network_fakes import frame
from twisted_kafka.network.accepting.interfaces import IConnectionQuotas
from twisted_kafka.network.loop.processor import Processor
from twisted_kafka.network.loop.reactors import (
    MAX_FAILURES,
    NoHooks,
    close_reactor,
    make_poll_reactor,
    make_reactor,
    make_select_reactor,
)
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.timing.clock import IClock, SystemClock

REACTORS = [make_reactor, make_poll_reactor, make_select_reactor]

Make = Callable[..., Running]


@pytest.fixture
def serving() -> Iterator[Make]:
    started: list[Running] = []

    def make(properties: dict[str, str] | None = None, factory: Callable[[IClock], Any] = make_reactor) -> Running:
        server = Running({"num.network.threads": "1", **(properties or {})}, factory)
        started.append(server)
        return server.start().enable()

    yield make
    for server in started:
        server.slow.set()
        server.stop()


def processor_of(server: Running) -> Processor:
    return server.server.processors[0]


@pytest.mark.parametrize("factory", REACTORS)
def test_client_that_sends_a_byte_at_a_time_is_served_and_holds_up_nobody(serving: Make, factory: Any) -> None:
    server = serving(factory=factory)
    slow, quick = server.connect(), server.connect()
    for number, byte in enumerate(frame(1, b"slow loris")):
        slow.sendall(bytes((byte,)))
        echo(quick, number)
    assert slow.recv(100)[4:8] == struct.pack(">i", 1)


@pytest.mark.medium
@pytest.mark.parametrize("factory", REACTORS)
def test_half_a_request_expires(serving: Make, factory: Any) -> None:
    server = serving({"connections.max.idle.ms": "300"}, factory)
    half = server.connect()
    half.sendall(frame(1)[:9])
    assert is_closed(half)
    assert processor_of(server).stats.expired_connections_killed == 0  # that counts sessions


@pytest.mark.parametrize("factory", REACTORS)
def test_half_closed_connection_gets_its_answers(serving: Make, factory: Any) -> None:
    server = serving(factory=factory)
    client = server.connect()
    client.sendall(frame(1) + frame(2))
    client.shutdown(socket.SHUT_WR)
    received = b""
    while data := client.recv(100):
        received += data
    assert [received[4:8], received[12:16]] == [struct.pack(">i", number) for number in (1, 2)]
    eventually(lambda: not server.server.connection_count)


@pytest.mark.parametrize("factory", REACTORS)
def test_reset_while_an_answer_is_written(serving: Make, factory: Any) -> None:
    server = serving({"socket.send.buffer.bytes": "4096"}, factory)
    other = server.connect()
    for _ in range(5):
        client = server.connect()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(frame(1, b"x" * 3_000_000))
        client.recv(1000)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    echo(other, 1)
    eventually(lambda: server.server.connection_count == 1)
    eventually(lambda: processor_of(server).stats.dropped_responses == 5)
    server.await_completed(6)


@pytest.mark.medium
def test_pipelining_client_that_reads_nothing_is_bounded_in_memory(serving: Make) -> None:
    server = serving()
    other, client = server.connect(), server.connect()
    with pytest.raises(TimeoutError):
        send_on(client, 200_000_000)
    echo(other, 1)
    (channel,) = (each for each in processor_of(server).channels.values() if each.is_paused)
    assert channel._backlog_bytes < 200_000


@pytest.mark.parametrize("factory", REACTORS)
def test_request_blocked_in_a_system_call_does_not_hold_up_others(serving: Make, factory: Any) -> None:
    """A slow disk: a handler is in a call that lets go of the interpreter lock; it ends only when the others were answered."""
    server = serving(factory=factory)
    read_end, write_end = os.pipe()

    class Disk:
        def answer(self, channel: RequestChannel, request: Request) -> None:
            if bytes(request.frame[request.body_offset :]) == b"disk":
                os.read(read_end, 1)
            Running.answer(server, channel, request)

    server.answer = Disk().answer
    blocked = [server.connect() for _ in range(2)]
    others = [server.connect() for _ in range(4)]
    for client in blocked:
        client.sendall(frame(7, b"disk"))
    for number in range(50):
        for other in others:
            echo(other, number)
    for other in others:  # and all at once: one handler is left for them
        other.sendall(frame(60))
    for other in others:
        assert other.recv(100)
    os.write(write_end, b"xx")
    for client in blocked:
        assert client.recv(100)
    os.close(read_end)
    os.close(write_end)


def send_on(client: socket.socket, limit_bytes: int) -> None:
    client.settimeout(0.5)
    sent = 0
    while sent < limit_bytes:
        sent += client.send(frame(1, b"x" * 60_000))


class Injected(BaseException):
    """Nobody expects it."""


class FailingOnce:
    """Quotas that end the network thread that asks for the first time."""

    def __init__(self, quotas: IConnectionQuotas) -> None:
        self._quotas = quotas
        self._is_armed = True

    def dec(self, listener_name: str, address: str) -> None:
        self._quotas.dec(listener_name, address)

    def claim_excess(self, listener_name: str) -> bool:
        armed, self._is_armed = self._is_armed, False
        if armed:
            raise Injected("killed")
        return False


@pytest.mark.parametrize("factory", [make_reactor, make_poll_reactor])
def test_network_thread_that_is_lost_begins_anew_and_the_rest_serves_on(serving: Make, factory: Any) -> None:
    server = serving({"num.network.threads": "2"}, factory)
    clients = [server.connect() for _ in range(4)]
    for client in clients:
        echo(client, 1)
    victim, other = server.server.processors
    assert (len(victim.channels), len(other.channels)) == (2, 2)
    clients[0].sendall(frame(2, b"slow"))
    server.await_under_way(1)
    messages: list[str] = []
    observer = remember(messages)
    victim.settings.quotas = FailingOnce(server.server.quotas)
    victim.check_connections()
    eventually(lambda: not victim.channels)
    eventually(lambda: server.server.quotas.total == 2)
    server.slow.set()
    left = [client for client in clients if answers(client)]
    assert len(left) == 2, "its own connections are closed, and no others"
    further = [server.connect() for _ in range(4)]
    for client in further:
        echo(client, 3)
    assert len(victim.channels) == 2
    eventually(lambda: server.server.quotas.total == 6)
    eventually(lambda: victim.stats.dropped_responses <= 1 and len(server.recorder.completed) == 11)
    globalLogPublisher.removeObserver(observer)  # type: ignore[arg-type]
    assert len([message for message in messages if "which closes its 2 connections" in message]) == 1
    assert len([message for message in messages if "continues with a new reactor" in message]) == 1


@pytest.mark.medium
def test_network_thread_that_is_lost_waits_for_descriptors_to_begin_anew(serving: Make) -> None:
    failures: list[int] = []

    def make(clock: IClock) -> Any:
        if failures and failures[-1]:
            failures.append(failures[-1] - 1)
            raise OSError(errno.EMFILE, "Too many open files")
        return make_reactor(clock)

    server = serving(factory=make)
    client = server.connect()
    echo(client, 1)
    (victim,) = server.server.processors
    messages: list[str] = []
    observer = remember(messages)
    failures.append(2)
    victim.settings.quotas = FailingOnce(server.server.quotas)
    victim.check_connections()
    eventually(lambda: failures == [2, 1, 0])
    assert is_closed(client)
    echo(server.connect(), 2)
    globalLogPublisher.removeObserver(observer)  # type: ignore[arg-type]
    assert len([message for message in messages if "cannot restart for now" in message]) == 1


def remember(messages: list[str]) -> Callable[[Any], None]:
    def observe(event: Any) -> None:
        messages.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)  # type: ignore[arg-type]
    return observe


def answers(client: socket.socket) -> bool:
    try:
        echo(client, 2)
    except (OSError, EOFError):
        return False
    return True


class FailingHooks(NoHooks):
    def __init__(self, failures: int, error: type[BaseException], done: Callable[[], None]) -> None:
        self.failures = failures
        self.error = error
        self.done = done

    def before_poll(self) -> float | None:
        if not self.failures:
            self.done()
            return 0
        self.failures -= 1
        raise self.error("injected")


@pytest.mark.parametrize("factory", [make_reactor, make_poll_reactor])
def test_loop_goes_on_after_failures_but_not_after_ever_the_same(factory: Any) -> None:
    for failures, error, is_lost in (
        (MAX_FAILURES - 1, ValueError, False),
        (MAX_FAILURES, ValueError, True),
        (1, SystemExit, True),
    ):
        reactor = factory(SystemClock())
        reactor.hooks = FailingHooks(failures, error, reactor.stop)
        if is_lost:
            with pytest.raises(error):
                reactor.run(installSignalHandlers=False)
        else:
            reactor.run(installSignalHandlers=False)
            assert reactor.polls > 0
            assert reactor.waited_ns > 0
        close_reactor(reactor)


@pytest.mark.parametrize("factory", REACTORS)
def test_memory_pool_makes_clients_wait_and_is_full_again_in_the_end(serving: Make, factory: Any) -> None:
    size = 300_000
    body = b"x" * size
    pool_bytes = len(frame(9, body)) - 4  # one request takes all of it: while there is a byte left another one gets its memory
    server = serving({"queued.max.request.bytes": str(pool_bytes), "socket.request.max.bytes": str(pool_bytes)}, factory)

    def work(number: int) -> None:
        with server.connect() as client:
            for correlation_id in range(5):
                echo(client, correlation_id, body)
            if number % 2:
                client.sendall(frame(9, body)[: size // 2])  # leaves in the middle of a request

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    with server.connect() as first:
        first.sendall(frame(9, body)[: size // 2])
        eventually(lambda: server.metrics.value("SocketServer", "MemoryPoolUsed") != 0)
        for thread in threads:
            thread.start()
        eventually(lambda: processor_of(server).is_full)
    for thread in threads:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in threads)
    server.await_completed(30)
    eventually(lambda: server.metrics.value("SocketServer", "MemoryPoolUsed") == 0)
    assert server.metrics.value("SocketServer", "MemoryPoolAvailable") == pool_bytes
    assert float(str(server.metrics.value("kafka.server:socket-server-metrics", "MemoryPoolDepletedTimeTotal"))) > 0
