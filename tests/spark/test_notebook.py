"""The notebook in docs/: its cells run in order on a synthetic day, and give the answers that the day was made with."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from twisted_kafka_spark.synthetic.day import PARTITIONS, Day
from twisted_kafka_spark.synthetic.incidents import INCIDENTS

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "access-log" / "notebook.ipynb"


def cells(kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == kind]


def test_it_has_neither_outputs_nor_numbers_of_a_run() -> None:
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
def test_its_questions_are_answered(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.version
    Day(20_000, INCIDENTS).write(tmp_path / "day")
    monkeypatch.setenv("ACCESS_LOG", str(tmp_path / "day"))
    names: dict[str, Any] = {}
    for number, source in enumerate(cells("code")):
        exec(compile(source, f"cell {number}", "exec"), names)
    assert capsys.readouterr().out.count("client_id") == 3, "the answers are shown"
    assert {(row.client_id, row.api) for row in names["outdated"].collect()} == {
        ("legacy-import", "Produce"),
        ("legacy-import", "Fetch"),
    }
    slowest = names["slowest"].collect()
    assert [row.p99_us for row in slowest] == sorted((row.p99_us for row in slowest), reverse=True)
    assert slowest[0].client_id == "bulk-loader", "it is throttled"
    assert [(row.api, row.error, row.retries, row.client_id) for row in names["failed"].collect()] == [
        ("Produce", "NOT_LEADER_OR_FOLLOWER", True, "orders-service")
    ]
    hot = names["hot"].collect()
    assert {row.partition for row in hot} <= set(range(PARTITIONS))
    assert all(0 < row.share <= 1 for row in hot)
    restless = names["restless"].collect()
    assert (restless[0].group_id, restless[0].hour) == ("billing", "2026-11-20T15")
    assert restless[0].joins > 0
    assert names["report"]["total"]["requests"] == names["requests"].count()
    assert names["page"].startswith("<!doctype html>")


def test_it_has_a_question_before_each_answer() -> None:
    questions = [text for text in cells("markdown") if text.startswith("## ")]
    assert len(questions) == 5
    assert len(cells("code")) == len(questions) + 3
