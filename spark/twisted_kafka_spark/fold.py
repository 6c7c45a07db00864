"""Fold a batch of records into cells: what each Spark task does before anything is shuffled.

Strings become numbers once a batch, groups are found with one sort of those numbers, measures are added with `bincount`. A batch
of 64 Ki lines makes a few thousand cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import cells, histogram
from twisted_kafka_spark.cells import KINDS, TIMES
from twisted_kafka_spark.lines import Records, read_lines
from twisted_kafka_spark.schema import PHASES

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.int64]]

_LARGEST_CODE = 1 << 60
_MICROSECOND = 1_000_000

_LARGEST_GAP = 10_000
"""Numbers of lines of one file that are further apart belong to two runs."""

READ = "read"
"""What a cell of lines that gave records has for a reason."""


@dataclass(frozen=True, slots=True)
class Folding:
    """How lines become cells; goes to the executors.

    `grain_s` replaces the grain of every kind (streams need one for all); records before `since` or from `until` on, both as the
    field `time` is written, are left out; `utc_offset_s` is that of the clock in Kafka's own request log.
    """

    grain_s: int = 0
    since: str = ""
    until: str = ""
    utc_offset_s: int = 0

    def lines(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches whose one column holds lines."""
        for batch in batches:
            yield from self.fold(read_lines(batch.column(0), self.utc_offset_s))

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches that are records already."""
        for batch in batches:
            yield from self.fold(Records([batch] if batch.num_rows else []))

    def parsed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn lines into records without folding them; lines that give none are dropped."""
        for batch in batches:
            yield from read_lines(batch.column(0), self.utc_offset_s).batches

    def fold(self, found: Records) -> Iterator[pa.RecordBatch]:
        """Fold what was read."""
        made: list[pa.Table] = []
        for batch in found.batches:
            records = self._in_period(batch)
            if records.num_rows:
                made += _cells_of(Frame(records), self.grain_s)
        made += _refused(found)
        if made:
            table = pa.concat_tables(made, promote_options="default")
            yield from _complete(table).to_batches()

    def _in_period(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        time = batch.column("time")
        if self.since:
            batch = batch.filter(pc.greater_equal(time, self.since))
            time = batch.column("time")
        return batch.filter(pc.less(time, self.until)) if self.until else batch


class Frame:
    """Columns of equal length, with the codes of each found at most once."""

    def __init__(self, columns: pa.RecordBatch) -> None:
        self.columns: dict[str, pa.Array] = dict(zip(columns.schema.names, columns.columns, strict=True))
        self.size = columns.num_rows
        self.weight = self.numbers("weight", 1)
        self._codes: dict[str, tuple[Numbers, int]] = {}
        time = pc.cast(pc.cast(self.columns["time"], pa.timestamp("us", "UTC")), pa.int64())
        self.seconds: Numbers = time.to_numpy(zero_copy_only=False) // _MICROSECOND
        self.columns["time_us"] = time

    def numbers(self, name: str, default: int = 0) -> Numbers:
        """Return a column as numbers, nulls as `default`."""
        column = self.columns.get(name)
        if column is None:
            return np.full(self.size, default, np.int64)
        filled: Numbers = pc.fill_null(column, default).to_numpy(zero_copy_only=False).astype(np.int64)
        return filled

    def codes(self, name: str) -> tuple[Numbers, int]:
        """Return a small number for each value of a column, equal for equal values, and how many there are."""
        known = self._codes.get(name)
        if known is None:
            encoded = pc.dictionary_encode(self.columns[name], null_encoding="encode")
            known = self._codes[name] = (encoded.indices.to_numpy().astype(np.int64), max(1, len(encoded.dictionary)))
        return known

    def add(self, name: str, values: Numbers | pa.Array) -> None:
        """Add a column, or put another in its place."""
        self._codes.pop(name, None)
        self.columns[name] = values if isinstance(values, pa.Array) else pa.array(values, pa.int64())


def _group(frame: Frame, keys: tuple[str, ...], at: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first row of each group, and the group of each row."""
    low = int(at.min())
    code, size = at - low, int(at.max()) - low + 1
    for key in keys:
        numbers, count = frame.codes(key)
        if size * count > _LARGEST_CODE:
            values, code = np.unique(code, return_inverse=True)
            size = len(values)
        code, size = code * count + numbers, size * count
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return first, group


def _cells(
    kind: str, frame: Frame, measures: dict[str, Numbers], grain_s: int, extremes: dict[str, Numbers] | None = None
) -> pa.Table:
    """Return the cells of one kind: one for each group of rows with equal keys; `requests` counts them unless it is given."""
    declared = KINDS[kind]
    grain = grain_s or declared.grain_s
    at = frame.seconds // grain
    first, group = _group(frame, declared.keys, at)
    columns: dict[str, pa.Array] = {
        "kind": pa.repeat(kind, len(first)),
        "at": pa.array(at[first] * (grain * _MICROSECOND), pa.timestamp("us", "UTC")),
    }
    for key in declared.keys:
        columns[key] = frame.columns[key].take(pa.array(first))
    for name, values in {"requests": frame.weight, **measures}.items():
        columns[name] = pa.array(np.bincount(group, weights=values, minlength=len(first)).astype(np.int64))
    for name, values in (extremes or {}).items():
        columns[name] = pa.array(_extreme(name, group, values))
    return pa.table(columns)


def _extreme(name: str, group: Numbers, values: Numbers) -> Numbers:
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    best = np.minimum if next(each.merge for each in cells.MEASURES if each.name == name) == "min" else np.maximum
    found: Numbers = best.reduceat(values[order], starts)
    return found


def _cells_of(frame: Frame, grain_s: int) -> list[pa.Table]:
    weight = frame.weight
    times = {name: frame.numbers(name) * weight for name in TIMES}
    failed = _mark(pc.is_valid(frame.columns["error"])) * weight
    sizes = {name: frame.numbers(name) * weight for name in ("request_bytes", "response_bytes")}
    moved, topic_frame = _topics(frame)
    total = frame.numbers("total_us")
    traffic = {
        "failed": failed,
        "throttled": (frame.numbers("throttle_us") > 0) * weight,
        "empty": (moved["bytes"] == 0) * weight,
        **sizes,
        **times,
        **{name: values * weight for name, values in moved.items()},
    }
    frame.add("bucket", histogram.buckets(total))
    times_us = frame.numbers("time_us")
    ends = {"first_us": times_us, "last_us": times_us}
    made = [
        _cells("requests", frame, traffic, grain_s, {"max_us": total}),
        _cells("latency", frame, {}, grain_s),
        _cells("clients", frame, {}, grain_s),
        _cells("connections", frame, {"failed": failed, **sizes, "total_us": times["total_us"]}, grain_s, ends),
        _runs(frame, grain_s),
        _lines_read(frame, grain_s),
    ]
    for phase in PHASES:
        frame.add("bucket", histogram.buckets(frame.numbers(phase)))
        frame.add("phase", pa.repeat(phase, frame.size))
        made.append(_cells("phases", frame, {}, grain_s))
    if topic_frame is not None:
        moved_there = {name: topic_frame.numbers(name) * topic_frame.weight for name in ("records", "bytes")}
        made.append(_cells("topics", topic_frame, moved_there, grain_s))
    return made


def _mark(column: pa.Array) -> Numbers:
    marks: Numbers = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return marks


def _topics(frame: Frame) -> tuple[dict[str, Numbers], Frame | None]:
    """Return records and bytes of each request, and a frame with a row for each topic of each."""
    topics = frame.columns["topics"]
    parents = pc.list_parent_indices(topics)
    rows = parents.to_numpy().astype(np.int64)
    if not len(rows):
        nothing = np.zeros(frame.size, np.int64)
        return {"records": nothing, "bytes": nothing}, None
    entries = topics.flatten()
    columns = {name: entries.field(name) for name in ("topic", "records", "bytes", "error")}
    for name in ("api", "client_id", "principal", "time", "weight"):
        columns[name] = frame.columns[name].take(parents)
    inner = Frame(pa.record_batch(columns))

    def add(name: str) -> Numbers:
        return np.bincount(rows, weights=inner.numbers(name), minlength=frame.size).astype(np.int64)

    return {"records": add("records"), "bytes": add("bytes")}, inner


def _runs(frame: Frame, grain_s: int) -> pa.Table:
    """Return the first and the last number of the lines of each broker: overlapping runs tell of lines that were read twice."""
    numbered = frame.columns["sequence"].is_valid()
    if not pc.any(numbered).as_py():
        return pa.table({})
    numbers = frame.columns["sequence"].filter(numbered).to_numpy()
    nodes = frame.numbers("node")[numbered.to_numpy(zero_copy_only=False)]
    rows: list[dict[str, Any]] = []
    for node in np.unique(nodes).tolist():
        mine = numbers[nodes == node]
        # A batch may hold the end of one file and the beginning of another: a run ends where the numbers leap.
        starts = np.flatnonzero(np.abs(np.diff(mine, prepend=mine[0] - _LARGEST_GAP - 1)) > _LARGEST_GAP)
        counts = np.diff(starts, append=len(mine)).tolist()
        firsts, lasts = np.minimum.reduceat(mine, starts).tolist(), np.maximum.reduceat(mine, starts).tolist()
        for first, last, count in zip(firsts, lasts, counts, strict=True):
            rows.append({"kind": "runs", "node": node, "note": str(first), "requests": count, "first_us": first, "last_us": last})
    at = _start_of(frame, grain_s or KINDS["runs"].grain_s)
    types = cells.arrow_schema()
    made = pa.Table.from_pylist(rows, pa.schema([types.field(name) for name in rows[0]]))
    return made.append_column("at", pa.repeat(at, len(rows)))


def _start_of(frame: Frame, grain_s: int) -> pa.Scalar:
    return pa.scalar(int(frame.seconds[0]) // grain_s * grain_s * _MICROSECOND, pa.timestamp("us", "UTC"))


def _lines_read(frame: Frame, grain_s: int) -> pa.Table:
    at = _start_of(frame, grain_s or KINDS["lines"].grain_s)
    return pa.table({"kind": ["lines"], "at": pa.array([at]), "error": [READ], "requests": [frame.size]})


def _refused(found: Records) -> list[pa.Table]:
    """Return cells of the lines that gave no record, and of the ids that stand for topics."""
    made = []
    for reason, count in found.refused.items():
        notes: list[str | None] = [found.samples[reason]]
        counts = [1]
        if count > 1:
            notes.append(None)
            counts.append(count - 1)
        made.append(pa.table({"kind": ["lines"] * len(notes), "error": [reason] * len(notes), "note": notes, "requests": counts}))
    if found.topic_ids:
        ids = found.topic_ids
        made.append(
            pa.table(
                {
                    "kind": ["topic_ids"] * len(ids),
                    "topic": list(ids),
                    "note": list(ids.values()),
                    "requests": [1] * len(ids),
                }
            )
        )
    return made


def _complete(table: pa.Table) -> pa.Table:
    """Return the table with all columns of a cell, in their order and types."""
    schema = cells.arrow_schema()
    have = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in have else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
