"""Unsecured JSON web tokens, which anybody can make: for development. (Kafka: OAuthBearerUnsecuredValidatorCallbackHandler.)"""

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Final

from twisted_kafka.security.oauth.claims import (
    INSUFFICIENT_SCOPE,
    MAX_BYTES,
    InvalidTokenError,
    OAuthToken,
    check_times,
    parse_object,
    text,
    texts,
)
from twisted_kafka.system.numbers import INT32_MAX, decimal
from twisted_kafka.timing.clock import IClock

_PREFIX: Final = "unsecuredValidator"
_PARTS: Final = 3


class UnsecuredTokens:
    """Accepts tokens by their claims alone. The options of the JAAS entry are Kafka's."""

    def __init__(self, options: Mapping[str, str], clock: IClock) -> None:
        """Raises ValueError for an option that is invalid."""
        self._clock = clock
        self._principal_claim = options.get(f"{_PREFIX}PrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get(f"{_PREFIX}ScopeClaimName", "").strip() or "scope"
        self._required_scope = options.get(f"{_PREFIX}RequiredScope", "").split()
        skew = options.get(f"{_PREFIX}AllowableClockSkewMs", "").strip() or "0"
        skew_ms = decimal(skew, INT32_MAX)
        if skew_ms is None:
            raise ValueError(f"{_PREFIX}AllowableClockSkewMs must be a number that is not negative")
        self._skew_ms = skew_ms

    def validate(self, token: str) -> OAuthToken:
        """Return the claims of a valid token; raise InvalidTokenError."""
        claims = _claims(token)
        principal = text(claims, self._principal_claim)
        expires_ms = check_times(claims, self._clock.wall_ms(), self._skew_ms, requires_issued_at=False)
        scope = texts(claims, self._scope_claim)
        missing = [each for each in self._required_scope if each not in scope]
        if missing:
            required = f"[{', '.join(self._required_scope)}]"  # as Java writes lists
            raise InvalidTokenError(f"the token's scope lacks {missing[0]}", INSUFFICIENT_SCOPE, required)
        return OAuthToken(principal, expires_ms, scope)


def _claims(token: str) -> dict[str, object]:
    parts = token.split(".")
    if len(token) > MAX_BYTES or len(parts) != _PARTS or not parts[0] or not parts[1]:
        raise InvalidTokenError("the token does not have three parts")
    header, claims = (parse_object(_decoded(part), what) for part, what in zip(parts, ("header", "claims"), strict=False))
    if header.get("alg") != "none" or parts[2]:
        raise InvalidTokenError("the token is signed, and this listener accepts unsecured ones only")
    return claims


def _decoded(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise InvalidTokenError("a part of the token is not base64") from None
