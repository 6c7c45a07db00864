"""Loads keys and certificates from key stores and trust stores: PEM, PKCS #12 and JKS.

As in Java, a store configured as JKS may be PKCS #12 and vice versa: keytool writes PKCS #12 by default whatever the file is
called.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.tls.distinguished_name import java_name
from twisted_kafka.tls.jks import MAGIC, JksError, decrypt_key, read_jks
from twisted_kafka.tls.ssl_settings import PEM, StoreSettings

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([^-]*(?:-{1,4}[^-]+)*)-----END \1-----")
"""A block has no five dashes in it: a search for an end that never comes would look at the rest of the text for each beginning."""
_DASHES: Final = b"-----BEGIN"
_PEM_SEARCH_BYTES: Final = 4096
_PEM_LINE: Final = 64
_CERTIFICATES: Final = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_HEADER: Final = re.compile(r"^[A-Za-z-]+: .*$", re.MULTILINE)

_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)
"""What cryptography raises for keys and certificates that are malformed, or of a kind that it does not know."""

_OTHER_FORMAT: Final = (
    "is not a {kind} store; convert it with keytool -importkeystore -srckeystore {path} -destkeystore store.p12 "
    "-deststoretype PKCS12"
)


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """A private key and its certificate chain, the key's own certificate first."""

    key: Any = field(repr=False)
    chain: tuple[x509.Certificate, ...]

    @property
    def distinguished_name(self) -> str:
        """The subject in Java's format."""
        return java_name(self.chain[0].subject.public_bytes())

    @property
    def alternative_names(self) -> frozenset[str]:
        """The subject alternative names, each with its type."""
        try:
            names = self.chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return frozenset()
        return frozenset(f"{type(name).__name__}={name.value}" for name in names)


def load_key_store(store: StoreSettings) -> KeyMaterial:
    """Load the key and the certificates of a configured store; raises ConfigError, whose message contains no secrets."""
    if store.type == PEM:
        key, certificates = _pem_key_store(store)
    else:
        key, certificates = _binary_key_store(store)
    if key is None or not certificates:
        raise ConfigError(f"The key store of {_where(store)} must hold a private key and its certificate")
    try:
        chain = _ordered(key, certificates)
    except _UNREADABLE:  # its names are read here
        raise ConfigError(f"A certificate of {_where(store)} cannot be read: it is malformed") from None
    if chain is None:
        raise ConfigError(f"The key store of {_where(store)} holds no certificate for its private key")
    return KeyMaterial(key, chain)


def load_trust_store(store: StoreSettings) -> tuple[x509.Certificate, ...]:
    """Load the trusted certificates of a configured store; raises ConfigError."""
    if store.type == PEM:
        certificates = _pem_certificates(_pem_text(store, store.inline), store)
    else:
        certificates = _binary_trust_store(store)
    if not certificates:
        raise ConfigError(f"The trust store of {_where(store)} holds no certificate")
    return tuple(certificates)


def _where(store: StoreSettings) -> str:
    return f"{store.prefix}.location {store.location}" if store.location else f"{store.prefix}.*"


# PEM


def _pem_text(store: StoreSettings, inline: str | None) -> str:
    return inline if inline else store.read().decode("utf-8", "replace")


def _pem_blocks(text: str) -> list[tuple[str, bytes]]:
    """Return the label and the normalized text of each block: in properties, lines may be joined by spaces."""
    blocks = []
    for label, body in _BLOCK.findall(text):
        headers = _HEADER.findall(body)  # of an encrypted key in the traditional format
        base64 = "".join(_HEADER.sub("", body).split())
        lines = [base64[start : start + _PEM_LINE] for start in range(0, len(base64), _PEM_LINE)]
        if headers:
            lines = [*headers, "", *lines]
        blocks.append((label, "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", "")).encode()))
    return blocks


def _pem_certificates(text: str, store: StoreSettings) -> list[x509.Certificate]:
    try:
        return [x509.load_pem_x509_certificate(block) for label, block in _pem_blocks(text) if label in _CERTIFICATES]
    except _UNREADABLE:
        raise ConfigError(f"A certificate of {_where(store)} cannot be read: it is malformed") from None


