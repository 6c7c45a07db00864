"""``principal.builder.class``: a Python class that makes the principals of connections. (Kafka: KafkaPrincipalBuilder.)

Kafka's own class, the default, means this broker's rules: the name in the certificate, mapped by
``ssl.principal.mapping.rules``, or the name that SASL has authenticated.
"""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from zope.interface import Interface

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.python_class import instance_of
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal

KEY: Final = "principal.builder.class"
DEFAULT: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


class AuthenticationContext(NamedTuple):
    """The identity of a client on its connection. A field that its security protocol does not have is None."""

    security_protocol: str
    listener_name: str
    client_address: str
    distinguished_name: str | None = None
    """The name in its certificate, without the mapping rules."""
    mechanism: str | None = None
    """The SASL mechanism ..."""
    authorization_id: str | None = None
    """... and the name that it has authenticated, with GSSAPI the whole one: ``kafka/host@EXAMPLE.COM``."""
    is_token_authenticated: bool = False
    principal_name: str | None = None
    """The name that the default builder would use: with GSSAPI the short name, None if no rule matches."""


class IKafkaPrincipalBuilder(Interface):
    """Makes principals. Network threads and request handler threads call it at the same time: it must not block."""

    def configure(configs: Mapping[str, str]) -> None:
        """Called first, with the broker's settings as text."""

    def build(context: AuthenticationContext) -> KafkaPrincipal:
        """Return the principal of a client. An exception refuses the client."""


def custom_builder(config: KafkaConfig, listener_name: str) -> Any | None:
    """Return the builder of a listener; None for the default. Raises ConfigError if the builder cannot be made."""
    name = config.for_listener(listener_name, KEY)
    if not isinstance(name, str) or name in ("", DEFAULT):
        return None
    return instance_of(name, KEY, ("configure", "build"), lambda builder: builder.configure(dict(config.originals)))


def built(builder: Any, context: AuthenticationContext) -> KafkaPrincipal:
    """Return what a builder makes; raise ValueError for anything else than a principal, and for any failure."""
    try:
        principal = builder.build(context)
    except Exception as error:
        raise ValueError(f"{KEY} failed: {type(error).__name__}: {error}") from error
    if not isinstance(principal, KafkaPrincipal):
        raise ValueError(f"{KEY} made no KafkaPrincipal")
    return principal
