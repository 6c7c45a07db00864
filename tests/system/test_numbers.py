"""Texts that are numbers, and texts that only look like one."""

import pytest

from twisted_kafka.system.numbers import INT32_MAX, MAX_PORT, decimal


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("007", 7), ("65535", 65535), ("0" * 15 + "65535", 65535)])
def test_digits_are_a_number(text: str, expected: int) -> None:
    assert decimal(text, MAX_PORT) == expected


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "+1", "-1", "1_0", "1.0", "\u00b2", "\u0663", "65536", "9" * 5000, "0" * 21], ids=lambda text: text[:8]
)
def test_anything_else_is_none(text: str) -> None:
    assert decimal(text, MAX_PORT) is None


def test_the_largest_number_is_one() -> None:
    assert (decimal(str(INT32_MAX), INT32_MAX), decimal(str(INT32_MAX + 1), INT32_MAX)) == (INT32_MAX, None)
