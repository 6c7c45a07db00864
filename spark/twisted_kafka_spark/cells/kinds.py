"""The rows that a log is reduced to: the measures, their keys and the grain of time. Everything else is computed from them.

A row is a *cell* of one kind. Columns that its kind does not have are null. Cells with equal keys are merged by adding their
measures (or taking their minimum or maximum), so parts of a day, days and brokers merge in any order to the same cells.

Names that clients choose have no bound, so a kind with such keys has a `name`: only the names with the most of a measure are kept
per hour (`bounds.bounded`), and the others share cells whose `others` is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from twisted_kafka_spark.records.schema import PHASES

if TYPE_CHECKING:
    import pyarrow as pa

MINUTE_S, SLOT_S, HOUR_S, DAY_S = 60, 300, 3600, 86_400


class Key(NamedTuple):
    """A key column of cells."""

    name: str
    ddl: str


class Measure(NamedTuple):
    """A column that is merged by `sum`, `min` or `max`."""

    name: str
    merge: str = "sum"


NO_EPOCH = 1 << 40
"""The first epoch of requests that name none."""
TIME = Key("at", "timestamp")
"""The start of the cell's minute or hour, UTC."""

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
    Key("partition", "int"),
    Key("group_id", "string"),
    Key("connection", "string"),
    Key("phase", "string"),
    Key("bucket", "int"),
    Key("note", "string"),
    Key("transactional_id", "string"),
    Key("event", "string"),
    Key("others", "int"),
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
    Measure("partitions", "max"),
    Measure("acks_0"),
    Measure("acks_1"),
    Measure("acks_all"),
    Measure("aborted"),
    Measure("delivery_count", "max"),
    Measure("first_epoch", "min"),
    Measure("last_epoch", "max"),
)
KEY_NAMES = tuple(key.name for key in KEYS)
MEASURE_NAMES = tuple(measure.name for measure in MEASURES)

CLIENT = ("client_id", "principal")
SOFTWARE = ("software", "software_version")
GROUPABLE = (
    *("node", "listener", "protocol", "principal", "client_id", "software", "software_version", "api", "version", "error"),
    *("topic", "group_id"),
)
"""The keys of a request, which `--group-by` accepts. A request counts once for each topic that it names."""
SERVED = "served_us"
"""The phase of histograms of the time that a request was served: its total time without throttling, and without what its API
waits by design."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cell: its grain in seconds, its keys apart from the time, its measures, and which of its keys have no bound."""

    grain_s: int
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    name: tuple[str, ...] = ()
    is_stored: bool = True
    room: int = 1
    """How many times the usual number of names an hour may have before they are bounded: few are left where most are dropped."""


