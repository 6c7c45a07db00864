"""The fields of an access-log line: the schema and the tables in docs/access-log/format.md come from this list."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Field(NamedTuple):
    """A field: its name, its type in Spark's DDL, its type in the documentation, and its meaning."""

    name: str
    ddl: str
    documented_type: str
    meaning: str


PHASES = ("request_queue_us", "local_us", "remote_us", "throttle_us", "response_queue_us", "send_us")
"""The phases of a request, in order; their sum is `total_us`."""

TOPIC_FIELDS: tuple[Field, ...] = (
    Field("topic", "string", "string", "the topic's name"),
    Field("partitions", "int", "int", "number of its partitions in the request"),
    Field(
        "records",
        "bigint",
        "int",
        "records written by a Produce; 0 for every other API: the broker does not count the records that it sends",
    ),
    Field("bytes", "bigint", "int", "bytes of record batches written or read"),
    Field("error", "string", "string, null", "the first error code among its partitions"),
    Field(
        "partition_ids",
        "array<int>",
        "array",
        "ids of its partitions, at most `access.log.max.partitions` (20); absent if none are named. Since version 2",
    ),
)
"""The fields of an element of `topics`."""

COMMITTED, ABORTED, FENCED, TIMED_OUT = "committed", "aborted", "fenced", "timed-out"
OUTCOMES = (COMMITTED, ABORTED, FENCED, TIMED_OUT)
"""How a transaction ended."""
STUCK = "stuck"
"""In place of an outcome: a decided transaction cannot end."""

TRANSACTION_FIELDS: tuple[Field, ...] = (
    Field("id", "string", "string", "the transactional id"),
    Field(
        "outcome",
        "string",
        "string",
        "present only if a transaction ended: `committed`, `aborted`, `fenced` (a new producer with the id had it aborted) or "
        "`timed-out`; or if it cannot: `stuck`",
    ),
    Field(
        "duration_ms",
        "bigint",
        "int",
        "with `outcome`: from the transaction's begin, when its first partition was added, to that decision",
    ),
    Field("timeout_ms", "int", "int", "the timeout of the id's transactions; present only for InitProducerId"),
)
"""The fields of `transaction`."""

RESOURCE_FIELDS: tuple[Field, ...] = (
    Field(
        "type",
        "string",
        "string",
        "`topic`, `group`, `user`, `client-id`, `ip`, `broker`, `broker-logger`, `client-metrics`, `cluster`, `transactional-id`, "
        "`delegation-token`, `feature`, or, of an ACL filter, `any`",
    ),
    Field("name", "string", "string, null", "its name, of a user `User:alice`; null: all of the type, or the type's default"),
)
"""The fields of an element of `resources`."""

DECISION_FIELDS: tuple[Field, ...] = (
    Field("type", "string", "string", "the type of a resource, as in `resources`"),
    Field("name", "string", "string", "its name; of the cluster `kafka-cluster`"),
    Field("operation", "string", "string", "the operation, by Kafka's name: `Read`, `DescribeConfigs` ..."),
    Field("allowed", "boolean", "boolean", "whether the authorizer allows it"),
)
"""The fields of an element of `decisions`."""

SHARE_FIELDS: tuple[Field, ...] = (
    Field("topic", "string", "string", "the topic's name, or its id in hex if the topic no longer exists"),
    Field("acquired", "bigint", "int", "records that the member acquired"),
    Field("redelivered", "bigint", "int", "those of them that had been delivered before"),
    Field("delivery_count", "bigint", "int", "the highest delivery count of an acquired record"),
    Field(
        "accept", "bigint", "int", "records that were accepted; like the next four, only those whose acknowledgement took effect"
    ),
    Field("release", "bigint", "int", "records that were released"),
    Field("reject", "bigint", "int", "records that were rejected"),
    Field("renew", "bigint", "int", "records whose acquisition locks were renewed"),
    Field("gap", "bigint", "int", "offsets that were acknowledged as gaps: they have no record"),
    Field("refused", "bigint", "int", "records whose acknowledgement failed, because the member's lock had expired for example"),
    Field("expired", "bigint", "int", "records whose acquisition locks expired"),
    Field("returned", "bigint", "int", "records that the member still had when its share session ended"),
    Field(
        "over_limit",
        "bigint",
        "int",
        "released, returned or expired records that are not delivered again: their delivery count has reached the limit",
    ),
)
"""The fields of an element of ``share``, in order; a count that is 0 is absent."""

_SHARE_DDL = ", ".join(f"{field.name}: {field.ddl}" for field in SHARE_FIELDS)
_DECISION_DDL = ", ".join(f"{field.name}: {field.ddl}" for field in DECISION_FIELDS)
_RESOURCE_DDL = ", ".join(f"{field.name}: {field.ddl}" for field in RESOURCE_FIELDS)
_TOPIC_DDL = ", ".join(f"{field.name}: {field.ddl}" for field in TOPIC_FIELDS)
_TRANSACTION_DDL = ", ".join(f"{field.name}: {field.ddl}" for field in TRANSACTION_FIELDS)

