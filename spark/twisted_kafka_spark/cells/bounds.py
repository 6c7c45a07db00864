"""Merge cells with equal keys, and bound the number of names among them: what a task does, with Arrow, to the cells of an interval.

The names that clients choose have no bound, so of a kind with such names only those with the most of a measure are kept by name, in
each hour (`aggregate.MOST_NAMES`); the others are merged into cells whose `others` is 1, so sums stay exact. Names are ranked by
their sums over the whole hour, and equal sums by name: the same lines give the same cells, however they are divided into files,
tasks and rollups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import without_pandas  # noqa: F401 - for the side effect of the import
from twisted_kafka_spark.cells import bundles, kinds
from twisted_kafka_spark.cells.aggregate import BY_HOUR, RANKS, SAMPLED_KIND, SAMPLED_NAMES
from twisted_kafka_spark.cells.kinds import CLIENT, KINDS, TIME
from twisted_kafka_spark.records.frame import distinct
from twisted_kafka_spark.thresholds import (
    MINUTE_FLOOR,
    PARTITION_FLOOR,
    REBALANCE_APIS,
    WRITTEN_FLOOR,
    WRITTEN_PARTITIONS,
)

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.int64]]

OTHERS = "others"
CLIENT_MINUTES, LINES = "client_minutes", "lines"
_SEPARATOR, _NULL = "\x1f", "\x1e"
_MERGE_ROWS = 1 << 20
"""Rows that are merged at a time."""
_TYPES = kinds.arrow_schema()


def schema(kind: str) -> pa.Schema:
    """Return the schema of a kind's cells."""
    return bundles.schema(kind, OTHERS)


def own(kind: str, table: pa.Table) -> pa.Table:
    """Return a table with exactly the columns of its kind."""
    return bundles.own(kind, table, OTHERS)


def merged(kind: str, table: pa.Table) -> pa.Table:
    """Return cells of a kind whose keys are unique."""
    return bundles.with_unique_keys(kind, table, OTHERS)


class Merger:
    """Merges tables of one kind as they come, so that it holds the distinct cells and `_MERGE_ROWS` more."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._tables: list[pa.Table] = []
        self._count = self._merged_count = 0

    def add(self, table: pa.Table) -> None:
        """Add the cells of a table."""
        self._tables.append(table)
        self._count += table.num_rows
        if self._count > _MERGE_ROWS + 2 * self._merged_count:
            self._tables = [self.whole()]
            self._count = self._merged_count = self._tables[0].num_rows

    def whole(self) -> pa.Table:
        """Return the cells of all tables."""
        return merged(self._kind, pa.concat_tables(self._tables))


def relevant(kind: str, table: pa.Table) -> pa.Table:
    """Return merged cells without minutes of clients in which too little happened for a storm, and partitions that hardly move."""
    if kind == BY_HOUR:
        return table.filter(is_moved(table))
    if kind == CLIENT_MINUTES:
        return table.filter(pc.and_(is_busy(table), pc.is_null(table[OTHERS])))
    return table


def is_busy(table: pa.Table) -> pa.ChunkedArray:
    """Return of each minute of a client whether enough happened for a storm."""
    busy = pc.or_(pc.greater_equal(table["requests"], MINUTE_FLOOR), pc.greater(pc.fill_null(table["throttled"], 0), 0))
    return pc.or_(pc.fill_null(busy, False), pc.is_in(table["api"], pa.array(REBALANCE_APIS)))


def is_moved(table: pa.Table) -> pa.ChunkedArray:
    """Return of each hour of a partition whether it moves: of the first partitions of a topic, a few writes are enough.

    So the report knows when one of them is no longer written. The bound does not depend on other rows, which may be elsewhere.
    """
    is_written = pc.and_(pc.equal(table["api"], "Produce"), pc.less(table["partition"], WRITTEN_PARTITIONS))
    is_written = pc.and_(is_written, pc.greater_equal(table["requests"], WRITTEN_FLOOR))
    return pc.or_(pc.greater_equal(table["requests"], PARTITION_FLOOR), pc.fill_null(is_written, False))


def bounded(kind: str, table: pa.Table, most: int, room: int = 1) -> pa.Table:
    """Return merged cells of an interval in which at most `most` names per rank are kept, the others together.

    Up to `room` times as many names stay as they are, unless others have been put together before.
    """
    declared = KINDS[kind]
    named = table[OTHERS].is_null().to_numpy() if declared.name else np.zeros(0, np.bool_)
    if np.count_nonzero(named) <= most:
        return table
    some = table.filter(pa.array(named))
    first, name = numbered(some, declared.name)
    if len(first) <= (most if len(some) < len(table) else most * room):
        return table
    texts = _texts(some.select(declared.name).take(pa.array(first)), declared.name)
    kept = np.zeros(len(first), np.bool_)
    for measures in RANKS.values():
        kept[_highest(_sums(some, measures, name, len(first)), texts, most)] = True
    if kind == SAMPLED_KIND:
        kept[_with_smallest_hashes(texts)] = True
    if kind == LINES:
        kept[_first_samples(some, name)] = True
    is_kept = pa.array(kept[name])
    rest = pa.concat_tables([_unnamed(kind, some.filter(pc.invert(is_kept))), table.filter(pa.array(~named))])
    return pa.concat_tables([some.filter(is_kept), merged(kind, rest)])


def largest(kind: str, table: pa.Table, most: int) -> pa.Table:
    """Return merged cells without those with the fewest requests, if the kind has names and there are more than `most`."""
    if not KINDS[kind].name or table.num_rows <= most:
        return table
    keys = [(name, "ascending") for name in (TIME.name, *KINDS[kind].keys, OTHERS)]
    return table.take(pc.sort_indices(table, sort_keys=[("requests", "descending"), *keys]).slice(0, most))


def names(kind: str, table: pa.Table) -> tuple[Sequence[bytes], Numbers]:
    """Return the texts of the names in a table of a kind with names, and the number of each cell's."""
    first, name = numbered(table, KINDS[kind].name)
    return _texts(table.select(KINDS[kind].name).take(pa.array(first)), KINDS[kind].name), name


