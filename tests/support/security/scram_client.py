"""The client's side of SCRAM, step by step, so that a test can send what a client would not."""

import base64
from typing import Any

from twisted_kafka.security.scram.credentials import ScramCredential, make_credential
from twisted_kafka.security.scram.formulas import (
    SCRAM_SHA_256,
    ScramMechanism,
    client_key,
    client_proof,
    salted_password,
    server_key,
    signature,
)
from twisted_kafka.security.scram.messages import sasl_name

SALT = b"x4vkz7q0salt"


def credential(password: str, mechanism: ScramMechanism = SCRAM_SHA_256, iterations: int = 4096) -> ScramCredential:
    salted = salted_password(mechanism, password.encode(), SALT, iterations)
    return make_credential(mechanism, SALT, salted, iterations)


class ScramClient:
    def __init__(
        self, user: str, password: str, mechanism: ScramMechanism = SCRAM_SHA_256, nonce: str = "fyko+d2lbbFgONRv9qkxdawL"
    ) -> None:
        self.mechanism = mechanism
        self.header = "n,,"
        self.bare = f"n={sasl_name(user)},r={nonce}"
        self.password = password
        self.server_first = ""
        self.auth_message = b""
        self.salted = b""

    def first(self) -> bytes:
        return f"{self.header}{self.bare}".encode()

    def final(self, server_first: bytes, **changes: Any) -> bytes:
        """Answer the server's first message; ``changes`` replace binding and nonce."""
        self.server_first = server_first.decode()
        fields = dict(part.split("=", 1) for part in self.server_first.split(","))
        self.salted = salted_password(self.mechanism, self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        binding = changes.get("binding", base64.b64encode(self.header.encode()).decode())
        without_proof = f"c={binding},r={changes.get('nonce', fields['r'])}"
        self.auth_message = f"{self.bare},{self.server_first},{without_proof}".encode()
        proof = client_proof(self.mechanism, client_key(self.mechanism, self.salted), self.auth_message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def is_server(self, final: bytes) -> bool:
        """Whether the server has proved that it knows the credential."""
        expected = signature(self.mechanism, server_key(self.mechanism, self.salted), self.auth_message)
        return final == b"v=" + base64.b64encode(expected)
