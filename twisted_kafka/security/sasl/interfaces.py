"""The interfaces of mechanisms: servers that evaluate tokens, and callback handlers that know credentials.

``sasl.server.callback.handler.class`` names a Python class, ``package.module.Class``, that provides
``IAuthenticateCallbackHandler``. Its methods are called by the threads that handle requests, several at a time.
"""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Mapping, Sequence
from typing import Protocol

from typing_extensions import override
from zope.interface import Interface

from twisted_kafka.security.oauth.claims import OAuthToken
from twisted_kafka.security.sasl.jaas import JaasEntry
from twisted_kafka.security.scram.credentials import ScramCredential
from twisted_kafka.security.scram.formulas import MIN_ITERATIONS


class SaslError(Exception):
    """An exchange failed for a reason that the client must not learn: it might reveal whether a user exists.

    (Java: SaslException. A SaslAuthenticationError has a reason that the client may see.)
    """


class TransientSaslError(SaslError):
    """An exchange failed for a temporary reason. The client gets no error, so that it tries again. (Kafka: KerberosError.)"""


class ISaslServer(Protocol):
    """The server's side of one exchange. (Java: SaslServer.)"""

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated."""

    @property
    def authorization_id(self) -> str:
        """The name of the client; only valid when complete."""

    @property
    def credential_expires_at_ms(self) -> int | None:
        """The wall-clock time at which the client's credential expires; None if it does not."""

    @property
    def is_token_authenticated(self) -> bool:
        """Whether the client has authenticated itself with a delegation token."""

    def evaluate(self, token: bytes) -> bytes | None:
        """Return the answer to the client's token; raise SaslAuthenticationError or SaslError, after which nothing may follow.

        None is an empty answer that a client without SaslAuthenticate does not wait for.
        """


class AuthorizeCallback:
    """Asks whether a client may act as somebody; the handler sets ``is_authorized`` and ``authorized_id``. (Java has it too.)"""

    __slots__ = ("authentication_id", "authorization_id", "authorized_id", "is_authorized")

    def __init__(self, authentication_id: str, authorization_id: str) -> None:
        self.authentication_id = authentication_id
        """The name that the client has authenticated, such as ``alice@EXAMPLE.COM``."""
        self.authorization_id = authorization_id
        """The name as which the client wants to act."""
        self.is_authorized = False
        self.authorized_id = ""


class PlainAuthenticateCallback:
    """Asks whether a password is right. The handler sets ``is_authenticated``. (Kafka: PlainAuthenticateCallback.)"""

    __slots__ = ("is_authenticated", "password", "username")

    def __init__(self, username: str, password: str) -> None:
        self.username = username
        self.password = password
        self.is_authenticated = False

    @override
    def __repr__(self) -> str:
        return f"PlainAuthenticateCallback({self.username!r})"


class ScramCredentialCallback:
    """Asks for a user's SCRAM credential. The handler sets ``credential`` if there is one. (Kafka: ScramCredentialCallback.)

    It may set ``usual_iterations`` to the number of most credentials, so that challenges of unknown users look like others.
    """

    __slots__ = ("credential", "mechanism", "username", "usual_iterations")

    def __init__(self, mechanism: str, username: str) -> None:
        self.mechanism = mechanism
        self.username = username
        self.credential: ScramCredential | None = None
        self.usual_iterations = MIN_ITERATIONS


class DelegationTokenCredentialCallback:
    """Asks for a delegation token's credential, its owner's name and its expiry. (Kafka: DelegationTokenCredentialCallback.)"""

    __slots__ = ("credential", "mechanism", "token_expires_at_ms", "token_id", "token_owner")

    def __init__(self, mechanism: str, token_id: str) -> None:
        self.mechanism = mechanism
        self.token_id = token_id
        self.credential: ScramCredential | None = None
        self.token_owner: str | None = None
        self.token_expires_at_ms: int | None = None


class OAuthBearerValidatorCallback:
    """Asks whether a bearer token is valid. The handler sets ``token`` or the errors. (Kafka: OAuthBearerValidatorCallback.)"""

    __slots__ = ("error_openid_configuration", "error_scope", "error_status", "token", "token_value")

    def __init__(self, token_value: str) -> None:
        self.token_value = token_value
        self.token: OAuthToken | None = None
        self.error_status: str | None = None
        self.error_scope: str | None = None
        self.error_openid_configuration: str | None = None


class OAuthBearerExtensionsValidatorCallback:
    """Asks about the SASL extensions of a valid token. The handler adds an error to ``invalid`` for each invalid name."""

    __slots__ = ("extensions", "invalid", "token")

    def __init__(self, token: OAuthToken, extensions: Mapping[str, str]) -> None:
        self.token = token
        self.extensions = extensions
        self.invalid: dict[str, str] = {}


class IAuthenticateCallbackHandler(Interface):
    """Knows the credentials of one mechanism on one listener. (Kafka: AuthenticateCallbackHandler.)"""

    def configure(configs: Mapping[str, str], mechanism: str, jaas_entries: Sequence[JaasEntry]) -> None:
        """Called first, with the broker's settings as text. An exception refuses the start, or the change of the settings."""

    def handle(callback: object) -> None:
        """Answer a callback, by setting its attributes. The kind of callback depends on the mechanism.

        Any exception lets the authentication fail.
        """

    def close() -> None:
        """Release resources."""
