"""Files that the broker's archive has compressed: zstd and Parquet give the same records as the original lines."""

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
import zstandard

from tests.spark.access_lines import line, topic
from twisted_kafka.access_log.archive import Archive
from twisted_kafka.access_log.parquet_schema import arrow_schema
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka_spark.records import pieces
from twisted_kafka_spark.records.lines import record_schema
from twisted_kafka_spark.records.read import decompressed_lines


def lines_of(*contents: bytes) -> list[str]:
    batches = decompressed_lines([pa.record_batch({"content": pa.array(contents, pa.binary())})])
    found = [block for batch in batches for block in batch.column(0).to_pylist()]
    return [text for block in found for text in block.decode().removesuffix("\n").split("\n")]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000, 1 << 20])
def test_zstd_gives_each_line_once_with_any_chunk_size(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(pieces, "BLOCK_BYTES", chunk_bytes)
    lines = [str(number) * (number % 7 + 1) for number in range(100)]
    text = "\n".join(lines).encode()
    assert lines_of(zstandard.compress(text + b"\n"), zstandard.compress(b"next")) == [*lines, "next"]
    assert lines_of(zstandard.compress(text[:50]) + zstandard.compress(text[50:])) == lines  # two frames
    assert lines_of(zstandard.compress(b"")) == []


def test_damaged_zstd_gives_the_lines_before_the_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "BLOCK_BYTES", 1000)
    numbers = random.Random(1)
    text = "".join(f"{numbers.random()}\n" for _ in range(50_000)).encode()
    whole = zstandard.compress(text)
    found = lines_of(whole[: len(whole) // 2])
    given = text.decode().splitlines()
    assert 100 < len(found) < len(given)
    assert set(found[:-2]) <= set(given)
    assert lines_of(b"no zstd at all")[0].startswith("zstd: ")


def test_a_task_of_compressed_files_has_no_more_lines_than_others() -> None:
    # Its cells did not fit into an executor, of which there were twelve times as many.
    plain = pieces.tasks([(f"{number}.jsonl", 48 << 20) for number in range(100)], 2)
    packed = pieces.tasks([(f"{number}.jsonl.zst", 4 << 20) for number in range(100)], 2)
    assert len(plain) == len(packed) == 100


def test_the_brokers_parquet_has_the_jobs_columns() -> None:
    assert arrow_schema().equals(record_schema())


@pytest.mark.slow
def test_a_report_of_both_archives_equals_that_of_the_lines(spark: Any, tmp_path: Path) -> None:
    from twisted_kafka_spark.pipeline.job import Job, run

    documents = {}
    for form in ("jsonl", "zstd", "parquet"):
        directory = tmp_path / form
        hour = directory / "date=2026-11-21" / "hour=08"
        hour.mkdir(parents=True)
        for number in (1, 2):
            texts = [line("Produce", minute, sequence=100 * number + minute, weight=2) for minute in range(20)]
            texts += [line("Fetch", 5, sequence=100 * number + 50, client_id=None, topics=[topic("orders", 3), topic("x", 1, "E")])]
            (hour / f"node-1-00000{number}.jsonl").write_text("".join(texts))
        clock = ManualClock(wall_ms=4_000_000_000_000)
        Archive(directory, 1, clock, form=form, retention_hours=-1, retention_bytes=-1).run_once()
        assert {path.suffix for path in hour.iterdir()} == {{"zstd": ".zst"}.get(form, f".{form}")}
        documents[form] = run(spark, Job(paths=[str(directory)]))
    plain = documents["jsonl"]
    assert plain["total"]["requests"] == 82
    for form in ("zstd", "parquet"):
        for part in ("total", "apis", "clients", "topics", "versions", "time", "findings", "connections"):
            assert documents[form][part] == plain[part], (form, part)
        assert documents[form]["source"]["lines"] == plain["source"]["lines"]
