import os
from pathlib import Path

import pytest

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.properties import load_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b c ", {"a": "b c "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("\n # comment\n! other\na=1\r\nb=2\r", {"a": "1", "b": "2"}),
        ("a=1,\\\n   2,\\\n 3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\t\\u00e9\\x", {"a": "\t\u00e9x"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b#not a comment", {"a": "b#not a comment"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
    ],
)
def test_properties_are_parsed_as_in_java(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_the_error_of_an_unreadable_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_properties(tmp_path / "none.properties")
    bad = tmp_path / "bad.properties"
    bad.write_text("a=\\u12")
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        load_properties(bad)


def test_files_that_are_not_utf_8_are_read_as_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "a.properties"
    path.write_bytes(b"broker.rack=\xe9")
    assert load_properties(path) == {"broker.rack": "\u00e9"}


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "a.properties"
    path.write_bytes(b"\xef\xbb\xbfbroker.rack=r1")
    assert load_properties(path) == {"broker.rack": "r1"}


def test_a_file_without_end_is_no_configuration() -> None:
    with pytest.raises(ConfigError, match=r"Cannot read the configuration /dev/zero: it has more than \d+ bytes"):
        load_properties("/dev/zero")


def test_a_configuration_may_come_through_a_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"broker.rack=r1\n")
    os.close(writing)
    try:
        assert load_properties(f"/dev/fd/{reading}") == {"broker.rack": "r1"}
    finally:
        os.close(reading)
