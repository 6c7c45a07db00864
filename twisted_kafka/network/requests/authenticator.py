"""The authentication of one connection, as the network layer and the handlers see it. (Kafka: Authenticator.)"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

NEVER_NS: Final = 1 << 63
"""The end of a session that does not end."""


class MechanismChoice(NamedTuple):
    """The outcome of a SaslHandshake: whether the mechanism is enabled, and all that are."""

    is_enabled: bool
    enabled_mechanisms: Sequence[str]


class AuthenticationInterruptedError(Exception):
    """An authentication has failed for a reason that may pass: the client is disconnected without an answer, and tries again."""


class TokenAnswer(NamedTuple):
    """The answer to a client's token. With the last one, the client is authenticated."""

    token: bytes | None
    """None: empty, and left out for a client without SaslAuthenticate."""
    is_complete: bool
    session_lifetime_ms: int
    """After so long the client has to have re-authenticated; 0: never, or not complete."""


class IAuthenticator(Protocol):
    """The SASL authentication of one connection; its listeners have none otherwise.

    A connection has one request in flight, so its methods are called by one thread at a time. The attributes may be read by any.
    """

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has authenticated itself, and does not re-authenticate at the moment."""

    @property
    def has_been_authenticated(self) -> bool:
        """Whether the client has authenticated itself before, so that this is a re-authentication."""

    @property
    def expects_token(self) -> bool:
        """Whether the next frame is a SASL token without a request header (SaslHandshake v0)."""

    @property
    def is_token_due(self) -> bool:
        """Whether a mechanism is chosen, and the client is to send its next token."""

    @property
    def supports_reauthentication(self) -> bool:
        """Whether the client understands the lifetime of its session (SaslAuthenticate v1)."""

    @property
    def reauthentication_ms(self) -> int | None:
        """How long the last re-authentication took; None if there has been none."""

    def admits(self, api_key: int, received_ns: int) -> bool:
        """Return whether a request is for the handlers of the authenticated; otherwise see ``serves``.

        ``received_ns`` is the monotonic time at which it was received, here and below.
        """

    def has_expired(self, received_ns: int) -> bool:
        """Return whether the session had ended, so that the connection has to be closed."""

    def serves(self, api_key: int, received_ns: int) -> bool:
        """Return whether a request that is not admitted is a step of the authentication. Counts it: their number is limited.

        A SaslHandshake of an authenticated client begins a re-authentication.
        """

    def versions_told(self) -> None:
        """Record that an ApiVersions request was answered."""

    def choose(self, mechanism: str, version: int) -> MechanismChoice:
        """Take a SaslHandshake of this version. If the mechanism is not enabled, the authentication has failed."""

    def evaluate(self, token: bytes, version: int) -> TokenAnswer:
        """Take a token. ``version`` is that of the SaslAuthenticate request, -1 for a token without a header.

        Raises SaslAuthenticationError, with the text for the client, when the authentication has failed, or
        AuthenticationInterruptedError.
        """

    def refuse(self, why: str) -> None:
        """End the authentication: the client has sent something that is no step of it."""
