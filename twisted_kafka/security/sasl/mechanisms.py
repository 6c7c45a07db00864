"""The mechanisms of this broker, by name."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from twisted_kafka.security.sasl.failed_attempts import FailedAttempts
from twisted_kafka.security.sasl.interfaces import ISaslServer
from twisted_kafka.security.sasl.plain import LOGIN_MODULE as PLAIN_LOGIN_MODULE
from twisted_kafka.security.sasl.plain import PlainSaslServer, PlainServerCallbackHandler
from twisted_kafka.timing.clock import IClock


class SaslResources(NamedTuple):
    """What mechanisms, and the listeners that offer them, use of the broker."""

    clock: IClock
    failed_attempts: FailedAttempts


class MechanismKind(NamedTuple):
    """How a mechanism is set up."""

    login_module: str
    """The login module of its JAAS entry."""
    make_handler: Callable[[SaslResources], Any]
    """Makes its own ``IAuthenticateCallbackHandler``, not configured yet."""
    make_server: Callable[[Any, SaslResources], ISaslServer]
    """Makes the server of one exchange with a handler."""
    known_handlers: Mapping[str, type]
    """Kafka's classes of handlers that this broker has an equivalent of."""


PLAIN: Final = "PLAIN"

MECHANISMS: Final[dict[str, MechanismKind]] = {
    PLAIN: MechanismKind(
        PLAIN_LOGIN_MODULE,
        lambda resources: PlainServerCallbackHandler(),
        lambda handler, resources: PlainSaslServer(handler),
        {"org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler": PlainServerCallbackHandler},
    ),
}
