"""What a rollup has of a log: each line once, in whatever order runs, kills, retention and late files come. Without Spark."""

import gzip
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.spark.access_lines import line
from tests.support.budget import share_of
from twisted_kafka_spark.cells.fold import Folding, Planned
from twisted_kafka_spark.cells.kinds import HOUR_S
from twisted_kafka_spark.cells.seen import KINDS_OF_COVERAGE, Coverage, Seen, decide, joined
from twisted_kafka_spark.pipeline.origins import identified, origins
from twisted_kafka_spark.pipeline.rollup import unread
from twisted_kafka_spark.records.pieces import file_size, tasks
from twisted_kafka_spark.records.read import Sources

HOURS = (8, 9, 10)


def coverage(requests: int = 1, **lines: Any) -> Coverage:
    return Coverage(requests, lines)


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        (None, coverage(a=[(1, 5)]), "add"),
        (coverage(a=[(1, 5)]), coverage(a=[(6, 9)]), "add"),
        (coverage(a=[(1, 5)]), coverage(b=[(1, 5)]), "add"),
        (coverage(a=[(1, 5)]), coverage(a=[(0, 9)], b=[(1, 2)]), "replace"),
        (coverage(a=[(1, 5)]), coverage(a=[(2, 3)]), "keep"),
        (coverage(a=[(1, 5)]), coverage(0), "keep"),
        (coverage(a=[(1, 5)]), coverage(a=[(5, 6)]), "refuse"),
        (coverage(7), coverage(7, a=[(1, 7)]), "replace"),
        (coverage(7), coverage(6, a=[(1, 6)]), "refuse"),
    ],
    ids=str,
)
def test_what_becomes_of_an_hour_depends_on_the_lines(old: Coverage | None, new: Coverage, step: str) -> None:
    assert decide(old, new) == step


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9))))
def test_joined_ranges_have_the_same_numbers(drawn: list[tuple[int, int]]) -> None:
    ranges = [(first, first + length) for first, length in drawn]
    found = joined(ranges)
    assert [number for first, last in found for number in range(first, last + 1)] == sorted(
        {number for first, last in ranges for number in range(first, last + 1)}
    )
    assert all(one[1] + 1 < other[0] for one, other in itertools.pairwise(found))


Cells = list[tuple[str, dict[str, Any]]]
"""Cells of some kinds, each as its kind and its columns."""


@dataclass
class Rollup:
    """The files of hours, in memory; a run that is killed has changed only some hours."""

    hours: dict[int, list[Cells]] = field(default_factory=dict)

    def run(self, directory: Path, survives: Callable[[int], bool] = lambda hour: True, cores: int = 2) -> None:
        for hour, cells in cells_by_hour(directory, self.seen(), cores).items():
            if survives(hour):
                parts = self.hours.setdefault(hour, [])
                step = decide(lines_of(itertools.chain(*parts)) if parts else None, lines_of(cells))
                assert step in ("add", "keep")
                if step == "add":
                    parts.append(cells)

    def seen(self) -> Seen:
        return Seen.of(told(self.cells()))

    def cells(self) -> Cells:
        return [each for parts in self.hours.values() for cells in parts for each in cells]


def cells_by_hour(directory: Path, seen: Seen, cores: int) -> dict[int, Cells]:
    """Fold the lines below a directory that were not seen, as the tasks of a run do."""
    sources = Sources([str(path) for path in sorted(directory.iterdir())])
    folding = Folding(seen=seen)
    files = origins(identified(sources, folding), seen)
    planned = tasks(map(file_size, sources.lines), cores, lambda piece: unread(piece, files.get(piece.path)))
    plan = Planned(folding, planned, files)
    found: dict[int, Cells] = {}
    for number in range(len(planned)):
        for shard in plan.folded([pa.record_batch({"id": [number]})]):
            kinds = shard.column("kind").to_pylist()
            for kind, hour, content in zip(kinds, shard.column("hour").to_pylist(), shard.column("cells"), strict=True):
                if kind in COMPARED or kind in KINDS_OF_COVERAGE:
                    rows = pa.ipc.open_stream(content.as_buffer()).read_all().to_pylist()
                    found.setdefault(hour, []).extend((kind, row) for row in rows)
    return found


COMPARED = ("traffic", "clients", "errors", "lines")


def told(cells: Iterable[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"kind": kind, **row} for kind, row in cells if kind in KINDS_OF_COVERAGE]


