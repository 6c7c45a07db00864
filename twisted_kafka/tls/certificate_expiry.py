"""Says when a listener's certificates expire: as a metric at all times, and in the log from 30 days before."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from cryptography import x509
from twisted.logger import Logger

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.tls.distinguished_name import java_name

METRICS_TYPE: Final = "kafka.network:SslCertificates"
DAYS_LEFT: Final = "DaysUntilExpiry"

WARNING_DAYS: Final = 30
DAY_MS: Final = 86_400_000
"""A certificate that expires soon has a line in the log once a day."""

_log = Logger()


class CertificateExpiry:
    """Watches the certificates of one listener's stores. Call ``check`` regularly, on one thread at a time."""

    def __init__(self, listener_name: str, metrics: MetricsRegistry) -> None:
        self._listener_name = listener_name
        self._metrics = metrics
        self._stores: Mapping[str, Sequence[x509.Certificate]] = {}
        self._told_ms: dict[int, int] = {}
        """When each serial number was last in the log."""

    def watch(self, stores: Mapping[str, Sequence[x509.Certificate]]) -> None:
        """Watch the certificates of these stores, by the prefix of their config keys, in place of others."""
        self.close()
        self._stores = {prefix: certificates for prefix, certificates in stores.items() if certificates}
        self._told_ms = {}
        for prefix, certificates in self._stores.items():
            tags: dict[str, object] = {"listener": self._listener_name, "store": prefix}
            end_ms = min(map(expires_ms, certificates))
            self._metrics.gauge(METRICS_TYPE, DAYS_LEFT, partial(self._days_until, end_ms), **tags)

    def check(self) -> None:
        """Log the certificates that expire within 30 days, or have, each once a day."""
        now_ms = self._metrics.clock.wall_ms()
        for prefix, certificates in self._stores.items():
            for certificate in certificates:
                days = self._days_until(expires_ms(certificate))
                told_ms = self._told_ms.get(certificate.serial_number)
                if days >= WARNING_DAYS or (told_ms is not None and now_ms - told_ms < DAY_MS):
                    continue
                self._told_ms[certificate.serial_number] = now_ms
                _log.warn(
                    "Listener {listener}: the certificate {name} of {store}.* {what}: it is valid until {end}",
                    listener=self._listener_name,
                    name=name_of(certificate),
                    store=prefix,
                    what="has expired" if days <= 0 else f"expires in {int(days)} days",
                    end=certificate.not_valid_after_utc.isoformat(),
                )

    def close(self) -> None:
        """Remove the metrics."""
        for prefix in self._stores:
            self._metrics.remove(METRICS_TYPE, DAYS_LEFT, listener=self._listener_name, store=prefix)

    def _days_until(self, end_ms: int) -> float:
        return (end_ms - self._metrics.clock.wall_ms()) / DAY_MS


def expires_ms(certificate: x509.Certificate) -> int:
    """Return when a certificate expires, in milliseconds since 1970."""
    return int(certificate.not_valid_after_utc.timestamp() * 1000)


def expired(certificates: Iterable[x509.Certificate], now_ms: int) -> x509.Certificate | None:
    """Return an expired certificate, or None."""
    return next((each for each in certificates if expires_ms(each) <= now_ms), None)


def name_of(certificate: x509.Certificate) -> str:
    """Return the distinguished name as Java writes it."""
    return java_name(certificate.subject.public_bytes())
