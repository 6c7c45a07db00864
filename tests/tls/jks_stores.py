"""Java key stores, built from their parts."""

import hashlib
import struct

from twisted_kafka.tls.jks import MAGIC

PASSWORD = "store-secret"
PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
DATE = bytes(8)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">H", len(data)) + data


def block(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def certificate(data: bytes, version: int) -> bytes:
    return (text("X.509") if version == 2 else b"") + block(data)


def key(alias: str, protected: bytes, chain: list[bytes], version: int = 2) -> bytes:
    certificates = b"".join(certificate(each, version) for each in chain)
    return struct.pack(">I", 1) + text(alias) + DATE + block(protected) + struct.pack(">I", len(chain)) + certificates


def store(*entries: bytes, version: int = 2, count: int | None = None, password: str = PASSWORD) -> bytes:
    body = MAGIC + struct.pack(">II", version, len(entries) if count is None else count) + b"".join(entries)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def der(tag: int, contents: bytes) -> bytes:
    return bytes([tag, 0x82]) + struct.pack(">H", len(contents)) + contents


def protected(secret: bytes, password: str, algorithm: bytes = PROTECTOR) -> bytes:
    salt = bytes(range(20))
    stream, digest = b"", salt
    while len(stream) < len(secret):
        digest = hashlib.sha1(password.encode("utf-16-be") + digest).digest()
        stream += digest
    body = bytes(one ^ other for one, other in zip(secret, stream, strict=False))
    check = hashlib.sha1(password.encode("utf-16-be") + secret).digest()
    return der(0x30, der(0x30, algorithm + b"\5\0") + der(4, salt + body + check))
