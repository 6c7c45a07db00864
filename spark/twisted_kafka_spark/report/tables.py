"""HTML tables: the columns are declared, the rows come from the document."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from twisted_kafka_spark.report.words import BYTES, TIMES, Units, duration, number, size, without_unit

Values = dict[str, Any]
_SAFE = re.compile(r"[^\w ,.%()/-]")
"""Characters that a text in a style must not have."""
FOLDED_AFTER = 8
"""Rows of a table after which the others are folded."""


class Column(NamedTuple):
    """A column: its heading, the text for a row, and whether that is left-aligned text or HTML markup.

    If it has an amount, the text is the amount in a unit that suits the column; the heading names the unit.
    """

    heading: str
    value: Callable[[Values], str]
    is_text: bool = False
    is_markup: bool = False
    amount: Callable[[Values], float | None] | None = None
    units: Units = BYTES

    def suited(self, rows: Sequence[Values]) -> Column:
        """Return the column with one unit for all of these rows."""
        if self.amount is None:
            return self
        amount = self.amount
        name, each = self.units.common(map(amount, rows))
        heading = f"{self.heading}, {name}" if any(map(amount, rows)) else self.heading
        return self._replace(heading=heading, value=lambda row: without_unit(amount(row), each))


def count(heading: str, name: str) -> Column:
    """Return a column of counts."""
    return Column(heading, lambda row: number(row.get(name)))


def text(heading: str, name: str, missing: str = "-") -> Column:
    """Return a column of text."""
    return Column(heading, lambda row: missing if row.get(name) is None else str(row[name]), is_text=True)


def bytes_of(heading: str, name: str) -> Column:
    """Return a column of sizes."""
    return Column(heading, lambda row: size(row.get(name)), amount=lambda row: row.get(name))


def time_of(heading: str, *names: str) -> Column:
    """Return a column of times in microseconds, which are found by a path of names."""

    def amount(row: Values) -> float | None:
        found: Any = row
        for name in names:
            found = (found or {}).get(name)
        value: float | None = found
        return value

    return Column(heading, lambda row: duration(amount(row)), amount=amount, units=TIMES)


def share(heading: str, name: str) -> Column:
    """Return a column of shares of a whole."""
    return Column(heading, lambda row: "-" if row.get(name) is None else f"{row[name]:.0%}")


def bar(heading: str, name: str, rows: Sequence[Values]) -> Column:
    """Return a column that shows a number as a bar, relative to the largest of `rows`."""
    most = max((row.get(name) or 0 for row in rows), default=0) or 1
    return Column(
        heading,
        lambda row: f'<i class="bar" style="width:{(row.get(name) or 0) / most * 100:.0f}%"></i>',
        is_markup=True,
    )


def table(caption: str, rows: Iterable[Values], columns: Sequence[Column], most: int = 30) -> str:
    """Return a table with a caption; an empty string if it has no rows."""
    shown = list(rows)[:most]
    if not shown:
        return ""
    columns = [column.suited(shown) for column in columns]
    if len(shown) <= FOLDED_AFTER + 1:
        return _table(caption, shown, columns)
    rest = _table(f"{caption}, further rows", shown[FOLDED_AFTER:], columns)
    return _table(caption, shown[:FOLDED_AFTER], columns) + folded(f"{len(shown) - FOLDED_AFTER} more", rest)


def _labels(name: str, columns: Sequence[Column]) -> str:
    """Return the style that puts headings before cells on a narrow screen, where a row is a block."""
    shown = [(at, column.heading) for at, column in enumerate(columns, 1) if column.heading and not column.is_markup]
    rules = "".join(f'.{name} td:nth-child({at})::before{{content:"{_SAFE.sub(" ", heading)} "}}' for at, heading in shown)
    return f"<style>@media (max-width:640px){{{rules}}}</style>"


def _table(caption: str, rows: Sequence[Values], columns: Sequence[Column]) -> str:
    name = f"t{zlib.crc32(caption.encode()):x}"
    head = "".join(f'<th scope="col"{_kind(column)}>{escape(column.heading)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(_cell(column, row) for column in columns)}</tr>" for row in rows)
    return (
        f"{_labels(name, columns)}"
        f'<div class="scroll {name}" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def folded(summary: str, content: str) -> str:
    """Return collapsed content that opens with a click on its summary."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>" if content else ""


def _kind(column: Column) -> str:
    return ' class="text"' if column.is_text else ' class="bars"' if column.is_markup else ""


def _cell(column: Column, row: Values) -> str:
    value = column.value(row)
    return f"<td{_kind(column)}>{value if column.is_markup else escape(value)}</td>"
