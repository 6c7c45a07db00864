"""Connections that do not authenticate are closed: after a time, and when there are too many."""

from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.support.network_fakes import FakeTransport, Layer
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.newcomers import SILENT_S
from twisted_kafka.network.connection.pending_authentications import AuthenticationLimits, PendingAuthentications


class Authentication:
    """As much of an authenticator as is looked at."""

    has_been_authenticated = False
    is_authenticated = False


class Pending:
    def __init__(self, max_pending: int = 3, timeout_s: float = 5.0) -> None:
        self.layer = Layer()
        self.pending = PendingAuthentications(self.layer.reactor, AuthenticationLimits(timeout_s, max_pending, 1000))

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


def test_too_many_close_those_that_have_sent_nothing() -> None:
    pending = Pending(timeout_s=60)
    begun = [pending.connect() for _ in range(5)]
    begun[1][0].dataReceived(b"\0")
    begun[2][1].has_arrived = True
    begun[3][0].close()
    pending.layer.reactor.advance(SILENT_S)
    assert not begun[0][1].is_closed
    late = [pending.connect() for _ in range(2)]
    assert [transport.is_closed for _, transport in begun] == [True, False, False, True, True]
    assert not any(transport.is_closed for _, transport in late)
    assert pending.layer.processor.stats.failed_authentications == 2


def test_a_storm_of_clients_that_send_something_closes_none_of_them() -> None:
    pending = Pending(timeout_s=60)
    for _ in range(50):
        channel, transport = pending.connect()
        channel.dataReceived(b"\0\0")
        pending.layer.reactor.advance(SILENT_S / 20)
        assert not transport.is_closed
    assert pending.layer.processor.stats.failed_authentications == 0


def test_one_that_cannot_be_closed_does_not_keep_others_open(monkeypatch: pytest.MonkeyPatch) -> None:
    pending = Pending()
    channel, _ = pending.connect()
    pending.layer.advance_ms(100)
    _, other = pending.connect()

    def close(self: KafkaChannel) -> None:
        if self is channel:
            raise ValueError("broken")
        genuine(self)

    genuine = KafkaChannel.close
    monkeypatch.setattr(KafkaChannel, "close", close)
    with capturedLogs() as events:
        for _ in range(10):
            pending.layer.advance_ms(1_000)
    assert other.is_closed
    assert "Uncaught exception in the check of authentications" in [formatEvent(event) for event in events]
