"""The TLS handshakes under way on one processor, bounded in time and number; and what became of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.network.tls.ciphers import java_cipher_name

if TYPE_CHECKING:
    from twisted_kafka.network.tls.tls_transport import TlsTransport

_GROUP: Final = "socket-server-metrics"

ToPrincipal = Callable[[str], str]
"""Makes a principal, ``User:name``, of a certificate's distinguished name; raises ValueError when none fits."""

_log = Logger()


class HandshakeLimits(NamedTuple):
    """Keys ``ssl.handshake.timeout.ms`` and ``ssl.handshake.max.pending``."""

    timeout_s: float
    max_pending: int


class Handshakes:
    """Belongs to one processor's thread."""

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
        self._timer_runs = False
        self._metrics = metrics
        self._tags = tags
        self._limit = LogRateLimit(metrics.clock.monotonic_ns)
        self._connections: dict[tuple[str, str], int] = {}

    @property
    def pending(self) -> int:
        """How many are under way."""
        return len(self._pending)

    def begin(self, transport: "TlsTransport") -> None:
        """Note a new one; when there are too many, the one that has taken longest is given up.

        So a flood of connections that say nothing costs itself, not the clients that come meanwhile.
        """
        if len(self._pending) >= self.limits.max_pending:
            oldest = next(iter(self._pending))
            oldest.give_up(f"{self.limits.max_pending} other handshakes were begun after it (ssl.handshake.max.pending)")
        self._pending[transport] = self.reactor.seconds() + self.limits.timeout_s
        if not self._timer_runs:
            self._timer_runs = True
            self.reactor.callLater(self.limits.timeout_s, self._expire)

    def forget(self, transport: "TlsTransport") -> None:
        """Note that one is over, or that its connection is."""
        self._pending.pop(transport, None)

    def succeed(self, transport: "TlsTransport", suite: str, protocol: str) -> tuple[str, str]:
        """Note one that ended well; return what to give to ``disconnected`` when the connection ends."""
        self.forget(transport)
        stats = transport.protocol.processor.stats
        stats.successful_authentications += 1
        stats.successful_authentications_no_reauth += 1  # nobody re-authenticates with a certificate
        kind = (java_cipher_name(suite), protocol)
        count = self._connections[kind] = self._connections.get(kind, 0) + 1
        if count == 1:
            self._metrics.gauge(_GROUP, "connections", lambda: self._connections.get(kind, 0), **self._tags_of(kind))
        return kind

    def disconnected(self, kind: tuple[str, str]) -> None:
        """Note the end of a connection whose handshake succeeded."""
        self._connections[kind] -= 1
        if not self._connections[kind]:
            del self._connections[kind]
            self._metrics.remove(_GROUP, "connections", **self._tags_of(kind))

    def _tags_of(self, kind: tuple[str, str]) -> dict[str, object]:
        # Kafka: Selector's CipherInformation, one gauge for each pair that is in use.
        return {"cipher": kind[0], "protocol": kind[1], **self._tags}

    def fail(self, transport: "TlsTransport", why: str) -> None:
        """Note one that failed, in a line of the log unless there are too many."""
        self.forget(transport)
        if self._limit.allow():
            _log.info(
                "Failed authentication with {id} of {listener} (SSL handshake failed: {why}){more}",
                id=transport.protocol.connection_id,
                listener=self._tags["listener"],
                why=why,
                more=self._limit.take_suppressed(),
            )

    def _expire(self) -> None:
        now_s = self.reactor.seconds()
        while self._pending:
            transport, deadline_s = next(iter(self._pending.items()))
            if deadline_s > now_s:
                self.reactor.callLater(deadline_s - now_s, self._expire)
                return
            transport.give_up(f"it took longer than {self.limits.timeout_s:g} s (ssl.handshake.timeout.ms)")
            self.forget(transport)
        self._timer_runs = False
