"""Formatting of numbers, shared by the page and the terminal."""

from __future__ import annotations

from typing import Any


def size(count: float | None) -> str:
    """Return bytes with a unit."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def duration(microseconds: float | None) -> str:
    """Return a time with a unit."""
    if microseconds is None:
        return "-"
    if microseconds < 1000:
        return f"{microseconds:,.0f} us"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:,.1f} ms"
    return f"{microseconds / 1_000_000:,.1f} s"


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
