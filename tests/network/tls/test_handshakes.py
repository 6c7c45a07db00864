"""Handshakes in progress: how many, how long, and what is counted of those that ended."""

from typing import Any

from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from tests.support.fake import Fake
from tests.support.network_fakes import lines_of
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.newcomers import SILENT_S
from twisted_kafka.network.log_rate_limit import LINES
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.tls.handshakes import HandshakeLimits, Handshakes
from twisted_kafka.timing.clock import ManualClock


class Handshaking(Fake):
    def __init__(self, owner: Handshakes) -> None:
        self.owner = owner
        self.why: str | None = None
        self.is_silent = True

    def give_up(self, why: str) -> None:
        self.why = why
        self.owner.forget(self)


class Setup:
    def __init__(self, timeout_s: float = 30, max_pending: int = 3) -> None:
        self.reactor = Clock()
        self.metrics = MetricsRegistry(ManualClock())
        tags: dict[str, object] = {"listener": "L", "networkProcessor": 1}
        limits = HandshakeLimits(timeout_s, max_pending)
        self.handshakes = Handshakes(self.reactor, limits, lambda name, _: KafkaPrincipal.parse(name), self.metrics, tags)

    def begin(self) -> Handshaking:
        one = Handshaking(self.handshakes)
        self.handshakes.begin(one)
        return one

    def connections(self, cipher: str, protocol: str) -> Any:
        tags = {"cipher": cipher, "protocol": protocol, "listener": "L", "networkProcessor": 1}
        return self.metrics.value("socket-server-metrics", "connections", **tags)


def test_of_too_many_those_that_have_sent_nothing_are_given_up() -> None:
    setup = Setup(max_pending=3)
    begun = [setup.begin() for _ in range(5)]
    begun[0].is_silent = False
    setup.reactor.advance(SILENT_S)
    begun += [setup.begin() for _ in range(2)]
    assert setup.handshakes.pending == 3
    assert [bool(one.why) for one in begun] == [False, True, True, True, True, False, False]
    assert "it sent nothing, and 3 others" in str(begun[1].why)


def test_each_has_its_own_time() -> None:
    setup = Setup(timeout_s=10)
    first = setup.begin()
    setup.reactor.advance(4)
    second, ended = setup.begin(), setup.begin()
    setup.handshakes.forget(ended)
    setup.reactor.advance(5.99)
    assert (first.why, second.why) == (None, None)
    setup.reactor.advance(0.01)
    assert "longer than 10 s" in str(first.why)
    assert second.why is None
    setup.reactor.advance(3.99)
    assert second.why is None
    setup.reactor.advance(0.02)
    assert second.why is not None
    assert ended.why is None
    assert setup.handshakes.pending == 0
    assert setup.reactor.getDelayedCalls() == []


def test_one_timer_serves_all() -> None:
    setup = Setup(timeout_s=10)
    begun = [setup.begin() for _ in range(3)]
    assert len(setup.reactor.getDelayedCalls()) == 1
    setup.reactor.advance(10)
    assert all(one.why for one in begun)
    assert setup.reactor.getDelayedCalls() == []
    later = setup.begin()
    setup.reactor.advance(10)
    assert later.why is not None


def test_connections_are_counted_by_cipher_and_protocol() -> None:
    setup = Setup()
    java, openssl = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"
    assert setup.connections(java, "TLSv1.2") is None
    kinds = [setup.handshakes.succeed(setup.begin(), openssl, "TLSv1.2") for _ in range(2)]
    other = setup.handshakes.succeed(setup.begin(), "TLS_AES_128_GCM_SHA256", "TLSv1.3")
    assert setup.handshakes.pending == 0
    assert (setup.connections(java, "TLSv1.2"), setup.connections("TLS_AES_128_GCM_SHA256", "TLSv1.3")) == (2, 1)
    setup.handshakes.disconnected(kinds[0])
    assert setup.connections(java, "TLSv1.2") == 1
    setup.handshakes.disconnected(kinds[1])
    setup.handshakes.disconnected(other)
    assert setup.connections(java, "TLSv1.2") is None
    setup.handshakes.succeed(setup.begin(), openssl, "TLSv1.2")
    assert setup.connections(java, "TLSv1.2") == 1


def test_failures_are_logged_but_not_too_often() -> None:
    setup = Setup(max_pending=1000)

    def fail() -> None:
        for number in range(LINES + 5):
            setup.handshakes.fail(setup.begin(), f"c{number}", "no shared cipher")

    lines = lines_of(fail)
    assert len(lines) == LINES
    assert "Failed authentication with c0 of L (SSL handshake failed: no shared cipher)" in lines[0]
    assert setup.handshakes.pending == 0


def test_one_that_is_given_up_is_forgotten_whatever_it_does() -> None:
    class Stubborn(Handshaking):
        def give_up(self, why: str) -> None:
            assert self.why is None, "it is given up once"
            self.why = why

    setup = Setup(timeout_s=10)
    one = Stubborn(setup.handshakes)
    setup.handshakes.begin(one)
    setup.reactor.advance(10)
    assert one.why is not None
    assert setup.handshakes.pending == 0


def test_one_that_cannot_be_given_up_does_not_keep_others() -> None:
    class Broken(Handshaking):
        def give_up(self, why: str) -> None:
            raise ValueError("broken")

    setup = Setup(timeout_s=10)
    other = Handshaking(setup.handshakes)
    setup.handshakes.begin(Broken(setup.handshakes))
    setup.handshakes.begin(other)
    with capturedLogs() as events:
        setup.reactor.advance(11)
    assert other.why is not None
    assert setup.handshakes.pending == 0
    assert [formatEvent(event) for event in events] == ["Uncaught exception in the end of a handshake"]
