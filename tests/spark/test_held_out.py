"""The days with planted incidents: what is planted is in the lines, and the score counts what it says."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import numpy as np
import pyarrow as pa

from benchmarks.held_out import cluster_day, operators
from benchmarks.held_out.fleet import quiet_day
from benchmarks.held_out.planted import MAKERS, Draw, Planted, plant
from benchmarks.held_out.score import Score, make_day, matches
from benchmarks.held_out.streams import lines_of
from twisted_kafka_spark.findings.find import NAMES
from twisted_kafka_spark.records.lines import LineReader


def test_what_is_planted_has_a_finding() -> None:
    assert set(MAKERS) <= set(NAMES)


@pytest.mark.slow
def test_a_seed_gives_the_same_day_whose_lines_are_read(tmp_path: Path) -> None:
    texts = []
    for number in range(2):
        planted, count = make_day(10_003, 0.0, tmp_path / str(number))
        assert planted
        texts.append({path.name + path.parent.name: path.read_text() for path in (tmp_path / str(number)).rglob("*.jsonl")})
        assert count == sum(text.count("\n") for text in texts[-1].values())
    assert texts[0] == texts[1]
    reader = LineReader()
    damaged = sum(len(one.damaged) for one in planted)
    read = sum(len(batch) for text in texts[0].values() for batch in reader.records(pa.array(text.splitlines())))
    assert read == count - damaged


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_planted_can_be_written(kind: str) -> None:
    draw = np.random.default_rng(10_000)
    fleet = quiet_day(draw)
    before = len(fleet.streams)
    planted = MAKERS[kind](Draw(fleet, draw))
    assert planted.kind == kind
    assert planted.size > 0
    added = fleet.streams[before:]
    if planted.first is not None:
        assert 0 < planted.first <= planted.last < 24 * 60
    for line in [line for stream in added for line in lines_of(stream, fleet.weather, draw)][:50]:
        json.loads("{" + line.rest + "}")


def test_quiet_days_have_nothing_planted_and_others_have() -> None:
    draw = np.random.default_rng(10_001)
    kinds = [[one.kind for one in plant(quiet_day(draw), draw)] for _ in range(3)]
    assert all(kinds)
    assert all(len(set(each)) == len(each) for each in kinds)


def found(name: str, first: str | None = None, last: str | None = None, where: str = "", **evidence: Any) -> dict[str, Any]:
    return {"name": name, "title": name, "first": first, "last": last, "where": where, "evidence": evidence}


def test_a_finding_counts_only_with_the_right_client_api_and_minutes() -> None:
    storm = Planted("metadata-storm", 2.0, 60, 70, {"client_id": "a"}, frozenset({"Metadata"}))
    right = found("metadata-storm", "2026-03-17T01:01Z", "2026-03-17T01:10Z", "api = 'Metadata'", client_id="a")
    assert matches(right, storm)
    assert not matches(right | {"name": "commit-flood"}, storm)
    assert not matches(right | {"evidence": {"client_id": "b"}}, storm)
    assert not matches(right | {"where": "api = 'Fetch'"}, storm)
    late = right | {"last": "2026-03-17T01:30Z"}
    small = Planted("old-client", 0.5, names={"client_id": "c"})
    unclear = Planted("slow-disk", 3.0, 1, 5, is_blurred=True)
    score = Score()
    assert score.add([storm, unclear], [right]) == []
    assert len(score.add([storm], [late])) == 1
    assert len(score.add([storm], [])) == 1
    assert len(score.add([small], [found("old-client", client_id="c")])) == 1
    assert len(score.add([], [found("hot-topic")])) == 1
    assert len(score.add([storm], [right, found("hot-topic")])) == 1
    assert (score.above["metadata-storm"], score.right["metadata-storm"], score.seen["metadata-storm"]) == (4, 2, 1)
    assert (score.below.total(), score.wrong_below.total(), score.above["slow-disk"]) == (1, 1, 0)
    assert (score.false.total(), score.other.total(), score.quiet_days) == (1, 1, 1)


def test_every_incident_of_the_operators_has_a_source_and_names_of_findings() -> None:
    for maker in operators.MAKERS:
        draw = np.random.default_rng(10_002)
        day = cluster_day.quiet(draw)
        planted = maker(operators.Plan(day, draw, 400, 150))
        assert planted.source in operators.SOURCES
        assert set(planted.names) <= set(NAMES)
        assert 0 <= planted.first <= planted.last < cluster_day.MINUTES
