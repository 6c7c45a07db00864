"""Builds the transports of a TLS listener, and reloads its certificates while it runs. (Kafka: SslChannelBuilder, SslFactory.)"""

import socket
from typing import Any

from OpenSSL import SSL
from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.channel_builder import MakeTransport
from twisted_kafka.network.connection.transport import KafkaTransport
from twisted_kafka.network.tls.handshakes import HandshakeLimits, Handshakes, ToPrincipal
from twisted_kafka.network.tls.tls_transport import TlsTransport
from twisted_kafka.system import machine
from twisted_kafka.tls.certificate_expiry import CertificateExpiry
from twisted_kafka.tls.ssl_context import Identity, client_context, verify_together
from twisted_kafka.tls.ssl_settings import SslSettings
from twisted_kafka.tls.stores import KeyMaterial

_log = Logger()


class SslChannelBuilder:
    """The builder of one listener. New connections get its current ``Identity``; open ones keep theirs."""

    def __init__(self, config: KafkaConfig, end_point: EndPoint, metrics: MetricsRegistry, to_principal: ToPrincipal) -> None:
        """Load keys and certificates; raises ConfigError."""
        self._listener_name = end_point.listener_name
        self._metrics = metrics
        self._to_principal = to_principal
        self._limits = self._limits_of(config)
        self._lock = machine.Lock()  # changes of the settings and of the files are noticed by different threads
        self._refused = ""
        self._identity = self._load(config)
        self._expiry = CertificateExpiry(self._listener_name, metrics)
        self._watch_expiry()

    def for_processor(self, number: int, reactor: Any) -> MakeTransport:
        """Return a function that makes the transports of one processor."""
        tags: dict[str, object] = {"listener": self._listener_name, "networkProcessor": number}
        handshakes = Handshakes(reactor, self._limits, self._to_principal, self._metrics, tags)

        def make(connected: socket.socket, channel: KafkaChannel) -> KafkaTransport:
            try:
                tls = SSL.Connection(self._identity.server, connected)
                tls.set_accept_state()
            except SSL.Error as error:
                raise OSError(f"OpenSSL could not create the connection: {error}") from error
            return TlsTransport(connected, channel, reactor, tls, handshakes)

        return make

    def validate_reconfiguration(self, config: KafkaConfig) -> None:
        """Raise ConfigError if ``reconfigure`` would fail with these settings; change nothing."""
        self._renewed(config)

    def reconfigure(self, config: KafkaConfig) -> None:
        """Reread the files and use these settings for new connections. If it raises ConfigError, nothing has changed."""
        with self._lock:
            renewed = self._renewed(config)
            if renewed is self._identity:
                return
            self._identity = renewed
            self._watch_expiry()
            _log.info(
                "Listener {listener} has new TLS settings: certificate {name}, serial number {serial:x}, valid until {end}",
                listener=self._listener_name,
                name=renewed.key_material.distinguished_name,
                serial=renewed.key_material.chain[0].serial_number,
                end=renewed.key_material.chain[0].not_valid_after_utc.isoformat(),
            )

    def refresh(self, config: KafkaConfig) -> None:
        """Use replaced or changed files, and report expiring certificates. Files that cannot be used are skipped."""
        refused = ""
        try:
            self.reconfigure(config)
        except ConfigError as error:
            refused = str(error)
            if refused != self._refused:
                _log.error("Listener {listener} keeps its certificates: {why}", listener=self._listener_name, why=refused)
        self._refused = refused
        self._expiry.check()

    def close(self) -> None:
        """Remove the metrics of the certificates."""
        self._expiry.close()

    def _watch_expiry(self) -> None:
        identity = self._identity
        self._expiry.watch({"ssl.keystore": identity.key_material.chain, "ssl.truststore": identity.trusted or ()})

    def _renewed(self, config: KafkaConfig) -> Identity:
        present = self._identity
        settings = SslSettings.of_listener(config, self._listener_name)
        if settings == present.settings and settings.state() == present.state:
            return present
        renewed = self._load(config)
        self._ensure_compatible(config, renewed.key_material, present.key_material)
        return renewed

    def _load(self, config: KafkaConfig) -> Identity:
        settings = SslSettings.of_listener(config, self._listener_name)
        identity = Identity(settings, self._metrics.clock.wall_ms())
        if self._listener_name == config.inter_broker_listener_name:
            # Brokers connect to each other with these stores: fail now rather than at the first connection.
            verify_together(client_context(settings), identity.server)
        return identity

    def _limits_of(self, config: KafkaConfig) -> HandshakeLimits:
        def number(key: str) -> int:
            value = config.for_listener(self._listener_name, key)
            assert isinstance(value, int), key
            return value

        return HandshakeLimits(number("ssl.handshake.timeout.ms") / 1000, number("ssl.handshake.max.pending"))

    def _ensure_compatible(self, config: KafkaConfig, new: KeyMaterial, old: KeyMaterial) -> None:
        """Raise ConfigError if the new certificate is for another identity (Kafka: CertificateEntries.ensureCompatible)."""
        allows_names, allows_alternatives = (
            config.for_listener(self._listener_name, key) for key in ("ssl.allow.dn.changes", "ssl.allow.san.changes")
        )
        if not allows_names and new.distinguished_name != old.distinguished_name:
            raise ConfigError(
                f"The key store's distinguished name does not match: it was {old.distinguished_name} and is now "
                f"{new.distinguished_name}; ssl.allow.dn.changes=true allows this"
            )
        missing = old.alternative_names - new.alternative_names
        if missing and not allows_alternatives:
            raise ConfigError(
                f"The key store's alternative names do not match: the new certificate lacks {', '.join(sorted(missing))}; "
                "ssl.allow.san.changes=true allows this"
            )
