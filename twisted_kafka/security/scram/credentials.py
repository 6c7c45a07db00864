"""The credential that the broker stores for a user's password. (Kafka: ScramCredential, ScramCredentialUtils.)"""

import binascii
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

from typing_extensions import override

from twisted_kafka.security.scram.formulas import ScramMechanism, client_key, server_key, stored_key

_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")


class ScramCredential(NamedTuple):
    """A credential for one mechanism. The password cannot be computed from it, but its owner can impersonate the broker."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @override
    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    def encode(self) -> str:
        """Return the text that Kafka stores in ``/config/users``."""
        salt, stored, server = (b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"


def make_credential(mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
    """Return the credential for a salted password."""
    stored = stored_key(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, stored, server_key(mechanism, salted), iterations)


def parse_credential(text: str) -> ScramCredential:
    """Parse a stored text; raise ValueError, without showing it."""
    fields = dict(part.strip().partition("=")[::2] for part in text.split(","))
    if sorted(fields) != sorted(_FIELDS):
        raise ValueError("a SCRAM credential must have salt, stored_key, server_key and iterations")
    try:
        salt, stored, server = (b64decode(fields[name], validate=True) for name in _FIELDS[:3])
        return ScramCredential(salt, stored, server, int(fields["iterations"]))
    except (binascii.Error, ValueError):
        raise ValueError("a SCRAM credential has a part that is not base64, or no number of iterations") from None
