"""The fields of one access-log line: the one list from which the schema and the tables of docs/access-log.md are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Field(NamedTuple):
    """One field: its name, its type in Spark's DDL, the type in the words of the documentation, what it means."""

    name: str
    ddl: str
    told_type: str
    meaning: str


PHASES = ("request_queue_us", "local_us", "remote_us", "throttle_us", "response_queue_us", "send_us")
"""The parts of a request's life in order; together they are `total_us`."""

TOPIC_FIELDS: tuple[Field, ...] = (
    Field("topic", "string", "string", "its name"),
    Field("partitions", "int", "int", "partitions of it in the request"),
    Field(
        "records",
        "bigint",
        "int",
        "records written or read; 0 where the request moves none, or where counting would mean unpacking them",
    ),
    Field("bytes", "bigint", "int", "bytes of record batches written or read"),
    Field("error", "string", "string, null", "the first error code of one of its partitions"),
)
"""The fields of an element of `topics`."""

_TOPIC_DDL = ", ".join(f"{field.name}: {field.ddl}" for field in TOPIC_FIELDS)

FIELDS: tuple[Field, ...] = (
    Field("v", "int", "int", "version of this format: 1"),
    Field(
        "time",
        "string",
        "string",
        "when the response was sent or the request ended otherwise, UTC, with milliseconds: `2026-11-21T08:15:30.250Z`",
    ),
    Field("node", "int", "int", "the broker's number"),
    Field("listener", "string", "string", "name of the listener, as in `listeners`"),
    Field("protocol", "string", "string", "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"),
    Field("connection", "string", "string", "`local:port-remote:port-index`; one value for each connection in a broker's life"),
    Field("principal", "string", "string", "who sent it: `User:ANONYMOUS` without authentication"),
    Field("client_id", "string", "string, null", "what the client calls itself; null when the request has none"),
    Field(
        "software",
        "string",
        "string",
        "the client library, from its ApiVersions request; `unknown` for those that do not say",
    ),
    Field("software_version", "string", "string", "its version, likewise"),
    Field("api", "string", "string", "name of the API: `Produce`, `Fetch`, `ListOffsets` ..."),
    Field("api_key", "int", "int", "the API's number"),
    Field("version", "int", "int", "the version of the request"),
    Field("correlation_id", "int", "int", "the request's number on its connection, given by the client"),
    Field("request_bytes", "bigint", "int", "size on the wire, headers included, without the four bytes of the size itself"),
    Field("response_bytes", "bigint", "int", "the same of the response; 0 when none was sent"),
    Field("request_queue_us", "bigint", "int", "from the last byte received to a handler taking the request"),
    Field("local_us", "bigint", "int", "work of the handler"),
    Field(
        "remote_us",
        "bigint",
        "int",
        "waiting for something else: other replicas, more records for a fetch, members of a group",
    ),
    Field("throttle_us", "bigint", "int", "held back by a quota"),
    Field("response_queue_us", "bigint", "int", "from the response being ready to the network thread taking it"),
    Field("send_us", "bigint", "int", "from there until the last byte was handed to the system"),
    Field("total_us", "bigint", "int", "sum of the six"),
    Field(
        "error",
        "string",
        "string, null",
        "the first error code in the response, by Kafka's name (`NOT_LEADER_OR_FOLLOWER`); null when there is none",
    ),
    Field("topics", f"array<struct<{_TOPIC_DDL}>>", "array", "what the request did to topics; empty for requests that touch none"),
    Field(
        "topics_left_out",
        "int",
        "int",
        "only when the request named more topics than `access.log.max.topics` (100): how many are not listed",
    ),
    Field(
        "sequence",
        "bigint",
        "int",
        "number of the line, given once by this broker; readers know repeated lines by `node` and `sequence`",
    ),
    Field(
        "weight",
        "int",
        "int",
        "only on a line that `access.log.sample.rate` picked to stand for others: how many requests it stands for; without it, one",
    ),
)
"""The fields of a line, in their order."""


def ddl(fields: tuple[Field, ...] = FIELDS) -> str:
    """Return the schema in Spark's DDL."""
    return ", ".join(f"{field.name} {field.ddl}" for field in fields)


def access_log_schema() -> StructType:
    """Return the schema that the log is read with; a field that a line lacks is null."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl())
    assert isinstance(schema, StructType)
    return schema


def markdown_table(fields: tuple[Field, ...]) -> str:
    """Return the fields as the table that stands in docs/access-log.md."""
    rows = "".join(f"| `{field.name}` | {field.told_type} | {field.meaning} |\n" for field in fields)
    return f"| field | type | meaning |\n|---|---|---|\n{rows}"