def numbered(table: pa.Table, keys: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Number the combinations of keys in a table; return the first row of each number, and the number of each row."""
    code, count = np.zeros(table.num_rows, np.int64), 1
    first = code[:1]
    for key in keys:
        column = table[key].combine_chunks()
        encoded = column.dictionary_encode(null_encoding="encode")
        size = max(1, len(encoded.dictionary))
        first, code = distinct(code * size + encoded.indices.to_numpy(), count * size)
        count = len(first)
    return first, code


def _texts(keys: pa.Table, order: Sequence[str]) -> Sequence[bytes]:
    """Return a text for each row that orders names, and of which null and an empty text differ."""
    columns = [pc.fill_null(pc.cast(keys[name], pa.string()), _NULL) for name in order]
    joined = pc.binary_join_element_wise(*columns, _SEPARATOR)
    found: list[bytes] = pc.cast(joined, pa.binary()).to_pylist()
    return found


def _sums(table: pa.Table, measures: Sequence[str], name: Numbers, count: int) -> Numbers:
    whole = np.zeros(count, np.int64)
    for measure in set(measures) & set(table.column_names):
        values = pc.fill_null(table[measure], 0).to_numpy()
        whole += np.bincount(name, weights=values, minlength=count).astype(np.int64)
    return whole


def _highest(amounts: Numbers, texts: Sequence[bytes], most: int) -> Numbers:
    """Return the numbers of the names with the highest amounts, without zeros. Among equal amounts the first texts win."""
    some = np.flatnonzero(amounts > 0)
    if len(some) <= most:
        return some
    least = np.partition(amounts[some], len(some) - most)[len(some) - most]
    more = np.flatnonzero(amounts > least)
    equal = sorted(np.flatnonzero(amounts == least).tolist(), key=texts.__getitem__)
    return np.append(more, np.array(equal[: most - len(more)], np.int64))


def _with_smallest_hashes(texts: Sequence[bytes]) -> list[int]:
    """Return the numbers of the names that are kept whatever they moved, from which the number of all is estimated."""
    hashes = [hashlib.sha256(text).digest() for text in texts]
    return sorted(range(len(texts)), key=hashes.__getitem__)[:SAMPLED_NAMES]


def _first_samples(lines: pa.Table, name: Numbers) -> list[int]:
    """Return the numbers of the first sample of each reason, which a report shows, however often another one was taken."""
    numbered_lines = lines.select(["error", "note"]).append_column("number", pa.array(name)).filter(pc.is_valid(lines["note"]))
    ordered = numbered_lines.sort_by([("error", "ascending"), ("note", "ascending")])
    first, _ = numbered(ordered, ["error"])
    found: list[int] = ordered["number"].take(pa.array(first)).to_pylist()
    return found


def _unnamed(kind: str, table: pa.Table) -> pa.Table:
    """Return cells without their names, and without other unbounded columns."""
    for key in {*KINDS[kind].name, *CLIENT} & set(table.column_names):
        at = table.column_names.index(key)
        table = table.set_column(at, table.field(at), pa.nulls(table.num_rows, table.field(at).type))
    ones = pa.array(np.ones(table.num_rows, np.int32))
    return table.set_column(table.column_names.index(OTHERS), _TYPES.field(OTHERS), ones)
