"""Java key stores, built here byte by byte as their format says."""

import hashlib
import struct
from typing import Any

import pytest

from twisted_kafka.tls.jks import ENTRIES_MAX, MAGIC, JksError, KeyEntry, decrypt_key, encrypt_key, read_jks, write_jks

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


def trusted(alias: str, data: bytes, version: int = 2) -> bytes:
    return struct.pack(">I", 2) + text(alias) + DATE + certificate(data, version)


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


def test_a_store_is_written_as_its_format_says() -> None:
    keys = [KeyEntry("one", b"protected", (b"own", b"ca")), KeyEntry("\u00e9", b"", ())]
    now_ms = 0x0102_0304_0506_0708
    date = bytes(range(1, 9))
    written = write_jks(keys, {"two": b"root"}, PASSWORD, now_ms)
    entries = [key("one", b"protected", [b"own", b"ca"]), key("\u00e9", b"", []), trusted("two", b"root")]
    dated = [each.replace(DATE, date, 1) for each in entries]
    assert written == store(*dated)


@pytest.mark.parametrize("size", [0, 1, 20, 21, 300])
def test_an_encrypted_key_can_be_decrypted(size: int) -> None:
    secret = bytes(index % 251 for index in range(size))
    entry = encrypt_key("one", secret, [b"own"], "key-secret", bytes(range(20)))
    assert (entry.alias, entry.chain) == ("one", (b"own",))
    assert (
        decrypt_key(entry, "key-secret")
        == secret
        == decrypt_key(KeyEntry("one", protected(secret, "key-secret"), ()), "key-secret")
    )


@pytest.mark.parametrize("version", [1, 2])
def test_keys_and_certificates(version: int) -> None:
    entries = [
        key("one", b"protected", [b"own", b"ca"], version),
        trusted("two", b"root", version),
        key("\u00e9", b"", [], version),
        trusted("four", b"other", version),
    ]
    data = store(*entries, version=version)
    for password in (PASSWORD, None):
        found = read_jks(data, password)
        assert found.keys == (KeyEntry("one", b"protected", (b"own", b"ca")), KeyEntry("\u00e9", b"", ()))
        assert found.trusted == (b"root", b"other")
    assert read_jks(store(version=version), PASSWORD) == ((), ())


def test_without_a_password_nothing_is_checked_as_in_java() -> None:
    data = store(trusted("a", b"root"))
    for changed in (data[:-1] + b"?", store(trusted("a", b"root"), password="another")):
        with pytest.raises(JksError, match="wrong"):
            read_jks(changed, PASSWORD)
        assert read_jks(changed, None).trusted == (b"root",)


def test_a_store_that_is_cut_or_strange() -> None:
    data = store(key("one", b"protected", [b"own"]), trusted("two", b"root"))
    for cut in range(32, len(data) - 1):
        with pytest.raises(JksError, match="truncated"):
            read_jks(data[:cut], None)
    for version, count in ((0, 0), (3, 0), (2, ENTRIES_MAX + 1)):
        with pytest.raises(JksError, match=f"version {version} or number of entries {count}"):
            read_jks(store(version=version, count=count), None)
    with pytest.raises(JksError, match="truncated"):
        read_jks(store(count=ENTRIES_MAX), None)
    with pytest.raises(JksError, match="unknown type 3"):
        read_jks(store(struct.pack(">I", 3) + text("x") + DATE), None)


@pytest.mark.parametrize("size", [0, 1, 19, 20, 21, 40, 41, 1000])
def test_a_key_is_decrypted(size: int) -> None:
    secret = bytes(index % 251 for index in range(size))
    entry = KeyEntry("one", protected(secret, "key-secret"), ())
    assert decrypt_key(entry, "key-secret") == secret
    with pytest.raises(JksError, match="password of its key one is wrong"):
        decrypt_key(entry, "other")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "malformed"),
        (der(4, b""), "malformed"),
        (der(0x30, der(0x30, b"")), "malformed"),
        (der(0x30, der(0x30, PROTECTOR)), "malformed"),
        (protected(b"x", "p", bytes.fromhex("06022a03")), "encrypted with 1.2.3"),
    ],
)
def test_a_key_that_is_no_such_key(data: bytes, message: str) -> None:
    entry: Any = KeyEntry("one", data, ())
    with pytest.raises(JksError, match=message):
        decrypt_key(entry, "p")
