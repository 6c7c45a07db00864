"""The client's side of a SASL login, without a connection: requests out, responses in. (Kafka: SaslClientAuthenticator.)"""

from typing import Final, Protocol, runtime_checkable

from twisted_kafka.client.errors import Refusal
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from twisted_kafka.protocol.regions import Buffer

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
"""With the session's lifetime. Brokers have it since Kafka 2.2."""

MAX_STEPS: Final = 10
"""Tokens in one exchange, at most."""

CLIENT_ID: Final = "sasl"


class SaslRefusedError(Exception):
    """The server rejects the login, has not proved its identity, or has sent something that is not a step of the exchange."""

    def __init__(self, text: str, refusal: Refusal = Refusal.LOGIN) -> None:
        super().__init__(text)
        self.refusal = refusal


class ISaslClient(Protocol):
    """The client's side of one exchange."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has nothing more to prove."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Return the next token, None if there is nothing more to send; the first challenge is empty. Raises SaslRefusedError."""


@runtime_checkable
class IPreparedClient(Protocol):
    """A client whose first token takes long."""

    def prepare(self) -> None:
        """Prepare the first token, such as by fetching a ticket. Called before the other methods, on a thread that may block."""


class ISaslClients(Protocol):
    """Makes clients with a broker's settings."""

    def validate(self) -> None:
        """Raise ConfigError if the settings are of no use."""

    def client_for(self, host: str) -> ISaslClient:
        """Return the client of an exchange with a broker on this host; raise ConfigError."""


class SaslSteps:
    """One login: the frames to send, in turn, and what the server's frames mean."""

    def __init__(self, client: ISaslClient) -> None:
        self._client = client
        self._steps = 0
        self._is_chosen = False
        self.is_over = False
        """Whether the connection may be used."""
        self.session_lifetime_ms = 0
        """How long the server keeps the session; 0 for no limit (KIP-368)."""

    def begin(self) -> bytes:
        """Return the first frame, which chooses the mechanism."""
        return self._frame(SaslHandshakeRequest(mechanism=self._client.mechanism), HANDSHAKE_VERSION)

    def take(self, frame: Buffer) -> bytes | None:
        """Take the server's answer; return the next frame to send, or None.

        Raises SaslRefusedError, MalformedMessageError, or UnsupportedVersionError.
        """
        key = SaslAuthenticateResponse.KEY if self._is_chosen else SaslHandshakeResponse.KEY
        version = AUTHENTICATE_VERSION if self._is_chosen else HANDSHAKE_VERSION
        correlation_id, offset = parse_response_header(key, version, frame)
        if correlation_id != self._steps:
            raise SaslRefusedError("it answered another request")
        if not self._is_chosen:
            handshake = SaslHandshakeResponse.decode(frame, version, offset)
            if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
                raise SaslRefusedError("its listener has no SASL", Refusal.NO_SASL)
            if handshake.error_code:
                enabled = ", ".join(handshake.mechanisms)
                text = f"it does not have the mechanism {self._client.mechanism} enabled, but {enabled}"
                raise SaslRefusedError(text, Refusal.MECHANISM)
            self._is_chosen = True
            return self._next(b"")
        answer = SaslAuthenticateResponse.decode(frame, version, offset)
        if answer.error_code:
            raise SaslRefusedError(answer.error_message or f"error {answer.error_code}")
        if not self._client.is_complete:
            following = self._next(bytes(answer.auth_bytes))
            if following is not None:
                return following
        self.is_over = True
        self.session_lifetime_ms = answer.session_lifetime_ms
        return None

    def _next(self, challenge: bytes) -> bytes | None:
        """Return a frame with the client's next token, if it has one."""
        if self._steps > MAX_STEPS:
            raise SaslRefusedError(f"the exchange takes more than {MAX_STEPS} steps")
        token = self._client.evaluate(challenge)
        if token is None and not self._client.is_complete:
            raise SaslRefusedError("the exchange cannot go on")
        return None if token is None else self._frame(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)

    def _frame(self, request: Message, version: int) -> bytes:
        self._steps += 1
        return encode_request_header(request.KEY, version, self._steps, CLIENT_ID) + request.encode(version)
