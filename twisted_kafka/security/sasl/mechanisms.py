"""The mechanisms of this broker, by name."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys.declare import Value
from twisted_kafka.security.oauth.unsecured import UnsecuredTokens
from twisted_kafka.security.sasl.failed_attempts import FailedAttempts
from twisted_kafka.security.sasl.interfaces import ISaslServer
from twisted_kafka.security.sasl.oauthbearer import LOGIN_MODULE as OAUTH_LOGIN_MODULE
from twisted_kafka.security.sasl.oauthbearer import OAuthBearerSaslServer, TokenCallbackHandler
from twisted_kafka.security.sasl.plain import LOGIN_MODULE as PLAIN_LOGIN_MODULE
from twisted_kafka.security.sasl.plain import PlainSaslServer, PlainServerCallbackHandler
from twisted_kafka.security.sasl.scram import LOGIN_MODULE as SCRAM_LOGIN_MODULE
from twisted_kafka.security.sasl.scram import ICredentials, ITokenCredentials, ScramSaslServer, ScramServerCallbackHandler
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS, ScramMechanism
from twisted_kafka.timing.clock import IClock

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"

_KAFKA: Final = "org.apache.kafka.common.security"
_UNSECURED: Final = f"{_KAFKA}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_SIGNED: Final = (
    f"{_KAFKA}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    f"{_KAFKA}.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)

_log = Logger()


class SaslResources(NamedTuple):
    """What mechanisms, and the listeners that offer them, use of the broker."""

    clock: IClock
    failed_attempts: FailedAttempts
    scram_credentials: Callable[[], ICredentials]
    """Reads the users' credentials when it is called for the first time."""
    delegation_tokens: ITokenCredentials | None = None


class HandlerOrder(NamedTuple):
    """Which callback handler a listener wants."""

    resources: SaslResources
    listener_name: str
    class_name: str
    """Kafka's class, one of ``known_handlers``; empty for the mechanism's own choice."""
    setting: Callable[[str], Value]
    """Returns the value of a key for the listener and the mechanism."""


class MechanismKind(NamedTuple):
    """How a mechanism is set up."""

    login_module: str
    """The login module of its JAAS entry."""
    make_handler: Callable[[HandlerOrder], Any]
    """Makes its own ``IAuthenticateCallbackHandler``, not configured yet. Raises ConfigError."""
    make_server: Callable[[Any], ISaslServer]
    """Makes the server of one exchange with a handler."""
    known_handlers: Collection[str]
    """Kafka's classes of handlers that this broker has."""


def _scram(mechanism: ScramMechanism) -> MechanismKind:
    def make_handler(order: HandlerOrder) -> ScramServerCallbackHandler:
        return ScramServerCallbackHandler(order.resources.scram_credentials(), order.resources.delegation_tokens)

    return MechanismKind(
        SCRAM_LOGIN_MODULE,
        make_handler,
        partial(ScramSaslServer, mechanism),
        (f"{_KAFKA}.scram.internals.ScramServerCallbackHandler",),
    )


def _token_handler(order: HandlerOrder) -> TokenCallbackHandler:
    """Return a handler for signed tokens if there is a JWKS endpoint, for unsecured ones if not. (Kafka needs the class name.)"""
    clock = order.resources.clock
    url = order.setting(JWKS_URL)
    if order.class_name in _SIGNED or (url and not order.class_name):
        if not url:
            raise ConfigError(f"{JWKS_URL} must be set for signed bearer tokens (listener {order.listener_name})")
        return _signed_handler(order, str(url))
    _log.warn(
        "Listener {name} accepts unsecured bearer tokens, which anybody can make: for development only, set {key} for others",
        name=order.listener_name,
        key=JWKS_URL,
    )
    return TokenCallbackHandler(lambda options: UnsecuredTokens(options, clock), lambda: None)


def _signed_handler(order: HandlerOrder, url: str) -> TokenCallbackHandler:
    try:
        from twisted_kafka.security.oauth.jwks import Jwks, JwksError, JwksSettings
        from twisted_kafka.security.oauth.signed import SignedTokens, TokenRules
    except ImportError as error:
        raise ConfigError(f"{JWKS_URL} needs joserfc: pip install 'twisted_kafka[oauth]' ({error})") from None

    def number(key: str) -> int:
        value = order.setting(key)
        assert isinstance(value, int), key
        return value

    settings = JwksSettings(
        url,
        number("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        number("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        number("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    )
    audiences, issuer = order.setting("sasl.oauthbearer.expected.audience"), order.setting("sasl.oauthbearer.expected.issuer")
    rules = TokenRules(
        number("sasl.oauthbearer.clock.skew.seconds") * 1000,
        audiences if isinstance(audiences, tuple) else (),
        issuer if isinstance(issuer, str) else None,
        str(order.setting("sasl.oauthbearer.scope.claim.name")),
        str(order.setting("sasl.oauthbearer.sub.claim.name")),
    )
    jwks = Jwks(settings, order.resources.clock)
    try:
        jwks.start()
    except JwksError as error:
        raise ConfigError(f"Invalid value {url!r} for {JWKS_URL}: it does not answer with keys ({error})") from None
    return TokenCallbackHandler(lambda options: SignedTokens(jwks, rules, order.resources.clock), jwks.close)


MECHANISMS: Final[dict[str, MechanismKind]] = {
    PLAIN: MechanismKind(
        PLAIN_LOGIN_MODULE,
        lambda order: PlainServerCallbackHandler(),
        PlainSaslServer,
        (f"{_KAFKA}.plain.internals.PlainServerCallbackHandler",),
    ),
    **{mechanism.name: _scram(mechanism) for mechanism in SCRAM_MECHANISMS},
    OAUTHBEARER: MechanismKind(OAUTH_LOGIN_MODULE, _token_handler, OAuthBearerSaslServer, (_UNSECURED, *_SIGNED)),
}
