"""The channel builder of each listener, by its security protocol (Kafka: ChannelBuilders.serverChannelBuilder)."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import PLAINTEXT, EndPoint
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.channel_builder import PLAINTEXT_BUILDER, BuilderOf, IChannelBuilder
from twisted_kafka.network.connection.principal_channel_builder import PrincipalChannelBuilder
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.security.delegation_tokens import DelegationTokenManager
from twisted_kafka.security.principal import ssl_principal_builder
from twisted_kafka.security.principal_builder import AuthenticationContext, built, custom_builder
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import KafkaScheduler

if TYPE_CHECKING:
    from twisted_kafka.security.sasl.mechanisms import SaslResources

SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"


def channel_builders(metrics: MetricsRegistry, sasl_resources: "Callable[[], SaslResources]") -> BuilderOf:
    """Return a function from settings and a listener to its channel builder; it raises ConfigError if they do not allow one.

    ``sasl_resources`` is called if there is a listener with SASL.
    """

    def transports_of(config: KafkaConfig, end_point: EndPoint, principals: Any) -> IChannelBuilder:
        if end_point.security_protocol in (PLAINTEXT, SASL_PLAINTEXT):
            return PLAINTEXT_BUILDER
        from twisted_kafka.network.tls.ssl_channel_builder import SslChannelBuilder  # loaded when needed (twisted_kafka.tls)

        rules = config.for_listener(end_point.listener_name, "ssl.principal.mapping.rules")
        by_rules = ssl_principal_builder(str(rules))

        def to_principal(name: str, connection: ConnectionInfo) -> KafkaPrincipal:
            return by_rules(name) if principals is None else built(principals, _context(connection, name))

        return SslChannelBuilder(config, end_point, metrics, to_principal)

    def builder_of(config: KafkaConfig, end_point: EndPoint) -> IChannelBuilder:
        principals = custom_builder(config, end_point.listener_name)
        transports = transports_of(config, end_point, principals)
        if end_point.security_protocol not in (SASL_PLAINTEXT, SASL_SSL):
            if principals is None:
                return transports
            return PrincipalChannelBuilder(transports, lambda connection: built(principals, _context(connection)))
        from twisted_kafka.network.connection.sasl_channel_builder import SaslChannelBuilder  # loaded when needed, as above
        from twisted_kafka.security.sasl.sasl_listener import SaslListener

        listener = SaslListener(config, end_point.listener_name, sasl_resources(), principals)
        return SaslChannelBuilder(transports, listener, listener.limits)

    return builder_of


def _context(connection: ConnectionInfo, distinguished_name: str | None = None) -> AuthenticationContext:
    return AuthenticationContext(
        connection.security_protocol, connection.listener_name, connection.client_address, distinguished_name
    )


def make_sasl_resources(
    clock: IClock, scheduler: KafkaScheduler, configs: ConfigRepository, tokens: DelegationTokenManager | None
) -> "SaslResources":
    """Return the resources that all SASL listeners share."""
    from twisted_kafka.security.sasl.failed_attempts import FailedAttempts
    from twisted_kafka.security.sasl.mechanisms import SaslResources
    from twisted_kafka.security.scram.credential_cache import CredentialCache
    from twisted_kafka.security.scram.token_credentials import TokenCredentials

    attempts = FailedAttempts(clock, lambda log, delay_ms: scheduler.schedule_once("log-failed-authentications", log, delay_ms))
    token_credentials = None if tokens is None else TokenCredentials(tokens, clock)
    return SaslResources(clock, attempts, cache(lambda: CredentialCache(configs)), token_credentials)
