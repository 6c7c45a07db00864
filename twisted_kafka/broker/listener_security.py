"""Which channel builder each listener gets. (Kafka: ChannelBuilders.serverChannelBuilder.)"""

from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import PLAINTEXT, EndPoint
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.channel_builder import PLAINTEXT_BUILDER, BuilderOf, IChannelBuilder
from twisted_kafka.security.principal import ssl_principal_builder

SSL: Final = "SSL"
SERVED_PROTOCOLS: Final = (PLAINTEXT, SSL)


def channel_builders(config: KafkaConfig, metrics: MetricsRegistry) -> BuilderOf:
    """Return what makes the builder of a listener; that raises ConfigError for settings that do not allow one."""

    def builder_of(end_point: EndPoint) -> IChannelBuilder:
        if end_point.security_protocol == PLAINTEXT:
            return PLAINTEXT_BUILDER
        if end_point.security_protocol == SSL:
            from twisted_kafka.network.tls.ssl_channel_builder import (
                SslChannelBuilder,  # docs/adr/0006: only those who need it load it
            )

            rules = config.for_listener(end_point.listener_name, "ssl.principal.mapping.rules")
            return SslChannelBuilder(config, end_point, metrics, ssl_principal_builder(str(rules)))
        # A listener that is said to be authenticated must never be served without.
        raise ConfigError(
            f"Invalid value '{end_point.text}' for listeners: its security protocol must be {' or '.join(SERVED_PROTOCOLS)}, "
            f"for this broker has no {end_point.security_protocol} yet"
        )

    return builder_of
