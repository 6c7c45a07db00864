"""The connections of one processor that have not authenticated yet, limited in time and number."""

from typing import Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.log_rate_limit import LogRateLimit

CHECK_S: Final = 1.0
"""How often connections that have had their time are looked for."""

_log = Logger()


class AuthenticationLimits(NamedTuple):
    """Keys ``sasl.server.authentication.timeout.ms``, ``.max.pending`` and ``sasl.server.max.receive.size``."""

    timeout_s: float
    max_pending: int
    max_receive_bytes: int


class PendingAuthentications:
    """Used on the thread of the processor only. Those that have authenticated or are closed leave it at the next check."""

    def __init__(self, reactor: Any, limits: AuthenticationLimits) -> None:
        self._reactor = reactor
        self._limits = limits
        self._pending: dict[KafkaChannel, float] = {}  # with the end of its time, oldest first
        self._timer_runs = False
        self._limit = LogRateLimit(lambda: int(reactor.seconds() * 1e9))

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, channel: KafkaChannel) -> None:
        """Add a new connection. If there are too many, the oldest one is closed: a flood of silent ones displaces itself."""
        if len(self._pending) >= self._limits.max_pending:
            self._forget_settled()
            if len(self._pending) >= self._limits.max_pending:
                oldest = next(iter(self._pending))
                limit = self._limits.max_pending
                self._give_up(oldest, f"{limit} newer connections authenticate (sasl.server.authentication.max.pending)")
        self._pending[channel] = self._reactor.seconds() + self._limits.timeout_s
        if not self._timer_runs:
            self._timer_runs = True
            self._reactor.callLater(min(CHECK_S, self._limits.timeout_s), self._check)

    def _check(self) -> None:
        now_s = self._reactor.seconds()
        self._forget_settled()
        for channel, deadline_s in list(self._pending.items()):
            if deadline_s > now_s:
                break
            self._give_up(channel, f"it took longer than {self._limits.timeout_s:g} s (sasl.server.authentication.timeout.ms)")
        self._timer_runs = bool(self._pending)
        if self._pending:
            self._reactor.callLater(min(CHECK_S, self._limits.timeout_s), self._check)

    def _forget_settled(self) -> None:
        for channel in [channel for channel in self._pending if not _is_pending(channel)]:
            del self._pending[channel]

    def _give_up(self, channel: KafkaChannel, why: str) -> None:
        del self._pending[channel]
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


def _is_pending(channel: KafkaChannel) -> bool:
    authenticator = channel.connection.authenticator
    return channel.is_open and authenticator is not None and not authenticator.has_been_authenticated
