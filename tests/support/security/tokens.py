"""Makes bearer tokens."""

import json
from base64 import urlsafe_b64encode
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

NOW_S = 1_700_000_000


def part(data: object) -> str:
    return urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")


def unsecured(header: object = None, /, **claims: Any) -> str:
    return f"{part(header or {'alg': 'none'})}.{part(claims)}."


class Issuer:
    """Has a key, and signs tokens with it."""

    def __init__(self, key_id: str = "key-1", kind: str = "RS256") -> None:
        self.kind = kind
        parameters: Any = {"kid": key_id, "use": "sig"}
        self.key = (
            RSAKey.generate_key(2048, parameters) if kind.startswith(("RS", "PS")) else ECKey.generate_key("P-256", parameters)
        )

    def sign(self, **claims: Any) -> str:
        fields = {"alg": self.kind, "kid": self.key.kid}
        return jws.serialize_compact(fields, json.dumps(claims).encode(), self.key, algorithms=[self.kind])

    @property
    def jwks(self) -> dict[str, Any]:
        return {"keys": [self.key.as_dict(private=False)]}


def message(token: str, authorization_id: str = "", **extensions: str) -> bytes:
    """Return the client's first message."""
    header = f"n,a={authorization_id}," if authorization_id else "n,,"
    more = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    return f"{header}\x01auth=Bearer {token}\x01{more}\x01".encode()
