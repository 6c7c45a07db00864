import pytest

from twisted_kafka.system.client_text import TEXT_CHARACTERS, bounded_text, printable


def test_a_long_text_is_cut_and_still_distinguished() -> None:
    assert bounded_text("x" * TEXT_CHARACTERS) == "x" * TEXT_CHARACTERS
    one, other = (bounded_text("\ud800" * 10_000 + end) for end in "ab")
    assert one != other
    assert one == bounded_text("\ud800" * 10_000 + "a")
    assert len(one) == len(other) < TEXT_CHARACTERS + 30


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("caf\u00e9 \U0001f600", "caf\u00e9 \U0001f600"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("\x1b[2J\x00\x7f\x9b", "\\x1b[2J\\x00\\x7f\\x9b"),
        ("\u2028\u2029\ud800", "\\u2028\\u2029\\ud800"),
        ("a\u202egpj.exe\u2066", "a\\u202egpj.exe\\u2066"),
        ("\u200b\u200f\u061c\ufeff\U000e0041", "\\u200b\\u200f\\u061c\\ufeff\\U000e0041"),
        ("\u3000\u05d0\u0627", "\u3000\u05d0\u0627"),
    ],
)
def test_what_controls_a_terminal_or_misleads_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
