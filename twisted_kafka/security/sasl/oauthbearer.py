"""SASL/OAUTHBEARER (RFC 7628, KIP-255, KIP-768). (Kafka: OAuthBearerSaslServer and its callback handlers.)

A token that is not accepted is answered with JSON that says why. The client acknowledges it, and only then the exchange fails.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from twisted.logger import Logger
from typing_extensions import override
from zope.interface import implementer

from twisted_kafka.protocol.errors import SaslAuthenticationError
from twisted_kafka.security.oauth.claims import InvalidTokenError, OAuthToken
from twisted_kafka.security.sasl.interfaces import (
    IAuthenticateCallbackHandler,
    OAuthBearerExtensionsValidatorCallback,
    OAuthBearerValidatorCallback,
    SaslError,
)
from twisted_kafka.security.sasl.jaas import JaasEntry, options_of

LOGIN_MODULE: Final = "OAuthBearerLoginModule"

_ACKNOWLEDGED: Final = b"\x01"
_NAME: Final = r"(?:[^\0=,]|=2C|=3D)+"
_RESPONSE: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01", re.DOTALL
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)")

_log = Logger()


class InitialResponse(NamedTuple):
    """The client's first message."""

    authorization_id: str
    token: str
    extensions: Mapping[str, str]

    @override
    def __repr__(self) -> str:
        return f"InitialResponse({self.authorization_id!r})"


class ITokenValidator(Protocol):
    """Accepts tokens, or does not."""

    def validate(self, token: str) -> OAuthToken:
        """Return the claims of a valid token; raise InvalidTokenError."""


class OAuthBearerSaslServer:
    """One exchange (``ISaslServer``)."""

    is_token_authenticated = False

    def __init__(self, handler: Any) -> None:
        """``handler`` is an ``IAuthenticateCallbackHandler`` for the two kinds of OAuthBearer callbacks."""
        self._handle = handler.handle
        self._refusal: str | None = None
        self._token: OAuthToken | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the token is accepted."""
        return self._token is not None

    @property
    def authorization_id(self) -> str:
        """The principal that the token names."""
        return "" if self._token is None else self._token.principal_name

    @property
    def credential_expires_at_ms(self) -> int | None:
        """When the token expires."""
        return None if self._token is None else self._token.expires_at_ms

    def evaluate(self, token: bytes) -> bytes:
        """Check the client's token; return an empty answer, or why it is refused."""
        if self._refusal is not None:
            if token == _ACKNOWLEDGED:
                raise SaslAuthenticationError(self._refusal)
            raise SaslError("another message after the token was refused")
        response = parse_initial_response(token)
        callback = OAuthBearerValidatorCallback(response.token)
        self._call(callback)
        if callback.token is None:
            refusal = {"status": callback.error_status or "invalid_token"}
            if callback.error_scope is not None:
                refusal["scope"] = callback.error_scope
            if callback.error_openid_configuration is not None:
                refusal["openid-configuration"] = callback.error_openid_configuration
            self._refusal = json.dumps(refusal, separators=(", ", ":"))
            return self._refusal.encode()
        principal = callback.token.principal_name
        if response.authorization_id not in ("", principal):
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({response.authorization_id}) that is different "
                f"from the token's principal name ({principal})"
            )
        if response.extensions:
            self._check_extensions(OAuthBearerExtensionsValidatorCallback(callback.token, response.extensions))
        self._token = callback.token
        return b""

    def _check_extensions(self, callback: OAuthBearerExtensionsValidatorCallback) -> None:
        self._call(callback)
        if callback.invalid:
            told = "; ".join(f"{name}: {why}" for name, why in callback.invalid.items())
            raise SaslAuthenticationError(
                f"Authentication failed: {len(callback.invalid)} extensions are invalid! They are: {told}"
            )

    def _call(self, callback: object) -> None:
        try:
            self._handle(callback)
        except Exception as error:
            _log.failure("The callback handler of OAUTHBEARER failed")
            raise SaslError("Authentication could not be performed due to an internal error on the server") from error


def parse_initial_response(message: bytes) -> InitialResponse:
    """Parse the client's first message; raise SaslError."""
    try:
        match = _RESPONSE.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.partition("=")[::2] for pair in match["pairs"].split("\x01") if pair)
    auth = pairs.pop("auth", None)
    if auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    found = _AUTH.fullmatch(auth)
    if found is None or found["scheme"].lower() != "bearer":
        raise SaslError("Invalid scheme or token in OAUTHBEARER client first message")
    authorization_id = (match["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return InitialResponse(authorization_id, found["token"], pairs)


@implementer(IAuthenticateCallbackHandler)
class TokenCallbackHandler:
    """Has tokens validated. Extensions are not looked at, as by Kafka's handlers."""

    def __init__(self, make_validator: Callable[[Mapping[str, str]], ITokenValidator], close: Callable[[], object]) -> None:
        """``make_validator`` is called with the options of the login module; it raises ValueError for invalid ones."""
        self._make_validator = make_validator
        self._close = close
        self._validator: ITokenValidator | None = None

    def configure(self, configs: Mapping[str, str], mechanism: str, jaas_entries: Sequence[JaasEntry]) -> None:
        """Make the validator."""
        self._validator = self._make_validator(options_of(jaas_entries, LOGIN_MODULE))

    def handle(self, callback: object) -> None:
        """Validate a token."""
        if not isinstance(callback, OAuthBearerValidatorCallback):
            return
        assert self._validator is not None, "it is configured"
        try:
            callback.token = self._validator.validate(callback.token_value)
        except InvalidTokenError as error:
            _log.info("A bearer token is refused: {why}", why=error)
            callback.error_status, callback.error_scope = error.status, error.scope

    def close(self) -> None:
        """Release the validator's resources."""
        self._close()
