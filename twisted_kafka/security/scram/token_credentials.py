"""The SCRAM credentials of delegation tokens. (Kafka: DelegationTokenCache.)

The token's id is the user, its HMAC in base64 the password.
"""

from base64 import b64encode
from collections import OrderedDict
from typing import Final

from twisted_kafka.security.delegation_tokens import DelegationToken, DelegationTokenManager
from twisted_kafka.security.scram.credentials import ScramCredential, make_credential
from twisted_kafka.security.scram.formulas import MIN_ITERATIONS, SCRAM_MECHANISMS, ScramMechanism, salted_password
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

MOST_CREDENTIALS: Final = 10_000
"""Credentials that are kept, of the tokens that were used last. Another one costs 4,096 rounds of the hash function at login."""
_SALT_BYTES: Final = 16

_MECHANISMS: Final = {mechanism.name: mechanism for mechanism in SCRAM_MECHANISMS}


class TokenCredentials:
    """Makes the credentials of tokens when clients log in with them. Any thread may call it."""

    def __init__(self, tokens: DelegationTokenManager, clock: IClock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._lock = machine.Lock()
        self._made: OrderedDict[tuple[str, bytes], ScramCredential] = OrderedDict()

    def token_credential(self, mechanism: str, token_id: str) -> tuple[ScramCredential, str, int] | None:
        """Return a token's credential, its owner's name and when it expires, in ms since 1970; None if it is unknown or expired."""
        token = self._tokens.token(token_id)
        if token is None or token.has_expired(self._clock.wall_ms()):
            return None
        return self._credential(_MECHANISMS[mechanism], token), token.owner.name, token.expires_ms

    def _credential(self, mechanism: ScramMechanism, token: DelegationToken) -> ScramCredential:
        key = mechanism.name, token.hmac
        with self._lock:
            credential = self._made.get(key)
            if credential is not None:
                self._made.move_to_end(key)
                return credential
        salt = machine.random_bytes(_SALT_BYTES)
        salted = salted_password(mechanism, b64encode(token.hmac), salt, MIN_ITERATIONS)
        credential = make_credential(mechanism, salt, salted, MIN_ITERATIONS)
        with self._lock:
            credential = self._made.setdefault(key, credential)
            while len(self._made) > MOST_CREDENTIALS:
                self._made.popitem(last=False)
        return credential
