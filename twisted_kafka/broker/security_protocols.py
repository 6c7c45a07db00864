"""The channel builder of each listener, by its security protocol (Kafka: ChannelBuilders.serverChannelBuilder)."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import PLAINTEXT, EndPoint
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.channel_builder import PLAINTEXT_BUILDER, BuilderOf, IChannelBuilder
from twisted_kafka.security.delegation_tokens import DelegationTokenManager
from twisted_kafka.security.principal import ssl_principal_builder
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import KafkaScheduler

if TYPE_CHECKING:
    from twisted_kafka.security.sasl.mechanisms import SaslResources

SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"


def channel_builders(config: KafkaConfig, metrics: MetricsRegistry, sasl_resources: "Callable[[], SaslResources]") -> BuilderOf:
    """Return a function from a listener to its channel builder; it raises ConfigError for settings that do not allow one.

    ``sasl_resources`` is called if there is a listener with SASL.
    """

    def transports_of(end_point: EndPoint) -> IChannelBuilder:
        if end_point.security_protocol in (PLAINTEXT, SASL_PLAINTEXT):
            return PLAINTEXT_BUILDER
        from twisted_kafka.network.tls.ssl_channel_builder import SslChannelBuilder  # loaded when needed (docs/adr/0006)

        rules = config.for_listener(end_point.listener_name, "ssl.principal.mapping.rules")
        return SslChannelBuilder(config, end_point, metrics, ssl_principal_builder(str(rules)))

    def builder_of(end_point: EndPoint) -> IChannelBuilder:
        transports = transports_of(end_point)
        if end_point.security_protocol not in (SASL_PLAINTEXT, SASL_SSL):
            return transports
        from twisted_kafka.network.connection.sasl_channel_builder import SaslChannelBuilder  # loaded when needed, as above
        from twisted_kafka.security.sasl.sasl_listener import SaslListener

        listener = SaslListener(config, end_point.listener_name, sasl_resources())
        return SaslChannelBuilder(transports, listener, listener.limits)

    return builder_of


def make_sasl_resources(
    clock: IClock, scheduler: KafkaScheduler, configs: ConfigRepository, tokens: DelegationTokenManager | None
) -> "SaslResources":
    """Return what all listeners with SASL share."""
    from twisted_kafka.security.sasl.failed_attempts import FailedAttempts
    from twisted_kafka.security.sasl.mechanisms import SaslResources
    from twisted_kafka.security.scram.credential_cache import CredentialCache
    from twisted_kafka.security.scram.token_credentials import TokenCredentials

    attempts = FailedAttempts(clock, lambda log, delay_ms: scheduler.schedule_once("log-failed-authentications", log, delay_ms))
    token_credentials = None if tokens is None else TokenCredentials(tokens, clock)
    return SaslResources(clock, attempts, cache(lambda: CredentialCache(configs)), token_credentials)
