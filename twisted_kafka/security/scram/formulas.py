"""The formulas of SCRAM as pure functions. (Kafka: ScramMechanism, ScramFormatter.)"""

import hashlib
import hmac
from typing import Final, NamedTuple

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384


class ScramMechanism(NamedTuple):
    """A mechanism: its name, its number in requests, and its hash function for hashlib."""

    name: str
    number: int
    hash_name: str
    hash_bytes: int


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256", 32)
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512", 64)
SCRAM_MECHANISMS: Final = (SCRAM_SHA_256, SCRAM_SHA_512)


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return ``Hi(password, salt, iterations)``. It takes milliseconds. The broker computes it for delegation tokens only."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """Return the client's key for a salted password."""
    return hmac.digest(salted, b"Client Key", mechanism.hash_name)


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """Return the server's key for a salted password."""
    return hmac.digest(salted, b"Server Key", mechanism.hash_name)


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """Return the hash of a client's key that the server stores."""
    return hashlib.new(mechanism.hash_name, key).digest()


def signature(mechanism: ScramMechanism, key: bytes, auth_message: bytes) -> bytes:
    """Return the signature of an exchange: of the client with its stored key, of the server with its own."""
    return hmac.digest(key, auth_message, mechanism.hash_name)


def client_proof(mechanism: ScramMechanism, key: bytes, auth_message: bytes) -> bytes:
    """Return the proof that a client has this key."""
    return xor(key, signature(mechanism, stored_key(mechanism, key), auth_message))


def is_proof(mechanism: ScramMechanism, stored: bytes, auth_message: bytes, proof: bytes) -> bool:
    """Return whether a proof is that of the client whose key is stored, in constant time."""
    if len(proof) != mechanism.hash_bytes or len(stored) != mechanism.hash_bytes:
        return False
    key = xor(proof, signature(mechanism, stored, auth_message))
    return hmac.compare_digest(stored_key(mechanism, key), stored)


def xor(first: bytes, second: bytes) -> bytes:
    """Return the exclusive or of two byte strings of the same length."""
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).to_bytes(len(first), "big")
