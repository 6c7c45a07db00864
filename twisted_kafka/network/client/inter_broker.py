"""Which connector this broker uses for other brokers' listeners. (Kafka: ChannelBuilders.clientChannelBuilder.)"""

from typing import Any

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import PLAINTEXT
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.client.connector import IConnector, PlaintextConnector


def connector_for(config: KafkaConfig, listener_name: str, reactor: Any) -> IConnector:
    """Return the connector for other brokers' listeners of this name; raises ConfigError."""
    protocol = config.security_protocol_map[listener_name]
    if protocol == PLAINTEXT:
        return PlaintextConnector(reactor)
    if protocol == "SSL":
        from twisted_kafka.network.client.tls_connector import TlsConnector  # loaded only if needed: docs/adr/0006

        return TlsConnector(config, listener_name, reactor)
    raise ConfigError(f"This broker does not support {protocol} for connections to other brokers yet (listener {listener_name})")
