"""The tables that `rollup` writes: their columns, types and meanings, of which docs/access-log/tables.md is made."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from twisted_kafka_spark.cells.kinds import KEYS, KINDS, MEASURES, TIME
from twisted_kafka_spark.cells.seen import KINDS_OF_COVERAGE

VERSION = 1
"""The version of the tables. Within it, tables and columns are only added."""
FINDINGS = "findings"


class Column(NamedTuple):
    """A column: its name, its type in Spark's DDL, and its meaning."""

    name: str
    ddl: str
    meaning: str


class Table(NamedTuple):
    """A table, with the columns that its files have, and those by which it is partitioned."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ("date", "hour")


MEANINGS = {
    "traffic": "requests by API and error",
    "heat": "coarse histograms of the service time by API",
    "phases": "histograms of each phase, of the total time and of the service time (`served_us`), by API",
    "listeners": "requests by broker and listener",
    "versions": "requests by API and version",
    "node_versions": "requests by broker, API and version, if the log says which broker it is of",
    "software": "requests by client library and its version",
    "principals": "requests by principal",
    "clients": "requests by client, library and API",
    "client_latency": "coarse histograms of the service time by client and API",
    "client_minutes": "minutes in which a client sent many requests of an API, joined a group, or was throttled",
    "new_connections": "connections that clients began",
    "old_versions": "requests of versions that Kafka 4 no longer serves (KIP-896)",
    "errors": "failed requests by client, API and error",
    "plain_text": "requests by client on listeners without encryption",
    "connections": "requests by connection",
    "topics": "what requests moved by topic and API",
    "partitions": "what Produce and Fetch moved by partition, if there were at least 60 requests in the hour, or 6 writes to "
    "one of a topic's first 64 partitions",
    "groups": "joins, syncs and leaves of groups, and requests about a group that were refused",
    "topic_errors": "errors by topic, client and API",
    "transactions": "what happened to the transactions of an id, and how long they took",
    "logins": "failed logins by address, which `note` has",
    "nodes": "requests and times of each broker; `api` is null for all APIs but Produce and Fetch",
    "persons": "what a client did in five minutes, by API",
    "routes": "to which broker clients send Produce and Fetch requests",
    "failures": "failed requests by minute, broker, client and address, which `note` has, with the first topic that failed",
    "lineage": "who reads and writes a topic: Produce, Fetch, and commits of groups",
    "members": "what members of groups do; `note` has the member's id",
    "shares": "what happened to the records of share groups (`event`, as in the field `share`), by member, which `note` has",
    "addresses": "the addresses of principals, which `note` has",
    "administration": "changes of the cluster that clients asked for; `note` names their subjects",
    "clocks": "lines with a wrong time: `note` says whether the broker's clock was `ahead` or `behind`",
    "lines": "lines that were read (`error` is `read`), and lines without a record by reason, with a sample in `note`",
    "topic_ids": "topic ids of fetches, with the topic's name in `note`",
}
"""What each table has. A kind of cells without a meaning is documented by its name only."""
_KEY_MEANINGS = {
    TIME.name: "start of the minute or hour, UTC",
    "node": "the broker's id",
    "bucket": "number of the histogram's bucket",
    "note": "see the table's meaning",
    "event": "what happened to a transaction",
    "phase": "name of the phase",
    "error": "Kafka's name of the error; null without one",
    "topic": "the topic's name, or its id (KIP-516) if no line has the name",
    "others": "1 in the row with the sum of all names that have no row; otherwise null",
}
_MEASURE_MEANINGS = {
    "requests": "number of requests",
    "failed": "requests with an error",
    "throttled": "requests that a quota throttled",
    "empty": "requests that moved no bytes of records",
    "request_bytes": "bytes of requests on the wire",
    "response_bytes": "bytes of responses on the wire",
    "records": "records written; of share groups, records to which it happened",
    "bytes": "bytes of record batches written or read",
    "max_us": "the longest time of one, in microseconds",
    "first_us": "time of the first, in microseconds since 1970",
    "last_us": "time of the last, in microseconds since 1970",
    "timeout_us": "the longest timeout of a transaction, in microseconds",
    "partitions": "highest id of a partition, plus one",
    "acks_0": "writes with acks=0",
    "acks_1": "writes with acks=1",
    "acks_all": "writes with acks=all",
    "aborted": "transactions that the client aborted",
    "delivery_count": "the highest delivery count of a record",
    "first_epoch": "the first generation, or epoch, of the members of a group; 2<sup>40</sup> if none is known",
    "last_epoch": "the last one; 0 if none is known",
}


def _columns(kind: str) -> tuple[Column, ...]:
    declared, ddl = KINDS[kind], {key.name: key.ddl for key in KEYS}
    keys = (TIME.name, *declared.keys, *(("others",) if declared.name else ()))
    names = {measure.name for measure in MEASURES}
    assert set(declared.measures) <= names
    return (
        *(Column(name, ddl[name], _KEY_MEANINGS.get(name, f"the field `{name}` of the log")) for name in keys),
        *(Column(name, "bigint", _MEASURE_MEANINGS.get(name, "sum, in microseconds")) for name in declared.measures),
    )


_OF_FINDINGS = (
    Column("id", "string", "a finding's id, the same for the same subject on any day"),
    Column("name", "string", "the name of the kind of finding, as for `--fail-on`"),
    Column("severity", "string", "`critical`, `warning` or `notice`"),
    Column("state", "string", "`open`, `ongoing` or `over` at the end of the day"),
    Column("title", "string", "one sentence"),
    Column("impact", "string", "its cost, as text"),
    Column("first", "timestamp", "first minute, null if it is about the whole day"),
    Column("last", "timestamp", "last minute"),
    Column("evidence", "string", "the evidence as a JSON object"),
    Column("filter", "string", "a condition for `--filter` that selects its lines"),
    Column("advice", "string", "what to do"),
)

TABLES: dict[str, Table] = {
    **{
        kind: Table(kind, MEANINGS.get(kind, kind.replace("_", " ")), _columns(kind))
        for kind, declared in KINDS.items()
        if declared.is_stored and kind not in KINDS_OF_COVERAGE
    },
    FINDINGS: Table(FINDINGS, "findings about the minutes of each day, and about the day", _OF_FINDINGS, ("date",)),
}


def as_json() -> str:
    """Return the schema of all tables, as it is written beside them."""
    found: dict[str, Any] = {
        name: {
            "meaning": table.meaning,
            "partitions": list(table.partitions),
            "columns": [column._asdict() for column in table.columns],
        }
        for name, table in TABLES.items()
    }
    return json.dumps({"version": VERSION, "tables": found}, indent=1) + "\n"


def as_markdown() -> str:
    """Return the tables and the columns as they are in docs/access-log/tables.md."""
    rows = "".join(
        f"| `{table.name}` | {table.meaning} | {', '.join(f'`{column.name}`' for column in table.columns)} |\n"
        for table in TABLES.values()
    )
    columns = {column.name: column for table in TABLES.values() for column in table.columns}
    meanings = "".join(f"| `{column.name}` | {column.ddl} | {column.meaning} |\n" for column in columns.values())
    return f"| table | content | columns |\n|---|---|---|\n{rows}\n| column | type | meaning |\n|---|---|---|\n{meanings}"
