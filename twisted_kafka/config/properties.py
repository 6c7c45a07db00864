"""Java .properties files with comments, continued lines and escapes (java.util.Properties.load)."""

import re
from collections.abc import Iterator
from pathlib import Path

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.system.files.file_io import read_bounded

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A larger file is no configuration."""

_BLANKS = " \t\f"
_FOUR_DIGITS = re.compile("[0-9a-fA-F]{4}")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load_properties(path: Path | str) -> dict[str, str]:
    """Read a properties file in UTF-8, with or without a byte order mark, or Latin-1; raise ConfigError when that fails."""
    try:
        data = read_bounded(Path(path), MAX_FILE_BYTES)
    except OSError as error:
        raise ConfigError(f"Cannot read the configuration {path}: {error.strerror}") from error
    if b"\0" in data:
        raise ConfigError(f"Cannot read the configuration {path}: it is not a text file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    try:
        return parse_properties(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Return the keys and values of `text`; the last value of a repeated key wins."""
    properties = {}
    for line in _logical_lines(text):
        end = _key_end(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        properties[_unescaped(line[:end])] = _unescaped(rest)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    continued = ""
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            continued += line[:-1]
            continue
        if continued or line:
            yield continued + line
        continued = ""
    if continued:
        yield continued


def _key_end(line: str) -> int:
    escaped = False
    for position, character in enumerate(line):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "=:" or character in _BLANKS:
            return position
    return len(line)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            parts.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped != "u":
            parts.append(_ESCAPES.get(escaped, escaped))
            continue
        digits = text[position : position + 4]
        if not _FOUR_DIGITS.fullmatch(digits):
            raise ConfigError(f"Invalid escape \\u{digits}: \\u must be followed by four hexadecimal digits")
        parts.append(chr(int(digits, 16)))
        position += 4
    return "".join(parts)
