"""The rows of the rollup: the measures, their keys and the grain of time. Everything else is computed from them.

A row is a *cell* of one kind. Columns that its kind does not have are null. Cells with equal keys are merged by adding their
measures (or taking their minimum or maximum), so parts of a day, days and brokers merge in any order to the same rollup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from twisted_kafka_spark.schema import PHASES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


class Key(NamedTuple):
    """A key column of cells."""

    name: str
    ddl: str


class Measure(NamedTuple):
    """A column that is merged by `sum`, `min` or `max`."""

    name: str
    merge: str = "sum"


TIME = Key("at", "timestamp")
"""The start of the cell's minute, hour or day, UTC."""

KEYS: tuple[Key, ...] = (
    Key("kind", "string"),
    TIME,
    Key("node", "int"),
    Key("listener", "string"),
    Key("protocol", "string"),
    Key("principal", "string"),
    Key("client_id", "string"),
    Key("software", "string"),
    Key("software_version", "string"),
    Key("api", "string"),
    Key("version", "int"),
    Key("error", "string"),
    Key("topic", "string"),
    Key("connection", "string"),
    Key("phase", "string"),
    Key("bucket", "int"),
    Key("note", "string"),
    Key("transactional_id", "string"),
    Key("event", "string"),
)
TIMES = ("total_us", *PHASES)
MEASURES: tuple[Measure, ...] = (
    Measure("requests"),
    Measure("failed"),
    Measure("throttled"),
    Measure("empty"),
    Measure("request_bytes"),
    Measure("response_bytes"),
    Measure("records"),
    Measure("bytes"),
    *(Measure(name) for name in TIMES),
    Measure("max_us", "max"),
    Measure("first_us", "min"),
    Measure("last_us", "max"),
    Measure("timeout_us", "max"),
)
KEY_NAMES = tuple(key.name for key in KEYS)
MEASURE_NAMES = tuple(measure.name for measure in MEASURES)

PACKED_DDL = "part int, cells binary"
"""The schema of packed cells (`bundles`) in Spark's DDL: the time partition, and the cells as an Arrow stream."""
CLIENT = ("client_id", "principal")
GROUPABLE = ("node", "listener", "protocol", "principal", "client_id", "software", "software_version", "api", "version", "error")
"""The keys of a request, which `--group-by` accepts."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cell: its grain in seconds, its keys apart from the time, its measures."""

    grain_s: int
    keys: tuple[str, ...]
    measures: tuple[str, ...]


_TRAFFIC = ("requests", "failed", "throttled", "empty", "request_bytes", "response_bytes", "bytes", *TIMES, "max_us")
KINDS: dict[str, Kind] = {
    "requests": Kind(MINUTE_S, GROUPABLE, (*_TRAFFIC, "records")),
    "latency": Kind(MINUTE_S, ("api", "bucket"), ("requests",)),
    "phases": Kind(HOUR_S, ("api", "phase", "bucket"), ("requests",)),
    "clients": Kind(HOUR_S, (*CLIENT, "api", "bucket"), ("requests",)),
    "topics": Kind(HOUR_S, ("topic", "api", "error", *CLIENT), ("requests", "records", "bytes")),
    "connections": Kind(
        HOUR_S,
        ("connection", *CLIENT, "software", "software_version"),
        ("requests", "failed", "request_bytes", "response_bytes", "total_us", "throttle_us", "first_us", "last_us"),
    ),
    "transactions": Kind(
        HOUR_S,
        ("transactional_id", *CLIENT, "event", "bucket"),
        ("requests", "total_us", "max_us", "first_us", "last_us", "timeout_us"),
    ),
    "logins": Kind(HOUR_S, ("note", "listener", "error"), ("requests", "first_us", "last_us")),
    "runs": Kind(DAY_S, ("node", "note"), ("requests", "first_us", "last_us")),
    "lines": Kind(DAY_S, ("note", "error"), ("requests",)),
    "topic_ids": Kind(DAY_S, ("topic", "note"), ("requests",)),
}
"""`transactions`: what happened to the transactions of an id (`transactions.EVENTS`), and their durations; `logins`: logins that
failed, with the client's address in `note`; `runs`: first and last number of consecutively read lines, by broker; `lines`: lines
that were read or unreadable, with a sample in `note`; `topic_ids`: the name of a topic id that a fetch used."""


def ddl() -> str:
    """Return the schema of a cell in Spark's DDL."""
    return ", ".join([*(f"{key.name} {key.ddl}" for key in KEYS), *(f"{name} bigint" for name in MEASURE_NAMES)])


def arrow_schema() -> pa.Schema:
    """Return the Arrow schema of a cell."""
    import pyarrow as pa

    types = {"string": pa.string(), "int": pa.int32(), "timestamp": pa.timestamp("us", "UTC")}
    return pa.schema([*((key.name, types[key.ddl]) for key in KEYS), *((name, pa.int64()) for name in MEASURE_NAMES)])


def merged_measures() -> list[Column]:
    """Return the aggregations that merge cells."""
    from pyspark.sql import functions as sf

    how = {"sum": sf.sum, "min": sf.min, "max": sf.max}
    return [how[measure.merge](measure.name).cast("bigint").alias(measure.name) for measure in MEASURES]


def merge(cells: DataFrame) -> DataFrame:
    """Return cells whose keys are unique."""
    return cells.groupBy(*KEY_NAMES).agg(*merged_measures())


def regrain(cells: DataFrame, grain_s: int) -> DataFrame:
    """Return cells with their times truncated to `grain_s`, not merged yet."""
    from pyspark.sql import functions as sf

    at = sf.timestamp_seconds(sf.floor(sf.unix_seconds(TIME.name) / grain_s) * grain_s)
    return cells.withColumn(TIME.name, at)
