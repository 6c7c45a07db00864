"""Formatting of numbers, shared by the page and the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Units:
    """Units of one quantity, from the smallest on: the name of each, and how many of the smallest it is."""

    steps: Sequence[tuple[str, float]]

    def text(self, value: float | None) -> str:
        """Return a value with the unit that suits it."""
        if value is None:
            return "-"
        name, each = self.of(value)
        return f"{value:,.0f} {name}" if each == 1 else f"{value / each:,.1f} {name}"

    def of(self, value: float) -> tuple[str, float]:
        """Return the largest unit of which the value is at least one, or the smallest."""
        return next(((name, each) for name, each in reversed(self.steps) if abs(value) >= each), self.steps[0])

    def common(self, values: Iterable[float | None]) -> tuple[str, float]:
        """Return the unit for a column of values: the unit of their median, without zeros."""
        known = [value for value in values if value]
        return self.of(statistics.median(known)) if known else self.steps[0]


BYTES = Units(tuple((name, 1024.0**power) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))))
TIMES = Units((("us", 1.0), ("ms", 1e3), ("s", 1e6)))
size, duration = BYTES.text, TIMES.text


def without_unit(value: float | None, each: float) -> str:
    """Return a value with about three digits, without its unit, which is shown elsewhere."""
    if value is None:
        return "-"
    found = value / each
    return f"{found:,.0f}" if each == 1 or found >= 100 or not found else f"{found:,.1f}" if found >= 10 else f"{found:,.2f}"


def number(value: Any) -> str:
    """Return a number with separators, text unchanged, and a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def period(document: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return when the report's period begins and ends: its last minute, hour or day is over then."""
    found = document["period"]
    return found.get("begin", found["first"]), found.get("end", found["last"])


def phase(name: str) -> str:
    """Return the name of a phase for readers."""
    return name.removesuffix("_us").replace("_", " ")


def evidence(values: dict[str, Any]) -> str:
    """Return the evidence of a finding in one line."""
    return ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in values.items() if value is not None)
