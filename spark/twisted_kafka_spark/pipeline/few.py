"""The page of a small log: the same steps as `page`, by Arrow on the driver, for cells that are few.

Planning and compiling Spark's steps takes seconds, which is most of a small log's report. `cells.bounds` ranks names for both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import without_pandas  # noqa: F401 - for the side effect of the import
from twisted_kafka_spark.cells import aggregate, bounds, bundles
from twisted_kafka_spark.cells.fold import READ
from twisted_kafka_spark.cells.kinds import DAY_S, HOUR_S, KEY_NAMES, KINDS, MEASURES, TIME
from twisted_kafka_spark.cells.shards import EARLIEST_S, placed
from twisted_kafka_spark.pipeline import page
from twisted_kafka_spark.pipeline.rollup import RUN_SLACK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twisted_kafka_spark.findings.finding import Finding

_MICROSECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class FewCells:
    """Cells on the driver: at most `aggregate.MOST_CELLS` of a log, with unique keys and with names of topics."""

    table: pa.Table
    sizes: page.Sizes

    @classmethod
    def of(cls, found: DataFrame) -> FewCells:
        """Take the cells of a DataFrame, which the caller knows to be few."""
        return cls._of(page.collected(found))

    @classmethod
    def of_tables(cls, tables: Iterable[tuple[str, pa.Table]]) -> FewCells | None:
        """Take the cells of tasks, a table for each kind; return None if they are not few."""
        joined = bundles.joined(tables)
        if sum(table.num_rows for table in joined.values()) > aggregate.MOST_CELLS:
            return None
        return cls._of(bundles.wide(joined.items()))

    @classmethod
    def _of(cls, table: pa.Table) -> FewCells:
        times = table.filter(pc.equal(table["kind"], "traffic"))[TIME.name]
        known = times.filter(pc.greater_equal(times, pa.scalar(EARLIEST_S * _MICROSECOND, pa.int64()).cast(times.type)))
        minutes = pc.min_max(known if len(known) else times)
        if minutes["min"].is_valid:
            table = _set(table, TIME.name, placed(table[TIME.name], minutes["min"].value // _MICROSECOND))
        hours = pc.if_else(
            pc.equal(table["kind"], aggregate.BY_HOUR), pc.floor_temporal(table[TIME.name], unit="hour"), table[TIME.name]
        )
        merged = _bounded(_merged(_with_names_of_topics(_set(table, TIME.name, hours))))
        first, last = (page.moment(end.value // _MICROSECOND) if end.is_valid else None for end in minutes.values())
        return cls(merged, page.Sizes(first, last))

    def lines_read(self) -> int:
        """Return the number of lines with a record."""
        lines = self.table.filter((pc.field("kind") == "lines") & (pc.field("error") == READ))
        return int(pc.sum(lines["requests"]).as_py() or 0)

    def of_page(self, tick_s: int) -> pa.Table:
        """Return the cells of a page."""
        table = self.table
        if self.sizes.is_long:
            table = table.filter(pc.invert(_is_one_of(table, page.MINUTES_OF_CLIENTS)))
        seconds = _seconds(table)
        for grain_s, some in _by_grain(page.grains_s(self.sizes, tick_s)).items():
            coarse = pc.multiply(pc.divide(seconds, grain_s), grain_s) if grain_s else pa.scalar(0, pa.int64())
            seconds = pc.if_else(_is_one_of(table, some), coarse, seconds)
        times = pc.cast(pc.multiply(seconds, _MICROSECOND), table[TIME.name].type)
        return _merged(_set(table, TIME.name, times))

    def findings_by_day(self) -> list[Finding]:
        """Return the findings about minutes, searched in each day apart."""
        days = pc.divide(_seconds(self.table), DAY_S)
        return [one for day in pc.unique(days).to_pylist() for one in page.found_in(self.table.filter(pc.equal(days, day)))]

    def has_repeats(self) -> bool:
        """Return whether lines were read twice; see `rollup.has_repeats`."""
        runs = self.table.filter(pc.equal(self.table["kind"], "runs"))
        keys = ["node", "first_us", "last_us"]
        grouped = runs.group_by(keys, use_threads=False).aggregate([("requests", "sum")]).to_pylist()
        by_node = defaultdict(list)
        for row in grouped:
            by_node[row["node"]].append((row["first_us"], row["last_us"], row["requests_sum"]))
        return any(_overlap(sorted(each)) for each in by_node.values())


def _overlap(runs: list[tuple[int, int, int]]) -> bool:
    before = (-1, 0)
    for first, last, requests in runs:
        if requests > last - first + 1:
            return True
        shorter = min(last - first, before[0] - before[1])
        if before[0] >= 0 and before[0] - first > RUN_SLACK * shorter:
            return True
        before = max(before, (last, first))
    return False


def _merged(table: pa.Table) -> pa.Table:
    sums = [(each.name, each.merge) for each in MEASURES]
    grouped = table.group_by(list(KEY_NAMES), use_threads=False).aggregate(sums)
    names = [f"{name}_{how}" for name, how in sums]
    merged = grouped.select([*KEY_NAMES, *names]).rename_columns([*KEY_NAMES, *(name for name, _ in sums)])
    kind = merged["kind"]
    is_busy = pc.or_(pc.not_equal(kind, bounds.CLIENT_MINUTES), bounds.is_busy(merged))
    return merged.filter(pc.and_(is_busy, pc.or_(pc.not_equal(kind, aggregate.BY_HOUR), bounds.is_moved(merged))))


def _bounded(merged: pa.Table) -> pa.Table:
    """Return cells of which each hour has at most `aggregate.MOST_NAMES` names of a kind by each measure."""
    kinds = [kind for kind, declared in KINDS.items() if declared.name]
    parts = [merged.filter(pc.invert(_is_one_of(merged, kinds)))]
    for kind in kinds:
        mine = merged.filter(pc.equal(merged["kind"], kind))
        if len(mine) <= aggregate.MOST_NAMES:
            parts.append(mine)
            continue
        hours = pc.divide(_seconds(mine), HOUR_S)
        for hour in pc.unique(hours).to_pylist():
            cells = bounds.own(kind, mine.filter(pc.equal(hours, hour)))
            few = bounds.bounded(kind, cells, aggregate.MOST_NAMES, KINDS[kind].room)
            parts.append(bundles.wide([(kind, bounds.relevant(kind, few))]))
    return pa.concat_tables([each.select(merged.column_names) for each in parts])


def _with_names_of_topics(table: pa.Table) -> pa.Table:
    ids = table.filter(pc.equal(table["kind"], "topic_ids"))
    if not len(ids):
        return table
    names: dict[str, str] = {}
    for topic_id, name in zip(ids["topic"].to_pylist(), ids["note"].to_pylist(), strict=True):
        names[topic_id] = min(name, names.get(topic_id, name))
    topics = pa.array([names.get(topic, topic) for topic in table["topic"].to_pylist()], pa.string())
    return _set(table, "topic", pc.if_else(_is_one_of(table, aggregate.TOPIC_KINDS), topics, table["topic"]))


def _by_grain(grains_s: dict[str, int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for kind, grain_s in grains_s.items():
        found[grain_s].append(kind)
    return found


def _is_one_of(table: pa.Table, kinds: Iterable[str]) -> pa.ChunkedArray:
    return pc.is_in(table["kind"], pa.array(list(kinds)))


def _seconds(table: pa.Table) -> pa.ChunkedArray:
    return pc.divide(pc.cast(table[TIME.name], pa.int64()), _MICROSECOND)


def _set(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)
