"""Reads and writes Java key stores of type JKS, the default of ``ssl.keystore.type``.

Layout: a magic number, a version and a count; entries with a tag (1: a key and its chain, 2: a trusted certificate), an alias and a
date; finally a SHA-1 digest of the password and everything before it. A key is encrypted with a stream of SHA-1 digests.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from twisted_kafka.tls.der import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, DerError, dotted, encoded, expect

MAGIC: Final = b"\xfe\xed\xfe\xed"

ENTRIES_MAX: Final = 10_000

_DIGEST_BYTES: Final = 20
SALT_BYTES: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"
_KEY_PROTECTOR: Final = "1.3.6.1.4.1.42.2.17.1.1"
_KEY_PROTECTOR_DER: Final = bytes.fromhex("060a2b060104012a021101010500")
"""The same with its parameters, which are null."""
_VERSION: Final = 2
_CERTIFICATE_TYPE: Final = "X.509"

_int_at = Struct(">I").unpack_from
_short_at = Struct(">H").unpack_from
_pack_int = Struct(">I").pack
_pack_short = Struct(">H").pack
_pack_date = Struct(">q").pack


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
    salt, body, check = hidden[:SALT_BYTES], hidden[SALT_BYTES:-_DIGEST_BYTES], hidden[-_DIGEST_BYTES:]
    key = _masked(body, secret, salt)
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise JksError(f"the password of its key {entry.alias} is wrong")
    return key


def encrypt_key(alias: str, key: bytes, chain: Sequence[bytes], password: str, salt: bytes) -> KeyEntry:
    """Encrypt a key, PKCS #8 in DER, with 20 random bytes as ``salt``."""
    secret = _password_bytes(password)
    hidden = salt + _masked(key, secret, salt) + hashlib.sha1(secret + key).digest()
    contents = encoded(SEQUENCE, _KEY_PROTECTOR_DER) + encoded(OCTET_STRING, hidden)
    return KeyEntry(alias, encoded(SEQUENCE, contents), tuple(chain))


def write_jks(keys: Sequence[KeyEntry], trusted: Mapping[str, bytes], password: str, now_ms: int) -> bytes:
    """Return a store with these keys, and these trusted certificates in DER by alias. Aliases are in lower case."""
    parts = [MAGIC, _pack_int(_VERSION), _pack_int(len(keys) + len(trusted))]
    for entry in keys:
        parts += [_pack_int(1), _text(entry.alias), _pack_date(now_ms), _block(entry.protected), _pack_int(len(entry.chain))]
        parts += [_text(_CERTIFICATE_TYPE) + _block(certificate) for certificate in entry.chain]
    for alias, certificate in trusted.items():
        parts += [_pack_int(2), _text(alias), _pack_date(now_ms), _text(_CERTIFICATE_TYPE), _block(certificate)]
    body = b"".join(parts)
    return body + hashlib.sha1(_password_bytes(password) + _WHITENER + body).digest()


def _text(value: str) -> bytes:
    data = value.encode()
    return _pack_short(len(data)) + data


def _block(data: bytes) -> bytes:
    return _pack_int(len(data)) + data


def _masked(data: bytes, secret: bytes, salt: bytes) -> bytes:
    """Encrypt or decrypt with the stream of digests."""
    stream = bytearray()
    digest = salt
    while len(stream) < len(data):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def _password_bytes(password: str) -> bytes:
    return password.encode("utf-16-be")
