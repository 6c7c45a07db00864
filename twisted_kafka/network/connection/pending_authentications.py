"""The connections of one processor that have not authenticated yet, limited in time and number."""

from typing import Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.newcomers import Newcomers
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.system.threads import attempt

CHECK_S: Final = 1.0
"""How often the broker looks for connections whose time to authenticate is over."""

_log = Logger()


class AuthenticationLimits(NamedTuple):
    """Keys ``sasl.server.authentication.timeout.ms``, ``.max.pending`` and ``sasl.server.max.receive.size``."""

    timeout_s: float
    max_pending: int
    max_receive_bytes: int


class PendingAuthentications:
    """Used on the processor's thread only. Connections that have authenticated or are closed leave it at the next check."""

    def __init__(self, reactor: Any, limits: AuthenticationLimits) -> None:
        self._reactor = reactor
        self._limits = limits
        self._pending: dict[KafkaChannel, float] = {}  # with the end of its time, oldest first
        self._newcomers: Newcomers[KafkaChannel] = Newcomers(reactor.seconds, _is_silent)
        self._timer_runs = False
        self._limit = LogRateLimit(lambda: int(reactor.seconds() * 1e9))

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, channel: KafkaChannel) -> None:
        """Add a new connection. If there are too many, connections that have sent nothing are closed."""
        limit = self._limits.max_pending
        while len(self._pending) >= limit and (silent := self._newcomers.take_silent()) is not None:
            self._give_up(silent, f"it sent nothing, and {limit} others authenticate (sasl.server.authentication.max.pending)")
        self._newcomers.add(channel)
        self._pending[channel] = self._reactor.seconds() + self._limits.timeout_s
        if not self._timer_runs:
            self._timer_runs = True
            self._reactor.callLater(min(CHECK_S, self._limits.timeout_s), self._check)

    def _check(self) -> None:
        attempt(self._give_up_late, "the check of authentications")
        self._timer_runs = bool(self._pending)
        if self._pending:
            self._reactor.callLater(min(CHECK_S, self._limits.timeout_s), self._check)

    def _give_up_late(self) -> None:
        now_s = self._reactor.seconds()
        self._forget_settled()
        for channel, deadline_s in list(self._pending.items()):
            if deadline_s > now_s:
                break
            self._give_up(channel, f"it took longer than {self._limits.timeout_s:g} s (sasl.server.authentication.timeout.ms)")

    def _forget_settled(self) -> None:
        for channel in [channel for channel in self._pending if not _is_pending(channel)]:
            self._forget(channel)

    def _forget(self, channel: KafkaChannel) -> None:
        self._pending.pop(channel, None)
        self._newcomers.forget(channel)

    def _give_up(self, channel: KafkaChannel, why: str) -> None:
        self._forget(channel)
        channel.stats.failed_authentications += 1
        if self._limit.allow():
            _log.info(
                "Failed authentication with {id} of {listener} ({why}){more}",
                id=channel.connection_id,
                listener=channel.connection.listener_name,
                why=why,
                more=self._limit.take_suppressed(),
            )
        channel.close()


def _is_silent(channel: KafkaChannel) -> bool:
    return channel.is_open and not channel.has_sent and not channel.transport.has_unread()


def _is_pending(channel: KafkaChannel) -> bool:
    authenticator = channel.connection.authenticator
    return channel.is_open and authenticator is not None and not authenticator.has_been_authenticated
