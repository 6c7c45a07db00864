"""The tables of a report as CSV: one text for each list of rows in the document."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TICKS = "ticks"


def as_csv(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts by name, such as `clients` or `security_refused`; an inner object has columns such as `served_us.p50`."""
    return {name: _text(rows) for name, rows in _tables(document)}


def _tables(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for name, value in values.items():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            yield f"{prefix}{name}", [_flat(row) for row in value]
        elif isinstance(value, dict) and isinstance(value.get(_TICKS), list):
            yield f"{prefix}{name}", list(_over_time(value))
        elif isinstance(value, dict):
            yield from _tables(value, f"{prefix}{name}_")


def _over_time(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each tick, with the columns that have a value for each."""
    columns = _columns(values, len(values[_TICKS]))
    for at, tick in enumerate(values[_TICKS]):
        yield {"at": tick, **{name: column[at] for name, column in columns.items()}}


def _columns(values: Mapping[str, Any], size: int, prefix: str = "") -> dict[str, Sequence[Any]]:
    found: dict[str, Sequence[Any]] = {}
    for name, value in values.items() if size else ():
        if isinstance(value, dict):
            found |= _columns(value, size, f"{prefix}{name}.")
        elif (
            isinstance(value, list) and len(value) == size and name != _TICKS and not any(isinstance(each, dict) for each in value)
        ):
            found[f"{prefix}{name}"] = value
    return found


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def _text(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
