"""The form of clients' texts in logs and metrics: limited in length, and without characters that control a terminal."""

import hashlib
import re
from typing import Final

TEXT_CHARACTERS: Final = 256
"""Most characters of a text that are shown."""

_HASH_BYTES: Final = 8
_UNPRINTABLE: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]")
"""Control characters, line separators, and halves of characters, which no encoding has."""


def bounded_text(text: str, most_characters: int = TEXT_CHARACTERS) -> str:
    """Return the text, or if it is too long its first characters and a hash of it, which distinguishes it from others."""
    if len(text) <= most_characters:
        return text
    whole = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES)
    return f"{text[:most_characters]}...{whole.hexdigest()}"


def printable(text: str) -> str:
    """Return the text with escapes, such as ``\\x1b``, for characters that begin another line or control a terminal."""
    return text if text.isprintable() else _UNPRINTABLE.sub(_escape, text)


def _escape(found: "re.Match[str]") -> str:
    return found[0].encode("unicode_escape").decode("ascii")
