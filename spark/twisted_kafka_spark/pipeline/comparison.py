"""Compare a report with that of the period before, which is as long and ends where the other begins."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

Values = dict[str, Any]

COMPARED = 20
"""Rows of each table that compares: those with the most in either period."""
_FORMAT = "%Y-%m-%dT%H:%M:%S"
_TOTALS = ("requests", "failed", "expected", "throttled", "throttle_us", "request_bytes", "response_bytes")


def period_before(since: str, until: str) -> tuple[str, str]:
    """Return the beginning and the end of the period before that from `since` to `until`, in the format of the field `time`.

    Raises ValueError if one of them is missing, or there is nothing between them.
    """
    if not since or not until or since >= until:
        raise ValueError("a period is compared with the one before only if it has a beginning (--since) and a later end (--until)")
    begin, end = (datetime.datetime.strptime(each, _FORMAT) for each in (since, until))
    return (begin - (end - begin)).strftime(_FORMAT), since


def compared(now: Values, before: Values | None, begin: str, end: str) -> Values:
    """Return the comparison of both documents; without a document of the earlier period, only the times of that period."""
    found: Values = {"begin": begin[:16], "end": end[:16], "total": None}
    if before is None:
        return found
    who = "client_id", "principal"
    clients, clients_before = (_summed(each["clients"], who, ("requests", "failed")) for each in (now, before))
    apis, apis_before = _rows_of_apis(now), _rows_of_apis(before)
    return {
        **found,
        "total": {name: before["total"][name] for name in _TOTALS},
        "apis": _joined(apis, apis_before, ("api",), ("requests", "failed", "p50_us", "p99_us")),
        "clients": _joined(clients, clients_before, who, ("requests", "failed")),
        "topics": _joined(now["topics"], before["topics"], ("topic",), ("bytes", "requests")),
    }


def _rows_of_apis(document: Values) -> list[Values]:
    return [
        {
            "api": row["api"],
            "requests": row["requests"],
            "failed": row["failed"] - row["expected"],
            "p50_us": row["served_us"]["p50"],
            "p99_us": row["served_us"]["p99"],
        }
        for row in document["apis"]
    ]


def _summed(rows: Sequence[Values], keys: Sequence[str], names: Sequence[str]) -> list[Values]:
    """Add the rows with equal keys: a client has one for each version of its software. Errors of protocols are not added."""
    found: dict[tuple[Any, ...], Values] = defaultdict(lambda: dict.fromkeys(names, 0))
    for row in rows:
        who = tuple(row[key] for key in keys)
        mine = found[who]
        mine.update(zip(keys, who, strict=True))
        mine["requests"] += row["requests"]
        mine["failed"] += row["failed"]
    for row in rows:
        # Each row of a client has all of its expected errors.
        mine = found[tuple(row[key] for key in keys)]
        mine["expected"] = row["expected"]
    return [{**row, "failed": max(row["failed"] - row["expected"], 0)} for row in found.values()]


def _joined(now: Iterable[Values], before: Iterable[Values], keys: Sequence[str], names: Sequence[str]) -> list[Values]:
    """Return rows with the values of now and, under names ending in `_before`, of the earlier period; null if one is missing."""
    both = [{tuple(row[key] for key in keys): row for row in rows} for rows in (now, before)]
    rows = [
        {
            **dict(zip(keys, who, strict=True)),
            **{name: both[0].get(who, {}).get(name) for name in names},
            **{f"{name}_before": both[1].get(who, {}).get(name) for name in names},
        }
        for who in both[0].keys() | both[1].keys()
    ]
    first = names[0]
    rows.sort(key=lambda row: (-max(row[first] or 0, row[f"{first}_before"] or 0), tuple(str(row[key]) for key in keys)))
    return rows[:COMPARED]
