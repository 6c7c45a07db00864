"""The report's series over time: a value for each tick of the charts."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.cells.histogram import COARSE, middle, quantiles
from twisted_kafka_spark.expected import is_expected

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables

Values = dict[str, Any]

SERIES_IN_CHART = 7
"""The number of APIs, or errors, with a colour of their own, the most frequent ones; the others share one."""
LATENCY_APIS = 3
"""The number of APIs with a chart of their latency."""
SHARES_OVER_TIME = (0.5, 0.95, 0.99)
_SUMS = ("failed", "throttled", "throttle_us", "request_bytes", "response_bytes")


def floor(moment: datetime.datetime, tick_s: int) -> int:
    """Return the beginning of the tick of a time, in seconds since 1970."""
    return int(moment.timestamp()) // tick_s * tick_s


_LAST_S = 253_402_300_799
"""The end of the year 9999, which a clock may show, but no minute after it can be written."""


def text(second: int) -> str:
    """Return seconds since 1970 as text for the report."""
    return datetime.datetime.fromtimestamp(min(second, _LAST_S), datetime.UTC).strftime("%Y-%m-%dT%H:%M")


def over_time(tables: Tables, every: Sequence[int], tick_s: int) -> Values:
    """Return the series of the charts: errors that are no failures are apart from the others."""
    place = {tick: at for at, tick in enumerate(every)}

    def at(row: Row) -> int:
        return place[floor(row["at"], tick_s)]

    sums: dict[str, list[int]] = {name: [0] * len(every) for name in _SUMS}
    for row in tables["tick"]:
        for name, values in sums.items():
            values[at(row)] += row[name] or 0
    failed = [row for row in tables["error_minute"] if not is_expected(row["api"], row["error"])]
    expected = [0] * len(every)
    for row in tables["error_minute"]:
        expected[at(row)] += row["requests"] if is_expected(row["api"], row["error"]) else 0
    return {
        "ticks": [text(tick) for tick in every],
        "requests": _by_name(tables["tick"], "api", at, len(every)),
        "errors": _by_name(failed, "error", at, len(every)) if failed else {},
        "expected": expected,
        **sums,
    }


def _by_name(rows: Iterable[Row], key: str, at: Callable[[Row], int], length: int) -> dict[str, list[int]]:
    """Return the requests by a key and tick: the most frequent values of the key, and the others together."""
    found: dict[str, list[int]] = defaultdict(lambda: [0] * length)
    for row in rows:
        found[row[key]][at(row)] += row["requests"]
    order = sorted(found, key=lambda name: (-sum(found[name]), name))
    shown = {name: found[name] for name in order[:SERIES_IN_CHART]}
    if order[SERIES_IN_CHART:]:
        shown["others"] = list(map(sum, zip(*(found[name] for name in order[SERIES_IN_CHART:]), strict=True)))
    return shown


def latency(rows: Sequence[Row], apis: Sequence[Row], every: Sequence[int]) -> list[Values]:
    """Return quantiles of how long requests were served over time, of the APIs that were served for longest in all.

    A quantile has a value for each tick, or none.
    """
    place = {tick: at for at, tick in enumerate(every)}
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["tick"] in place:
            found[row["api"]].append(row)
    spent = {api: sum(middle(row["row"], COARSE) * row["requests"] for row in mine) for api, mine in found.items()}
    longest = sorted((row["api"] for row in apis if row["api"] in found), key=lambda api: (-spent[api], api))[:LATENCY_APIS]
    return [_quantiles(api, found[api], place) for api in longest]


def _quantiles(api: str, mine: Sequence[Row], place: dict[int, int]) -> Values:
    ticks: dict[int, dict[int, int]] = defaultdict(dict)
    for row in mine:
        ticks[place[row["tick"]]][row["row"]] = row["requests"]
    each = [quantiles(ticks.get(at, {}), COARSE, SHARES_OVER_TIME) for at in range(len(place))]
    return {"api": api, "quantiles_us": {name: [values[name] for values in each] for name in each[0]}}
