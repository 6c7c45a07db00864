"""TCP in memory: order, windows, partitions, refusals and resets."""

import errno
import socket

import pytest

from twisted_kafka.world.machine.network import FIRST_PORT, READ, WINDOW_BYTES, WRITE, Host, Network, Socket
from twisted_kafka.world.machine.scheduler import Owner, Scheduler


class Pair:
    """Two hosts, and a connection from the first to the second."""

    def __init__(self) -> None:
        self.scheduler = scheduler = Scheduler(3)
        self.network = network = Network(scheduler, 3, lambda who, what: None)
        self.client_owner, self.server_owner = Owner("client"), Owner("server")
        self.client_owner.host = network.add_host("client", "10.0.0.1")
        self.server_owner.host = network.add_host("server", "10.0.0.2")
        self.listening = Socket(network, self.server_owner)
        self.listening.bind(("0.0.0.0", 9092))
        self.listening.listen()
        self.client = Socket(network, self.client_owner)
        self.server: Socket | None = None

    @property
    def hosts(self) -> tuple[Host, Host]:
        return self.client_owner.host, self.server_owner.host

    def run(self, seconds: float = 1.0) -> None:
        self.scheduler.run(self.scheduler.now_ns + int(seconds * 1e9))

    def connect(self) -> Socket:
        assert self.client.connect_ex(("10.0.0.2", 9092)) == errno.EINPROGRESS
        self.run()
        self.server, peer = self.listening.accept()
        assert peer == self.client.getsockname()
        return self.server


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_bytes_arrive_in_order_later(pair: Pair) -> None:
    server = pair.connect()
    for number in range(50):
        assert pair.client.send(bytes([number]) * 10) == 10
    with pytest.raises(BlockingIOError):
        server.recv(1)
    pair.run()
    assert server.recv(1000, socket.MSG_PEEK) == server.recv(1000) == b"".join(bytes([number]) * 10 for number in range(50))


def test_a_full_window_stops_the_sender_until_the_other_end_reads(pair: Pair) -> None:
    server = pair.connect()
    assert pair.client.send(bytes(WINDOW_BYTES + 1)) == WINDOW_BYTES
    with pytest.raises(BlockingIOError):
        pair.client.send(b"x")
    pair.run()
    assert not pair.client.readiness() & WRITE
    assert len(server.recv(100)) == 100
    assert pair.client.readiness() & WRITE
    assert pair.client.send(bytes(200)) == 100


def test_a_closed_connection_ends_after_its_bytes(pair: Pair) -> None:
    server = pair.connect()
    pair.client.send(b"last")
    pair.client.close()
    pair.run()
    assert (server.recv(10), server.recv(10)) == (b"last", b"")
    server.send(b"too late")
    pair.run()
    with pytest.raises(ConnectionResetError):
        server.recv(10)


def test_unread_bytes_make_a_close_a_reset(pair: Pair) -> None:
    server = pair.connect()
    server.send(b"unread")
    pair.run()
    pair.client.close()
    pair.run()
    with pytest.raises(ConnectionResetError):
        server.recv(10)


def test_a_partition_delays_and_a_long_one_ends_the_connection(pair: Pair) -> None:
    server = pair.connect()
    pair.network.cut(*pair.hosts)
    pair.client.send(b"first")
    server.send(b"the other way")
    pair.run(5)
    assert pair.client.recv(100) == b"the other way"
    with pytest.raises(BlockingIOError):
        server.recv(100)
    pair.client.send(b" second")
    pair.network.mend(*pair.hosts)
    pair.run()
    assert server.recv(100) == b"first second"
    pair.network.cut(*pair.hosts)
    pair.client.send(b"never")
    pair.run(1000)
    with pytest.raises(TimeoutError):
        pair.client.recv(1)


def test_only_a_partition_that_lasts_ends_the_connection(pair: Pair) -> None:
    server = pair.connect()
    for data in (b"first", b"second"):
        pair.network.cut(*pair.hosts)
        pair.client.send(data)
        pair.run(800)
        pair.network.mend(*pair.hosts)
        pair.run()
        assert server.recv(100) == data


def test_a_port_is_one_that_exists(pair: Pair) -> None:
    pair.client_owner.host.next_port = 0xFFFF
    Socket(pair.network, pair.client_owner).connect_ex(("10.0.0.2", 9092))
    listening = Socket(pair.network, pair.client_owner)
    listening.bind(("0.0.0.0", FIRST_PORT + 2))
    listening.listen()
    found = [Socket(pair.network, pair.client_owner) for _ in range(3)]
    for each in found:
        each.connect_ex(("10.0.0.2", 9092))
    assert [each.getsockname()[1] - FIRST_PORT for each in found] == [1, 3, 4]


def test_a_connection_attempt_reaches_the_process_that_listens_after_a_power_failure(pair: Pair) -> None:
    here, there = pair.hosts
    pair.network.cut(there, here)
    pair.client.connect_ex(("10.0.0.2", 9092))
    pair.run(0.5)
    there.is_up = False
    pair.network.process_gone(pair.server_owner, silently=True)
    pair.network.power_on(there)
    pair.network.mend(there, here)
    again = Owner("server again")
    again.host = there
    listening = Socket(pair.network, again)
    listening.bind(("0.0.0.0", 9092))
    listening.listen()
    pair.run(5)
    assert pair.client.readiness() == WRITE
    assert listening.accept()[1] == pair.client.getsockname()


def test_a_connection_attempt_is_refused_or_times_out_or_arrives_late(pair: Pair) -> None:
    refused = Socket(pair.network, pair.client_owner)
    refused.connect_ex(("10.0.0.2", 1))
    late = Socket(pair.network, pair.client_owner)
    pair.run()
    assert refused.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    pair.network.cut(*pair.hosts)
    late.connect_ex(("10.0.0.2", 9092))
    pair.client.connect_ex(("10.0.0.2", 9092))
    pair.run(2)
    pair.network.mend(*pair.hosts)
    pair.run(3)
    assert late.readiness() & WRITE
    assert pair.listening.readiness() & READ
    pair.network.cut(*pair.hosts)
    never = Socket(pair.network, pair.client_owner)
    never.connect_ex(("10.0.0.2", 9092))
    pair.run(200)
    assert never.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ETIMEDOUT


def test_a_killed_process_answers_with_an_end_and_a_host_without_power_not_at_all(pair: Pair) -> None:
    server = pair.connect()
    pair.server_owner.host.is_up = False
    pair.network.process_gone(pair.server_owner, silently=True)
    pair.client.send(b"hello?")
    pair.run(10)
    assert pair.client.readiness() == WRITE
    pair.network.power_on(pair.server_owner.host)
    pair.run(10)
    assert server.owner is pair.server_owner
    with pytest.raises(ConnectionResetError):
        pair.client.recv(1)


def test_names_are_those_of_the_world(pair: Pair) -> None:
    assert pair.network.getaddrinfo("server", 9092)[0][4] == ("10.0.0.2", 9092)
    with pytest.raises(socket.gaierror, match="the world has no host 'google"):
        pair.network.getaddrinfo("google.com", 443)
