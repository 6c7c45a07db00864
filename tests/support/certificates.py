"""Certificates for tests, made when they run: a certificate authority, and what it signs."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PASSWORD = "store-secret"
KEY_PASSWORD = "key-secret"

_DAY = datetime.timedelta(days=1)
_WORDS = {
    "CN": NameOID.COMMON_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "C": NameOID.COUNTRY_NAME,
}


def name_of(text: str) -> x509.Name:
    """``CN=a,O=b``, the last component first, as Java writes it."""
    parts = [part.split("=") for part in reversed(text.split(","))]
    return x509.Name([x509.NameAttribute(_WORDS[word], value) for word, value in parts])


class Identity:
    """A key and its certificate."""

    def __init__(self, key: Any, certificate: x509.Certificate, issuers: Sequence[x509.Certificate] = ()) -> None:
        self.key = key
        self.certificate = certificate
        self.chain = (certificate, *issuers)

    @property
    def chain_pem(self) -> str:
        return "".join(one.public_bytes(serialization.Encoding.PEM).decode() for one in self.chain)

    def key_pem(self, password: str | None = None) -> str:
        encryption = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password) + self.chain_pem)
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        encryption = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"key", self.key, self.certificate, self.chain[1:], encryption))
        return path


class Authority(Identity):
    """A certificate authority."""

    def __init__(self, name: str = "CN=Test CA,O=Tests", key: Any = None) -> None:
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = name_of(name)
        certificate = (
            _begin(subject, subject, key, -1, 3650)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_ca_usage(), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        super().__init__(key, certificate)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def write_trust(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def write_trust_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        """Write it as keytool writes trust stores: Java takes entries with its own attribute only."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        entries = [pkcs12.PKCS12Certificate(self.certificate, b"ca")]
        path.write_bytes(pkcs12.serialize_java_truststore(entries, encryption))
        return path

    def issue(
        self,
        name: str,
        hosts: Sequence[str] = (),
        *,
        days: tuple[float, float] = (-1, 30),
        is_rsa: bool = False,
        usages: Sequence[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    ) -> Identity:
        """Sign a certificate for these host names and addresses, valid between these numbers of days from now."""
        key: Any = rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
        builder = _begin(name_of(name), self.certificate.subject, key, *days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
        builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        return Identity(key, builder.sign(self.key, hashes.SHA256()), (self.certificate,))


def _begin(subject: x509.Name, issuer: x509.Name, key: Any, first_day: float, last_day: float) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + first_day * _DAY)
        .not_valid_after(now + last_day * _DAY)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _ca_usage() -> x509.KeyUsage:
    flags = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(key_cert_sign=True, crl_sign=True, **flags)
