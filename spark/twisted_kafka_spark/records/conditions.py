"""Check a condition of `--filter` in milliseconds, before Spark takes seconds to start."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.records.schema import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = tuple(field.name for field in FIELDS)


def check_condition(condition: str) -> None:
    """Raise ValueError, with a message of one line, unless the text is a condition in Spark's SQL about fields of a record.

    Types and names of functions are left to Spark.
    """
    if not condition.strip():
        return
    import sqlglot
    from sqlglot.errors import ParseError, TokenError

    try:
        parsed = sqlglot.parse_one(condition, dialect="spark")
    except TokenError:
        raise ValueError(f"--filter {condition}: a quote is not closed") from None
    except ParseError as error:
        raise ValueError(f"--filter {condition}: this is not a condition in SQL{_place(error)}") from None
    if not isinstance(parsed, sqlglot.exp.Condition) or isinstance(parsed, sqlglot.exp.Literal):
        raise ValueError(f"--filter {condition}: this is not a condition in SQL, such as api = 'Fetch'")
    for name in _fields(parsed):
        if name.lower() not in _NAMES:
            similar = difflib.get_close_matches(name.lower(), _NAMES, n=1)
            meant = f"did you mean {similar[0]}?" if similar else f"the fields are {', '.join(_NAMES)}"
            raise ValueError(f"--filter {condition}: a record has no field {name}; {meant}")


def _place(error: Any) -> str:
    """Return where the parser stopped, if it knows."""
    first = error.errors[0] if error.errors else {}
    return f", near {first['highlight']} (column {first['col']})" if first.get("highlight") else ""


def _fields(parsed: Any) -> Iterator[str]:
    """Yield the names of columns; of `transaction.id` the first part."""
    from sqlglot import exp

    for column in parsed.find_all(exp.Column):
        yield column.parts[0].name
