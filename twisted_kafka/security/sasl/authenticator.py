"""The authentication of one connection: its state, the mechanism's server, the session. (Kafka: SaslServerAuthenticator.)"""

from typing import TYPE_CHECKING, Final

from twisted.logger import Logger

from twisted_kafka.network.connection import authentication_state as states
from twisted_kafka.network.requests.authenticator import NEVER_NS, AuthenticationInterruptedError, MechanismChoice, TokenAnswer
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import SaslAuthenticationError
from twisted_kafka.security.sasl.interfaces import ISaslServer, SaslError, TransientSaslError

if TYPE_CHECKING:
    from twisted_kafka.security.sasl.sasl_listener import Mechanism, SaslListener

MAX_REQUESTS: Final = 20
"""Most requests, or tokens, of one authentication. Kerberos takes six with ApiVersions, the others fewer."""

MIN_REAUTHENTICATION_INTERVAL_NS: Final = 1_000_000_000
"""A client that re-authenticates more often gets ILLEGAL_SASL_STATE (Kafka: KafkaChannel)."""

SHOWN_CHARACTERS: Final = 64
"""How much of a name that a client has sent is logged."""

_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_MS: Final = 1_000_000

_log = Logger()


class SaslServerAuthenticator:
    """Every error leads to FAILED: nothing but ``_complete`` sets a principal."""

    __slots__ = (
        "_connection",
        "_listener",
        "_mechanism",
        "_reauthentication_began_ns",
        "_refusal",
        "_requests",
        "_server",
        "_session_ends_ns",
        "has_been_authenticated",
        "reauthentication_ms",
        "state",
        "supports_reauthentication",
    )

    def __init__(self, listener: "SaslListener", connection: ConnectionInfo) -> None:
        self._listener = listener
        self._connection = connection
        self._server: ISaslServer | None = None
        self._mechanism: Mechanism | None = None
        self._refusal: str | None = None  # why the tokens of a re-authentication are not even looked at
        self._requests = 0
        self._session_ends_ns = NEVER_NS
        self._reauthentication_began_ns: int | None = None
        self.state = states.HANDSHAKE_OR_VERSIONS
        self.has_been_authenticated = False
        self.supports_reauthentication = False
        self.reauthentication_ms: int | None = None

    @property
    def is_authenticated(self) -> bool:
        """Whether the state is AUTHENTICATED."""
        return self.state == states.AUTHENTICATED

    @property
    def expects_token(self) -> bool:
        """Whether the next frame is a token without a header."""
        return self.state in states.EXPECTS_TOKEN

    @property
    def is_token_due(self) -> bool:
        """Whether a mechanism is chosen."""
        return self.state in states.EVALUATES

    # Requests.

    def admits(self, api_key: int, received_ns: int) -> bool:
        """Return whether a request is for the handlers of the authenticated."""
        if self.state != states.AUTHENTICATED:
            return False
        if api_key == _HANDSHAKE and self._session_ends_ns != NEVER_NS:
            # Without a session that ends, or too soon, the handler answers ILLEGAL_SASL_STATE.
            return self._is_too_soon(received_ns) and received_ns <= self._session_ends_ns
        return received_ns <= self._session_ends_ns

    def has_expired(self, received_ns: int) -> bool:
        """Return whether the session had ended."""
        return self.state == states.AUTHENTICATED and received_ns > self._session_ends_ns

    def serves(self, api_key: int, received_ns: int) -> bool:
        """Return whether a request is a step of the authentication, and count it."""
        if self.state == states.AUTHENTICATED:
            if api_key != _HANDSHAKE or self._session_ends_ns == NEVER_NS or self._is_too_soon(received_ns):
                return False
            self._go(states.REAUTHENTICATION_BEGUN)
            self._reauthentication_began_ns = received_ns
            self._requests = 0
        self._requests += 1
        served = states.SERVES[self.state]
        return served is not None and api_key in served and self._requests <= MAX_REQUESTS

    def _is_too_soon(self, received_ns: int) -> bool:
        began_ns = self._reauthentication_began_ns
        return began_ns is not None and received_ns - began_ns < MIN_REAUTHENTICATION_INTERVAL_NS

    # Steps.

    def versions_told(self) -> None:
        """Record that an ApiVersions request was answered."""
        self._go(states.VERSIONS_TOLD)

    def choose(self, mechanism: str, version: int) -> MechanismChoice:
        """Take a SaslHandshake."""
        enabled = self._listener.mechanisms
        names = tuple(enabled)
        chosen = enabled.get(mechanism)
        if chosen is None:
            self.refuse(f"Unsupported SASL mechanism {mechanism[:SHOWN_CHARACTERS]!r}")
            return MechanismChoice(False, names)
        before = self._mechanism
        self._go(states.MECHANISM_CHOSEN if version else states.MECHANISM_CHOSEN_V0)
        self._refusal = None
        if self.has_been_authenticated and before is not None and before.name != chosen.name:
            # As in Kafka, the handshake succeeds and the first token is refused.
            self._refusal = (
                f"SASL mechanism '{chosen.name}' requested by client is not supported for re-authentication "
                f"of mechanism '{before.name}'"
            )
            self._server = None
        else:
            self._mechanism = chosen
            self._server = chosen.make_server()
        return MechanismChoice(True, names)

    def evaluate(self, token: bytes, version: int) -> TokenAnswer:
        """Take a token; raise SaslAuthenticationError or AuthenticationInterruptedError."""
        if version > 0:
            self.supports_reauthentication = True
        try:
            return self._evaluate(token)
        except SaslAuthenticationError as error:
            self.refuse(str(error))
            raise
        except TransientSaslError as error:
            self.refuse(f"{self._general_text()}: {error}")
            raise AuthenticationInterruptedError from error
        except SaslError as error:
            text = self._general_text()
            self.refuse(f"{text}: {error}")
            raise SaslAuthenticationError(text) from error
        except Exception as error:
            _log.failure("Evaluating a token of {id} failed", id=self._connection.connection_id)
            text = self._general_text()
            self.refuse(f"{text}: {type(error).__name__}")
            raise SaslAuthenticationError(text) from error

    def _evaluate(self, token: bytes) -> TokenAnswer:
        if self.state not in states.EVALUATES:
            raise SaslError(f"a token in state {states.STATE_NAMES[self.state]}")
        self._requests += self.expects_token  # other tokens are counted as requests
        if self._requests > MAX_REQUESTS:
            raise SaslError(f"more than {MAX_REQUESTS} requests")
        if self._refusal is not None:
            raise SaslAuthenticationError(self._refusal)
        if len(token) > self._listener.max_receive_bytes:
            raise SaslAuthenticationError("Failing SASL authentication due to invalid receive size")
        server = self._server
        assert server is not None, "a mechanism is chosen"
        answer = server.evaluate(token)
        if not server.is_complete:
            self._go(states.TOKEN_ACCEPTED)
            return TokenAnswer(answer, False, 0)
        return TokenAnswer(answer, True, self._complete(server))

    def _complete(self, server: ISaslServer) -> int:
        """Make the client the connection's principal; return the session's lifetime in ms, 0 if it does not end."""
        assert self._mechanism is not None, "a mechanism is chosen"
        connection, clock = self._connection, self._listener.clock
        principal = self._listener.principal_of(server, self._mechanism, connection)
        if self.has_been_authenticated:
            self._ensure_unchanged(principal)
        now_ns = clock.monotonic_ns()
        lifetime_ms = session_lifetime_ms(server.credential_expires_at_ms, clock.wall_ms(), self._mechanism.max_reauthentication_ms)
        self._session_ends_ns = NEVER_NS if lifetime_ms is None else now_ns + lifetime_ms * _MS
        if self.has_been_authenticated and self._reauthentication_began_ns is not None:
            self.reauthentication_ms = (now_ns - self._reauthentication_began_ns) // _MS
        self._server = None
        self._requests = 0
        connection.principal = principal
        self._go(states.COMPLETED)
        self.has_been_authenticated = True
        return lifetime_ms or 0

    def _ensure_unchanged(self, principal: KafkaPrincipal) -> None:
        before = self._connection.principal
        if (before.principal_type, before.name) != (principal.principal_type, principal.name):
            raise SaslAuthenticationError(
                f"Cannot change principals during re-authentication from {before.principal_type}.{before.name}: "
                f"{principal.principal_type}.{principal.name}"
            )

    def refuse(self, why: str) -> None:
        """End the authentication, and log why."""
        self._go(states.REFUSED)
        self._server = None
        connection = self._connection
        self._listener.failed_attempts.record(connection.client_address, connection.connection_id, connection.listener_name, why)

    def _general_text(self) -> str:
        what = "re-authentication" if self.has_been_authenticated else "authentication"
        name = "" if self._mechanism is None else self._mechanism.name
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {name}"

    def _go(self, event: int) -> None:
        self.state = states.next_state(self.state, event)


def session_lifetime_ms(expires_at_ms: int | None, now_ms: int, max_reauthentication_ms: int) -> int | None:
    """Return how long a session lasts; None if it has no end (KIP-368).

    It ends when the credential expires, or ``connections.max.reauth.ms`` (if set) after its start: at the earlier of the two.
    """
    limits = [expires_at_ms - now_ms] if expires_at_ms is not None else []
    if max_reauthentication_ms > 0:
        limits.append(max_reauthentication_ms)
    return max(0, min(limits)) if limits else None
