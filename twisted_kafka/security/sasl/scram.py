"""The server's side of a SCRAM exchange. (Kafka: ScramSaslServer, ScramServerCallbackHandler.)

Without a credential the exchange goes on with a made-up salt and fails at its end, so that nobody learns which users exist. Kafka
ends it at once.
"""

import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.protocol.errors import SaslAuthenticationError
from twisted_kafka.security.sasl.interfaces import (
    DelegationTokenCredentialCallback,
    IAuthenticateCallbackHandler,
    SaslError,
    ScramCredentialCallback,
)
from twisted_kafka.security.sasl.jaas import JaasEntry
from twisted_kafka.security.scram.credential_cache import CredentialCache
from twisted_kafka.security.scram.credentials import ScramCredential
from twisted_kafka.security.scram.formulas import MIN_ITERATIONS, ScramMechanism, is_proof, signature
from twisted_kafka.security.scram.messages import (
    ClientFirst,
    InvalidMessageError,
    parse_client_final,
    parse_client_first,
    server_final,
    server_first,
)
from twisted_kafka.security.scram.token_credentials import TokenCredentials
from twisted_kafka.system import machine

LOGIN_MODULE: Final = "ScramLoginModule"
TOKEN_EXTENSION: Final = "tokenauth"
NONCE_BYTES: Final = 24

_SALT_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SALT_LENGTH: Final = 26
_SECRET: Final = machine.random_bytes(32)

_log = Logger()


class ScramSaslServer:
    """One exchange (``ISaslServer``)."""

    def __init__(self, mechanism: ScramMechanism, handler: Any, make_nonce: Any = None) -> None:
        """``handler`` is an ``IAuthenticateCallbackHandler`` for the two kinds of callbacks with credentials."""
        self._mechanism = mechanism
        self._handle = handler.handle
        self._make_nonce = make_nonce or (lambda: machine.random_text(NONCE_BYTES))
        self._first: ClientFirst | None = None
        self._answer = ""
        self._nonce = ""
        self._credential: ScramCredential | None = None
        self._usual_iterations = MIN_ITERATIONS
        self._owner = ""
        self.is_complete = False
        self.is_token_authenticated = False
        self.credential_expires_at_ms: int | None = None

    @property
    def authorization_id(self) -> str:
        """The user, or the owner of the delegation token."""
        return self._owner

    def evaluate(self, token: bytes) -> bytes:
        """Answer the client's first message, then its final one."""
        try:
            if self._first is None:
                return self._take_first(parse_client_first(token)).encode()
            return self._take_final(self._first, token).encode()
        except InvalidMessageError as error:
            raise SaslError(str(error)) from None

    def _take_first(self, first: ClientFirst) -> str:
        self._first = first
        try:
            credential = self._look_up(first)
        except Exception as error:
            _log.failure("The callback handler of {name} failed", name=self._mechanism.name)
            raise SaslError("Authentication failed: Credentials could not be obtained") from error
        if first.authorization_id not in ("", first.username):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential is not None and credential.iterations < MIN_ITERATIONS:
            raise SaslError(f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS}")
        self._credential = credential
        self._nonce = first.nonce + self._make_nonce()
        salt = _made_up_salt(self._mechanism, first.username) if credential is None else credential.salt
        self._answer = server_first(self._nonce, salt, self._usual_iterations if credential is None else credential.iterations)
        return self._answer

    def _look_up(self, first: ClientFirst) -> ScramCredential | None:
        if first.extensions.get(TOKEN_EXTENSION, "").lower() == "true":
            callback = DelegationTokenCredentialCallback(self._mechanism.name, first.username)
            self._handle(callback)
            if callback.credential is None or callback.token_owner is None:
                return None
            self._owner = callback.token_owner
            self.credential_expires_at_ms = callback.token_expires_at_ms
            self.is_token_authenticated = True
            return callback.credential
        plain_callback = ScramCredentialCallback(self._mechanism.name, first.username)
        self._handle(plain_callback)
        self._owner = first.username
        self._usual_iterations = plain_callback.usual_iterations
        return plain_callback.credential

    def _take_final(self, first: ClientFirst, token: bytes) -> str:
        final = parse_client_final(token, first.header)
        credential, self._credential = self._credential, None  # a second final message finds none
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            raise SaslError("Invalid client nonce in the final client message.")
        if credential is None:
            raise SaslError("Authentication failed: Invalid user credentials")
        auth_message = f"{first.bare},{self._answer},{final.without_proof}".encode()
        if not is_proof(self._mechanism, credential.stored_key, auth_message, final.proof):
            raise SaslError("Invalid client credentials")
        self.is_complete = True
        return server_final(signature(self._mechanism, credential.server_key, auth_message))


def _made_up_salt(mechanism: ScramMechanism, username: str) -> bytes:
    """Return a salt that is the same each time, and looks like one of Kafka's tools."""
    number = int.from_bytes(hmac.digest(_SECRET, f"{mechanism.name}:{username}".encode(), "sha256"), "big")
    digits = []
    for _ in range(_SALT_LENGTH):
        number, digit = divmod(number, len(_SALT_DIGITS))
        digits.append(_SALT_DIGITS[digit])
    return "".join(digits).encode()


@implementer(IAuthenticateCallbackHandler)
class ScramServerCallbackHandler:
    """Looks credentials up in the metadata store's."""

    def __init__(self, credentials: CredentialCache, tokens: TokenCredentials | None = None) -> None:
        """Without ``tokens`` nobody logs in with a delegation token."""
        self._credentials = credentials
        self._tokens = tokens

    def configure(self, configs: Mapping[str, str], mechanism: str, jaas_entries: Sequence[JaasEntry]) -> None:
        pass  # the login module has no options for servers

    def handle(self, callback: object) -> None:
        """Look up a credential."""
        if isinstance(callback, ScramCredentialCallback):
            callback.credential = self._credentials.credential(callback.mechanism, callback.username)
            callback.usual_iterations = self._credentials.usual_iterations(callback.mechanism)
        elif isinstance(callback, DelegationTokenCredentialCallback) and self._tokens is not None:
            found = self._tokens.token_credential(callback.mechanism, callback.token_id)
            if found is not None:
                callback.credential, callback.token_owner, callback.token_expires_at_ms = found

    def close(self) -> None: ...
