"""The form of clients' texts in logs and metrics: limited in length, and without characters that control or mislead a reader."""

import hashlib
from typing import Final
from unicodedata import category

TEXT_CHARACTERS: Final = 256
"""Most characters of a text that are shown."""

_HASH_BYTES: Final = 8
SHOWN_CHARACTERS: Final = TEXT_CHARACTERS + len("...") + 2 * _HASH_BYTES
"""The longest text that ``bounded_text`` returns."""
_UNPRINTABLE: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode's categories of control characters, of invisible ones such as marks that turn text round, of halves of characters,
which no encoding has, and of line separators."""


def bounded_text(text: str, most_characters: int = TEXT_CHARACTERS) -> str:
    """Return the text, or if it is too long its first characters and a hash of it, which distinguishes it from others."""
    if len(text) <= most_characters:
        return text
    whole = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES)
    return f"{text[:most_characters]}...{whole.hexdigest()}"


def printable(text: str) -> str:
    """Return the text with escapes, such as ``\\x1b``, for invisible characters, ends of lines, and controls of terminals."""
    if text.isprintable():
        return text
    return "".join(each.encode("unicode_escape").decode("ascii") if category(each) in _UNPRINTABLE else each for each in text)