def _pem_key_store(store: StoreSettings) -> tuple[Any, list[x509.Certificate]]:
    certificates = _pem_certificates(_pem_text(store, store.inline), store)
    keys = [block for label, block in _pem_blocks(_pem_text(store, store.inline_key)) if label.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise ConfigError(f"The key store of {_where(store)} must hold one private key in PEM, not {len(keys)}")
    password = store.key_password.encode() if store.key_password is not None else None
    try:
        key = serialization.load_pem_private_key(keys[0], password)
    except TypeError:
        if password is None:
            raise ConfigError(f"The private key of {_where(store)} is encrypted: ssl.key.password must be set") from None
        key = _without_password(keys[0], store)
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(
            f"The private key of {_where(store)} cannot be read: it is malformed, or ssl.key.password is wrong"
        ) from None
    return key, certificates


def _without_password(block: bytes, store: StoreSettings) -> Any:
    # The key is not encrypted although there is a password. Java accepts that too.
    try:
        return serialization.load_pem_private_key(block, None)
    except _UNREADABLE:
        raise ConfigError(f"The private key of {_where(store)} cannot be read: it is malformed") from None


# PKCS #12 and JKS


def _refuse_other_formats(store: StoreSettings, data: bytes) -> None:
    if _DASHES in data[:_PEM_SEARCH_BYTES]:
        raise ConfigError(f"{_where(store)} is PEM: {store.prefix}.type must be PEM")
    if data[:1] != b"\x30":
        raise ConfigError(f"{_where(store)} {_OTHER_FORMAT.format(kind=store.type, path=store.location)}")


def _load_pkcs12(store: StoreSettings, data: bytes) -> pkcs12.PKCS12KeyAndCertificates:
    _refuse_other_formats(store, data)
    password = store.password.encode() if store.password is not None else None
    try:
        return pkcs12.load_pkcs12(data, password)
    except _UNREADABLE:
        raise ConfigError(f"{_where(store)} cannot be read: {store.prefix}.password is wrong, or the file is damaged") from None


def _binary_key_store(store: StoreSettings) -> tuple[Any, list[x509.Certificate]]:
    data = store.read()
    if data[:4] == MAGIC:
        return _jks_key_store(store, data)
    loaded = _load_pkcs12(store, data)
    own = [loaded.cert.certificate] if loaded.cert is not None else []
    return loaded.key, [*own, *(entry.certificate for entry in loaded.additional_certs)]


def _jks_key_store(store: StoreSettings, data: bytes) -> tuple[Any, list[x509.Certificate]]:
    try:
        entries = read_jks(data, store.password).keys
        if not entries:
            return None, []
        password = store.key_password if store.key_password is not None else store.password
        key = serialization.load_der_private_key(decrypt_key(entries[0], password or ""), None)
        return key, [x509.load_der_x509_certificate(certificate) for certificate in entries[0].chain]
    except JksError as error:
        raise ConfigError(f"{_where(store)} cannot be read: {error}") from None
    except _UNREADABLE:
        raise ConfigError(f"{_where(store)} cannot be read: its key or a certificate is malformed") from None


def _binary_trust_store(store: StoreSettings) -> list[x509.Certificate]:
    data = store.read()
    if data[:4] != MAGIC:
        loaded = _load_pkcs12(store, data)
        own = [loaded.cert.certificate] if loaded.cert is not None else []
        return [*own, *(entry.certificate for entry in loaded.additional_certs)]
    try:
        found = read_jks(data, store.password)
        # Java also trusts the certificates of keys in a trust store.
        return [x509.load_der_x509_certificate(one) for one in (*found.trusted, *(entry.chain[0] for entry in found.keys))]
    except JksError as error:
        raise ConfigError(f"{_where(store)} cannot be read: {error}") from None
    except (*_UNREADABLE, IndexError):
        raise ConfigError(f"{_where(store)} cannot be read: a certificate is malformed") from None


def _ordered(key: Any, certificates: Sequence[x509.Certificate]) -> tuple[x509.Certificate, ...] | None:
    """Return the chain of a key: its own certificate, then its issuers as far as present. None without its own certificate."""
    public = _public_bytes(key)
    own = next((one for one in certificates if _public_bytes(one) == public), None)
    if own is None:
        return None
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in certificates if one.subject == chain[-1].issuer and one not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return tuple(chain)


def _public_bytes(owner: Any) -> bytes | None:
    """Return the public key of a private key or a certificate; None for one of an issuer that cannot be read here."""
    try:
        key = owner.public_key()
    except _UNREADABLE:
        return None
    return bytes(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
