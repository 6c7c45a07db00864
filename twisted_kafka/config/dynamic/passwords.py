"""Encryption of passwords in dynamic settings, which the metadata store holds encrypted with ``password.encoder.secret``.

The format is that of Kafka's EncryptingPasswordEncoder, so that both brokers can read each other's passwords.
"""

import base64
from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.system import machine

DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
SALT_BYTES: Final = 256
MAX_ITERATIONS: Final = 10_000_000
"""The maximum number of iterations accepted from the store: a hostile value would block the broker for a long time."""

_HASHES: Final = {f"PBKDF2WithHmac{name.upper()}": name for name in ("sha1", "sha224", "sha256", "sha384", "sha512")}
_CBC: Final = "AES/CBC/PKCS5PADDING"
_GCM: Final = "AES/GCM/NOPADDING"
_BLOCK_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_KEY_BITS: Final = (128, 192, 256)


class PasswordEncoder:
    """Encrypts and decrypts passwords as the settings ``password.encoder.*`` specify."""

    def __init__(self, config: KafkaConfig) -> None:
        """Raises ConfigError for an algorithm that is not supported."""
        self._secret = config.optional_string("password.encoder.secret")
        self._old_secret = config.optional_string("password.encoder.old.secret")
        self._key_factory = config.optional_string("password.encoder.keyfactory.algorithm") or DEFAULT_KEY_FACTORY
        self._cipher = config.string("password.encoder.cipher.algorithm")
        self._key_bits = config.int("password.encoder.key.length")
        self._iterations = config.int("password.encoder.iterations")
        for key, value, allowed in (
            ("password.encoder.keyfactory.algorithm", self._key_factory, tuple(_HASHES)),
            ("password.encoder.cipher.algorithm", self._cipher.upper(), (_CBC, _GCM)),
            ("password.encoder.key.length", self._key_bits, _KEY_BITS),
        ):
            if value not in allowed:
                raise ConfigError(f"Invalid value '{value}' for {key}: must be one of {', '.join(map(str, allowed))}")

    def encode(self, password: str) -> str:
        """Encrypt a password; raise ConfigError without a secret."""
        if self._secret is None:
            raise ConfigError("Password encoder secret not configured: password.encoder.secret must be set for dynamic passwords")
        salt = machine.random_bytes(SALT_BYTES)
        key = _derive(self._secret, self._key_factory, salt, self._iterations, self._key_bits)
        is_gcm = self._cipher.upper() == _GCM
        initial = machine.random_bytes(_NONCE_BYTES if is_gcm else _BLOCK_BYTES)
        encrypted = (_gcm if is_gcm else _cbc)(key, initial, password.encode(), encrypt=True)
        fields = {
            "keyFactoryAlgorithm": self._key_factory,
            "cipherAlgorithm": self._cipher,
            "keyLength": str(self._key_bits),
            "salt": _to_base64(salt),
            "iterations": str(self._iterations),
            "encryptedPassword": _to_base64(encrypted),
            "passwordLength": str(_java_length(password)),
            "initializationVector": _to_base64(initial),
        }
        if is_gcm:
            fields["authenticationTagLength"] = str(_BLOCK_BYTES * 8)
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, encoded: str) -> str:
        """Decrypt with the secret; raise ValueError when that is not possible."""
        if self._secret is None:
            raise ValueError("password.encoder.secret is not set")
        return _decoded(encoded, self._secret)

    def decode_old(self, encoded: str) -> str | None:
        """Decrypt with ``password.encoder.old.secret``; None when it is not set or is not the secret of this password."""
        if self._old_secret is None:
            return None
        try:
            return _decoded(encoded, self._old_secret)
        except ValueError:
            return None


def _decoded(encoded: str, secret: str) -> str:
    fields = dict(pair.strip().split(":", 1) for pair in encoded.split(",") if ":" in pair)
    try:
        iterations, key_bits = int(fields["iterations"]), int(fields["keyLength"])
        key_factory, cipher = fields["keyFactoryAlgorithm"], fields["cipherAlgorithm"].upper()
        salt, initial, encrypted = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "initializationVector", "encryptedPassword")
        )
        length = int(fields["passwordLength"])
    except (KeyError, ValueError) as error:
        raise ValueError(f"not an encoded password: {type(error).__name__}") from None
    if (
        key_factory not in _HASHES
        or cipher not in (_CBC, _GCM)
        or key_bits not in _KEY_BITS
        or not 0 < iterations <= MAX_ITERATIONS
    ):
        raise ValueError(f"unsupported encryption: {key_factory}, {cipher}, {key_bits} bits, {iterations} iterations")
    key = _derive(secret, key_factory, salt, iterations, key_bits)
    password = (_gcm if cipher == _GCM else _cbc)(key, initial, encrypted, encrypt=False).decode()
    if _java_length(password) != length:
        raise ValueError("wrong secret")
    return password


def _derive(secret: str, key_factory: str, salt: bytes, iterations: int, key_bits: int) -> bytes:
    import hashlib

    return hashlib.pbkdf2_hmac(_HASHES[key_factory], secret.encode(), salt, iterations, key_bits // 8)


def _cbc(key: bytes, initial: bytes, data: bytes, *, encrypt: bool) -> bytes:
    from cryptography.hazmat.primitives import padding  # takes a tenth of a second, and few need it
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES(key), modes.CBC(initial))
    padding_of = padding.PKCS7(_BLOCK_BYTES * 8)
    if encrypt:
        padder, encryptor = padding_of.padder(), cipher.encryptor()
        return encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()
    unpadder, decryptor = padding_of.unpadder(), cipher.decryptor()
    return unpadder.update(decryptor.update(data) + decryptor.finalize()) + unpadder.finalize()


def _gcm(key: bytes, initial: bytes, data: bytes, *, encrypt: bool) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if encrypt:
        return AESGCM(key).encrypt(initial, data, None)
    try:
        return AESGCM(key).decrypt(initial, data, None)
    except InvalidTag:
        raise ValueError("wrong secret") from None


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
