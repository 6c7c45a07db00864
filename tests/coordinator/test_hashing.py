import pytest

from twisted_kafka.coordinator.hashing import partition_for, positive_hash


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("console-consumer-1", None),
        ("polygenelubricants", 0),  # hashCode is the smallest integer, whose absolute value is itself
        ("Ѐ" + "a", 1024 * 31 + 97),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),  # two units of UTF-16
    ],
)
def test_hash_is_javas(key: str, java_hash: int | None) -> None:
    if java_hash is not None:
        assert positive_hash(key) == java_hash
    assert 0 <= partition_for(key, 50) < 50


def test_negative_hashes_are_made_positive() -> None:
    # "zzzzzzz".hashCode() is -1606740832 + ...: computed here step by step
    value = 0
    for char in "some-rather-long-group-name":
        value = (value * 31 + ord(char)) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    assert positive_hash("some-rather-long-group-name") == abs(signed)
