"""Builds the transports of a listener without SASL whose principals an operator's class makes."""

import socket
from collections.abc import Callable
from typing import Any

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.channel_builder import IChannelBuilder, MakeTransport
from twisted_kafka.network.connection.transport import KafkaTransport
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo


class PrincipalChannelBuilder:
    """Gives a new connection its principal, until a client certificate replaces it."""

    def __init__(self, inner: IChannelBuilder, principal_of: Callable[[ConnectionInfo], KafkaPrincipal]) -> None:
        """``principal_of`` returns a connection's principal, or raises ValueError to close the connection."""
        self._inner = inner
        self._principal_of = principal_of

    def for_processor(self, number: int, reactor: Any) -> MakeTransport:
        """Return a function that makes the transports of one processor."""
        make_inner = self._inner.for_processor(number, reactor)

        def make(connected: socket.socket, channel: KafkaChannel) -> KafkaTransport:
            channel.connection.principal = self._principal_of(channel.connection)
            return make_inner(connected, channel)

        return make

    def validate_reconfiguration(self, config: KafkaConfig) -> None:
        """Raise ConfigError if ``reconfigure`` would fail with these settings; change nothing."""
        self._inner.validate_reconfiguration(config)

    def reconfigure(self, config: KafkaConfig) -> None:
        """Use these settings for new connections."""
        self._inner.reconfigure(config)

    def refresh(self, config: KafkaConfig) -> None:
        """Use files of the transports that have changed."""
        self._inner.refresh(config)

    def close(self) -> None:
        """Close the transports' builder."""
        self._inner.close()
