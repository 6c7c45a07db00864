"""The forms in which pages show texts, numbers, sizes and times. Texts of clients are hostile until they have passed ``shown``."""

import re
from typing import Final

MOST_CHARACTERS: Final = 20_000
"""Most characters of a text on a page; a longer one is cut, and says so."""

_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)
"""Characters that show nothing or change the order of others, apart from tab and line feed; and halves of characters."""

NONE: Final = "\u2013"
"""A dash, for an unknown value."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_K: Final = 1024
_SPANS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def shown(text: str) -> str:
    """Return a text as a page shows it: limited, and with escapes for what nobody would see."""
    surplus = len(text) - MOST_CHARACTERS
    if surplus > 0:
        text = f"{text[:MOST_CHARACTERS]}… ({surplus:,} more characters)"
    return visible(text)


def visible(text: str) -> str:
    """Return a text with escapes for what nobody would see."""
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub(_escape, text)


def _escape(found: "re.Match[str]") -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def count(number: float | None) -> str:
    """Return a number with separators, a dash for None."""
    if number is None:
        return NONE
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}".removesuffix(".0")


def rate(number: float) -> str:
    """Return a number for each second."""
    return f"{number:,.0f}" if number >= 10 or number == 0 else f"{number:.1f}"


def size(number: float | None) -> str:
    """Return a number of bytes with its unit, a dash for None."""
    if number is None or number < 0:
        return NONE
    value = float(number)
    for unit in _UNITS:
        if value < _K or unit == _UNITS[-1]:
            break
        value /= _K
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def span(ms: float | None) -> str:
    """Return a duration, a dash for None."""
    if ms is None:
        return NONE
    for unit_ms, unit in _SPANS:
        if ms >= unit_ms:
            value = ms / unit_ms
            return f"{value:.0f} {unit}" if value >= 10 or (unit == "s" and value == int(value)) else f"{value:.1f} {unit}"
    return f"{ms:.0f} ms" if ms >= 10 or ms == 0 else f"{ms:.2f} ms"
