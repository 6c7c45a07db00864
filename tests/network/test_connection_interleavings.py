"""Thousands of orders in which connections come, wait, are taken over and go: none is lost, and every count returns to zero."""

import random
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.budget import share_of
from tests.support.eventually import WAIT_S
from tests.support.network_fakes import ReadersReactor, is_closed
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.accepting.acceptor import Acceptor, SocketOptions
from twisted_kafka.network.accepting.connection_quotas import ConnectionQuotas
from twisted_kafka.timing.clock import ManualClock

SEEDS = share_of(150)
STEPS = 80
ROOM = 2
LISTENERS = ("INSIDE", "OUTSIDE")
PROPERTIES = {
    "broker.id": "1",
    "listeners": "INSIDE://:1,OUTSIDE://:2",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}


class Processor:
    """Has room for a few new connections until it is told to take them over, and closes excess ones as the real one does."""

    def __init__(self, listener: str, quotas: ConnectionQuotas) -> None:
        self._listener = listener
        self._quotas = quotas
        self._new: list[socket.socket] = []
        self._blocked: list[Callable[[], object]] = []
        self.open: list[socket.socket] = []
        self.served = 0
        self.must_check = False

    def accept(self, connected: socket.socket, peer: Any, retry: Callable[[], object] | None = None) -> bool:
        if len(self._new) >= ROOM:
            assert retry is not None
            self._blocked.append(retry)
            return False
        self._new.append(connected)
        return True

    def check_connections(self) -> None:
        self.must_check = True

    def turn(self) -> None:
        self.served += len(self._new)
        self.open += self._new
        self._new = []
        blocked, self._blocked = self._blocked, []
        for retry in blocked:
            retry()
        while self.must_check and self.open and self._quotas.claim_excess(self._listener):
            self.close_one()
        self.must_check = False

    def close_one(self) -> None:
        self.open.pop(0).close()
        self._quotas.dec(self._listener, "127.0.0.1")


class World:
    """Two listeners with two processors each, and clients."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.reactor = ReadersReactor()
        self.config = KafkaConfig(PROPERTIES)
        self.quotas = ConnectionQuotas(self.config, self.clock, MetricsRegistry(self.clock))
        self.acceptors: dict[str, Acceptor] = {}
        self.processors: list[Processor] = []
        for name in LISTENERS:
            self.quotas.add_listener(self.config, name)
            end_point = EndPoint("127.0.0.1", 0, name, "PLAINTEXT")
            acceptor = Acceptor(end_point, self.reactor, SocketOptions(), self.clock, Meter(self.clock), self.quotas)
            processors = [Processor(name, self.quotas) for _ in range(2)]
            for processor in processors:
                self.quotas.add_check(name, processor.check_connections)
            acceptor.processors = processors  # type: ignore[assignment]
            self.processors += processors
            self.acceptors[name] = acceptor
            acceptor.start()
        self.clients: list[socket.socket] = []
        self.may_refuse = False

    def connect(self) -> None:
        acceptor = self.acceptors[self.random.choice(LISTENERS)]
        self.clients.append(socket.create_connection(("127.0.0.1", acceptor.port), timeout=WAIT_S))

    def accept(self) -> None:
        acceptor = self.acceptors[self.random.choice(LISTENERS)]
        if acceptor in self.reactor.readers:
            acceptor.doRead()

    def turn(self) -> None:
        self.random.choice(self.processors).turn()

    def close(self) -> None:
        processor = self.random.choice(self.processors)
        if processor.open:
            processor.close_one()

    def pass_time(self) -> None:
        ms = self.random.choice((1, 100, 1_000))
        self.clock.advance_ms(ms)
        self.reactor.advance(ms / 1000)

    def hear(self) -> None:
        self.reactor.run_asked()

    def change_limits(self) -> None:
        keys = {
            "max.connections": self.random.choice(("1", "3", "100")),
            "max.connection.creation.rate": self.random.choice(("1", "1000000")),
            "listener.name.outside.max.connections": self.random.choice(("1", "100")),
        }
        self.quotas.configure(self.config.updated(keys))

    def change_rate(self) -> None:
        self.may_refuse = True
        self.quotas.set_ip_rate("127.0.0.1", self.random.choice((None, 1, 5)))

    def settle(self) -> None:
        """Take the limits away and let all that waits go on."""
        self.quotas.configure(self.config)
        self.quotas.set_ip_rate("127.0.0.1", None)
        for _ in range(6):
            for acceptor in self.acceptors.values():
                if acceptor in self.reactor.readers:
                    acceptor.doRead()
            for processor in self.processors:
                processor.turn()
            self.reactor.run_asked()
            self.clock.advance_ms(1_000)
            self.reactor.advance(1)

    def end(self) -> None:
        for acceptor in self.acceptors.values():
            acceptor.close()
        for processor in self.processors:
            while processor.open:
                processor.close_one()
        for client in self.clients:
            client.close()


@pytest.mark.parametrize("with_rates", [False, True])
def test_no_connection_is_lost_and_every_count_returns_to_zero(with_rates: bool) -> None:
    for seed in range(SEEDS):
        world = World(seed)
        steps = [world.connect, world.accept, world.accept, world.turn, world.turn, world.close, world.pass_time, world.hear]
        steps += [world.change_limits] + ([world.change_rate] if with_rates else [])
        try:
            for _ in range(STEPS):
                world.random.choice(steps)()
                assert world.quotas.total >= sum(len(processor.open) for processor in world.processors), seed
            world.settle()
            served = sum(processor.served for processor in world.processors)
            if world.may_refuse:
                assert served + sum(map(is_closed, world.clients)) >= len(world.clients), seed
            else:
                assert served == len(world.clients), seed
            assert all(acceptor in world.reactor.readers for acceptor in world.acceptors.values()), seed
        finally:
            world.end()
        assert world.quotas.total == 0, seed
