"""The comparison with the period before."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark.access_lines import line, topic
from twisted_kafka_spark.cells.fold import Folding
from twisted_kafka_spark.cli import main
from twisted_kafka_spark.pipeline.comparison import period_before
from twisted_kafka_spark.pipeline.job import Job, run
from twisted_kafka_spark.report.page import as_html
from twisted_kafka_spark.report.terminal import as_text


def test_a_period_is_compared_with_the_one_before(spark: Any, tmp_path: Path) -> None:
    lines = [line("Produce", 5, topics=[topic("orders", 10)])] * 10
    lines += [line("Fetch", 5, client_id="gone")] * 3
    lines += [line("Produce", 15, topics=[topic("orders", 40)], software_version=version) for version in ("1", "2")] * 10
    lines += [line("Produce", 16, error="MESSAGE_TOO_LARGE"), line("Heartbeat", 16, error="REBALANCE_IN_PROGRESS")]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    folding = Folding(since="2026-11-21T08:10:00", until="2026-11-21T08:20:00")
    found = run(spark, Job(paths=[str(tmp_path)], folding=folding, is_compared=True))
    assert found["total"]["requests"] == 22
    before = found["before"]
    assert (before["begin"], before["end"], before["total"]["requests"]) == ("2026-11-21T08:00", "2026-11-21T08:10", 13)
    apis = {row["api"]: (row["requests"], row["requests_before"], row["failed"]) for row in before["apis"]}
    assert apis == {"Produce": (21, 10, 1), "Heartbeat": (1, None, 0), "Fetch": (None, 3, None)}
    clients = {row["client_id"]: (row["requests"], row["requests_before"], row["failed"]) for row in before["clients"]}
    assert clients == {"app": (22, 10, 1), "gone": (None, 3, None)}
    assert [(row["topic"], row["bytes"], row["bytes_before"]) for row in before["topics"]] == [("orders", 8000, 1000)]
    assert "+69%" in as_html(found)
    assert "before    13 requests, 0 failed" in as_text(found)


def test_the_period_before_is_as_long_and_ends_where_the_other_begins() -> None:
    assert period_before("2026-11-21T00:00:00", "2026-11-22T00:00:00") == ("2026-11-20T00:00:00", "2026-11-21T00:00:00")
    for since, until in (("", "2026-11-21T00:00:00"), ("2026-11-21T00:00:00", ""), ("2026-11-21T00:00:00", "2026-11-20T00:00:00")):
        with pytest.raises(ValueError, match="--since"):
            period_before(since, until)


def test_without_a_beginning_there_is_nothing_to_compare_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html"), "--compare"]) == 2
    assert "--compare needs --since" in capsys.readouterr().err
