"""What makes the transport of a new connection: one builder for each security protocol. (Kafka: ChannelBuilder.)"""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zope.interface import Interface, implementer

from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.network.connection.transport import KafkaTransport
from twisted_kafka.network.interfaces import IChannelTransport

if TYPE_CHECKING:
    from twisted_kafka.config.broker_config import KafkaConfig
    from twisted_kafka.network.connection.channel import KafkaChannel

MakeTransport = Callable[[socket.socket, "KafkaChannel"], IChannelTransport]
"""Makes a transport that serves a channel over a socket; it takes nothing from the socket before ``resumeProducing``."""


class IChannelBuilder(Interface):
    """Makes the transports of one listener, on the reactors of its processors."""

    def for_processor(number: int, reactor: Any) -> MakeTransport:  # noqa: N805
        """Return what makes the transports of one processor, on its reactor; called on any thread, once for each processor.

        A transport that authenticates its client sets the principal of the channel's connection before it gives it bytes.
        """

    def validate_reconfiguration(config: "KafkaConfig") -> None:  # noqa: N805
        """Raise ConfigError when ``reconfigure`` could not do with these settings; change nothing."""

    def reconfigure(config: "KafkaConfig") -> None:  # noqa: N805
        """Make further connections with these settings, files read anew; those that are open stay. Raises ConfigError."""


BuilderOf = Callable[[EndPoint], IChannelBuilder]
"""Makes the builder of a listener; raises ConfigError when the settings do not allow one."""


@implementer(IChannelBuilder)
class PlaintextChannelBuilder:
    """Bytes as they come, from anybody."""

    def for_processor(self, number: int, reactor: Any) -> MakeTransport:
        """Return what makes the transports of one processor."""
        return lambda connected, channel: KafkaTransport(connected, channel, reactor)

    def validate_reconfiguration(self, config: "KafkaConfig") -> None:
        """Accept anything: nothing is configured."""

    def reconfigure(self, config: "KafkaConfig") -> None:
        """Change nothing."""


PLAINTEXT_BUILDER = PlaintextChannelBuilder()


def plaintext_builder(end_point: EndPoint) -> IChannelBuilder:
    """Return the builder for a listener without any security."""
    return PLAINTEXT_BUILDER
