"""The mechanisms of this broker, by name."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys.declare import Value
from twisted_kafka.security.kerberos.keytab_login import GSSAPI, SERVICE_NAME, KerberosError, keytab_login
from twisted_kafka.security.kerberos.keytab_login import LOGIN_MODULE as KERBEROS_LOGIN_MODULE
from twisted_kafka.security.kerberos.names import parse_name, parse_rules, short_name
from twisted_kafka.security.oauth.unsecured import UnsecuredTokens
from twisted_kafka.security.sasl.failed_attempts import FailedAttempts
from twisted_kafka.security.sasl.interfaces import ISaslServer
from twisted_kafka.security.sasl.jaas import JaasEntry, options_of
from twisted_kafka.security.sasl.listener_settings import JAAS, FoundSetting
from twisted_kafka.security.sasl.oauthbearer import LOGIN_MODULE as OAUTH_LOGIN_MODULE
from twisted_kafka.security.sasl.oauthbearer import OAuthBearerSaslServer, TokenCallbackHandler
from twisted_kafka.security.sasl.plain import LOGIN_MODULE as PLAIN_LOGIN_MODULE
from twisted_kafka.security.sasl.plain import PlainSaslServer, PlainServerCallbackHandler
from twisted_kafka.security.sasl.scram import LOGIN_MODULE as SCRAM_LOGIN_MODULE
from twisted_kafka.security.sasl.scram import ScramSaslServer, ScramServerCallbackHandler
from twisted_kafka.security.scram.credential_cache import CredentialCache
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS, ScramMechanism
from twisted_kafka.security.scram.token_credentials import TokenCredentials
from twisted_kafka.system.installation import install_command
from twisted_kafka.timing.clock import IClock

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"

LOCAL_RULES: Final = "sasl.kerberos.principal.to.local.rules"

_KAFKA: Final = "org.apache.kafka.common.security"
_UNSECURED: Final = f"{_KAFKA}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_SIGNED: Final = (
    f"{_KAFKA}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    f"{_KAFKA}.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)

_log = Logger()


class SaslResources(NamedTuple):
    """The parts of the broker that mechanisms and their listeners use."""

    clock: IClock
    failed_attempts: FailedAttempts
    scram_credentials: Callable[[], CredentialCache]
    """Reads the users' credentials when it is called for the first time."""
    delegation_tokens: TokenCredentials | None = None


class HandlerOrder(NamedTuple):
    """Which callback handler a listener wants."""

    resources: SaslResources
    listener_name: str
    class_name: str
    """Kafka's class, one of ``known_handlers``; empty for the mechanism's own choice."""
    find: Callable[[str], FoundSetting]
    """Returns the setting of a key for the listener and the mechanism."""

    def setting(self, key: str) -> Value:
        """Return the value of a key for the listener and the mechanism."""
        return self.find(key).value


class Login(NamedTuple):
    """The broker's own login by its JAAS configuration, and the names that it gives to clients."""

    make_server: Callable[[Any], ISaslServer]
    """Makes the server of one exchange with a handler."""
    principal_name: Callable[[str], str] = str
    """Makes the name of a principal of an authorization id, unless ``principal.builder.class`` does. Raises ValueError."""


class MechanismKind(NamedTuple):
    """How a mechanism is set up."""

    login_module: str
    """The login module of its JAAS entry."""
    make_handler: Callable[[HandlerOrder], Any]
    """Makes its own ``IAuthenticateCallbackHandler``, not configured yet. Raises ConfigError."""
    log_in: Callable[[HandlerOrder, Sequence[JaasEntry]], Login]
    """Returns the login that exchanges need in addition to the handler. Raises ConfigError."""
    known_handlers: Collection[str]
    """Kafka's classes of handlers that this broker has."""


def _without_login(make_server: Callable[[Any], ISaslServer]) -> Callable[[HandlerOrder, Sequence[JaasEntry]], Login]:
    return lambda order, entries: Login(make_server)


def _scram(mechanism: ScramMechanism) -> MechanismKind:
    def make_handler(order: HandlerOrder) -> ScramServerCallbackHandler:
        return ScramServerCallbackHandler(order.resources.scram_credentials(), order.resources.delegation_tokens)

    return MechanismKind(
        SCRAM_LOGIN_MODULE,
        make_handler,
        _without_login(partial(ScramSaslServer, mechanism)),
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
        raise ConfigError(f"{JWKS_URL} needs joserfc: {install_command('oauth')} ({error})") from None

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


def _authorizer(order: HandlerOrder) -> Any:
    ensure_gssapi(order.listener_name)
    from twisted_kafka.security.sasl.gssapi import GssapiServerCallbackHandler

    return GssapiServerCallbackHandler()


def _kerberos(order: HandlerOrder, entries: Sequence[JaasEntry]) -> Login:
    """Read the keytab; the KDC is not asked."""
    ensure_gssapi(order.listener_name)
    from twisted_kafka.security.kerberos.keytab_login import acceptor, default_realm
    from twisted_kafka.security.sasl.gssapi import GssapiSaslServer

    key, service_name, rules = order.find(JAAS).key, order.setting(SERVICE_NAME), order.find(LOCAL_RULES)
    options = options_of(entries, KERBEROS_LOGIN_MODULE)
    login = keytab_login(options, key, str(service_name) if service_name else None, accepts=True)
    try:
        credential = acceptor(login)
    except KerberosError as error:
        raise ConfigError(f"Invalid value for {key}: {login.principal} cannot log in with {login.keytab} ({error})") from None
    try:
        parsed = parse_rules(rules.value if isinstance(rules.value, tuple) else (), default_realm)
    except ValueError as error:
        raise ConfigError(f"Invalid value for {rules.key}: {error}") from None
    return Login(partial(GssapiSaslServer, credential), lambda name: short_name(parsed, parse_name(name)))


def ensure_gssapi(listener_name: str) -> None:
    """Raise ConfigError without python-gssapi."""
    try:
        import gssapi  # noqa: F401
    except ImportError as error:
        needs = f"needs python-gssapi and the libraries of MIT Kerberos: {install_command('kerberos')}"
        raise ConfigError(f"GSSAPI (listener {listener_name}) {needs} ({error})") from None


MECHANISMS: Final[dict[str, MechanismKind]] = {
    PLAIN: MechanismKind(
        PLAIN_LOGIN_MODULE,
        lambda order: PlainServerCallbackHandler(),
        _without_login(PlainSaslServer),
        (f"{_KAFKA}.plain.internals.PlainServerCallbackHandler",),
    ),
    **{mechanism.name: _scram(mechanism) for mechanism in SCRAM_MECHANISMS},
    OAUTHBEARER: MechanismKind(OAUTH_LOGIN_MODULE, _token_handler, _without_login(OAuthBearerSaslServer), (_UNSECURED, *_SIGNED)),
    GSSAPI: MechanismKind(KERBEROS_LOGIN_MODULE, _authorizer, _kerberos, (f"{_KAFKA}.authenticator.SaslServerCallbackHandler",)),
}
