"""Lines into records: our JSON by Arrow's reader, a block at a time; whatever that refuses one line at a time.

Nothing that stands in a line stops the job. A line that gives no record is counted under one of the reasons below.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark import kafka_log
from twisted_kafka_spark.schema import FIELDS, TOPIC_FIELDS

if TYPE_CHECKING:
    import pyarrow as pa

GARBLED = "garbled"
"""Torn or not of any format that is known."""
FOREIGN = "foreign"
"""JSON, but not a line of an access log."""
OTHER = "other"
"""A line of Kafka's request log that does not tell of a completed request; nothing is lost with it."""

SAMPLE_CHARACTERS = 200
_ONE_BY_ONE = 32
"""Blocks of so many lines or fewer are not halved any further to find the one that Arrow refuses."""

_ARROW = {"int": "int32", "bigint": "int64", "string": "string"}
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"


@dataclass(slots=True)
class Records:
    """What lines gave: batches of records, and counts of lines that gave none with a sample of each reason."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)

    def refuse(self, reason: str, line: str) -> None:
        """Count a line that gives no record."""
        self.refused[reason] += 1
        self.samples.setdefault(reason, line[:SAMPLE_CHARACTERS])


@cache
def record_schema() -> pa.Schema:
    """Return the schema of a record for Arrow."""
    import pyarrow as pa

    def arrow_type(ddl: str) -> Any:
        if ddl.startswith("array"):
            return pa.list_(pa.struct([(each.name, arrow_type(each.ddl)) for each in TOPIC_FIELDS]))
        return getattr(pa, _ARROW[ddl])()

    return pa.schema([(each.name, arrow_type(each.ddl)) for each in FIELDS])


def read_lines(lines: pa.StringArray, utc_offset_s: int = 0) -> Records:
    """Turn lines into records. `utc_offset_s` is that of the clock in Kafka's own request log."""
    found = Records()
    _read(lines, found, utc_offset_s)
    return found


def _read(lines: pa.StringArray, found: Records, utc_offset_s: int) -> None:
    if not len(lines):
        return
    first = lines[0].as_py() or ""
    if first.startswith("{"):
        batch = _by_arrow(lines)
        if batch is not None:
            _take(batch, lines, found)
            return
    if len(lines) <= _ONE_BY_ONE or first.startswith("["):
        _one_by_one(lines, found, utc_offset_s)
        return
    half = len(lines) // 2
    _read(lines.slice(0, half), found, utc_offset_s)
    _read(lines.slice(half), found, utc_offset_s)


def _by_arrow(lines: pa.StringArray) -> pa.RecordBatch | None:
    """Return a record for each line, or None when one of them is not JSON of these types."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import json as arrow_json

    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    data = lines.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1),
            # The lines' ends are not in Arrow's column, so one object follows the other without a break.
            arrow_json.ParseOptions(explicit_schema=record_schema(), newlines_in_values=True, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != len(lines):
            return None
        (batch,) = table.combine_chunks().to_batches()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return None
    return batch


def _take(batch: pa.RecordBatch, lines: pa.StringArray, found: Records) -> None:
    """Keep the records of a batch that are ones of an access log."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pc.and_(pc.is_valid(batch.column("api")), pc.fill_null(pc.match_substring_regex(batch.column("time"), _TIME), False))
    if not pc.all(whole).as_py():
        for line in lines.filter(pc.invert(whole)):
            found.refuse(FOREIGN, line.as_py())
        batch = batch.filter(whole)
    if batch.num_rows:
        found.batches.append(pa.record_batch(batch.columns, schema=record_schema()))


def _one_by_one(lines: pa.StringArray, found: Records, utc_offset_s: int) -> None:
    import pyarrow as pa

    records = []
    for scalar in lines:
        line = scalar.as_py() or ""
        if kafka_log.is_request(line):
            record = kafka_log.record(line, utc_offset_s, found.topic_ids)
            reason = GARBLED
        elif kafka_log.is_other(line):
            record, reason = None, OTHER
        else:
            record, reason = _own(line)
        if record is None:
            found.refuse(reason, line)
        else:
            records.append(record)
    if records:
        found.batches.append(pa.RecordBatch.from_pylist(records, record_schema()))


def _own(line: str) -> tuple[dict[str, Any] | None, str]:
    """Return the record of one line of ours, or why there is none."""
    import re

    import pyarrow as pa

    try:
        values = json.loads(line)
    except ValueError:
        return None, GARBLED
    if not isinstance(values, dict) or not isinstance(values.get("api"), str) or not re.match(_TIME, str(values.get("time"))):
        return None, FOREIGN
    try:
        pa.RecordBatch.from_pylist([values], record_schema())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None, FOREIGN
    return {name: values.get(name) for name in record_schema().names}, ""
