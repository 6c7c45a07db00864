"""Tables of cells of one kind each: merged, made wide, and packed as Arrow streams for the driver's report of a small log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark.cells import kinds
from twisted_kafka_spark.cells.kinds import KINDS, MEASURES, TIME

Cells = list[tuple[str, pa.Table]]
"""Tables of cells, each with the name of its kind."""

_MERGE_ROWS = 1 << 20
"""Rows that are merged at a time: a task holds only the distinct cells of a partition and this many more, not all at once."""
_KIND = b"kind"
_HOW = {measure.name: measure.merge for measure in MEASURES}


def merged(tables: Iterable[tuple[str, pa.Table]]) -> dict[str, pa.Table]:
    """Return one table per kind, with unique keys."""
    waiting: dict[str, list[pa.Table]] = {}
    for kind, table in tables:
        have = waiting.setdefault(kind, [])
        have.append(table)
        if sum(each.num_rows for each in have) > _MERGE_ROWS:
            waiting[kind] = [_merged(kind, have)]
    return {kind: _merged(kind, have) for kind, have in waiting.items()}


def schema(kind: str, *more: str) -> pa.Schema:
    """Return the schema of a kind's cells, with ``more`` keys than the kind declares."""
    declared, whole = KINDS[kind], kinds.arrow_schema()
    return pa.schema([whole.field(name) for name in (TIME.name, *declared.keys, *more, *declared.measures)])


def own(kind: str, table: pa.Table, *more: str) -> pa.Table:
    """Return a table with exactly the columns of its kind and ``more`` keys."""
    wanted, have = schema(kind, *more), set(table.column_names)
    columns = [table.column(each.name) if each.name in have else pa.nulls(table.num_rows, each.type) for each in wanted]
    return pa.table(columns, schema=wanted)


def with_unique_keys(kind: str, table: pa.Table, *more: str) -> pa.Table:
    """Return cells of a kind with the measures of equal keys, ``more`` ones among them, put together."""
    declared = KINDS[kind]
    keys = [TIME.name, *declared.keys, *more]
    grouped = table.group_by(keys, use_threads=False).aggregate([(name, _HOW[name]) for name in declared.measures])
    names = [f"{name}_{_HOW[name]}" for name in declared.measures]
    return grouped.select([*keys, *names]).rename_columns([*keys, *declared.measures])


def _merged(kind: str, tables: list[pa.Table]) -> pa.Table:
    return with_unique_keys(kind, pa.concat_tables([own(kind, table) for table in tables]))


def joined(tables: Iterable[tuple[str, pa.Table]]) -> dict[str, pa.Table]:
    """Return the same as `merged`, faster where most times occur in one table only, as for the pieces of a file."""
    waiting: dict[str, list[pa.Table]] = {}
    for kind, table in tables:
        waiting.setdefault(kind, []).append(own(kind, table))
    return {kind: _joined(kind, have) for kind, have in waiting.items()}


def _joined(kind: str, tables: list[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    times = [microseconds(table) for table in tables]
    found, counts = np.unique(np.concatenate([np.unique(each) for each in times]), return_counts=True)
    shared = found[counts > 1]
    if not len(shared):
        return pa.concat_tables(tables)
    whole = pa.concat_tables(tables)
    is_shared = pa.array(np.isin(np.concatenate(times), shared))
    return pa.concat_tables([whole.filter(pc.invert(is_shared)), _merged(kind, [whole.filter(is_shared)])])


def unique(tables: Cells) -> Iterator[tuple[str, pa.Table]]:
    """Yield one table per kind; the only table of a kind is assumed to have unique keys."""
    several = {kind for at, (kind, _) in enumerate(tables) if kind in (name for name, _ in tables[:at])}
    yield from merged([(kind, table) for kind, table in tables if kind in several]).items()
    for kind, table in tables:
        if kind not in several:
            yield kind, own(kind, table)


def microseconds(table: pa.Table) -> np.ndarray:
    """Return the times of cells in microseconds; 0 for cells without a time."""
    found: np.ndarray = pc.fill_null(pc.cast(table[TIME.name], pa.int64()), 0).to_numpy()
    return found


def stream(kind: str, table: pa.Table) -> bytes:
    """Return a table as an Arrow stream that contains its kind."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata({_KIND: kind.encode()})) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def opened(content: Any) -> tuple[str, pa.Table]:
    """Return the kind and the table of such a stream."""
    table = pa.ipc.open_stream(content).read_all()
    return table.schema.metadata[_KIND].decode(), table


def wide(tables: Iterable[tuple[str, pa.Table]]) -> pa.Table:
    """Return cells with all columns, in the order and with the types of the schema."""
    schema, some = kinds.arrow_schema(), [(kind, table) for kind, table in tables if table.num_rows]
    if not some:
        return schema.empty_table()
    most = max(table.num_rows for _, table in some)
    nulls = {each: pa.nulls(most, each) for each in set(schema.types)}  # shared by all null columns, which are most
    return pa.concat_tables([_complete(kind, table, schema, nulls) for kind, table in some])


def _complete(kind: str, table: pa.Table, schema: pa.Schema, nulls: dict[pa.DataType, pa.Array]) -> pa.Table:
    have = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in have else nulls[field.type].slice(0, table.num_rows)
        for field in schema
    ]
    columns[0] = pa.repeat(pa.scalar(kind), table.num_rows)
    return pa.table(columns, schema=schema)
