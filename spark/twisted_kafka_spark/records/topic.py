"""Read a topic as lines, with Spark's own connector for Kafka (spark-sql-kafka-0-10), which is a package of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMAT = "kafka"
MOST_RECORDS = 4_000_000
"""Records of a batch of a stream; the others wait for the next one."""
_UNPUBLISHED = {"4.3.0": "4.2.0"}
"""Versions of Spark whose connector is not on Maven Central, and the newest one there that works with them."""
_SEPARATOR = re.compile(r"\s*[=:]\s*|\s+")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and how to reach its brokers: `properties` are those of Kafka's clients, such as `security.protocol`."""

    bootstrap_servers: str
    name: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def options(self) -> dict[str, str]:
        """Return the options of Spark's source and sink for the brokers: each property of a client as `kafka.<property>`."""
        named = {f"{_FORMAT}.{name}": value for name, value in self.properties.items()}
        return named | {"kafka.bootstrap.servers": self.bootstrap_servers}


def package() -> str:
    """Return the coordinates of the connector for this version of Spark."""
    import pyspark

    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_UNPUBLISHED.get(pyspark.__version__, pyspark.__version__)}"


def client_properties(path: Path) -> dict[str, str]:
    """Read a file of client properties, as Kafka's tools do with `--command-config`; raise OSError or ValueError."""
    found = {}
    joined = re.sub(r"\\\n\s*", "", path.read_text("utf-8"))
    for text in joined.splitlines():
        text = text.strip()
        if text and text[0] not in "#!":
            name, *rest = _SEPARATOR.split(text, maxsplit=1)
            if not rest:
                raise ValueError(f"{path}: {name} has no value")
            found[name] = rest[0]
    return found


def read_topic(spark: SparkSession, topic: Topic) -> DataFrame:
    """Return one row per record that the topic has now, with one column `value`; raise RuntimeError without the connector."""
    return _lines(spark, spark.read, topic)


def follow_topic(spark: SparkSession, topic: Topic) -> DataFrame:
    """Return the same as a stream, from the first record on."""
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(MOST_RECORDS)}
    return _lines(spark, spark.readStream.options(**options), topic)


def _lines(spark: SparkSession, reader: Any, topic: Topic) -> DataFrame:
    from pyspark.errors import AnalysisException

    # With at least as many tasks as cores, however few partitions the topic has.
    tasks = {"minPartitions": str(spark.sparkContext.defaultParallelism)}
    try:
        records = reader.format(_FORMAT).options(**topic.options(), **tasks).option("subscribe", topic.name).load()
    except AnalysisException as error:
        raise _missing(error) from None
    lines: DataFrame = records.selectExpr("CAST(value AS STRING) AS value")
    return lines


def send(spark: SparkSession, topic: Topic, messages: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Write records of a key and a value, which is written as JSON; raise RuntimeError without the connector."""
    from pyspark.errors import AnalysisException

    rows = [(key, json.dumps(value, default=str)) for key, value in messages]
    writer = spark.createDataFrame(rows, "key string, value string").write.format(_FORMAT)
    try:
        writer.options(**topic.options()).option("topic", topic.name).save()
    except AnalysisException as error:
        raise _missing(error) from None


def _missing(error: Exception) -> Exception:
    if "Failed to find" not in str(error) and "DATA_SOURCE_NOT_FOUND" not in str(error):
        return error
    return RuntimeError(f"Spark has no connector for Kafka: add --packages {package()} to spark-submit, or its jars with --jars")
