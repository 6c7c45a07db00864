"""The fields of one access-log line, as docs/access-log.md gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PHASES = ("request_queue_us", "local_us", "remote_us", "throttle_us", "response_queue_us", "send_us")
"""The parts of a request's life in order; together they are `total_us`."""

CORRUPT = "corrupt_line"
"""Where Spark puts a line that is no JSON of this schema."""

_TOPIC = "struct<topic: string, partitions: int, records: bigint, bytes: bigint, error: string>"

_COLUMNS = (
    "v int",
    "time string",
    "node int",
    "listener string",
    "protocol string",
    "connection string",
    "principal string",
    "client_id string",
    "software string",
    "software_version string",
    "api string",
    "api_key int",
    "version int",
    "correlation_id int",
    "request_bytes bigint",
    "response_bytes bigint",
    *(f"{phase} bigint" for phase in PHASES),
    "total_us bigint",
    "error string",
    f"topics array<{_TOPIC}>",
    f"{CORRUPT} string",
)


def access_log_schema() -> StructType:
    """Return the schema that the log is read with; a field that a line lacks is null."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(", ".join(_COLUMNS))
    assert isinstance(schema, StructType)
    return schema
