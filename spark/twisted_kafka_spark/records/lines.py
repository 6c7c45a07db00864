"""Parse lines into records: the broker's JSON with Arrow's reader, a block at a time; lines that it rejects one by one.

No content of a line stops the job. A line without a record is counted under one of the reasons below.
"""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.records import kafka_log
from twisted_kafka_spark.records.clocks import Clock, Skew, Skews, latest_us
from twisted_kafka_spark.records.pieces import head
from twisted_kafka_spark.records.schema import (
    DECISION_FIELDS,
    FIELDS,
    RESOURCE_FIELDS,
    SHARE_FIELDS,
    TOPIC_FIELDS,
    TRANSACTION_FIELDS,
    Field,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from twisted_kafka_spark.records.frame import Frame

GARBLED = "garbled"
"""Incomplete, or not in a known format."""
FOREIGN = "foreign"
"""JSON, but not a line of an access log."""
OTHER = "other"
"""A line of Kafka's logs that is not about a completed request; nothing is lost with it."""
BEFORE_2_8 = "before-2.8"
"""A request in the log of a Kafka before 2.8, which has no JSON."""

SAMPLE_CHARACTERS = 200
_NEWLINE = 0x0A
_LINES = 4096
"""Lines of a column that are parsed at a time."""
_ONE_BY_ONE = 32
"""Blocks of at most this many lines are not halved further to find the line that Arrow rejects."""

_SKEWED = "clock"
"""The `error` of a row that counts lines with a wrong time."""
_ARROW = {"int": "int32", "bigint": "int64", "string": "string", "boolean": "bool_"}
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"


@dataclass(slots=True)
class Records:
    """The result of parsing lines: batches of records, and counts of lines without a record, with a sample for each reason:
    the first in the order of texts, which does not depend on how lines are divided."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    skews: Skews = field(default_factory=dict)
    """The lines with a wrong time, which have records."""

    def refuse(self, reason: str, line: str) -> None:
        """Count a line without a record."""
        self._refuse(reason, line[:SAMPLE_CHARACTERS], 1)

    def _refuse(self, reason: str, sample: str, count: int) -> None:
        self.refused[reason] += count
        self.samples[reason] = min(sample, self.samples.get(reason, sample))

    def as_rows(self) -> pa.RecordBatch:
        """Return the lines without a record, the topic ids and the wrong clocks as rows among records, which have no time."""
        import pyarrow as pa

        rows: list[dict[str, Any]] = [
            {"error": reason, "connection": self.samples[reason], "weight": count} for reason, count in self.refused.items()
        ]
        rows += [{"client_id": topic_id, "connection": name} for topic_id, name in self.topic_ids.items()]
        rows += [
            {"node": node, "api": which, "sequence": minute, "weight": skew.lines, "request_bytes": skew.first_us}
            | {"response_bytes": skew.last_us, "total_us": skew.most_us, "error": _SKEWED}
            for (node, which, minute), skew in self.skews.items()
        ]
        return pa.RecordBatch.from_pylist(rows, record_schema())

    def without_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take the rows of `as_rows` in, and return the records of a batch."""
        import pyarrow.compute as pc

        timed = pc.is_valid(batch.column("time"))
        if batch.column("time").null_count == 0:
            return batch
        for row in batch.filter(pc.invert(timed)).to_pylist():
            if row["error"] == _SKEWED:
                skew = self.skews.setdefault((row["node"], row["api"], row["sequence"]), Skew())
                skew.add(row["weight"], row["request_bytes"], row["response_bytes"], row["total_us"])
            elif row["error"] is None:
                self.topic_ids[row["client_id"]] = row["connection"]
            else:
                self._refuse(row["error"], row["connection"], row["weight"])
        return batch.filter(timed)


_ELEMENTS = (TOPIC_FIELDS, SHARE_FIELDS, RESOURCE_FIELDS, DECISION_FIELDS)
"""The fields of the elements of lists."""


def _inner(fields: tuple[Field, ...]) -> str:
    return ", ".join(f"{each.name}: {each.ddl}" for each in fields)


@cache
def record_schema() -> pa.Schema:
    """Return the Arrow schema of a record."""
    import pyarrow as pa

    def struct(fields: tuple[Field, ...]) -> Any:
        return pa.struct([(each.name, arrow_type(each.ddl)) for each in fields])

    def arrow_type(ddl: str) -> Any:
        if ddl == "array<int>":
            return pa.list_(pa.int32())
        if ddl.startswith("array"):
            elements = next(fields for fields in _ELEMENTS if ddl == f"array<struct<{_inner(fields)}>>")
            return pa.list_(struct(elements))
        return struct(TRANSACTION_FIELDS) if ddl.startswith("struct") else getattr(pa, _ARROW[ddl])()

    return pa.schema([(each.name, arrow_type(each.ddl)) for each in FIELDS])


def completed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with exactly the columns and types of the schema: missing ones are null, others are dropped."""
    import pyarrow as pa

    have = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in have else pa.nulls(batch.num_rows, field.type)
        for field in record_schema()
    ]
    return pa.record_batch(columns, schema=record_schema())


class LineReader:
    """Parses lines into frames or records, and counts those without a record; each task has its own.

    `utc_offset_s` is the UTC offset of the times in Kafka's request log, `latest` the latest possible time (`clocks.latest_us`).
    """

    def __init__(self, utc_offset_s: int = 0, latest: int = 0) -> None:
        from twisted_kafka_spark.records.quick import QuickReader

        self.found = Records()
        self._clock = Clock(latest_us(latest), skews=self.found.skews)
        self._utc_offset_s = utc_offset_s
        self._quick = QuickReader()

    def begin(self, path: str) -> None:
        """Take the lines that follow as lines of this file, which gives lines with a wrong time their hour."""
        self._clock.begin(path, lambda: head(path), self._utc_offset_s)

    def begin_unknown(self) -> None:
        """Take the lines that follow as those of an unknown file."""
        self._clock.begin("", bytes)

    def frames(self, column: pa.Array) -> Iterator[Frame]:
        """Yield the records of a column of strings, each a line, or of binary values, each a block of lines."""
        import pyarrow as pa

        if pa.types.is_binary(column.type):
            for block in column:
                yield from self.frames_of_block(memoryview(block.as_buffer()))
            return
        data, offsets = _buffers(column)
        for first in range(0, len(column), _LINES):
            part = offsets[first : first + _LINES + 1]
            yield from self._frames(memoryview(data)[part[0] : part[-1]], part[:-1] - part[0], part[1:] - part[0])

    def frames_of_block(self, block: bytes | memoryview) -> Iterator[Frame]:
        """Yield the records of a block of lines; the newline after the last line may be missing."""
        import numpy as np

        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
        if not len(ends) or ends[-1] != len(block) - 1:
            ends = np.append(ends, len(block))
        yield from self._frames(block, np.append(0, ends[:-1] + 1), ends)

    def records(self, column: pa.Array) -> Iterator[pa.RecordBatch]:
        """Yield the records of a column as `frames` does, but as batches with the schema of a record."""
        import pyarrow as pa

        if pa.types.is_binary(column.type):
            for block in column:
                text = block.as_py().decode("utf-8", "replace").replace("\r\n", "\n")
                yield from self._records(pa.array(text.removesuffix("\n").split("\n")))
        else:
            yield from self._records(column)

    def _records(self, lines: pa.StringArray) -> Iterator[pa.RecordBatch]:
        yield from map(self._clock.corrected_batch, self._read(lines))

    def _read(self, lines: pa.StringArray) -> list[pa.RecordBatch]:
        self.found.batches = []
        _read(lines, self.found, self._utc_offset_s)
        return self.found.batches

    def _frames(self, data: bytes | memoryview, starts: Any, stops: Any) -> Iterator[Frame]:
        import pyarrow as pa

        from twisted_kafka_spark.records.frame import from_batch

        if not len(starts):
            return
        frame, others = self._quick.read(data, starts, stops)
        if frame is not None:
            yield self._clock.corrected(frame)
        if len(others):
            spans = zip(starts[others].tolist(), stops[others].tolist(), strict=True)
            texts = [bytes(data[start:stop]).decode("utf-8", "replace").removesuffix("\r") for start, stop in spans]
            for batch in self._read(pa.array(texts)):
                yield self._clock.corrected(from_batch(batch))


def _buffers(lines: pa.StringArray) -> tuple[Any, Any]:
    """Return the bytes of all lines, and the offsets where each line begins and where the last one ends."""
    import numpy as np

    _, offsets, data = lines.buffers()
    found = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1].astype(np.int64)
    return data if data is not None else b"", found


def _read(lines: pa.StringArray, found: Records, utc_offset_s: int) -> None:
    if not len(lines):
        return
    first = lines[0].as_py() or ""
    if first.startswith("{"):
        batch = _by_arrow(lines)
        if batch is not None:
            _take(batch, lines, found, utc_offset_s)
            return
    if len(lines) <= _ONE_BY_ONE or first.startswith("["):
        _one_by_one(lines, found, utc_offset_s)
        return
    half = len(lines) // 2
    _read(lines.slice(0, half), found, utc_offset_s)
    _read(lines.slice(half), found, utc_offset_s)


def _by_arrow(lines: pa.StringArray) -> pa.RecordBatch | None:
    """Return a record for each line, or None when one of them is not JSON of these types."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    whole, offsets = _buffers(lines)
    data = whole.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1),
            # Arrow's column does not contain the newlines, so the objects follow each other without a separator.
            arrow_json.ParseOptions(explicit_schema=record_schema(), newlines_in_values=True, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != len(lines):
            return None
        (batch,) = table.combine_chunks().to_batches()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return None
    return batch


def _take(batch: pa.RecordBatch, lines: pa.StringArray, found: Records, utc_offset_s: int) -> None:
    """Keep the records of a batch that are from an access log; read the other lines one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    outcome = pc.struct_field(batch.column("transaction"), "outcome")
    without_request = pc.or_(pc.is_valid(outcome), pc.is_valid(batch.column("share")))
    whole = pc.and_(pc.or_(pc.is_valid(batch.column("api")), without_request), _are_times(batch.column("time")))
    if not pc.all(whole).as_py():
        _one_by_one(lines.filter(pc.invert(whole)), found, utc_offset_s)
        batch = batch.filter(whole)
    if batch.num_rows:
        found.batches.append(pa.record_batch(batch.columns, schema=record_schema()))


def _are_times(column: pa.StringArray) -> pa.BooleanArray:
    """Return which values are valid times in the format of the field `time`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    formed = pc.fill_null(pc.match_substring_regex(column, _TIME), False)
    try:
        pc.cast(column.filter(formed), pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:  # an invalid date, such as the 30th of February
        return pa.array([_is_time(text) for text in column.to_pylist()], pa.bool_())
    return formed


def _is_time(text: Any) -> bool:
    try:
        return isinstance(text, str) and re.match(_TIME, text) is not None and bool(datetime.datetime.fromisoformat(text))
    except ValueError:
        return False


def _one_by_one(lines: pa.StringArray, found: Records, utc_offset_s: int) -> None:
    import pyarrow as pa

    unfit = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)
    records, texts = [], []
    for scalar in lines:
        line = scalar.as_py() or ""
        if kafka_log.is_request(line):
            record = kafka_log.record(line, utc_offset_s, found.topic_ids)
            reason = GARBLED
        elif kafka_log.is_before_2_8(line):
            record, reason = None, BEFORE_2_8
        elif kafka_log.is_other(line):
            record, reason = None, OTHER
        else:
            record, reason = _own(line)
        if record is None:
            found.refuse(reason, line)
        else:
            records.append(record)
            texts.append(line)
    if not records:
        return
    try:
        found.batches.append(pa.RecordBatch.from_pylist(records, record_schema()))
    except unfit:
        for record, line in zip(records, texts, strict=True):
            try:
                found.batches.append(pa.RecordBatch.from_pylist([record], record_schema()))
            except unfit:
                found.refuse(GARBLED, line)


def _own(line: str) -> tuple[dict[str, Any] | None, str]:
    """Return the record of a line in the broker's format, or the reason why it has no record."""
    import pyarrow as pa

    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None, GARBLED
    if not isinstance(values, dict) or not _is_ours(values):
        is_kafkas = isinstance(values, dict) and kafka_log.is_other_layout(values)
        return None, OTHER if is_kafkas else FOREIGN
    try:
        pa.RecordBatch.from_pylist([values], record_schema())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None, FOREIGN
    return {name: values.get(name) for name in record_schema().names}, ""


def _is_ours(values: dict[str, Any]) -> bool:
    """Return whether the values are about a request, or about a transaction or a share group's member without one."""
    transaction = values.get("transaction")
    is_end = isinstance(transaction, dict) and isinstance(transaction.get("outcome"), str)
    is_of_member = isinstance(values.get("share"), list) and isinstance(values.get("group_id"), str)
    return (isinstance(values.get("api"), str) or is_end or is_of_member) and _is_time(values.get("time"))
