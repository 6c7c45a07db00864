"""Connections that do not authenticate are closed: after a time, and when there are too many."""

from typing import Any

from tests.network.network_fakes import FakeTransport, Layer
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.pending_authentications import AuthenticationLimits, PendingAuthentications


class Authentication:
    """As much of an authenticator as is looked at."""

    has_been_authenticated = False
    is_authenticated = False


class Pending:
    def __init__(self, max_pending: int = 3) -> None:
        self.layer = Layer()
        self.pending = PendingAuthentications(self.layer.reactor, AuthenticationLimits(5.0, max_pending, 1000))

    def connect(self) -> tuple[KafkaChannel, FakeTransport]:
        channel, transport = self.layer.connect()
        authentication: Any = Authentication()
        channel.authenticate_with(authentication, 1000)
        self.pending.begin(channel)
        return channel, transport


def test_one_that_takes_too_long_is_closed_and_others_are_not() -> None:
    pending = Pending()
    _, slow = pending.connect()
    quick, _ = pending.connect()
    quick.connection.authenticator.has_been_authenticated = True  # type: ignore[misc]
    pending.layer.advance_ms(3_000)
    _, late = pending.connect()
    pending.layer.advance_ms(1_999)
    assert not slow.is_closed
    pending.layer.advance_ms(1_001)
    assert slow.is_closed
    assert not late.is_closed
    assert quick.is_open
    assert pending.layer.processor.stats.failed_authentications == 1
    pending.layer.advance_ms(10_000)
    assert late.is_closed
    assert len(pending.pending) == 0


def test_too_many_close_the_oldest_unless_others_are_settled() -> None:
    pending = Pending()
    first, second, third = (pending.connect() for _ in range(3))
    second[0].close()
    fourth = pending.connect()
    assert not first[1].is_closed
    fifth = pending.connect()
    assert first[1].is_closed
    assert not any(each[1].is_closed for each in (third, fourth, fifth))
    assert len(pending.pending) == 3
