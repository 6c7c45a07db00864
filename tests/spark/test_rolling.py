"""The minutes of a stream: each is written once when it is over, despite repeated batches, kills and late lines; without Spark."""

import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import pyarrow as pa
from pyarrow import parquet

from tests.spark.access_lines import line, topic
from twisted_kafka_spark.cells import bundles
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.findings.finding import Finding
from twisted_kafka_spark.stream.folder import Folder, folder
from twisted_kafka_spark.stream.rolling import Rolling
from twisted_kafka_spark.stream.watch import Watch

LATE_S = 60


class Batch:
    """A batch as Spark passes it: the packed cells of what its tasks read."""

    def __init__(self, *tasks: Iterable[str]) -> None:
        self._tasks = ["".join(lines).encode() for lines in tasks]

    def toArrow(self) -> Any:
        rows = [row for block in self._tasks for row in Folding(grain_s=60).rows_of_blocks([block])]
        return pa.Table.from_batches(rows) if rows else pa.table({"part": [], "cells": pa.array([], pa.binary())})


class Crash(BaseException):
    """The process was killed."""


class Following:
    """A Rolling that can be killed between two writes and restarted from the files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reported: list[Finding] = []
        self.start()

    def start(self) -> None:
        out: Any = None
        self.out = folder(out, str(self.directory))
        checkpoint = folder(out, str(self.directory / "_checkpoint"))
        self.rolling = Rolling(self.out, checkpoint, LATE_S, Watch(self.reported.append))

    def batch(self, number: int, *tasks: Iterable[str]) -> None:
        batch: Any = Batch(*tasks)
        self.rolling(batch, number)

    def cells(self) -> pa.Table:
        return pa.concat_tables(parquet.ParquetFile(path).read() for path in sorted(self.directory.glob("followed=3/*/*.parquet")))

    def requests(self) -> list[tuple[int, int]]:
        """Return minute and requests of each cell, in order."""
        rows = self.cells().select(["kind", "at", "requests"]).to_pylist()
        return sorted((row["at"].minute, row["requests"]) for row in rows if row["kind"] == "traffic")


@pytest.fixture
def following(tmp_path: Path) -> Following:
    return Following(tmp_path / "rolled")


def minutes(first: int, end: int, each: int = 5) -> list[str]:
    return [line("Fetch", minute, topics=[topic("orders", 1)]) for minute in range(first, end) for _ in range(each)]


def test_a_minute_is_written_when_it_is_over_with_its_cells_merged(following: Following) -> None:
    following.batch(0, minutes(0, 3), minutes(2, 4))
    assert following.requests() == [(0, 5), (1, 5)]  # of 2 and 3 lines may still come
    following.batch(1, minutes(3, 5))
    assert following.requests() == [(0, 5), (1, 5), (2, 10)]
    following.batch(2, minutes(6, 7))
    assert following.requests() == [(0, 5), (1, 5), (2, 10), (3, 10), (4, 5)]


def test_a_late_line_is_not_lost(following: Following) -> None:
    following.batch(0, minutes(0, 10))
    following.batch(1, minutes(2, 3, each=1))
    assert following.requests()[2:4] == [(2, 1), (2, 5)]
    following.batch(2, minutes(10, 11))
    assert following.requests()[2:4] == [(2, 1), (2, 5)]


@pytest.mark.parametrize("dies_before", ["followed=3/batch=1/cells.parquet", "open/batch=1.arrow"])
def test_a_kill_at_any_write_neither_loses_nor_duplicates_cells(
    following: Following, monkeypatch: pytest.MonkeyPatch, dies_before: str
) -> None:
    following.batch(0, minutes(0, 4))
    kind: type[Folder] = type(following.out)
    write = kind.write

    def dying(self: Folder, name: str, content: bytes) -> None:
        if name == dies_before:
            raise Crash
        write(self, name, content)

    monkeypatch.setattr(kind, "write", dying)
    with pytest.raises(Crash):
        following.batch(1, minutes(3, 8))
    monkeypatch.setattr(kind, "write", write)
    following.start()
    following.batch(1, minutes(3, 8))
    following.batch(2, minutes(9, 10))
    assert following.requests() == [(minute, 10 if minute == 3 else 5) for minute in range(8)]


def test_repeating_an_uncommitted_batch_changes_nothing(following: Following) -> None:
    following.batch(0, minutes(0, 4))
    following.batch(1, minutes(4, 8))
    before = {path.name: path.read_bytes() for path in following.directory.rglob("*") if path.is_file()}
    following.start()
    following.batch(1, minutes(4, 8))
    assert {path.name: path.read_bytes() for path in following.directory.rglob("*") if path.is_file()} == before


def test_only_the_last_states_are_kept(following: Following) -> None:
    for number in range(5):
        following.batch(number, minutes(number, number + 1))
    states = sorted(path.name for path in (following.directory / "_checkpoint" / "open").iterdir())
    assert states == ["batch=3.arrow", "batch=4.arrow"]


def test_a_missing_state_and_rollups_of_another_checkpoint_are_errors(following: Following) -> None:
    following.batch(0, minutes(0, 8))
    following.batch(1, minutes(8, 12))
    following.start()
    with pytest.raises(RuntimeError, match=r"batch=4.arrow does not exist"):
        following.batch(5, minutes(12, 13))
    following.start()
    with pytest.raises(RuntimeError, match="of another checkpoint"):
        following.batch(0, minutes(12, 13))


def test_unreadable_lines_count_in_the_minute_of_their_batch(following: Following) -> None:
    following.batch(0, ["torn\n"])
    following.batch(1, ["torn again\n"], minutes(0, 4))
    following.batch(2, minutes(8, 9))
    lines = [row for row in following.cells().to_pylist() if row["kind"] == "lines"]
    counted: Counter[str] = Counter()
    for row in lines:
        counted[row["error"]] += row["requests"]
    assert counted == {"read": 20, "garbled": 2}
    assert {row["note"] for row in lines} == {None, "torn", "torn again"}
    assert all(row["at"] is not None for row in lines)


def with_errors(first: int, end: int) -> list[str]:
    failed = [topic("gone", 0, "NOT_LEADER_OR_FOLLOWER")]
    return [
        line("Produce", minute, error="NOT_LEADER_OR_FOLLOWER", topics=failed) for minute in range(first, end) for _ in range(40)
    ]


def test_a_finding_is_reported_once_even_after_a_restart(following: Following) -> None:
    following.batch(0, minutes(0, 22))
    following.start()
    following.batch(1, minutes(22, 26), with_errors(22, 26))
    assert [found.name for found in following.reported] == ["error-burst"]
    following.start()
    following.batch(2, minutes(26, 30))
    assert [found.name for found in following.reported] == ["error-burst"]


def test_a_finding_in_a_backlog_of_hours_is_reported(following: Following) -> None:
    times = [f"2026-11-21T{hour:02}:{minute:02}:30.250Z" for hour in range(8) for minute in range(60)]
    usual = [line("Fetch", 0, time=time, topics=[topic("orders", 1)]) for time in times for _ in range(5)]
    failed = [topic("gone", 0, "NOT_LEADER_OR_FOLLOWER")]
    burst = [
        line("Produce", 0, time=time, error="NOT_LEADER_OR_FOLLOWER", topics=failed)
        for time in times
        if "T01:30" <= time[10:] < "T01:34"
        for _ in range(40)
    ]
    following.batch(0, usual, burst)
    assert [found.name for found in following.reported] == ["error-burst"]


def test_tables_with_partly_overlapping_times_are_merged() -> None:
    parts = [minutes(0, 3), minutes(2, 5), minutes(8, 9)]
    tables = [cell for part in parts for cell in bundles.unpacked(Batch(part).toArrow().to_batches())]
    joined, merged = bundles.joined(tables), bundles.merged(tables)
    assert joined.keys() == merged.keys()
    for kind, table in joined.items():
        order = [(name, "ascending") for name in table.column_names]
        assert table.sort_by(order).equals(merged[kind].sort_by(order)), kind


def test_the_written_files_have_the_declared_schema(following: Following) -> None:
    following.batch(0, minutes(0, 5))
    (path,) = following.directory.glob("followed=3/*/*.parquet")
    from twisted_kafka_spark.cells import kinds

    assert parquet.read_schema(io.BytesIO(path.read_bytes())).equals(kinds.arrow_schema())
