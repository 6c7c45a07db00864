"""Reads Java key stores of type JKS, the default of ``ssl.keystore.type``.

Layout: a magic number, a version and a count; entries with a tag (1: a key and its chain, 2: a trusted certificate), an alias and a
date; finally a SHA-1 digest of the password and everything before it. A key is encrypted with a stream of SHA-1 digests.
"""

import hashlib
import hmac
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from twisted_kafka.network.tls.der import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, DerError, dotted, expect

MAGIC: Final = b"\xfe\xed\xfe\xed"

ENTRIES_MAX: Final = 10_000

_DIGEST_BYTES: Final = 20
_SALT_BYTES: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"
_KEY_PROTECTOR: Final = "1.3.6.1.4.1.42.2.17.1.1"

_int_at = Struct(">I").unpack_from
_short_at = Struct(">H").unpack_from


class JksError(ValueError):
    """The store cannot be read. The message contains no secrets."""


class KeyEntry(NamedTuple):
    """An encrypted private key and its certificate chain, its own certificate first; all in DER."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]


class JavaStore(NamedTuple):
    """The contents of a store: keys, and trusted certificates in DER."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = len(MAGIC)

    def number(self) -> int:
        (value,) = _int_at(self._data, self._position)
        self._position += 4
        return int(value)

    def text(self) -> str:
        (size,) = _short_at(self._data, self._position)
        self._position += 2
        return self._take(size).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self._take(self.number())

    def skip_date(self) -> None:
        self._take(8)

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise JksError("it is truncated")
        data = self._data[self._position : end]
        self._position = end
        return data


def read_jks(data: bytes, password: str | None) -> JavaStore:
    """Read a store. Without a password its integrity is not checked, as in Java. Raises JksError."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_password_bytes(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(expected, digest):
            raise JksError("its password is wrong, or it has been modified")
    try:
        return _read(_Reader(body))
    except struct_error:
        raise JksError("it is truncated") from None


def _read(reader: _Reader) -> JavaStore:
    version, count = reader.number(), reader.number()
    if version not in (1, 2) or count > ENTRIES_MAX:
        raise JksError(f"unsupported version {version} or number of entries {count}")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(count):
        tag, alias = reader.number(), reader.text()
        reader.skip_date()
        if tag == 1:
            protected = reader.block()
            chain = tuple(_certificate(reader, version) for _ in range(min(reader.number(), ENTRIES_MAX)))
            keys.append(KeyEntry(alias, protected, chain))
        elif tag == 2:
            trusted.append(_certificate(reader, version))
        else:
            raise JksError(f"it has an entry of unknown type {tag}")
    return JavaStore(tuple(keys), tuple(trusted))


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == 2:
        reader.text()  # always X.509
    return reader.block()


def decrypt_key(entry: KeyEntry, password: str) -> bytes:
    """Decrypt a key; return it as PKCS #8 in DER. Raises JksError if the password is wrong."""
    try:
        sequence, _ = expect(entry.protected, SEQUENCE)
        algorithm, position = expect(sequence, SEQUENCE)
        kind = dotted(expect(algorithm, OBJECT_IDENTIFIER)[0])
        hidden, _ = expect(sequence, OCTET_STRING, position)
    except DerError as error:
        raise JksError(f"its key {entry.alias} is malformed: {error}") from None
    if kind != _KEY_PROTECTOR:
        raise JksError(f"its key {entry.alias} is encrypted with {kind}, which JKS does not support")
    secret = _password_bytes(password)
    salt, body, check = hidden[:_SALT_BYTES], hidden[_SALT_BYTES:-_DIGEST_BYTES], hidden[-_DIGEST_BYTES:]
    stream = bytearray()
    digest = salt
    while len(stream) < len(body):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    key = bytes(one ^ other for one, other in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise JksError(f"the password of its key {entry.alias} is wrong")
    return key


def _password_bytes(password: str) -> bytes:
    return password.encode("utf-16-be")
