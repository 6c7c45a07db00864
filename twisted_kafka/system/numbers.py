"""Numbers that others write: in names of files, addresses, settings and forms."""

from typing import Final

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
MAX_PORT: Final = 2**16 - 1
MAX_DIGITS: Final = 20
"""More digits are no number of Kafka's."""


def decimal(text: str, most: int) -> int | None:
    """Return the number from 0 to ``most`` that ASCII digits write; None for any other text.

    ``int`` accepts more: signs, blanks, underscores and the digits of other scripts. It refuses thousands of digits, and characters
    that ``str.isdigit`` accepts, such as a superscript two.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > MAX_DIGITS:
        return None
    number = int(text)
    return number if number <= most else None
