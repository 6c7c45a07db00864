"""A followed access log."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from twisted_kafka_spark.cells import aggregate, kinds
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.pipeline import followed
from twisted_kafka_spark.pipeline.followed import Followed
from twisted_kafka_spark.runtime.folder import Folder
from twisted_kafka_spark.stream import follow as streams
from twisted_kafka_spark.stream.source import StreamFold
from twisted_kafka_spark.stream.watch import Watch

LATE_S = 60


class Following:
    """The batches of a stream without the stream, which can be restarted from its files."""

    def __init__(self, spark: Any, directory: Path, now: Callable[[], float] = time.time) -> None:
        self.spark, self.directory, self.now = spark, directory, now
        self.reported: list[dict[str, Any]] = []
        self.start()

    def start(self) -> None:
        self.followed = Followed(self.spark, str(self.directory))
        checkpoint = Folder(self.spark, str(self.directory / "_checkpoint"))
        self._batches = streams.Batches(self.followed, Watch(self.followed, checkpoint, LATE_S, self.reported.extend, now=self.now))

    def batch(self, number: int, *tasks: Iterable[str]) -> None:
        blocks = [(bytearray("".join(lines), "utf-8"),) for lines in tasks]
        lines = self.spark.createDataFrame(blocks, "value binary")
        self._batches(lines.mapInArrow(StreamFold(Folding()).of_lines, kinds.ddl()), number)

    def cells(self) -> pa.Table:
        """Return the cells as a reader of the folders gets them."""
        cells = self.followed.cells()
        assert cells is not None
        schema = kinds.arrow_schema()
        found: pa.Table = aggregate.merged(cells).select(*schema.names).toArrow().cast(schema)
        return found

    def requests(self) -> list[tuple[int, int]]:
        """Return minute and requests of each cell, in order."""
        rows = self.cells().select(["kind", "at", "requests"]).to_pylist()
        return sorted((row["at"].minute, row["requests"]) for row in rows if row["kind"] == "traffic")

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.directory / followed.FOLLOWED).iterdir())