FIELDS: tuple[Field, ...] = (
    Field("v", "int", "int", "version of this format: 2"),
    Field(
        "time",
        "string",
        "string",
        "when the response was sent, or when the request ended without one; UTC, with milliseconds: `2026-11-21T08:15:30.250Z`",
    ),
    Field("node", "int", "int", "the broker's id"),
    Field("listener", "string", "string", "the listener's name, as in `listeners`"),
    Field("protocol", "string", "string", "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"),
    Field("connection", "string", "string", "`local:port-remote:port-index`; unique while the broker runs"),
    Field("principal", "string", "string", "the authenticated principal; `User:ANONYMOUS` without authentication"),
    Field("client_id", "string", "string, null", "the client's `client.id`; null if the request has none"),
    Field(
        "software",
        "string",
        "string",
        "the client library, from its ApiVersions request; `unknown` if the client sends none",
    ),
    Field("software_version", "string", "string", "the library's version, from the same request"),
    Field("api", "string", "string", "the API's name: `Produce`, `Fetch`, `ListOffsets` ..."),
    Field("api_key", "int", "int", "the API's key"),
    Field("version", "int", "int", "the request's API version; -1 for a SASL token without a header (SaslHandshake 0)"),
    Field("correlation_id", "int", "int", "the request's correlation id, chosen by the client"),
    Field("request_bytes", "bigint", "int", "size on the wire, including headers, without the 4-byte size field"),
    Field("response_bytes", "bigint", "int", "the same for the response; 0 if none was sent"),
    Field("request_queue_us", "bigint", "int", "from the last byte received until a handler takes the request"),
    Field("local_us", "bigint", "int", "processing by the handler"),
    Field(
        "remote_us",
        "bigint",
        "int",
        "waiting for other replicas, for more records for a fetch, or for members of a group",
    ),
    Field("throttle_us", "bigint", "int", "throttled by a quota"),
    Field("response_queue_us", "bigint", "int", "from the response being ready until the network thread takes it"),
    Field("send_us", "bigint", "int", "from there until the kernel has accepted the last byte"),
    Field("total_us", "bigint", "int", "sum of the six phases"),
    Field(
        "error",
        "string",
        "string, null",
        "the first error code in the response, by Kafka's name (`NOT_LEADER_OR_FOLLOWER`); null without an error",
    ),
    Field("topics", f"array<struct<{_TOPIC_DDL}>>", "array", "what the request read or wrote per topic; empty if it names none"),
    Field(
        "topics_left_out",
        "int",
        "int",
        "number of topics that are not listed; present only if the request names more than `access.log.max.topics` (100)",
    ),
    Field("acks", "int", "int", "acks of a Produce: -1 (all), 0 or 1; present only for Produce. Since version 2"),
    Field("group_id", "string", "string", "the group; present only if the request is about one. Since version 2"),
    Field("member_id", "string", "string", "the member of the group, if the request names one. Since version 2"),
    Field("generation", "int", "int", "the generation, or the member's epoch, if the request names one. Since version 2"),
    Field(
        "share",
        f"array<struct<{_SHARE_DDL}>>",
        "array",
        "what happened to a share group's records, by topic; present only if something did. Since version 2",
    ),
    Field(
        "share_left_out",
        "int",
        "int",
        "number of elements of `share` that are not listed; present only if there are more than `access.log.max.topics`. "
        "Since version 2",
    ),
    Field(
        "resources",
        f"array<struct<{_RESOURCE_DDL}>>",
        "array",
        "what else the request is about: config resources, groups, users ...; present only if there are any. Since version 2",
    ),
    Field(
        "resources_left_out",
        "int",
        "int",
        "number of resources that are not listed; present only if there are more than `access.log.max.topics`. Since version 2",
    ),
    Field(
        "decisions",
        f"array<struct<{_DECISION_DDL}>>",
        "array",
        "what the authorizer decided about the request; present only if it was asked. Since version 2",
    ),
    Field(
        "decisions_left_out",
        "int",
        "int",
        "number of decisions that are not listed; present only if there are more than `access.log.max.topics`. Since version 2",
    ),
    Field(
        "transaction",
        f"struct<{_TRANSACTION_DDL}>",
        "object",
        "the transaction, present only if the request names a transactional id, or if the line is about a transaction's end",
    ),
    Field(
        "sequence",
        "bigint",
        "int",
        "the line's number, unique per broker; `node` and `sequence` identify a line that is read twice",
    ),
    Field(
        "weight",
        "int",
        "int",
        "number of requests that the line stands for; present only on lines sampled by `access.log.sample.rate`, otherwise one",
    ),
)
"""The fields of a line, in order."""


def ddl(fields: tuple[Field, ...] = FIELDS) -> str:
    """Return the schema in Spark's DDL."""
    return ", ".join(f"{field.name} {field.ddl}" for field in fields)


def access_log_schema() -> StructType:
    """Return the Spark schema of the log; fields that a line lacks are null."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl())
    assert isinstance(schema, StructType)
    return schema


def markdown_table(fields: tuple[Field, ...]) -> str:
    """Return the fields as the table in docs/access-log/format.md."""
    rows = "".join(f"| `{field.name}` | {field.documented_type} | {field.meaning} |\n" for field in fields)
    return f"| field | type | meaning |\n|---|---|---|\n{rows}"
