import pytest

from twisted_kafka.console.queries.records.conditions import parse_condition


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [("value.id=3", "=", "3"), (" value.id  !=  a  b \n", "!=", "a  b"), ("key~", "~", ""), ("value=a\n=b", "=", "a\n=b")],
)
def test_blanks_around_the_parts_do_not_count(text: str, operator: str, wanted: str) -> None:
    found = parse_condition(text)
    assert (found.operator, found.text) == (operator, wanted)


def test_a_text_of_blanks_is_read_at_once() -> None:
    """Without a look at each way to end it, which takes minutes and stops the whole process."""
    blanks = " " * 200_000
    assert parse_condition(f"value=a{blanks}b{blanks}").text == f"a{blanks}b"
