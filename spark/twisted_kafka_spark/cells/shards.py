"""The transport of cells between tasks: shards of one kind, one hour and a share of the names, as Arrow streams.

Spark moves, sorts and keeps shards, which are few and large; the cells in them are merged by Arrow. As rows of Spark SQL, with some
forty columns each, a cell cost ten times as much as the line that it came from.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import without_pandas  # noqa: F401 - for the side effect of the import
from twisted_kafka_spark.cells import bounds, bundles
from twisted_kafka_spark.cells.kinds import HOUR_S, KINDS, TIME
from twisted_kafka_spark.records.clocks import EARLIEST_US

SHARD_DDL = "kind string, hour bigint, share int, size bigint, first_s bigint, last_s bigint, cells binary"
"""A shard in Spark's DDL: `hour` is the number of the hour since 1970, null for cells without a time; `size` the number of cells,
`first_s` and `last_s` the first and the last of their times."""
SHARD_KEYS = ("kind", "hour", "share")
"""The keys by which shards are partitioned, sorted and merged."""
_TYPES = pa.schema(
    [
        ("kind", pa.string()),
        ("hour", pa.int64()),
        ("share", pa.int32()),
        ("size", pa.int64()),
        ("first_s", pa.int64()),
        ("last_s", pa.int64()),
        ("cells", pa.binary()),
    ]
)
SHARD_COLUMNS = tuple(_TYPES.names)
_MICROSECOND = 1_000_000
EARLIEST_S = EARLIEST_US // _MICROSECOND
"""Cells before this time are of lines whose hour is unknown (`clocks.UNKNOWN`)."""
_BATCH_BYTES = 16 << 20


def shards(tables: Iterable[tuple[str, pa.Table]]) -> Iterator[pa.RecordBatch]:
    """Divide tables of cells into shards."""
    return _batches(shard for kind, table in tables for shard in _by_hour(kind, bounds.own(kind, table)))


def of_cells(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Divide batches of cells with all columns, in any order, into shards."""
    for batch in batches:
        whole = pa.Table.from_batches([batch])
        yield from shards((kind, whole.filter(pc.equal(whole["kind"], kind))) for kind in pc.unique(whole["kind"]).to_pylist())


