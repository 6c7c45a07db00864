"""Connections with a client's settings, in the form of Kafka's tools: over TLS, and after a SASL login."""

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.security.sasl.clients import MECHANISM_KEY, InterBrokerClients
from twisted_kafka.security.sasl.listener_settings import JAAS
from twisted_kafka.timing.clock import IClock

if TYPE_CHECKING:
    from twisted_kafka.client.connections.tls_stream import TlsStream

PROTOCOL_KEY: Final = "security.protocol"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_OWN_PREFIXES: Final = ("ssl.", "sasl.")
_GSSAPI: Final = "GSSAPI"
_HTTPS: Final = "https"


class Secured:
    """Connects with one client's settings. It blocks."""

    def __init__(self, settings: Mapping[str, str], client_id: str, clock: IClock) -> None:
        """``settings`` are a client's, by Kafka's names; only security settings have an effect. Raises ConfigError."""
        self.protocol = settings.get(PROTOCOL_KEY, PROTOCOLS[0]).strip().upper()
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"Invalid value {settings[PROTOCOL_KEY]!r} for {PROTOCOL_KEY}: must be one of {', '.join(PROTOCOLS)}")
        if self.protocol.startswith("SASL_") and JAAS not in settings:
            raise ConfigError(f"{JAAS} is missing: {PROTOCOL_KEY}={self.protocol} needs a login module with its user and password")
        config = _as_between_brokers(settings, self.protocol)
        self._client_id = client_id
        self._sasl = InterBrokerClients(config, self.protocol, clock) if self.protocol.startswith("SASL_") else None
        if self._sasl is not None:
            self._sasl.validate()
        self._secure = _MakeTls(config, self.protocol) if self.protocol.endswith("SSL") else None

    def connect(self, address: tuple[str, int], timeout_s: float) -> SocketConnection:
        """Connect to host and port, and log in.

        Raises PeerRefusedError if one side rejects the other, NotAResponseError, or OSError.
        """
        sasl = None if self._sasl is None else self._sasl.client_for(address[0])
        return SocketConnection(address, self._client_id, timeout_s, secure=self._secure, sasl=sasl)


class _MakeTls:
    def __init__(self, config: KafkaConfig, listener_name: str) -> None:
        """Load the stores; raises ConfigError."""
        from twisted_kafka.tls.ssl_context import client_context  # loaded only if needed
        from twisted_kafka.tls.ssl_settings import SslSettings

        settings = SslSettings.of_listener(config, listener_name)
        self._verifies_host = settings.identification == _HTTPS
        self._context = client_context(settings)

    def __call__(self, connected: socket.socket, host: str, timeout_s: float) -> "TlsStream":
        from twisted_kafka.client.connections.tls_stream import TlsStream

        return TlsStream(connected, self._context, host, timeout_s, verifies_host=self._verifies_host)


def _as_between_brokers(settings: Mapping[str, str], protocol: str) -> KafkaConfig:
    """Return the configuration of a broker that would connect to other brokers like this client."""
    own = {key: value for key, value in settings.items() if key.startswith(_OWN_PREFIXES)}
    mechanism = own.pop("sasl.mechanism", _GSSAPI)
    return KafkaConfig.embedded(
        {
            **own,
            MECHANISM_KEY: mechanism,
            "sasl.enabled.mechanisms": mechanism,
            "listeners": f"{protocol}://127.0.0.1:0",
            "security.inter.broker.protocol": protocol,
        }
    )
