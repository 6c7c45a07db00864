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
from twisted_kafka.timing.clock import IClock
from twisted_kafka.tls.ssl_context import Identity
from twisted_kafka.tls.ssl_settings import SslSettings

_log = Logger()


class ConsoleTls:
    """The console's TLS identity. ``listener.name.console.ssl.*`` come before ``ssl.*``; browsers need no certificate."""

    def __init__(self, config: KafkaConfig, clock: IClock) -> None:
        """Load the key store; raises ConfigError."""
        self._config = config
        self._clock = clock
        self._refused = ""
        self._identity = self._load()

    def context(self) -> SSL.Context:
        """Return the context for new connections."""
        return self._identity.server

    def refresh(self) -> None:
        """Use a changed key store for new connections; one that cannot be used is logged once and not used."""
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

    def _settings(self) -> SslSettings:
        return dataclasses.replace(SslSettings.of_listener(self._config, CONSOLE), client_auth="none")

    def _load(self) -> Identity:
        return Identity(self._settings(), self._clock.wall_ms())


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
