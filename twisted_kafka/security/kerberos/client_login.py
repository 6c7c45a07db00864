"""The login of this broker at other brokers, renewed before its ticket expires. (Kafka: KerberosLogin.)

Kafka renews on a thread of its own. Here the first connection after the time of renewal does.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.security.kerberos.keytab_login import KerberosError
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

_MS: Final = 1_000_000

_log = Logger()


class RenewalSettings(NamedTuple):
    """When a ticket is renewed."""

    window_factor: float
    """``sasl.kerberos.ticket.renew.window.factor``: after this part of its time ..."""
    window_jitter: float
    """``sasl.kerberos.ticket.renew.jitter``: ... and up to this part more ..."""
    min_time_before_relogin_ms: int
    """``sasl.kerberos.min.time.before.relogin``: ... but so long after the last login, unless it has expired."""


class ClientLogin:
    """Thread-safe."""

    def __init__(self, log_in: Callable[[], Any], settings: RenewalSettings, clock: IClock, random: Callable[[], float]) -> None:
        """``log_in`` returns a credential that has a ``lifetime`` in seconds; it may take long, and raises KerberosError."""
        self._log_in = log_in
        self._settings = settings
        self._now_ns = clock.monotonic_ns
        self._random = random
        self._lock = machine.Lock()
        self._credential: Any = None
        self._renew_at_ms = self._expires_at_ms = self._tried_at_ms = 0.0

    def credential(self) -> Any:
        """Return the credential; log in before if it is time. That may take long. Raises KerberosError."""
        with self._lock:
            now_ms = self._now_ns() / _MS
            if self._credential is None or now_ms >= self._expires_at_ms or self._should_renew(now_ms):
                self._renew(now_ms)
            return self._credential

    def _should_renew(self, now_ms: float) -> bool:
        return now_ms >= max(self._renew_at_ms, self._tried_at_ms + self._settings.min_time_before_relogin_ms)

    def _renew(self, now_ms: float) -> None:
        self._tried_at_ms = now_ms
        try:
            credential = self._log_in()
        except KerberosError as error:
            left_s = (self._expires_at_ms - now_ms) / 1000
            if self._credential is None or left_s <= 0:
                raise
            _log.warn("The Kerberos ticket that expires in {left:.0f} s cannot be renewed: {why}", left=left_s, why=error)
            return
        settings = self._settings
        lifetime_ms = credential.lifetime * 1000
        self._credential = credential
        self._expires_at_ms = now_ms + lifetime_ms
        self._renew_at_ms = now_ms + lifetime_ms * (settings.window_factor + settings.window_jitter * self._random())
