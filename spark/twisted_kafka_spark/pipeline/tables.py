"""Write the tables of `table_schema` from a rollup: those hours of each that a run changed, as Parquet, Delta or Iceberg.

The rollup itself is the truth, and the tables are made of it, so they may be deleted and made again. A file says which hours still
have to be written: a run that is killed leaves them to the next one.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from twisted_kafka_spark.cells import shards
from twisted_kafka_spark.cells.kinds import HOUR_S, TIME
from twisted_kafka_spark.choices import DELTA, ICEBERG, PARQUET
from twisted_kafka_spark.pipeline import exchange, page, store, table_schema
from twisted_kafka_spark.pipeline.table_schema import FINDINGS, TABLES, Table
from twisted_kafka_spark.runtime.folder import Folder
from twisted_kafka_spark.runtime.session import setting
from twisted_kafka_spark.runtime.spark_errors import first_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from twisted_kafka_spark.findings.finding import Finding

FOLDER = "tables"
_TYPES = {"string": pa.string(), "timestamp": pa.timestamp("us", "UTC"), "int": pa.int32(), "bigint": pa.int64()}
_SCHEMA, _DUE = "schema.json", "_due.{}.json"
_BY_PARTITION = "spark.sql.sources.partitionOverwriteMode", "dynamic"
_AT_ONCE = 4
"""Tables that are written at a time: most are small, and take longer to plan than to write."""
_PACKAGES = {
    DELTA: "io.delta:delta-spark_2.13:VERSION, of a version for Spark {}, with the two settings of Delta's documentation",
    ICEBERG: "org.apache.iceberg:iceberg-spark-runtime-{}_2.13:VERSION, with a catalog (spark.sql.catalog.NAME)",
}
"""The package of a format, by the minor version of Spark; for the newest one there may be none yet."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where tables go: below `tables` in the rollup's directory, or, with a `namespace`, into that of a catalog."""

    form: str = PARQUET
    namespace: str = ""

    @property
    def name(self) -> str:
        """The name of the target in that of a file."""
        return f"{self.form}.{self.namespace}" if self.namespace else self.form


