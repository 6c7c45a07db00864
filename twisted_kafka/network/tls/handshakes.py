"""The TLS handshakes in progress on one processor, limited in time and number, and the metrics of their outcomes."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.newcomers import Newcomers
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.system.threads import attempt
from twisted_kafka.tls.ciphers import java_cipher_name

if TYPE_CHECKING:
    from twisted_kafka.network.tls.tls_transport import TlsTransport

_GROUP: Final = "socket-server-metrics"

ToPrincipal = Callable[[str, ConnectionInfo], KafkaPrincipal]
"""Maps the distinguished name of a connection's certificate to a principal; raises ValueError if no rule matches."""

_log = Logger()


class HandshakeLimits(NamedTuple):
    """Keys ``ssl.handshake.timeout.ms`` and ``ssl.handshake.max.pending``."""

    timeout_s: float
    max_pending: int


class Handshakes:
    """The handshakes of one processor, used on its thread only."""

    def __init__(
        self,
        reactor: Any,
        limits: HandshakeLimits,
        to_principal: ToPrincipal,
        metrics: MetricsRegistry,
        tags: dict[str, object],
    ) -> None:
        """``tags`` are those of the processor's metrics: its listener and its number."""
        self.limits = limits
        self.to_principal = to_principal
        self.reactor = reactor
        self._pending: dict[TlsTransport, float] = {}
        self._newcomers: Newcomers[TlsTransport] = Newcomers(reactor.seconds, lambda handshake: handshake.is_silent)
        self._timer_runs = False
        self._metrics = metrics
        self._tags = tags
        self._limit = LogRateLimit(metrics.clock.monotonic_ns)
        self._connections: dict[tuple[str, str], int] = {}

    @property
    def pending(self) -> int:
        """How many handshakes are in progress."""
        return len(self._pending)

    def begin(self, handshake: "TlsTransport") -> None:
        """Add a handshake. If there are too many, those whose clients have sent nothing are given up."""
        limit = self.limits.max_pending
        while len(self._pending) >= limit and (silent := self._newcomers.take_silent()) is not None:
            silent.give_up(f"it sent nothing, and {limit} others are in progress (ssl.handshake.max.pending)")
            self.forget(silent)
        self._newcomers.add(handshake)
        self._pending[handshake] = self.reactor.seconds() + self.limits.timeout_s
        if not self._timer_runs:
            self._timer_runs = True
            self.reactor.callLater(self.limits.timeout_s, self._expire)

    def forget(self, handshake: "TlsTransport") -> None:
        """Remove a handshake that has ended, or whose connection is closed."""
        self._pending.pop(handshake, None)
        self._newcomers.forget(handshake)

    def succeed(self, handshake: "TlsTransport", suite: str, protocol: str) -> tuple[str, str]:
        """Record a successful handshake; return the argument for ``disconnected`` when the connection ends."""
        self.forget(handshake)
        kind = (java_cipher_name(suite), protocol)
        count = self._connections[kind] = self._connections.get(kind, 0) + 1
        if count == 1:
            self._metrics.gauge(_GROUP, "connections", lambda: self._connections.get(kind, 0), **self._tags_of(kind))
        return kind

    def disconnected(self, kind: tuple[str, str]) -> None:
        """Record the end of a connection whose handshake succeeded."""
        self._connections[kind] -= 1
        if not self._connections[kind]:
            del self._connections[kind]
            self._metrics.remove(_GROUP, "connections", **self._tags_of(kind))

    def _tags_of(self, kind: tuple[str, str]) -> dict[str, object]:
        # One gauge per cipher and protocol in use (Kafka: Selector's CipherInformation).
        return {"cipher": kind[0], "protocol": kind[1], **self._tags}

    def fail(self, handshake: "TlsTransport", connection_id: str, why: str) -> None:
        """Log a failed handshake. The number of lines is limited."""
        self.forget(handshake)
        if self._limit.allow():
            _log.info(
                "Failed authentication with {id} of {listener} (SSL handshake failed: {why}){more}",
                id=connection_id,
                listener=self._tags["listener"],
                why=why,
                more=self._limit.take_suppressed(),
            )

    def _expire(self) -> None:
        now_s = self.reactor.seconds()
        while self._pending:
            handshake, deadline_s = next(iter(self._pending.items()))
            if deadline_s > now_s:
                self.reactor.callLater(deadline_s - now_s, self._expire)
                return
            self._pending.pop(handshake, None)  # before what may fail
            why = f"it took longer than {self.limits.timeout_s:g} s (ssl.handshake.timeout.ms)"
            attempt(partial(handshake.give_up, why), "the end of a handshake")
            self.forget(handshake)
        self._timer_runs = False
