"""Connections that wait for their channels."""

from typing import Any

import pytest

from tests.support.fake import Fake
from tests.support.network_fakes import FakeReactor, Layer, lines_of
from twisted_kafka.network.accepting.interfaces import NEW_CONNECTIONS, NoQuotas
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.loop.new_connections import NewConnections
from twisted_kafka.network.loop.processor_settings import ProcessorSettings
from twisted_kafka.network.requests.request_context import ConnectionInfo

LOCAL, PEER = ("10.0.0.1", 9092), ("10.0.0.2", 5000)


class Socket:
    """A connected socket; one that is lost has no address any more."""

    def __init__(self, *, is_lost: bool = False) -> None:
        self.is_lost = is_lost
        self.is_closed = False

    def getsockname(self) -> Any:
        if self.is_lost:
            raise OSError("gone")
        return LOCAL

    def close(self) -> None:
        self.is_closed = True


class Blocked(Fake):
    def __init__(self) -> None:
        self.told = 0

    def __call__(self) -> None:
        self.told += 1


class Quotas(NoQuotas):
    def __init__(self) -> None:
        self.given_back: list[tuple[str, str]] = []

    def dec(self, listener_name: str, address: str) -> None:
        self.given_back.append((listener_name, address))


class Setup:
    def __init__(self) -> None:
        self.layer = Layer()
        self.settings = ProcessorSettings("L", "PLAINTEXT", 1000, 0)
        self.settings.is_privileged = True
        self.quotas = self.settings.quotas = Quotas()
        self.settings.channel_builder = self  # type: ignore[assignment]
        self.new: Any = NewConnections(self.settings, 3, FakeReactor())

    def for_processor(self, number: int, reactor: object) -> Any:
        assert number == 3
        return lambda connected, channel: connected

    def make(self) -> list[Any]:
        def make(info: ConnectionInfo) -> KafkaChannel:
            return KafkaChannel(info, self.layer.processor, 1000)

        return [channel.transport for channel in self.new.make_channels(make)]


def test_a_connection_is_named_by_its_addresses_and_a_number() -> None:
    new = Setup().new
    infos = [new.describe(LOCAL, PEER) for _ in range(2)]
    assert [info.connection_id for info in infos] == [f"10.0.0.1:9092-10.0.0.2:5000-{number}" for number in range(2)]
    info = infos[0]
    assert (info.listener_name, info.security_protocol, info.client_address) == ("L", "PLAINTEXT", "10.0.0.2")
    assert info.is_privileged_listener
    new._index = 2**31 - 1
    assert [new.describe(LOCAL, PEER).connection_id.rpartition("-")[2] for _ in range(2)] == [str(2**31 - 1), "0"]


def test_a_connection_that_is_lost_is_given_back_and_the_others_are_set_up() -> None:
    setup = Setup()
    sockets = [Socket(), Socket(is_lost=True), Socket()]
    for each in sockets:
        assert setup.new.put(each, PEER, None)
    made: list[Any] = []
    lines = lines_of(lambda: made.extend(setup.make()))
    assert made == [sockets[0], sockets[2]]
    assert lines == ["A connection from ('10.0.0.2', 5000) was lost during its setup: gone"]
    assert [each.is_closed for each in sockets] == [False, True, False]
    assert setup.quotas.given_back == [("L", "10.0.0.2")]
    assert setup.make() == []


@pytest.mark.parametrize("is_told", [True, False])
def test_so_many_wait_and_whoever_finds_no_room_is_told_once(is_told: bool) -> None:
    setup = Setup()
    blocked = Blocked()
    for _ in range(NEW_CONNECTIONS):
        assert setup.new.put(Socket(), PEER, blocked)
    assert not setup.new.put(Socket(), PEER, blocked if is_told else None)
    assert len(setup.make()) == NEW_CONNECTIONS
    for _ in range(2):
        setup.new.retry_blocked_acceptors()
    assert blocked.told == is_told
    assert setup.new.put(Socket(), PEER, blocked)


def test_one_turn_sets_up_no_more_than_there_may_be() -> None:
    setup = Setup()
    for _ in range(NEW_CONNECTIONS + 1):
        setup.new.waiting.append((Socket(), PEER))
    assert [len(setup.make()) for _ in range(3)] == [NEW_CONNECTIONS, 1, 0]
