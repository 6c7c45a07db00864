"""The tables that `rollup` writes: as documented, readable by others in one line, and complete whatever happens."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyarrow import parquet

from tests.spark.access_lines import line, topic
from twisted_kafka_spark.cells.kinds import KINDS
from twisted_kafka_spark.cells.seen import KINDS_OF_COVERAGE
from twisted_kafka_spark.pipeline import table_schema
from twisted_kafka_spark.pipeline.job import Job, roll_up
from twisted_kafka_spark.pipeline.table_schema import FINDINGS, TABLES
from twisted_kafka_spark.pipeline.tables import Target
from twisted_kafka_spark.report.sheets import as_csv
from twisted_kafka_spark.runtime import output

pytestmark = pytest.mark.timeout(600)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "access-log" / "tables.md"
OVERWRITE = "spark.sql.sources.partitionOverwriteMode"


def test_the_page_has_all_tables_and_columns() -> None:
    assert table_schema.as_markdown() in PAGE.read_text()
    assert f"This is version {table_schema.VERSION} of the tables" in PAGE.read_text()
    stored = {kind for kind, each in KINDS.items() if each.is_stored}
    assert set(TABLES) == stored - set(KINDS_OF_COVERAGE) | {FINDINGS}
    assert set(table_schema.MEANINGS) == set(TABLES) - {FINDINGS}, "describe each kind in table_schema.MEANINGS"


def hour(directory: Path, hour: int, count: int) -> None:
    folder = directory / f"date=2026-11-21/hour={hour:02}"
    folder.mkdir(parents=True)
    texts = []
    for at in range(count):
        fields: dict[str, Any] = {"time": f"2026-11-21T{hour:02}:{at % 60:02}:00.000Z", "sequence": hour * 1000 + at}
        error = "NOT_LEADER_OR_FOLLOWER" if at % 7 == 0 else None
        fields |= {"client_id": f"client-{at % 3}" if at % 3 else None, "error": error, "group_id": "g"}
        texts.append(line(("Produce", "Fetch", "JoinGroup")[at % 3], 0, **fields, topics=[topic("orders", 3)]))
    (folder / "node-1-000001.jsonl").write_text("".join(texts))


@pytest.fixture(scope="module")
def rolled(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of two hours."""
    log, out = tmp_path_factory.mktemp("log"), tmp_path_factory.mktemp("out")
    for number in (8, 9):
        hour(log, number, 20 * number)
    roll_up(spark, Job(paths=[str(log)], rollup_out=str(out), tables=Target()))
    return out / "tables"


def test_files_have_the_documented_columns(rolled: Path) -> None:
    schema = json.loads((rolled / "schema.json").read_text())
    assert schema["version"] == table_schema.VERSION
    assert json.loads((rolled / "_due.parquet.json").read_text()) == []
    for path in rolled.rglob("*.parquet"):
        table = TABLES[path.name.removesuffix(".parquet")]
        assert parquet.ParquetFile(path).schema_arrow.names == [column.name for column in table.columns]
        assert [part.partition("=")[0] for part in path.relative_to(rolled).parts[1:-1]] == list(table.partitions)
    names = {path.name for path in rolled.iterdir() if path.is_dir()}
    assert names <= set(TABLES)
    assert {"clients", "traffic", "topics", "errors", FINDINGS} <= names


