"""The minutes of a stream: the cells of a minute are kept until it is over, and then written once.

Spark repeats an unfinished batch with the same lines and the same number. The result of a batch therefore depends only on its lines
and on the state after the previous batch, and the names of its files contain its number: a repeated batch writes the same files
again. The state is small: the cells of the minutes that may still change. Spark's state store would hold each cell as a row of 35
columns and merge them with Spark's aggregation, which costs more than everything done here.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from twisted_kafka_spark.cells import bundles, kinds
from twisted_kafka_spark.cells.kinds import MINUTE_S, TIME
from twisted_kafka_spark.pipeline.store import FOLLOWED
from twisted_kafka_spark.stream.watch import WINDOW, Reported, Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twisted_kafka_spark.stream.folder import Folder

_MICROSECOND = 1_000_000
_STATE = b"state"
_ROLLED = FOLLOWED


@dataclass(slots=True)
class State:
    """The state after a batch: the cells of open minutes, the last minute seen (microseconds since 1970), the reported findings."""

    open: dict[str, pa.Table] = field(default_factory=dict)
    last_us: int | None = None
    reported: Reported = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the state as the contents of a file."""
        values = json.dumps({"last_us": self.last_us, "told": self.reported}).encode()
        schema = pa.schema([("part", pa.int32()), ("cells", pa.binary())], {_STATE: values})
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            for row in bundles.rows(self.open.items()):
                writer.write_batch(row)
        return sink.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> State:
        """Return the state in the contents of a file."""
        with pa.ipc.open_stream(content) as reader:
            values = json.loads(reader.schema.metadata[_STATE])
            return cls(dict(bundles.unpacked(reader)), values["last_us"], values["told"])


class Rolling:
    """Processes the batches of a stream of packed cells; passed to `foreachBatch`.

    A minute is over when there is a line from a minute that began at least `late_s` after its end. Later lines are not lost: their
    cells are written with their batch, in addition to the cells that the minute already has.
    """

    def __init__(self, out: Folder, checkpoint: Folder, late_s: int, watch: Watch | None = None) -> None:
        self._out, self._checkpoint = out, checkpoint
        self._late_us = late_s * _MICROSECOND
        self._watch = watch
        self._after: tuple[int, State] | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Process the cells of batch `number`; raise RuntimeError when the state after the previous batch is missing."""
        before = self._state_before(number)
        tables = [*before.open.items(), *bundles.unpacked(batch.toArrow().to_batches())]
        closed, after = self._divided(bundles.joined(tables), before)
        name = f"{_ROLLED}/batch={number}/cells.parquet"
        if closed.num_rows:
            sink = io.BytesIO()
            parquet.write_table(closed, sink, compression="zstd")
            self._out.write(name, sink.getvalue())
            if self._watch is not None:
                self._watch.add(closed)
                after.reported = self._watch.reported
        self._checkpoint.write(_state_name(number), after.to_bytes())
        self._checkpoint.delete(_state_name(number - 2))
        self._after = number, after

    def _divided(self, whole: dict[str, pa.Table], before: State) -> tuple[pa.Table, State]:
        """Return the cells of the minutes that are over, and the state with the other cells."""
        times = [int(bundles.microseconds(table).max()) for kind, table in whole.items() if kind == "traffic" and table.num_rows]
        last_us = max([*times, *([before.last_us] if before.last_us is not None else [])], default=None)
        if last_us is None:  # no line could be parsed yet, so no minute is known
            return kinds.arrow_schema().empty_table(), State(whole, None, before.reported)
        over_us = last_us - self._late_us - MINUTE_S * _MICROSECOND
        closed, still_open = {}, {}
        for kind, table in whole.items():
            timed = _timed(table, last_us)
            is_over = pa.array(bundles.microseconds(timed) <= over_us)
            closed[kind], still_open[kind] = timed.filter(is_over), timed.filter(pc.invert(is_over))
        return bundles.wide(closed.items()), State(still_open, last_us, before.reported)

    def _state_before(self, number: int) -> State:
        if self._after is not None and self._after[0] == number - 1:
            return self._after[1]
        if number == 0:
            others = [name for name in self._out.names(_ROLLED) if name not in (_folder(0), "_checkpoint")]
            if others:
                raise RuntimeError(f"{self._out.url} contains rollups of another checkpoint ({min(others)}): use another --out")
            return State()
        content = self._checkpoint.read(_state_name(number - 1))
        if content is None:
            raise RuntimeError(f"{self._checkpoint.url}/{_state_name(number - 1)} does not exist: start with another --out")
        state = State.from_bytes(content)
        if self._watch is not None:
            self._watch.reported = state.reported
            self._watch.remember(self._written_before(number))
        return state

    def _written_before(self, number: int) -> Iterator[pa.Table]:
        """Yield the cells of the last hours from the previous batches."""
        batches = sorted(int(name.partition("=")[2]) for name in self._out.names(_ROLLED) if name.startswith("batch="))
        last_us: int | None = None
        for each in reversed([batch for batch in batches if batch < number]):
            content = self._out.read(f"{_ROLLED}/{_folder(each)}/cells.parquet")
            if content is None:
                continue
            table = parquet.read_table(io.BytesIO(content), schema=kinds.arrow_schema())
            yield table
            newest_us = int(bundles.microseconds(table).max())
            last_us = newest_us if last_us is None else last_us
            if newest_us < last_us - WINDOW.total_seconds() * _MICROSECOND:
                return


def _folder(number: int) -> str:
    return f"batch={number}"


def _state_name(number: int) -> str:
    return f"open/{_folder(number)}.arrow"


def _timed(table: pa.Table, at_us: int) -> pa.Table:
    """Set the time of cells without one, which count lines that could not be parsed, to that of the batch."""
    times = table[TIME.name]
    if not times.null_count:
        return table
    return table.set_column(0, TIME.name, pc.fill_null(times, pa.scalar(at_us, times.type)))
