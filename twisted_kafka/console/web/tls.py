"""TLS for the console: the key and certificates of the broker's settings, renewed while it runs. Imports OpenSSL."""

import dataclasses
from typing import Any

from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import CONSOLE
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.console.queries.findings import KEY_STORE
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.tls.certificate_expiry import CertificateExpiry
from twisted_kafka.tls.ssl_context import Identity
from twisted_kafka.tls.ssl_settings import SslSettings

_log = Logger()


class ConsoleTls:
    """The console's TLS identity. ``listener.name.console.ssl.*`` come before ``ssl.*``; browsers need no certificate."""

    def __init__(self, config: KafkaConfig, metrics: MetricsRegistry) -> None:
        """Load the key store; raises ConfigError."""
        self._config = config
        self._clock = metrics.clock
        self._refused = ""
        self._expiry = CertificateExpiry(CONSOLE, metrics)
        self._identity = self._load()

    def context(self) -> SSL.Context:
        """Return the context for new connections."""
        return self._identity.server

    def refresh(self) -> None:
        """Use a changed key store for new connections, and log certificates that expire soon.

        A store that cannot be used is logged once and not used.
        """
        refused = ""
        try:
            settings = self._settings()
            if (settings, settings.state()) != (self._identity.settings, self._identity.state):
                self._identity = self._load()
                _log.info("The console has new TLS settings")
        except ConfigError as error:
            refused = str(error)
            if refused != self._refused:
                _log.error("The console keeps its certificates: {why}", why=refused)
        self._refused = refused
        self._expiry.check()

    def close(self) -> None:
        """Remove the metrics of the certificates."""
        self._expiry.close()

    def _settings(self) -> SslSettings:
        return dataclasses.replace(SslSettings.of_listener(self._config, CONSOLE), client_auth="none")

    def _load(self) -> Identity:
        identity = Identity(self._settings(), self._clock.wall_ms())
        self._expiry.watch({KEY_STORE: identity.key_material.chain})
        return identity


@implementer(IOpenSSLServerConnectionCreator)
class _Connections:
    def __init__(self, context: Any) -> None:
        self._context = context

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """Return the OpenSSL connection of a new connection."""
        return SSL.Connection(self._context(), None)


def over_tls(site: Any, context: Any, reactor: Any) -> TLSMemoryBIOFactory:
    """Return a factory that serves a site over TLS. ``context`` returns OpenSSL's context for a new connection."""
    return TLSMemoryBIOFactory(_Connections(context), False, site, reactor)
