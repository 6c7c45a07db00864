"""Signed JSON web tokens, verified with the keys of a JWKS endpoint. (Kafka: OAuthBearerValidatorCallbackHandler.)"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from twisted_kafka.security.oauth.claims import MAX_BYTES, InvalidTokenError, OAuthToken, check_times, parse_object, text, texts
from twisted_kafka.security.oauth.jwks import Jwks
from twisted_kafka.timing.clock import IClock

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures with a private key. Those with a shared key are refused: a public key must not be taken for one."""


class TokenRules(NamedTuple):
    """The rules for valid tokens: the keys ``sasl.oauthbearer.*``."""

    skew_ms: int
    audiences: Sequence[str]
    issuer: str | None
    scope_claim: str
    principal_claim: str


class SignedTokens:
    """Accepts tokens with a valid signature and the right claims."""

    def __init__(self, jwks: Jwks, rules: TokenRules, clock: IClock) -> None:
        self._jwks = jwks
        self._rules = rules
        self._clock = clock

    def validate(self, token: str) -> OAuthToken:
        """Return the claims of a valid token; raise InvalidTokenError."""
        if len(token) > MAX_BYTES:
            raise InvalidTokenError("the token is too large")
        claims = parse_object(self._verified(token), "claims")
        rules = self._rules
        expires_ms = check_times(claims, self._clock.wall_ms(), rules.skew_ms, requires_issued_at=True)
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise InvalidTokenError("the token has another issuer than sasl.oauthbearer.expected.issuer")
        audiences = claims.get("aud")
        found = audiences if isinstance(audiences, list) else [audiences]
        if rules.audiences and not any(each in rules.audiences for each in found):
            raise InvalidTokenError("the token is for another audience than sasl.oauthbearer.expected.audience")
        return OAuthToken(text(claims, rules.principal_claim), expires_ms, texts(claims, rules.scope_claim))

    def _verified(self, token: str) -> bytes:
        """Return the payload of a token with a valid signature."""
        try:
            signed: Any = jws.extract_compact(token.encode())
            keys = self._keys_for(signed.headers().get("kid"))
            verified = jws.deserialize_compact(token, keys, algorithms=list(ALGORITHMS))
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise InvalidTokenError(f"the signature is not valid ({type(error).__name__})") from error
        return bytes(verified.payload)

    def _keys_for(self, key_id: object) -> KeySet:
        keys = self._jwks.keys
        if key_id is not None and all(key.kid != key_id for key in keys.keys):
            self._jwks.refresh_early()
            raise InvalidTokenError("the token's key is unknown; the keys are fetched again")
        return keys