def test_others_read_a_table_in_one_line(spark: Any, rolled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is as it is in the page."""
    duckdb, pandas = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    monkeypatch.chdir(rolled.parent.parent)
    where = {"rollups/tables": str(rolled)}
    lines = [row for row in PAGE.read_text().splitlines() if row.startswith(("| DuckDB", "| Spark SQL", "| pandas"))]
    of_duckdb, of_spark, of_pandas = (text.split(" | ", 1)[1].removesuffix(" |").strip("`") for text in lines)
    texts = [text.replace(*next(iter(where.items()))) for text in (of_duckdb, of_spark, of_pandas)]
    expected = {None: 114, "client-1": 113, "client-2": 113}
    assert dict(duckdb.sql(texts[0]).fetchall()) == expected
    assert {row[0]: row[1] for row in spark.sql(texts[1]).collect()} == expected
    found = eval(texts[2], {"pandas": pandas})
    assert {None if name != name else name: count for name, count in found.items()} == expected
    in_hour = f"SELECT sum(requests) FROM read_parquet('{rolled}/traffic/*/*/*.parquet', hive_partitioning = true) WHERE hour = 8"
    assert duckdb.sql(in_hour).fetchall() == [(160,)]


def test_a_table_is_created_in_a_catalog_of_spark(spark: Any, rolled: Path) -> None:
    statements = PAGE.read_text().partition("    CREATE TABLE")[2].partition("\n\n")[0]
    try:
        for statement in f"CREATE TABLE{statements}".replace("/shared/rollups/tables", str(rolled)).split(";"):
            if statement.strip():
                spark.sql(statement)
        assert spark.sql("SELECT sum(requests) FROM clients WHERE hour = 9").collect()[0][0] == 180
    finally:
        spark.sql("DROP TABLE IF EXISTS clients")


@pytest.mark.slow
def test_tables_are_complete_after_a_kill_and_when_they_come_later(spark: Any, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    hour(log, 8, 30)
    roll_up(spark, Job(paths=[str(log)], rollup_out=str(out)))  # without tables
    hour(log, 9, 40)
    roll_up(spark, Job(paths=[str(log)], rollup_out=str(out), tables=Target()))
    traffic = out / "tables" / "traffic"
    assert sum(parquet.read_table(traffic)["requests"].to_pylist()) == 70
    (path,) = traffic.glob("*/hour=09/*.parquet")
    path.unlink()  # as if it had been killed after the rollup and before the tables
    (out / "tables" / "_due.parquet.json").write_text('["2026-11-21T09"]')
    roll_up(spark, Job(paths=[str(log)], rollup_out=str(out), tables=Target()))
    assert sum(parquet.read_table(traffic)["requests"].to_pylist()) == 70


@pytest.mark.slow
def test_tables_of_a_catalog_are_replaced_by_the_hour(spark: Any, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    target = Target("parquet", "spark_catalog.kafka")
    how = spark.conf.get(OVERWRITE)
    try:
        for number in (8, 9):
            hour(log, number, 20)
            roll_up(spark, Job(paths=[str(log)], rollup_out=str(out), tables=target))
            if number == 8:
                spark.sql("ALTER TABLE kafka.clients RENAME TO kafka.clients_now")
                spark.sql("ALTER TABLE kafka.clients_now RENAME TO kafka.clients")
        assert spark.sql("SELECT sum(requests) FROM kafka.traffic").collect()[0][0] == 40
        assert spark.sql("SELECT sum(requests) FROM kafka.clients WHERE hour = '08'").collect()[0][0] == 20
        assert spark.conf.get(OVERWRITE) == how
    finally:
        spark.sql("DROP DATABASE IF EXISTS kafka CASCADE")


def test_a_format_that_spark_lacks_is_an_error_of_one_line(spark: Any, tmp_path: Path) -> None:
    for target, message in (
        (Target("delta"), "this Spark has no delta: add it with --conf spark.jars.packages=io.delta"),
        (Target("iceberg"), "requires --table"),
        (Target("iceberg", "lake.kafka"), r"this Spark has no iceberg: .*iceberg-spark-runtime-4\.\d+_2\.13:VERSION"),
        (Target("parquet", "nowhere.kafka"), "cannot use --table nowhere.kafka: "),
    ):
        with pytest.raises(ValueError, match=message):
            roll_up(spark, Job(paths=[str(tmp_path)], rollup_out=str(tmp_path / "out"), tables=target))


def test_the_tables_of_a_page_are_csv() -> None:
    """An inner object has columns of its own, and a chart has a row for each tick."""
    document = {
        "report": 2,
        "clients": [{"client_id": 'say "no"', "served_us": {"p50": 1.5}}, {"client_id": None, "requests": 3}],
        "security": {"refused": [{"api": "Fetch"}], "others": []},
        "time": {"ticks": ["2026-11-21T08:00", "2026-11-21T08:01"], "requests": {"Fetch": [1, 2]}, "tops": [[1], [2]], "more": [5]},
        "total": {"requests": 3},
    }
    assert as_csv(document) == {
        "clients": 'client_id,served_us.p50,requests\n"say ""no""",1.5,\n,,3\n',
        "security_refused": "api\nFetch\n",
        "time": "at,requests.Fetch,tops\n2026-11-21T08:00,1,[1]\n2026-11-21T08:01,2,[2]\n",
    }


@pytest.mark.parametrize(
    ("out", "other"),
    [("a/b.html", "a/b.json"), ("b", "b.json"), ("s3a://c/d.e/f", "s3a://c/d.e/f.json"), ("file:///x/y.page", "file:///x/y.json")],
)
def test_the_json_is_beside_the_page(out: str, other: str) -> None:
    assert output.with_suffix(out, ".json") == other


def test_a_page_is_written_to_any_file_system(spark: Any, tmp_path: Path) -> None:
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.pages.link./pages", tmp_path.as_uri())
    for text in ("one", "other"):
        assert output.write(spark, "viewfs://pages/pages/report.html", text) == "viewfs://pages/pages/report.html"
        assert (tmp_path / "report.html").read_text() == text
        assert output.write(spark, (tmp_path / "local.html").as_uri(), text) == str(tmp_path / "local.html")
        assert (tmp_path / "local.html").read_text() == text
    output.check("viewfs://pages/gone/report.html")
    with pytest.raises(NotADirectoryError, match="--out requires an existing one"):
        output.check((tmp_path / "gone" / "report.html").as_uri())
