"""The channel builder of each listener, by its security protocol (Kafka: ChannelBuilders.serverChannelBuilder)."""

from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import PLAINTEXT, EndPoint
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.channel_builder import PLAINTEXT_BUILDER, BuilderOf, IChannelBuilder
from twisted_kafka.security.principal import ssl_principal_builder

SSL: Final = "SSL"
SERVED_PROTOCOLS: Final = (PLAINTEXT, SSL)


def ensure_served(end_point: EndPoint) -> None:
    """Raise ConfigError for a listener with a security protocol that is not served.

    A listener that is to be encrypted or authenticated must never be served without.
    """
    if end_point.security_protocol not in SERVED_PROTOCOLS:
        raise ConfigError(
            f"Invalid value '{end_point.text}' for listeners: its security protocol must be {' or '.join(SERVED_PROTOCOLS)}, "
            f"this broker does not support {end_point.security_protocol} yet"
        )


def channel_builders(config: KafkaConfig, metrics: MetricsRegistry) -> BuilderOf:
    """Return a function from a listener to its channel builder; it raises ConfigError for settings that do not allow one."""

    def builder_of(end_point: EndPoint) -> IChannelBuilder:
        ensure_served(end_point)
        if end_point.security_protocol == PLAINTEXT:
            return PLAINTEXT_BUILDER
        from twisted_kafka.network.tls.ssl_channel_builder import SslChannelBuilder  # loaded when needed (docs/adr/0006)

        rules = config.for_listener(end_point.listener_name, "ssl.principal.mapping.rules")
        return SslChannelBuilder(config, end_point, metrics, ssl_principal_builder(str(rules)))

    return builder_of
