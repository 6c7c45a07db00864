"""Builds the transports of a SASL listener: those of its plain-text or TLS builder, for channels that authenticate first.

(Kafka: SaslChannelBuilder.)
"""

import socket
from typing import Any, Protocol

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.channel_builder import IChannelBuilder, MakeTransport
from twisted_kafka.network.connection.pending_authentications import AuthenticationLimits, PendingAuthentications
from twisted_kafka.network.connection.transport import KafkaTransport
from twisted_kafka.network.requests.authenticator import IAuthenticator
from twisted_kafka.network.requests.request_context import ConnectionInfo


class IListenerAuthentication(Protocol):
    """Authenticates the clients of a listener."""

    def authenticator(self, connection: ConnectionInfo) -> IAuthenticator:
        """Return the authentication of a new connection."""

    def validate_reconfiguration(self, config: KafkaConfig) -> None:
        """Raise ConfigError if ``reconfigure`` would fail with these settings; change nothing."""

    def reconfigure(self, config: KafkaConfig) -> None:
        """Use these settings for authentications that begin from now on. Raises ConfigError."""

    def close(self) -> None:
        """Release resources."""


class SaslChannelBuilder:
    """The builder of one listener."""

    def __init__(self, inner: IChannelBuilder, authentication: IListenerAuthentication, limits: AuthenticationLimits) -> None:
        """``inner`` is the builder of SASL_PLAINTEXT's or SASL_SSL's transports."""
        self._inner = inner
        self._authentication = authentication
        self._limits = limits

    def for_processor(self, number: int, reactor: Any) -> MakeTransport:
        """Return a function that makes the transports of one processor."""
        make_inner = self._inner.for_processor(number, reactor)
        pending = PendingAuthentications(reactor, self._limits)

        def make(connected: socket.socket, channel: KafkaChannel) -> KafkaTransport:
            channel.authenticate_with(self._authentication.authenticator(channel.connection), self._limits.max_receive_bytes)
            transport = make_inner(connected, channel)
            pending.begin(channel)
            return transport

        return make

    def validate_reconfiguration(self, config: KafkaConfig) -> None:
        """Raise ConfigError if ``reconfigure`` would fail with these settings; change nothing."""
        self._inner.validate_reconfiguration(config)
        self._authentication.validate_reconfiguration(config)

    def reconfigure(self, config: KafkaConfig) -> None:
        """Use these settings for new connections, and for re-authentications."""
        self._authentication.validate_reconfiguration(config)
        self._inner.reconfigure(config)
        self._authentication.reconfigure(config)

    def refresh(self, config: KafkaConfig) -> None:
        """Use files of the transports that have changed."""
        self._inner.refresh(config)

    def close(self) -> None:
        """Remove the metrics of the transports, and release the mechanisms' resources."""
        self._inner.close()
        self._authentication.close()
