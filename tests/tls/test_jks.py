"""Java key stores, built here byte by byte as their format says."""

import struct
from typing import Any

import pytest

from tests.tls.jks_stores import DATE, PASSWORD, PROTECTOR, certificate, der, key, protected, store, text
from twisted_kafka.tls.jks import ENTRIES_MAX, JksError, KeyEntry, decrypt_key, encrypt_key, read_jks, write_jks


def trusted(alias: str, data: bytes, version: int = 2) -> bytes:
    return struct.pack(">I", 2) + text(alias) + DATE + certificate(data, version)


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