def lines_of(cells: Iterable[tuple[str, dict[str, Any]]]) -> Coverage:
    cells = list(cells)
    return Coverage.of(told(cells), sum(row["requests"] for kind, row in cells if kind == "traffic"))


def counts(cells: Cells) -> Counter[Any]:
    """Return what cells count, apart from which lines they are of."""
    found: Counter[Any] = Counter()
    for kind, row in cells:
        if kind == "lines":
            found["lines", row["error"]] += row["requests"]
        elif kind in COMPARED:
            found[kind, row["at"], row["api"], row.get("client_id"), row.get("error")] += row["requests"]
    return found


class Log:
    """A log whose files grow, are renamed, compressed, copied and deleted; nothing in it is lost by that."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.whole = directory.with_name("whole")
        self.now = directory
        for each in (self.now, self.whole):
            each.mkdir(parents=True)
        self.chosen = random.Random(seed)
        self.numbers = {1: 1_000, 2: 900_000}
        self.made = 0

    def text(self, *, is_numbered: bool) -> str:
        texts = []
        for _ in range(self.chosen.randint(1, 12)):
            self.made += 1
            hour = self.chosen.choice(HOURS)
            fields: dict[str, Any] = {
                "time": f"2026-11-21T{hour:02}:{self.made % 60:02}:{self.made % 59:02}.{self.made % 1000:03}Z"
            }
            if is_numbered:
                node = self.chosen.choice((1, 2))
                self.numbers[node] += self.chosen.choice((1, 1, 1, 2))
                fields |= {"node": node, "sequence": self.numbers[node]}
            fields |= {"correlation_id": self.made, "client_id": f"client-{self.made % 3}"}
            texts.append(line("Fetch", 0, **fields))
            if self.chosen.random() < 0.1:
                texts.append("torn\n")
        return "".join(texts)

    def do(self, action: str) -> None:
        names = sorted(path.name for path in self.now.iterdir())
        plain = [name for name in names if not name.endswith(".gz")]
        if action in ("numbered", "unnumbered") or not names:
            name = f"{'node-1' if action == 'numbered' else 'kafka'}-{self.made:06}.{'jsonl' if action == 'numbered' else 'log'}"
            for each in (self.now, self.whole):
                (each / name).touch()
            self._append(name, is_numbered=action == "numbered")
        elif action == "grow" and plain:
            name = self.chosen.choice(plain)
            self._append(name, is_numbered=name.startswith("node"))
        elif action == "rename" and any(name.endswith(".log") for name in plain):
            name = self.chosen.choice([name for name in plain if name.endswith(".log")])
            for each in (self.now, self.whole):
                (each / name).rename(each / f"{name}.2026-11-21-{self.made:02}"[: len(name) + 14])
        elif action == "compress" and plain:
            path = self.now / self.chosen.choice(plain)
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        elif action == "retention":
            (self.now / self.chosen.choice(names)).unlink()

    def _append(self, name: str, *, is_numbered: bool) -> None:
        text = self.text(is_numbered=is_numbered)
        for each in (self.now, self.whole):
            with (each / name).open("a") as file:
                file.write(text)


ACTIONS = st.lists(
    st.sampled_from(("numbered", "unnumbered", "grow", "grow", "rename", "compress", "retention", "run", "run", "killed")),
    max_size=14,
)


@settings(max_examples=share_of(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTIONS, st.integers(0, 1 << 20), st.integers(1, 4))
@example(["unnumbered", "killed", "grow", "run", "rename", "run", "compress", "run"], 1, 2)
@example(["numbered", "run", "grow", "killed", "compress", "run", "retention", "run"], 1, 2)
def test_a_rollup_has_each_line_once_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str], seed: int, cores: int
) -> None:
    log, rollup = Log(tmp_path_factory.mktemp("log") / "now", seed), Rollup()
    before: Counter[Any] = Counter()
    for action in ["numbered", *actions, "run"]:
        if action == "run":
            rollup.run(log.now, cores=cores)
        elif action == "killed":
            rollup.run(log.now, lambda hour: bool((hour + seed) % 2), cores)
        else:
            if action == "retention":  # which comes after a run, as a log is kept for a week
                rollup.run(log.now, cores=cores)
            log.do(action)
        if rollup.hours:
            now = counts(rollup.cells())
            assert not before - now, "it never becomes less"
            before = now
    whole = cells_by_hour(log.whole, Seen(), 1)
    assert counts(rollup.cells()) == counts([each for cells in whole.values() for each in cells])
    assert set(rollup.hours) <= {hour + 1_795_219_200 // HOUR_S for hour in HOURS}