_BUSY = ("requests", "failed", "throttled", "request_bytes", "response_bytes", "total_us", "throttle_us")
_TRAFFIC = ("requests", "failed", "throttled", "empty", "request_bytes", "response_bytes", "bytes", *TIMES, "max_us", "records")
_REQUESTS = ("requests",)
_ENDS = ("first_us", "last_us")
_SLOT = ("requests", "failed", "throttled", "empty", "request_bytes", "response_bytes", "bytes", "records")
_NAMED_FAILURE = (*CLIENT, "group_id", "topic", "note")
_OLD = (*CLIENT, *SOFTWARE, "api", "version")
_WHERE, _WHO_SPEAKS = ("node", "listener", "protocol"), ("listener", "protocol", *CLIENT)
_IN_GROUP = ("group_id", *CLIENT, "api", "error")
_ROUTE, _ASKED = ("node", *CLIENT, "api"), ("node", "api", "version")
LINEAGE, _MEMBER = ("topic", *CLIENT, "group_id"), ("group_id", *CLIENT, "note")
KINDS: dict[str, Kind] = {
    "traffic": Kind(MINUTE_S, ("api", "error"), _TRAFFIC),
    "heat": Kind(MINUTE_S, ("api", "bucket"), _REQUESTS),
    "phases": Kind(HOUR_S, ("api", "phase", "bucket"), _REQUESTS),
    "listeners": Kind(HOUR_S, _WHERE, _BUSY, name=_WHERE),
    "versions": Kind(HOUR_S, ("api", "version"), _REQUESTS, name=("api", "version")),
    "node_versions": Kind(HOUR_S, _ASKED, (*_REQUESTS, *_ENDS), name=_ASKED),
    "software": Kind(HOUR_S, SOFTWARE, _BUSY, name=SOFTWARE),
    "principals": Kind(HOUR_S, ("principal",), (*_BUSY, *_ENDS), name=("principal",)),
    "clients": Kind(HOUR_S, (*CLIENT, *SOFTWARE, "api"), (*_BUSY, "empty", "bytes", *_ENDS), name=(*CLIENT, *SOFTWARE)),
    "client_latency": Kind(HOUR_S, (*CLIENT, "api", "bucket"), ("requests", "total_us"), name=CLIENT),
    "client_minutes": Kind(MINUTE_S, (*CLIENT, "api"), ("requests", "throttled", "throttle_us"), name=(*CLIENT, "api")),
    "new_connections": Kind(MINUTE_S, CLIENT, _REQUESTS, name=CLIENT),
    "old_versions": Kind(HOUR_S, _OLD, _REQUESTS, name=_OLD),
    "errors": Kind(HOUR_S, ("api", "error", *CLIENT), _REQUESTS, name=CLIENT),
    "plain_text": Kind(HOUR_S, _WHO_SPEAKS, _REQUESTS, name=_WHO_SPEAKS),
    "connections": Kind(
        HOUR_S,
        ("connection", *CLIENT),
        ("requests", "failed", "request_bytes", "response_bytes", "total_us", "throttle_us", "first_us", "last_us"),
        name=("connection", *CLIENT),
    ),
    "topics": Kind(HOUR_S, ("topic", "api"), ("requests", "records", "bytes", "partitions"), name=("topic",)),
    "partitions": Kind(HOUR_S, ("topic", "partition", "api"), ("requests", "bytes"), name=("topic", "partition"), room=20),
    "groups": Kind(MINUTE_S, _IN_GROUP, _REQUESTS, name=("group_id", *CLIENT)),
    "topic_errors": Kind(HOUR_S, ("topic", "api", "error", *CLIENT), _REQUESTS, name=("topic", *CLIENT)),
    "transactions": Kind(
        HOUR_S,
        ("transactional_id", *CLIENT, "event", "bucket"),
        ("requests", "total_us", "max_us", "first_us", "last_us", "timeout_us"),
        name=("transactional_id",),
    ),
    "logins": Kind(HOUR_S, ("note", "listener", "error"), ("requests", "first_us", "last_us"), name=("note",)),
    "nodes": Kind(MINUTE_S, ("node", "api"), ("requests", "failed", "response_bytes", *TIMES), name=("node",)),
    "persons": Kind(
        SLOT_S,
        (*CLIENT, "api"),
        (*_SLOT, "acks_0", "acks_1", "acks_all", "aborted", "total_us", "local_us", "remote_us", "send_us", "throttle_us", *_ENDS),
        name=CLIENT,
    ),
    "routes": Kind(HOUR_S, _ROUTE, ("requests", *_ENDS), name=("node", *CLIENT)),
    "failures": Kind(MINUTE_S, ("node", "api", "error", *_NAMED_FAILURE), ("requests", *_ENDS), name=_NAMED_FAILURE),
    "lineage": Kind(HOUR_S, (*LINEAGE, "api"), ("requests", "failed", "records", "bytes", *_ENDS), name=LINEAGE),
    "members": Kind(HOUR_S, (*_MEMBER, "api"), ("requests", "failed", *_ENDS, "first_epoch", "last_epoch"), name=_MEMBER),
    "shares": Kind(
        HOUR_S,
        ("group_id", "topic", *CLIENT, "note", "event"),
        ("requests", "records", "delivery_count", *_ENDS),
        name=("group_id", "topic", *CLIENT, "note"),
    ),
    "addresses": Kind(HOUR_S, ("principal", "note"), ("requests", "failed", *_ENDS), name=("principal", "note")),
    "administration": Kind(
        MINUTE_S,
        ("node", "connection", *CLIENT, "api", "error", "note"),
        ("requests", *_ENDS),
        name=("connection", *CLIENT, "note"),
    ),
    "group_by": Kind(HOUR_S, GROUPABLE, _BUSY, name=GROUPABLE, is_stored=False),
    "runs": Kind(HOUR_S, ("node", "note"), ("requests", "first_us", "last_us")),
    "seen": Kind(HOUR_S, ("note", "error"), ("requests", "first_us", "last_us", "partitions")),
    "clocks": Kind(MINUTE_S, ("node", "note"), ("requests", "first_us", "last_us", "max_us")),
    "lines": Kind(HOUR_S, ("note", "error"), ("requests",), name=("note",)),
    "topic_ids": Kind(HOUR_S, ("topic", "note"), ("requests",), name=("topic", "note")),
}
"""Of these kinds:

- `phases` has histograms of each phase, of `total_us` and of `SERVED`; `heat` and `client_latency` coarse ones
  (`histogram.COARSE`) of `SERVED`.
- `node_versions` has the API versions with which each broker is asked, if the log says which broker it is of.
- `topics` has the highest id of a partition in `partitions`, plus one.
- `partitions` has what Produce and Fetch moved by partition, if they did so often enough (`PARTITION_FLOOR`, or `WRITTEN_FLOOR` of
  the first partitions of a topic). Bytes of a line that names several partitions count as equal shares.
- `groups` has joins, syncs and leaves, and requests about a group that were refused.
- `client_minutes` has what storms consist of, and throttled requests.
- `new_connections` counts the first requests of connections.
- `transactions` has what happened to the transactions of an id (`transactions.EVENTS`), and their durations.
- `logins` are logins that failed, with the client's address in `note`.
- `nodes` has the times of each broker; its `api` is null for all APIs but Produce and Fetch.
- `persons` has what a client did in five minutes, by API, how many writes asked for acks of 0, of 1 and of all, and how many
  transactions it aborted. Writes of which the log lacks the acks are in none of the three.
- `routes` has to which broker a client sends its Produce and Fetch requests, if the log says which broker it is of.
- `failures` are requests that failed, with the first topic that failed, and the client's address in `note`.
- `lineage` has who reads and writes a topic: Produce, Fetch, and commits of groups.
- `members` has what members of groups do, with the member's id in `note`, and the first and last generation, or epoch, of
  heartbeats and joins; the first is `NO_EPOCH` where none is known.
- `shares` has what happened to a share group's records (`event`, a name of `SHARE_COUNTS`), with the member's id in `note`. What
  happened without a request has no client.
- `addresses` has the addresses of principals in `note`.
- `administration` has each change of the cluster that a client asked for; `note` names its subjects.
- `group_by` is what `--group-by` asks for, with other keys null.
- `runs` are the first and the last number of consecutive lines, by broker and hour.
- `seen` are the parts of files that a rollup has read, in bytes, with the file's lasting name and the part's start in `note`.
  `partitions` is the number of hours whose lines are in the part.
- `clocks` are lines with a wrong time, in the minutes in which they count: `note` says whether the broker's clock was `ahead` or
  `behind`, `first_us` and `last_us` are the times that they have, `max_us` is the largest difference.
- `lines` were read, or unreadable for a reason (`error`). A few have a sample in `note`: of each reason, the first text is kept.
- `topic_ids` have the name of a topic id that a fetch used.
"""


def ddl() -> str:
    """Return the schema of a cell in Spark's DDL."""
    return ", ".join([*(f"{key.name} {key.ddl}" for key in KEYS), *(f"{name} bigint" for name in MEASURE_NAMES)])


def arrow_schema() -> pa.Schema:
    """Return the Arrow schema of a cell."""
    import pyarrow as pa

    types = {"string": pa.string(), "int": pa.int32(), "timestamp": pa.timestamp("us", "UTC")}
    return pa.schema([*((key.name, types[key.ddl]) for key in KEYS), *((name, pa.int64()) for name in MEASURE_NAMES)])
