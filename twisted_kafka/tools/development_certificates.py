"""A certificate authority in a directory, and the stores of a broker and of a client that it signs for.

For development: the authority's key is not encrypted, and the password of the stores is beside them. Only their owner can read
them.
"""

import ipaddress
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from twisted_kafka.system.files.names import open_descriptor
from twisted_kafka.tls.jks import SALT_BYTES, encrypt_key, write_jks

AUTHORITY_DAYS: Final = 3650
MAX_DAYS: Final = 3650

_AUTHORITY, _AUTHORITY_KEY, _PASSWORD = "ca.pem", "ca-key.pem", "password"
_ORGANIZATION: Final = "twisted_kafka development"
_CLOCK_SKEW: Final = timedelta(hours=1)
"""Certificates are valid from an hour ago, for machines with different clocks."""


class DevelopmentCertificates:
    """Makes the files and replaces existing ones, except for the authority and the password."""

    def __init__(self, directory: Path, now_ms: int) -> None:
        self._directory = directory
        self._now = datetime.fromtimestamp(now_ms / 1000, UTC)
        self._written: list[Path] = []

    def make(self, hosts: Sequence[str], days: int) -> list[Path]:
        """Make certificates that are valid for ``days``, the broker's for these names and addresses; return the files.

        Raises ValueError for an authority that cannot be used, and for names and days that are invalid.
        """
        if not 1 <= days <= MAX_DAYS:
            raise ValueError(f"--days must be from 1 to {MAX_DAYS}, not {days}")
        names = [_general_name(host) for host in hosts]
        self._directory.mkdir(parents=True, exist_ok=True)
        authority_key, authority = self._authority()
        password = self._password()
        self._write_trust_stores(authority, password)
        for name, usages in (
            ("broker", [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            ("client", [ExtendedKeyUsageOID.CLIENT_AUTH]),
        ):
            key = ec.generate_private_key(ec.SECP256R1())
            builder = self._builder(name, authority.subject, key, days)
            builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
            builder = builder.add_extension(issuer, critical=False)
            if name == "broker":
                builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            self._write_key_stores(name, key, (builder.sign(authority_key, hashes.SHA256()), authority), password)
        self._write_settings(password)
        return self._written

    # The authority

    def _authority(self) -> tuple[Any, x509.Certificate]:
        """Return the key and the certificate of the directory's authority; make them if they do not exist."""
        paths = [self._directory / name for name in (_AUTHORITY_KEY, _AUTHORITY)]
        if not any(path.exists() for path in paths):
            return self._new_authority()
        try:
            key = load_pem_private_key(paths[0].read_bytes(), None)
            certificate = x509.load_pem_x509_certificate(paths[1].read_bytes())
        except (ValueError, TypeError, FileNotFoundError) as error:
            raise ValueError(
                f"Cannot use the authority in {self._directory}, remove {_AUTHORITY} and {_AUTHORITY_KEY}: {error}"
            ) from None
        if certificate.not_valid_after_utc <= self._now:
            raise ValueError(f"The authority in {self._directory} has expired: remove {_AUTHORITY} and {_AUTHORITY_KEY}")
        if certificate.public_key() != key.public_key():
            raise ValueError(f"{_AUTHORITY} and {_AUTHORITY_KEY} in {self._directory} do not belong together")
        return key, certificate

    def _new_authority(self) -> tuple[Any, x509.Certificate]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject("CA " + secrets.token_hex(4))
        builder = self._builder(subject, subject, key, AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_authority_usage(), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        certificate = builder.sign(key, hashes.SHA256())
        self._write(_AUTHORITY_KEY, _key_pem(key))
        self._write(_AUTHORITY, certificate.public_bytes(Encoding.PEM))
        return key, certificate

    def _builder(self, name: str | x509.Name, issuer: x509.Name, key: Any, days: int) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_subject(name) if isinstance(name, str) else name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _CLOCK_SKEW)
            .not_valid_after(self._now + timedelta(days=days))
        )

    def _password(self) -> str:
        """Return the password of the stores. It stays the same, because settings contain it."""
        path = self._directory / _PASSWORD
        if not path.exists():
            self._write(_PASSWORD, secrets.token_urlsafe(18).encode())
        return path.read_text().strip()

    # Files

    def _write_trust_stores(self, authority: x509.Certificate, password: str) -> None:
        encryption = BestAvailableEncryption(password.encode())
        entries = [pkcs12.PKCS12Certificate(authority, b"ca")]
        self._write("truststore.p12", pkcs12.serialize_java_truststore(entries, encryption))
        self._write("truststore.jks", write_jks([], {"ca": authority.public_bytes(Encoding.DER)}, password, self._now_ms))

    def _write_key_stores(self, name: str, key: Any, chain: Sequence[x509.Certificate], password: str) -> None:
        self._write(f"{name}.pem", _key_pem(key) + b"".join(each.public_bytes(Encoding.PEM) for each in chain))
        encryption = BestAvailableEncryption(password.encode())
        self._write(f"{name}.p12", pkcs12.serialize_key_and_certificates(name.encode(), key, chain[0], list(chain[1:]), encryption))
        plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        certificates = [each.public_bytes(Encoding.DER) for each in chain]
        entry = encrypt_key(name, plain, certificates, password, secrets.token_bytes(SALT_BYTES))
        self._write(f"{name}.jks", write_jks([entry], {}, password, self._now_ms))

    def _write_settings(self, password: str) -> None:
        """Write the settings of a broker, of Java's clients and of librdkafka."""
        at = self._directory.absolute()
        stores = {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": at / "truststore.p12",
            "ssl.truststore.password": password,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": password,
            "ssl.key.password": password,
        }
        broker = {"listeners": "SSL://:9093", "inter.broker.listener.name": "SSL", "ssl.client.auth": "required"}
        self._write("broker.properties", _properties(broker | stores | {"ssl.keystore.location": at / "broker.p12"}))
        client = {"security.protocol": "SSL", **stores, "ssl.keystore.location": at / "client.p12"}
        self._write("client.properties", _properties(client))
        librdkafka = {
            "security.protocol": "ssl",
            "ssl.ca.location": at / _AUTHORITY,
            "ssl.keystore.location": at / "client.p12",
            "ssl.keystore.password": password,
        }
        self._write("librdkafka.properties", _properties(librdkafka))

    @property
    def _now_ms(self) -> int:
        return int(self._now.timestamp() * 1000)

    def _write(self, name: str, data: bytes) -> None:
        """Write a file in one step, because a broker may read it; only the owner can read it."""
        path = self._directory / name
        temporary = path.with_name(f".{name}.new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(open_descriptor(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        temporary.replace(path)
        self._written.append(path)


def _properties(settings: Mapping[str, object]) -> bytes:
    def lines() -> Iterator[str]:
        for key, value in settings.items():
            escaped = str(value).replace("\\", "\\\\")
            yield f"{key}={escaped}\n"

    return "".join(lines()).encode()


def _key_pem(key: Any) -> bytes:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem


def _subject(name: str) -> x509.Name:
    attributes = [(NameOID.ORGANIZATION_NAME, _ORGANIZATION), (NameOID.COMMON_NAME, name)]
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host.encode("idna").decode())
    except UnicodeError:
        raise ValueError(f"{host!r} is neither a host name nor an address") from None


def _authority_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        key_cert_sign=True,
        crl_sign=True,
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