def cells(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the cells in shards with all columns."""
    for kind, table in opened(batches):
        yield from bundles.wide([(kind, table)]).to_batches()


def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the kind and the cells of each shard."""
    for batch in batches:
        for kind, content in zip(batch.column(0).to_pylist(), batch.column(6), strict=True):
            yield kind, _read(content.as_buffer())


@dataclass(frozen=True, slots=True)
class Division:
    """The division of shards by name, for kinds with more cells than one task should hold."""

    shares: Mapping[str, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Divide shards."""
        return _batches(shard for batch in batches for row in _rows(batch) for shard in self._divided(row))

    def _divided(self, row: _Shard) -> Iterator[_Shard]:
        count = self.shares.get(row.kind, 1)
        if count == 1:
            yield row
            return
        table = _read(row.cells)
        texts, name = bounds.names(row.kind, table)
        share = np.array([zlib.crc32(text) % count for text in texts], np.int32)[name]
        for number in np.unique(share).tolist():
            yield _shard(row.kind, row.hour, table.filter(pa.array(share == number)), number)


@dataclass(frozen=True, slots=True)
class Merging:
    """What happens to the cells of one kind, hour and share; it is sent to the executors.

    `grains_s`: kinds whose times are truncated to a number of seconds, or to 1970 for 0. `most`: the names to keep for each rank,
    0 for all. `most_cells`: the cells to keep of a kind with names. `first_s`: the time of cells without one.
    """

    most: int = 0
    most_cells: int = 0
    first_s: int = 0
    grains_s: Mapping[str, int] = field(default_factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge shards, which are sorted by `SHARD_KEYS`."""
        rows = (row for batch in batches for row in _rows(batch))
        return _batches(self._merged(*keys, same) for keys, same in groupby(rows, key=lambda row: (row.kind, row.hour, row.share)))

    def _merged(self, kind: str, hour: int, share: int, rows: Iterable[_Shard]) -> _Shard:
        merger = bounds.Merger(kind)
        for row in rows:
            merger.add(self._timed(kind, _read(row.cells)))
        table = bounds.relevant(kind, merger.whole())
        if self.most:
            table = bounds.relevant(kind, bounds.bounded(kind, table, self.most, 1 if self.most_cells else KINDS[kind].room))
        if self.most_cells:
            table = bounds.largest(kind, table, self.most_cells)
        return _shard(kind, hour, table, share)

    def _timed(self, kind: str, table: pa.Table) -> pa.Table:
        times = placed(table[TIME.name], self.first_s)
        if kind in self.grains_s:
            grain_us = self.grains_s[kind] * _MICROSECOND
            at = pc.cast(times, pa.int64())
            coarse = pc.multiply(pc.divide(at, grain_us), grain_us) if grain_us else pc.multiply(at, 0)
            times = pc.cast(coarse, times.type)
        return table.set_column(table.column_names.index(TIME.name), TIME.name, times)


def placed(times: pa.ChunkedArray, first_s: int) -> pa.ChunkedArray:
    """Return times of which none is unknown: those of lines without a time become `first_s`, others the same minute of its hour."""
    if times.null_count:
        times = pc.fill_null(times, pa.scalar(first_s * _MICROSECOND, pa.int64()).cast(times.type))
    if first_s < EARLIEST_S or not len(times) or pc.min(times).value >= EARLIEST_S * _MICROSECOND:
        return times
    at = pc.cast(times, pa.int64())
    hour_us = HOUR_S * _MICROSECOND
    minute = pc.subtract(at, pc.multiply(pc.divide(at, hour_us), hour_us))
    first = first_s // HOUR_S * hour_us
    return pc.cast(pc.if_else(pc.less(at, EARLIEST_S * _MICROSECOND), pc.add(minute, first), at), times.type)


@dataclass(frozen=True, slots=True)
class _Shard:
    kind: str
    hour: int | None
    share: int
    size: int
    first_s: int | None
    last_s: int | None
    cells: pa.Buffer


def _by_hour(kind: str, table: pa.Table) -> Iterator[_Shard]:
    if not table.num_rows:
        return
    hours = pc.divide(pc.cast(table[TIME.name], pa.int64()), HOUR_S * _MICROSECOND)
    found = pc.unique(hours).to_pylist()
    for hour in found:
        same = pc.is_null(hours) if hour is None else pc.equal(hours, hour)
        yield _shard(kind, hour, table.filter(same) if len(found) > 1 else table)


def _shard(kind: str, hour: int | None, table: pa.Table, share: int = 0) -> _Shard:
    ends = [None if end.as_py() is None else end.value // _MICROSECOND for end in pc.min_max(table[TIME.name]).values()]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return _Shard(kind, hour, share, table.num_rows, ends[0], ends[1], sink.getvalue())


def _read(content: pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


def _rows(batch: pa.RecordBatch) -> Iterator[_Shard]:
    columns = [column.to_pylist() for column in batch.columns[:-1]]
    for at, content in enumerate(batch.column(batch.num_columns - 1)):
        kind, hour, share, size, first_s, last_s = (column[at] for column in columns)
        yield _Shard(kind, hour, share, size, first_s, last_s, content.as_buffer())


def _batches(found: Iterable[_Shard]) -> Iterator[pa.RecordBatch]:
    waiting: list[_Shard] = []
    size = 0
    for shard in found:
        waiting.append(shard)
        size += shard.cells.size
        if size > _BATCH_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(found: Sequence[_Shard]) -> pa.RecordBatch:
    columns = [pa.array([getattr(each, name) for each in found], _TYPES.field(name).type) for name in SHARD_COLUMNS[:-1]]
    contents = pa.array([each.cells.to_pybytes() for each in found], pa.binary())
    return pa.record_batch([*columns, contents], schema=_TYPES)
