"""Bytes of keys, values and headers as text: JSON, text or hexadecimal, cut to a length. What clients sent stays data."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

NULL: Final = "null"
TEXT: Final = "text"
JSON: Final = "json"
HEX: Final = "hex"
AUTO: Final = "auto"
FORMS: Final = (AUTO, TEXT, JSON, HEX)

SHOWN_CHARACTERS: Final = 2_000
"""Most characters of a value in a list."""
WHOLE_CHARACTERS: Final = 1_000_000
"""Most characters of a value that is shown alone."""
_MOST_PARSED_BYTES: Final = 1024 * 1024
"""Larger values are not read as JSON."""
_BYTES_PER_CHARACTER: Final = 4
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Shown:
    """Bytes as a text."""

    text: str
    form: str
    """``null``, ``text``, ``json`` or ``hex``, or the name of a decoder's form."""
    size_bytes: int
    is_cut: bool = False
    """Whether the text shows a part only."""


_NULL: Final = Shown("", NULL, 0)


def shown(data: bytes | None, form: str = AUTO, most_characters: int = SHOWN_CHARACTERS) -> Shown:
    """Return bytes in a form.

    ``auto`` takes JSON for objects and lists, text for UTF-8 without control characters, and else hexadecimal.
    Bytes that are not in the form are in hexadecimal. Costs no more than the characters shown, and for JSON at most a megabyte.
    """
    if data is None:
        return _NULL
    size_bytes = len(data)
    if form != HEX:
        is_whole = size_bytes <= most_characters * _BYTES_PER_CHARACTER
        text = _decoded(data if is_whole else data[: most_characters * _BYTES_PER_CHARACTER], is_whole=is_whole)
        if text is not None and (form != AUTO or _is_text(text)):
            kind = JSON if form != TEXT and parsed(data) is not None else TEXT
            return Shown(text[:most_characters], kind, size_bytes, not is_whole or len(text) > most_characters)
    return Shown(data[: most_characters // 2].hex(), HEX, size_bytes, size_bytes > most_characters // 2)


def parsed(data: bytes | None) -> "dict[str, Any] | list[Any] | None":
    """Return the object or list of JSON data; None if it is something else, or larger than a megabyte."""
    if not data or len(data) > _MOST_PARSED_BYTES or data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _decoded(data: bytes, *, is_whole: bool) -> str | None:
    for lost in range(1 if is_whole else _BYTES_PER_CHARACTER):  # the cut may be within a character
        try:
            return data[: len(data) - lost].decode()
        except UnicodeDecodeError:
            continue
    return None


def _is_text(text: str) -> bool:
    return _CONTROL.search(text) is None