class Tables:
    """The tables of a rollup's directory."""

    def __init__(self, spark: SparkSession, directory: str, target: Target) -> None:
        self._spark, self._target = spark, target
        self._directory = directory.rstrip("/")
        self._folder = Folder(spark, f"{self._directory}/{FOLDER}")
        self._due = _DUE.format(target.name)

    def check(self) -> None:
        """Raise ValueError, with what to do, if this Spark cannot write the tables."""
        form = self._target.form
        if form == ICEBERG and not self._target.namespace:
            raise ValueError("--format iceberg requires --table CATALOG.NAMESPACE")
        if form in _PACKAGES:
            self._check_package(form)
        if self._target.namespace:
            self._make_namespace()

    def _check_package(self, form: str) -> None:
        from py4j.protocol import Py4JJavaError

        spark: Any = self._spark
        sources = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource
        try:
            sources.lookupDataSource(form, spark._jsparkSession.sessionState().conf())
        except Py4JJavaError:
            package = _PACKAGES[form].format(".".join(self._spark.version.split(".")[:2]))
            raise ValueError(f"this Spark has no {form}: add it with --conf spark.jars.packages={package}") from None

    def _make_namespace(self) -> None:
        """Create the namespace unless it exists. So a catalog that does not work is known before the log is read."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._target.namespace}")
        except (PySparkException, Py4JJavaError) as error:
            raise ValueError(f"cannot use --table {self._target.namespace}: {first_line(error)}") from None

    def announce(self, hours: Iterable[str]) -> None:
        """Note hours (`2026-11-21T10`) that are about to change; all hours of the rollup if there are no tables yet."""
        self._note(self._hours_due() | set(hours))

    def write(self) -> int:
        """Write the hours that are due; return how many."""
        hours = sorted(self._hours_due())
        if hours:
            days = sorted({hour[:10] for hour in hours})
            whole = store.read(self._spark, [self._directory], f"{days[0]}T00:00:00", _after(f"{days[-1]}T23"))
            found = exchange.as_shards(whole.where(_is_one_of(days)))
            sized = page.sizes(found)
            if sized.first is not None:
                # Not around each write: they are made by threads, and insertInto has no option for it.
                with page.kept(page.by_hour(found, sized)) as hourly, setting(self._spark, *_BY_PARTITION):
                    self._write(_of_hours(hourly, hours), [kind for kind in sized.cells if kind in TABLES])
                    self._write_findings(days, page.findings_of_days(hourly, {}), sized.last)
        if self._folder.read(_SCHEMA) != table_schema.as_json().encode():
            self._folder.replace(_SCHEMA, table_schema.as_json().encode())
        self._note(set())
        return len(hours)

    def _hours_due(self) -> set[str]:
        content = self._folder.read(self._due)
        return set(json.loads(content)) if content is not None else set(store.hours(self._spark, self._directory))

    def _note(self, hours: set[str]) -> None:
        self._folder.replace(self._due, json.dumps(sorted(hours)).encode())

    def _write(self, hourly: DataFrame, kinds: Sequence[str]) -> None:
        if self._is_of_files:
            for row in hourly.mapInArrow(_files, "path string, content binary").toLocalIterator(prefetchPartitions=True):
                self._folder.replace(row["path"], bytes(row["content"]))
            return
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda kind: self._replace(TABLES[kind], _rows(hourly, kind)), kinds))

    def _write_findings(self, days: Sequence[str], found: Iterable[tuple[str, Finding]], last: datetime.datetime | None) -> None:
        """Write the findings of each day, of which the latest ends at `last`; a day without any has an empty file."""
        rows: dict[str, list[tuple[Any, ...]]] = {day: [] for day in days}
        for day, finding in found:
            begin = datetime.datetime.fromisoformat(f"{day}T00:00+00:00")
            end = begin + datetime.timedelta(days=1, minutes=-1)
            values = finding.as_values(begin, min(end, last) if last is not None else end)
            ends = [None if values[name] is None else datetime.datetime.fromisoformat(values[name]) for name in ("first", "last")]
            texts = {"evidence": json.dumps(values["evidence"], default=str), "filter": values["where"]}
            named = {**values, **texts, "first": ends[0], "last": ends[1]}
            rows.setdefault(day, []).append(tuple(named.get(column.name) for column in TABLES[FINDINGS].columns))
        table = TABLES[FINDINGS]
        if self._is_of_files:
            for day, mine in rows.items():
                columns = [[row[at] for row in mine] for at in range(len(table.columns))]
                arrays = [pa.array(values, _TYPES[column.ddl]) for values, column in zip(columns, table.columns, strict=True)]
                content = _parquet(pa.table(arrays, [column.name for column in table.columns]))
                self._folder.replace(f"{FINDINGS}/date={day}/{FINDINGS}.parquet", content)
        elif some := [(*row, day) for day, mine in rows.items() for row in mine]:
            schema = ", ".join(f"`{column.name}` {column.ddl}" for column in table.columns)
            self._replace(table, self._spark.createDataFrame(some, f"{schema}, date string").repartition("date"))

    @property
    def _is_of_files(self) -> bool:
        return self._target.form == PARQUET and not self._target.namespace

    def _replace(self, table: Table, rows: DataFrame) -> None:
        """Replace those partitions of a table that rows are of."""
        if self._target.namespace:
            self._replace_in_catalog(table, rows)
            return
        writer = rows.write.format(self._target.form).mode("overwrite").partitionBy(*table.partitions)
        options = {"partitionOverwriteMode": "dynamic", "compression": "zstd"}
        if self._target.form == DELTA:
            options["mergeSchema"] = "true"
        writer.options(**options).save(f"{self._folder.url}/{table.name}")

    def _replace_in_catalog(self, table: Table, rows: DataFrame) -> None:
        name = f"{self._target.namespace}.{table.name}"
        if not self._spark.catalog.tableExists(name):
            if self._target.form == ICEBERG:
                rows.writeTo(name).using(ICEBERG).partitionedBy(*map(rows.__getitem__, table.partitions)).create()
            else:
                rows.write.format(self._target.form).partitionBy(*table.partitions).saveAsTable(name)
            return
        there = self._spark.table(name).columns
        lacking = [f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema if field.name not in there]
        if lacking:
            self._spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({', '.join(lacking)})")
        ordered = rows.select(*self._spark.table(name).columns)
        if self._target.form == ICEBERG:
            ordered.writeTo(name).overwritePartitions()
        elif self._target.form == DELTA:
            ordered.write.format(DELTA).mode("overwrite").option("partitionOverwriteMode", "dynamic").saveAsTable(name)
        else:
            ordered.write.insertInto(name, overwrite=True)


def _files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn shards, of one kind and hour each, into files of their tables: Spark's writer takes a second of CPU for each table."""
    for kind, cells in shards.opened(batches):
        if kind in TABLES and cells.num_rows:
            table = cells.select([column.name for column in TABLES[kind].columns])
            at: datetime.datetime = pc.min(table[TIME.name]).as_py()
            path = f"{kind}/date={at:%Y-%m-%d}/hour={at:%H}/{kind}.parquet"
            ordered = table.take(pc.sort_indices(table, sort_keys=[(TIME.name, "ascending")]))
            yield pa.record_batch({"path": [path], "content": pa.array([_parquet(ordered)], pa.binary())})


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _rows(hourly: DataFrame, kind: str) -> DataFrame:
    """Return the rows of a table, with date and hour."""
    from pyspark.sql import functions as sf

    cells = exchange.as_cells(hourly.where(sf.col("kind") == kind))
    date, hour = sf.date_format(TIME.name, "yyyy-MM-dd").alias("date"), sf.date_format(TIME.name, "HH").alias("hour")
    rows = cells.select(*(column.name for column in TABLES[kind].columns), date, hour)
    return rows.repartition("date", "hour").sortWithinPartitions("date", "hour", TIME.name)


def _of_hours(hourly: DataFrame, hours: Sequence[str]) -> DataFrame:
    """Return the shards of some hours."""
    from pyspark.sql import functions as sf

    numbers = [int(datetime.datetime.fromisoformat(f"{hour}:00:00+00:00").timestamp()) // HOUR_S for hour in hours]
    return hourly.where(sf.col("hour").isin(numbers))


def _is_one_of(days: Sequence[str]) -> Column:
    from pyspark.sql import functions as sf

    return sf.date_format(TIME.name, "yyyy-MM-dd").isin(list(days))


def _after(hour: str) -> str:
    """Return when an hour is over, in the format of the field `time`."""
    end = datetime.datetime.fromisoformat(f"{hour}:00:00") + datetime.timedelta(seconds=HOUR_S)
    return end.strftime("%Y-%m-%dT%H:%M:%S")
