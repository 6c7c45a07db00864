"""Read a topic of a broker as lines: a Python data source for Spark, for batches and streams. Requires confluent-kafka.

The offsets are those of the topic, so a stream that restarts from its checkpoint reads each record once. Lines that a broker
published twice, with the same number, are recognized by the rollup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from twisted_kafka_spark.cells import kinds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NAME = "twisted_kafka_topic"
_TIMEOUT_S = 30.0
_POLL_RECORDS = 10_000
_BATCH_LINES = 1 << 16


class _Range(NamedTuple):
    partition: int
    start: int
    end: int


class _Part(InputPartition):
    def __init__(self, piece: _Range) -> None:
        super().__init__(tuple(piece))
        self.piece = piece


def _consumer(options: dict[str, str]) -> Any:
    try:
        from confluent_kafka import Consumer
    except ImportError:
        raise RuntimeError("confluent_kafka is not installed: pip install 'twisted_kafka[spark-topic]'") from None
    return Consumer(
        {
            "bootstrap.servers": options["bootstrap"],
            "group.id": "twisted-kafka-spark",  # required by the library; no offsets are committed
            "enable.auto.commit": False,
            "client.id": "twisted-kafka-spark",
            "log_level": 2,
        }
    )


def _ends(options: dict[str, str]) -> dict[int, tuple[int, int]]:
    """Return the first offset and the one after the last of each partition; raise RuntimeError when they are unavailable."""
    from confluent_kafka import KafkaException, TopicPartition

    consumer = _consumer(options)
    topic = options["topic"]
    try:
        known = consumer.list_topics(topic, _TIMEOUT_S).topics[topic]
        if known.error is not None:
            raise RuntimeError(f"topic {topic} of {options['bootstrap']}: {known.error}")
        return {each: consumer.get_watermark_offsets(TopicPartition(topic, each), _TIMEOUT_S) for each in known.partitions}
    except KafkaException as error:
        raise RuntimeError(f"{options['bootstrap']}: {error}") from None
    finally:
        consumer.close()


def _read(options: dict[str, str], piece: _Range) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from confluent_kafka import TopicPartition

    consumer = _consumer(options)
    values: list[str] = []
    try:
        consumer.assign([TopicPartition(options["topic"], piece.partition, piece.start)])
        position = piece.start
        while position < piece.end:
            messages = consumer.consume(_POLL_RECORDS, _TIMEOUT_S)
            if not messages:
                raise RuntimeError(
                    f"partition {piece.partition}: no record at or after offset {position} within {_TIMEOUT_S:.0f} s"
                )
            for message in messages:
                if message.error() is not None:
                    raise RuntimeError(str(message.error()))
                if message.offset() < piece.end:
                    values.append((message.value() or b"").decode("utf-8", "replace"))
                position = message.offset() + 1
            if len(values) >= _BATCH_LINES:
                yield pa.record_batch({"value": pa.array(values)})
                values = []
    finally:
        consumer.close()
    if values:
        yield pa.record_batch({"value": pa.array(values)})


class _BatchReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [_Part(_Range(each, low, high)) for each, (low, high) in sorted(_ends(self._options).items()) if high > low]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, _Part):  # Spark calls this once without a partition when there are none
            return iter(())
        return _read(self._options, partition.piece)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._is_once = options.get("once") == "true"
        self._end: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {str(each): low for each, (low, _) in _ends(self._options).items()}

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        if not self._is_once or self._end is None:
            self._end = {str(each): high for each, (_, high) in _ends(self._options).items()}
        return self._end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        ranges = [_Range(int(each), start.get(each, 0), high) for each, high in sorted(end.items())]
        return [_Part(piece) for piece in ranges if piece.end > piece.start]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Part)
        from twisted_kafka_spark.cells.fold import Folding  # processes that only plan do not need it

        folding = Folding(grain_s=kinds.MINUTE_S, utc_offset_s=int(self._options.get("utc_offset_s", "0")))
        return folding.rows_of_columns(batch.column(0) for batch in _read(self._options, partition.piece))

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: the offsets are in Spark's checkpoint."""


class TopicSource(DataSource):
    """The data source, with the options `bootstrap` and `topic`.

    With the option `stream` it provides packed cells. Streams have the further options `once`, to stop at the offsets that exist at
    the start, and `utc_offset_s`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> str:
        """Return the schema: a column `value`, or packed cells for a stream."""
        return kinds.PACKED_DDL if self.options.get("stream") == "true" else "value string"

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of a batch."""
        return _BatchReader(dict(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        return _StreamReader(dict(self.options))


def read_topic(spark: SparkSession, bootstrap_servers: str, topic: str) -> DataFrame:
    """Return one row per record of the topic, with one column `value`."""
    spark.dataSource.register(TopicSource)
    return spark.read.format(NAME).option("bootstrap", bootstrap_servers).option("topic", topic).load()


def follow_topic(
    spark: SparkSession, bootstrap_servers: str, topic: str, *, is_once: bool = False, utc_offset_s: int = 0
) -> DataFrame:
    """Return packed cells of the topic's records as a stream from its first offset on; `is_once` ends it with the existing ones."""
    spark.dataSource.register(TopicSource)
    options = {"bootstrap": bootstrap_servers, "topic": topic, "stream": "true"}
    once = {"once": str(is_once).lower(), "utc_offset_s": str(utc_offset_s)}
    return spark.readStream.format(NAME).options(**options, **once).load()
