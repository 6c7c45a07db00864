"""The mechanisms of this broker, by name."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final, NamedTuple

from twisted_kafka.security.sasl.failed_attempts import FailedAttempts
from twisted_kafka.security.sasl.interfaces import ISaslServer
from twisted_kafka.security.sasl.plain import LOGIN_MODULE as PLAIN_LOGIN_MODULE
from twisted_kafka.security.sasl.plain import PlainSaslServer, PlainServerCallbackHandler
from twisted_kafka.security.sasl.scram import LOGIN_MODULE as SCRAM_LOGIN_MODULE
from twisted_kafka.security.sasl.scram import ICredentials, ITokenCredentials, ScramSaslServer, ScramServerCallbackHandler
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS, ScramMechanism
from twisted_kafka.timing.clock import IClock


class SaslResources(NamedTuple):
    """What mechanisms, and the listeners that offer them, use of the broker."""

    clock: IClock
    failed_attempts: FailedAttempts
    scram_credentials: Callable[[], ICredentials]
    """Reads the users' credentials when it is called for the first time."""
    delegation_tokens: ITokenCredentials | None = None


class MechanismKind(NamedTuple):
    """How a mechanism is set up."""

    login_module: str
    """The login module of its JAAS entry."""
    make_handler: Callable[[SaslResources], Any]
    """Makes its own ``IAuthenticateCallbackHandler``, not configured yet."""
    make_server: Callable[[Any, SaslResources], ISaslServer]
    """Makes the server of one exchange with a handler."""
    known_handlers: Collection[str]
    """Kafka's classes of handlers that mean the mechanism's own."""


PLAIN: Final = "PLAIN"


def _scram(mechanism: ScramMechanism) -> MechanismKind:
    return MechanismKind(
        SCRAM_LOGIN_MODULE,
        lambda resources: ScramServerCallbackHandler(resources.scram_credentials(), resources.delegation_tokens),
        partial(_scram_server, mechanism),
        ("org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler",),
    )


def _scram_server(mechanism: ScramMechanism, handler: Any, resources: SaslResources) -> ISaslServer:
    return ScramSaslServer(mechanism, handler)


MECHANISMS: Final[dict[str, MechanismKind]] = {
    PLAIN: MechanismKind(
        PLAIN_LOGIN_MODULE,
        lambda resources: PlainServerCallbackHandler(),
        lambda handler, resources: PlainSaslServer(handler),
        ("org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",),
    ),
    **{mechanism.name: _scram(mechanism) for mechanism in SCRAM_MECHANISMS},
}
