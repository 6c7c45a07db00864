import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.support.eventually import WAIT_S
from tests.support.fake import Fake
from tests.support.network_fakes import ReadersReactor, is_closed
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.accepting import acceptor as acceptor_module
from twisted_kafka.network.accepting.acceptor import PAUSE_S, RETRY_S, Acceptor, BindError, SocketOptions
from twisted_kafka.network.accepting.connection_quotas import ConnectionQuotas, ConnectionThrottledError
from twisted_kafka.network.log_rate_limit import INTERVAL_NS, LINES
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import ManualClock


class FakeProcessor(Fake):
    def __init__(self, room: int) -> None:
        self.room = room
        self.accepted: list[socket.socket] = []
        self.peers: list[Any] = []
        self.retry: Callable[[], object] | None = None

    def accept(self, connected: socket.socket, peer: Any, retry: Callable[[], object] | None = None) -> bool:
        if self.room == 0:
            self.retry = retry
            return False
        self.room -= 1
        self.accepted.append(connected)
        self.peers.append(peer)
        return True

    def check_connections(self) -> None:
        raise AssertionError("there are never too many here")


class Accepting:
    """An acceptor on a real port, with limits and processors that take as many connections as they are told."""

    def __init__(
        self,
        rooms: list[int],
        properties: dict[str, str] | None = None,
        host: str = "127.0.0.1",
        options: SocketOptions | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.reactor = ReadersReactor()
        self.blocked = Meter(self.clock)
        config = KafkaConfig.from_properties({"broker.id": "1", **(properties or {})})
        self.quotas = ConnectionQuotas(config, self.clock, MetricsRegistry(self.clock))
        self.quotas.add_listener(config, "L")
        end_point = EndPoint(host, 0, "L", "PLAINTEXT")
        self.acceptor = Acceptor(end_point, self.reactor, options or SocketOptions(), self.clock, self.blocked, self.quotas)
        self.processors = [FakeProcessor(room) for room in rooms]
        self.acceptor.processors = self.processors
        self.clients: list[socket.socket] = []
        self.acceptor.start()

    def connect(self, count: int) -> None:
        for _ in range(count):
            self.clients.append(socket.create_connection(("127.0.0.1", self.acceptor.port), timeout=WAIT_S))
        if self.is_accepting:
            self.acceptor.doRead()

    def advance_ms(self, ms: float) -> None:
        self.clock.advance_ms(ms)
        self.reactor.advance(ms / 1000)
        self.reactor.run_asked()
        if self.is_accepting:
            self.acceptor.doRead()

    @property
    def accepted(self) -> list[int]:
        return [len(processor.accepted) for processor in self.processors]

    @property
    def is_accepting(self) -> bool:
        return self.acceptor in self.reactor.readers

    def close(self) -> None:
        self.acceptor.close()
        for each in [*self.clients, *(one for processor in self.processors for one in processor.accepted)]:
            each.close()


@pytest.fixture
def accepting() -> Iterator[Any]:
    made: list[Accepting] = []

    def make(rooms: list[int], properties: dict[str, str] | None = None, **options: Any) -> Accepting:
        made.append(Accepting(rooms, properties, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_round_robin_and_the_next_when_one_is_full(accepting: Any) -> None:
    here = accepting([9, 1, 9])
    here.connect(7)
    assert here.accepted == [3, 1, 3]
    accepted = here.processors[0].accepted[0]
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert here.quotas.count("127.0.0.1") == here.quotas.listener_count("L") == 7


def test_waits_when_all_are_full_and_drops_nothing(accepting: Any) -> None:
    here = accepting([1])
    here.connect(3)
    assert not here.is_accepting
    here.advance_ms(7)
    assert here.accepted == [1]
    here.processors[0].room = 9
    here.processors[0].retry()
    here.advance_ms(0)
    assert here.is_accepting
    assert here.accepted == [3]
    assert here.blocked.count == 7_000_000


def test_looks_again_when_nobody_says_that_there_is_room(accepting: Any) -> None:
    here = accepting([0])
    here.connect(1)
    here.processors[0].room = 9
    here.advance_ms(RETRY_S * 1000)
    assert here.accepted == [1]


def test_a_full_broker_takes_the_next_connection_when_one_is_closed(accepting: Any) -> None:
    here = accepting([9], {"max.connections": "2"})
    here.connect(3)
    assert here.accepted == [2]
    assert not here.is_accepting
    here.quotas.dec("L", "127.0.0.1")
    here.advance_ms(0)
    assert here.accepted == [3]
    assert here.is_accepting
    assert here.quotas.total == 2
    assert not any(map(is_closed, here.clients))


def test_looks_again_for_a_slot_when_nobody_says_that_there_is_one(accepting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = accepting([9])
    answers = [False, True]
    monkeypatch.setattr(here.quotas, "slot_available", lambda *_: answers.pop(0))
    here.connect(1)
    assert here.accepted == [0]
    here.advance_ms(RETRY_S * 1000)
    assert here.accepted == [1]


def test_an_address_with_too_many_connections_is_refused(accepting: Any) -> None:
    here = accepting([9], {"max.connections.per.ip": "1"})
    here.connect(3)
    assert [is_closed(client) for client in here.clients] == [False, True, True]
    assert here.quotas.count("127.0.0.1") == 1


def test_connecting_too_often_delays_accepts(accepting: Any) -> None:
    here = accepting([99], {"max.connection.creation.rate": "1"})
    here.connect(12)  # ten seconds' worth may come at once
    assert here.accepted == [10]
    assert not here.is_accepting
    here.advance_ms(500)
    assert here.accepted == [10]
    here.advance_ms(500)
    assert here.accepted[0] >= 11
    here.advance_ms(1000)
    assert here.accepted == [12]
    assert not any(map(is_closed, here.clients))
    assert here.blocked.count >= 1_000_000_000


def test_a_throttled_address_is_closed_after_its_time_and_not_counted(accepting: Any) -> None:
    here = accepting([99])
    here.quotas.set_ip_rate("127.0.0.1", 1)
    here.connect(12)
    assert here.accepted == [10]
    assert here.is_accepting
    assert here.quotas.total == 10
    assert not any(map(is_closed, here.clients))
    here.advance_ms(999.5)
    assert not any(map(is_closed, here.clients))
    here.advance_ms(0.5)
    assert [is_closed(client) for client in here.clients] == [False] * 10 + [True] * 2


def test_of_too_many_throttled_connections_the_next_goes_early(accepting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor_module, "MAX_DELAYED_CLOSES", 2)
    here = accepting([99])
    here.quotas.set_ip_rate(None, 0)
    here.connect(3)
    assert [is_closed(client) for client in here.clients] == [True, False, False]


def test_closing_gives_back_what_waits(accepting: Any) -> None:
    here = accepting([0])
    here.connect(1)
    assert here.quotas.total == 1
    here.acceptor.close()
    assert here.quotas.total == 0
    assert is_closed(here.clients[0])


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENETDOWN, errno.EIO], ids=errno.errorcode.get)
def test_no_refusal_of_the_system_ends_accepting(accepting: Any, number: int) -> None:
    here = accepting([9])
    real = here.acceptor._socket

    class Refusing:
        def accept(self) -> None:
            raise OSError(number, "refused")

    here.acceptor._socket = Refusing()
    here.acceptor.doRead()
    here.acceptor._socket = real
    assert not here.is_accepting
    here.advance_ms(PAUSE_S * 1000)
    here.connect(1)
    assert here.accepted == [1]


def test_connections_of_throttled_addresses_go_first_when_descriptors_are_short(accepting: Any) -> None:
    here = accepting([9])
    here.quotas.set_ip_rate(None, 0)
    here.connect(3)
    assert not any(map(is_closed, here.clients))
    here.acceptor._pause(OSError(errno.EMFILE, "Too many open files"))
    assert all(map(is_closed, here.clients))


def test_a_connection_that_cannot_be_handed_on_is_closed_and_the_next_is_served(
    accepting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = accepting([9])

    def fail(*_: object) -> bool:
        raise RuntimeError("broken")

    with monkeypatch.context() as broken:
        broken.setattr(here.processors[0], "accept", fail)
        here.connect(1)
    assert is_closed(here.clients[0])
    assert here.quotas.total == 0
    here.connect(1)
    assert here.accepted == [1]
    # The same for one that had to wait.
    here.processors[0].room = 0
    here.connect(1)
    with monkeypatch.context() as broken:
        broken.setattr(here.processors[0], "accept", fail)
        here.advance_ms(RETRY_S * 1000)
    assert is_closed(here.clients[2])
    here.processors[0].room = 9
    here.connect(1)
    assert here.accepted == [2]
    assert here.quotas.total == 2


@pytest.mark.medium
def test_it_goes_on_with_another_reactor_of_its_network_thread(accepting: Any) -> None:
    one = accepting([0])
    one.reactor = ReadersReactor()
    one.acceptor.attach(one.reactor)
    assert one.is_accepting, "it serves already"
    one.connect(2)
    assert not one.is_accepting, "there is no room at the processor"
    one.reactor = ReadersReactor()
    one.processors[0].room = 5
    one.acceptor.attach(one.reactor)
    assert one.accepted == [1], "what waited goes on, whatever the reactor that was lost would have told it"
    assert one.is_accepting
    one.acceptor.doRead()
    assert one.accepted == [2]


def test_it_is_closed_by_its_network_thread_if_that_answers(accepting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = accepting([1]), accepting([1])
    port = one.acceptor.port
    reactor = ReadersReactor()
    one.acceptor.attach(reactor)
    reactor.callFromThread = lambda function, *args: function(*args)
    with capturedLogs() as logs:
        one.acceptor.close()
        assert one.acceptor not in reactor.readers
        socket.create_server(("127.0.0.1", port)).close()
        assert not logs
        monkeypatch.setattr(acceptor_module, "CLOSE_S", 0.01)
        port = other.acceptor.port
        other.acceptor.attach(ReadersReactor())  # on which nothing runs any more
        other.acceptor.close()
        socket.create_server(("127.0.0.1", port)).close()
        assert "does not respond" in str(formatEvent(logs[0]))
    reactor = ReadersReactor()
    other.acceptor.attach(reactor)
    assert other.acceptor not in reactor.readers, "a thread that begins anew meanwhile leaves it closed"


def test_rejections_do_not_flood_the_log(accepting: Any) -> None:
    here = accepting([9], {"max.connections.per.ip": "1"})
    with capturedLogs() as lines:
        here.connect(1 + LINES + 5)
        here.clock.advance_ms(INTERVAL_NS // 1_000_000)
        here.connect(1)
    told = [str(formatEvent(line)) for line in lines if "Rejected" in str(line.get("log_format"))]
    assert len(told) == LINES + 1
    assert told[-1].endswith("(5 similar lines were suppressed before this one)")


def lines_about(logs: Sequence[Any], text: str) -> int:
    return sum(text in str(formatEvent(each)) for each in logs)


class Refusing:
    """A listening socket whose accept() fails with each of the errors in turn; None: the real one's."""

    def __init__(self, real: socket.socket, errors: list[int | None]) -> None:
        self.real = real
        self.errors = errors

    def accept(self) -> Any:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise OSError(error, "refused")
        return self.real.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def test_a_shortage_is_logged_once_until_it_is_over(accepting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = accepting([9])
    errors: list[int | None] = [errno.EMFILE, errno.EMFILE]
    monkeypatch.setattr(here.acceptor, "_socket", Refusing(here.acceptor._socket, errors))
    with capturedLogs() as logs:
        here.connect(1)
        assert not here.is_accepting
        here.advance_ms(PAUSE_S * 1000 - 1)
        assert not here.is_accepting
        here.advance_ms(1)
        assert not here.is_accepting, "it has tried again"
        assert errors == []
        assert lines_about(logs, "cannot accept connections for now") == 1
        here.advance_ms(PAUSE_S * 1000)
        assert here.accepted == [1]
        errors.append(errno.EMFILE)
        here.connect(1)
        assert lines_about(logs, "cannot accept connections for now") == 2


@pytest.mark.parametrize("number", [errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR], ids=errno.errorcode.get)
def test_a_connection_that_is_gone_already_is_passed_over(accepting: Any, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    here = accepting([9])
    monkeypatch.setattr(here.acceptor, "_socket", Refusing(here.acceptor._socket, [number, None, number]))
    here.connect(2)
    assert here.accepted == [2]
    assert here.is_accepting


def test_socket_buffers_are_as_configured_or_the_system_s(accepting: Any) -> None:
    sizes = []
    for options in (SocketOptions(), SocketOptions(5, 20_000, 30_000), SocketOptions(5, 0, 0), SocketOptions(5, 1, 1)):
        here = accepting([9], options=options)
        here.connect(1)
        (connected,) = here.processors[0].accepted
        sizes.append([connected.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_SNDBUF, socket.SO_RCVBUF)])
    assert sizes[1] == [40_000, 60_000]  # Linux doubles what it is told
    assert sizes[0] == sizes[2]
    assert sizes[0] != sizes[1]
    assert all(least < default for least, default in zip(sizes[3], sizes[0], strict=True))


def test_an_address_that_cannot_be_bound_is_one_clear_line(accepting: Any) -> None:
    here = accepting([9])
    for host, port in (("127.0.0.1", here.acceptor.port), ("nowhere.invalid", 0), ("192.0.2.1", 0)):
        with pytest.raises(BindError, match=rf"failed to bind to {host}:{port}: ") as caught:
            Acceptor(EndPoint(host, port, "L", "PLAINTEXT"), here.reactor, SocketOptions(), here.clock, here.blocked, here.quotas)
        assert "\n" not in str(caught.value)


def test_a_listener_without_a_host_takes_all_addresses(accepting: Any) -> None:
    here = accepting([9], host="")
    here.connect(1)
    assert here.accepted == [1]
    assert here.acceptor._socket.getsockname()[0] in ("0.0.0.0", "::")


def test_a_listener_without_a_host_prefers_ipv4(accepting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo

    def both(*args: Any, **options: Any) -> list[Any]:
        found = [info for info in look_up(*args, **options) if info[0] == socket.AF_INET]
        return [(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("::", 0, 0, 0)), *found]

    monkeypatch.setattr(machine, "getaddrinfo", both)
    assert accepting([9], host="").acceptor._socket.family == socket.AF_INET


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_an_address_is_the_same_on_a_listener_of_both_families(accepting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bind = socket.socket.bind

    def bind_both(listening: socket.socket, address: Any) -> None:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bind(listening, address)

    monkeypatch.setattr(socket.socket, "bind", bind_both)
    here = accepting([9], host="::")
    here.connect(1)
    assert here.accepted == [1]
    assert here.quotas.count("127.0.0.1") == 1
    assert here.processors[0].peers[0][:2] == here.clients[0].getsockname()


def test_starting_and_closing_twice_is_once(accepting: Any) -> None:
    here = accepting([9])
    here.acceptor.start()
    here.connect(1)
    here.acceptor.close()
    here.acceptor.close()
    assert not here.is_accepting
    here.acceptor.start()
    assert not here.is_accepting, "it is closed"
    assert here.acceptor.disconnected


def test_nothing_is_left_of_a_closed_acceptor(accepting: Any) -> None:
    here = accepting([0])
    here.quotas.set_ip_rate("10.0.0.1", 0)
    here.connect(1)
    assert len(here.reactor.getDelayedCalls()) == 1
    for _ in range(3):
        here.acceptor.retry_connection()
        here.advance_ms(1)
    assert len(here.reactor.getDelayedCalls()) == 1, "one timer, however often it is retried"
    here.acceptor.close()
    assert here.reactor.getDelayedCalls() == []
    assert here.quotas.total == 0
    here.acceptor.retry_connection()
    here.advance_ms(RETRY_S * 1000)
    assert not here.is_accepting


def test_an_acceptor_that_is_closed_in_a_pause_stays_closed(accepting: Any) -> None:
    here = accepting([9])
    here.acceptor._pause(OSError(errno.EMFILE, "Too many open files"))
    here.acceptor.close()
    here.reactor.advance(PAUSE_S)
    assert not here.is_accepting


def test_throttled_connections_are_closed_with_the_acceptor(accepting: Any) -> None:
    here = accepting([9])
    here.quotas.set_ip_rate(None, 0)
    here.connect(2)
    assert not any(map(is_closed, here.clients))
    here.acceptor.close()
    assert all(map(is_closed, here.clients))


def test_throttled_connections_are_closed_when_the_rate_allows_one(accepting: Any) -> None:
    here = accepting([99])
    here.quotas.set_ip_rate("127.0.0.1", 1)
    here.connect(11)
    here.advance_ms(500)
    here.connect(1)
    assert not any(map(is_closed, here.clients))
    here.advance_ms(499)
    assert not any(map(is_closed, here.clients))
    here.advance_ms(1)
    assert [is_closed(client) for client in here.clients] == [False] * 10 + [True, True]
    assert here.accepted == [10]


def test_on_a_network_thread_it_starts_there(accepting: Any) -> None:
    here = accepting([9])
    reactor = ReadersReactor()
    other = Acceptor(EndPoint("127.0.0.1", 0, "L", "PLAINTEXT"), reactor, SocketOptions(), here.clock, here.blocked, here.quotas)
    there = ReadersReactor()
    other.attach(there)
    assert other not in there.readers, "it has not been started"
    other.start()
    assert other not in there.readers
    there.run_asked()
    assert other in there.readers
    assert other not in reactor.readers
    other.connectionLost(None)
    assert other not in there.readers
    assert other.disconnected


def test_a_connection_that_cannot_be_configured_is_closed_with_a_line_and_the_next_is_served(
    accepting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = accepting([9])
    monkeypatch.setattr(acceptor_module, "OPTIONS_ARE_INHERITED", False)
    configure = here.acceptor._configure
    failures = [OSError(errno.EINVAL, "gone")]

    def configure_or_fail(connected: socket.socket) -> None:
        if failures:
            raise failures.pop()
        configure(connected)

    monkeypatch.setattr(here.acceptor, "_configure", configure_or_fail)
    here.reactor.removeReader(here.acceptor)
    here.connect(2)
    here.reactor.addReader(here.acceptor)
    with capturedLogs() as logs:
        here.acceptor.doRead()
    assert lines_about(logs, "Rejected connection from 127.0.0.1: [Errno 22] gone") == 1
    assert here.accepted == [1]
    assert [is_closed(client) for client in here.clients] == [True, False]


def test_an_address_that_cannot_be_bound_leaves_no_descriptor(accepting: Any) -> None:
    here = accepting([9])
    end_point = EndPoint("127.0.0.1", here.acceptor.port, "L", "PLAINTEXT")
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(BindError) as caught:
        Acceptor(end_point, here.reactor, SocketOptions(), here.clock, here.blocked, here.quotas)
    assert set(os.listdir("/proc/self/fd")) <= before, "although the error keeps the socket"
    assert caught.value.__traceback__ is not None


def test_each_throttled_connection_is_closed_at_its_own_time(accepting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = accepting([9])
    times_ms = [300, 100, 200]

    def throttle(listener_name: str, address: str) -> None:
        raise ConnectionThrottledError(address, times_ms.pop(0))

    monkeypatch.setattr(here.quotas, "inc", throttle)
    here.connect(3)
    for closed in ([False, True, False], [False, True, True], [True, True, True]):
        here.advance_ms(99)
        assert [is_closed(client) for client in here.clients] != closed
        here.advance_ms(1)
        assert [is_closed(client) for client in here.clients] == closed
