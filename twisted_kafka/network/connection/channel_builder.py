"""Builds the transports of new connections: one builder per security protocol. (Kafka: ChannelBuilder.)"""

import socket
from collections.abc import Callable
from typing import Any, Protocol

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.network.connection.channel import KafkaChannel
from twisted_kafka.network.connection.transport import KafkaTransport

MakeTransport = Callable[[socket.socket, KafkaChannel], KafkaTransport]
"""Makes the transport of a channel over a socket. It reads nothing before ``resumeProducing``."""


class IChannelBuilder(Protocol):
    """Makes the transports of one listener."""

    def for_processor(self, number: int, reactor: Any) -> MakeTransport:
        """Return a function that makes transports on the reactor of one processor. Called once per processor, on any thread.

        A transport that authenticates its client sets the principal of the channel's connection before it passes on any bytes.
        """

    def validate_reconfiguration(self, config: KafkaConfig) -> None:
        """Raise ConfigError if ``reconfigure`` would fail with these settings; change nothing."""

    def reconfigure(self, config: KafkaConfig) -> None:
        """Reread the files and use these settings for new connections. Open connections keep theirs. Raises ConfigError."""

    def refresh(self, config: KafkaConfig) -> None:
        """Use changed files, and log certificates that expire soon. Called every few seconds."""

    def close(self) -> None:
        """Remove the listener's metrics and release its resources: it is gone."""


BuilderOf = Callable[[KafkaConfig, EndPoint], IChannelBuilder]
"""Makes the builder of a listener with these settings; raises ConfigError for settings that are invalid or unsupported."""


class PlaintextChannelBuilder:
    """Plain text, no authentication."""

    def for_processor(self, number: int, reactor: Any) -> MakeTransport:
        """Return a function that makes the transports of one processor."""
        return lambda connected, channel: KafkaTransport(connected, channel, reactor)

    def validate_reconfiguration(self, config: KafkaConfig) -> None:
        """Accept anything: there are no settings."""

    def reconfigure(self, config: KafkaConfig) -> None: ...

    def refresh(self, config: KafkaConfig) -> None:
        pass  # there are no files

    def close(self) -> None:
        pass  # there are no metrics


PLAINTEXT_BUILDER = PlaintextChannelBuilder()


def plaintext_builder(config: KafkaConfig, end_point: EndPoint) -> IChannelBuilder:
    """Return the builder of a PLAINTEXT listener."""
    return PLAINTEXT_BUILDER
