"""The claims of a token, and the rules that they have to keep. (Kafka: OAuthBearerValidationUtils, ClaimValidationUtils.)"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"

MAX_BYTES: Final = 64 * 1024
"""The size of a token, at most."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON may have and UTF-8 may not: no response, log or ACL could have such a name."""

_LAST_S: Final = 253_402_300_799
"""The end of the year 9999: a later time is a mistake."""


class InvalidTokenError(Exception):
    """A token that is not accepted. The text is for the log; the client gets ``status`` and ``scope`` (RFC 6750)."""

    def __init__(self, why: str, status: str = INVALID_TOKEN, scope: str | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.scope = scope


class OAuthToken(NamedTuple):
    """A token that was accepted. (Kafka: OAuthBearerToken.)"""

    principal_name: str
    expires_at_ms: int
    scope: Sequence[str] = ()


def parse_object(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object in these bytes; raise InvalidTokenError."""
    try:
        found = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise InvalidTokenError(f"the token's {what} is not JSON") from None
    if not isinstance(found, dict):
        raise InvalidTokenError(f"the token's {what} is not an object")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def time_s(claims: Mapping[str, Any], name: str, *, is_required: bool) -> float | None:
    """Return a claim that is a time in seconds; raise InvalidTokenError."""
    value = claims.get(name)
    if value is None and not is_required:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LAST_S:
        raise InvalidTokenError(f"the claim {name} must be a time in seconds")
    return value


def text(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim that is a text; raise InvalidTokenError."""
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip() or _SURROGATE.search(value):
        raise InvalidTokenError(f"the claim {name} must be a text that is not blank")
    return value


def texts(claims: Mapping[str, Any], name: str) -> list[str]:
    """Return a claim that is a text with words, or a list of texts; raise InvalidTokenError."""
    value = claims.get(name)
    if value is None:
        return []
    found = value.split() if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) and each.strip() for each in found):
        raise InvalidTokenError(f"the claim {name} must be a text or a list of texts")
    return found


def check_times(claims: Mapping[str, Any], now_ms: int, skew_ms: int, *, requires_issued_at: bool) -> int:
    """Check ``exp``, ``iat`` and ``nbf``, with clocks that may differ by ``skew_ms``. Return when the token expires, in ms."""
    expires_s = time_s(claims, "exp", is_required=True)
    issued_s = time_s(claims, "iat", is_required=requires_issued_at)
    begins_s = time_s(claims, "nbf", is_required=False)
    assert expires_s is not None
    expires_ms = int(expires_s * 1000)
    if now_ms - skew_ms >= expires_ms:
        raise InvalidTokenError("the token has expired")
    for name, since_s in (("iat", issued_s), ("nbf", begins_s)):
        if since_s is not None and since_s * 1000 > now_ms + skew_ms:
            raise InvalidTokenError(f"the time of the claim {name} has not come yet")
        if since_s is not None and since_s >= expires_s:
            raise InvalidTokenError(f"the token expires before the time of its claim {name}")
    return expires_ms
