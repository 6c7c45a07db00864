"""Which connector this broker uses for other brokers' listeners. (Kafka: ChannelBuilders.clientChannelBuilder.)"""

from typing import Any

from twisted_kafka.client.connections.connector import SYSTEM_DEFAULT, BufferedConnector, IConnector, PlaintextConnector
from twisted_kafka.client.connections.sasl_connector import SaslConnector
from twisted_kafka.client.connections.sasl_exchange import ISaslClients
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import PLAINTEXT
from twisted_kafka.config.errors import ConfigError


def connector_for(
    config: KafkaConfig,
    listener_name: str,
    reactor: Any,
    sasl_clients: ISaslClients | None = None,
    receive_buffer_bytes: int = SYSTEM_DEFAULT,
) -> IConnector:
    """Return the connector for other brokers' listeners of this name; raises ConfigError.

    ``sasl_clients`` makes the clients of exchanges, if the listener's protocol is one with SASL.
    """
    protocol = config.security_protocol_map[listener_name]
    transports = _transports(config, listener_name, reactor, protocol)
    if receive_buffer_bytes != SYSTEM_DEFAULT:
        transports = BufferedConnector(transports, receive_buffer_bytes)
    if protocol.startswith("SASL_"):
        if sasl_clients is None:
            raise ConfigError(
                f"Listener {listener_name} uses {protocol}, and there is no SASL client to log in to other brokers with"
            )
        return SaslConnector(transports, sasl_clients, reactor)
    return transports


def _transports(config: KafkaConfig, listener_name: str, reactor: Any, protocol: str) -> IConnector:
    if protocol.endswith(PLAINTEXT):
        return PlaintextConnector(reactor)
    from twisted_kafka.client.connections.tls_connector import TlsConnector  # loaded only if needed (twisted_kafka.tls)

    return TlsConnector(config, listener_name, reactor)
