"""Records as columns of numbers: the form in which a task folds them into cells, however they were read.

The identity of a request (`IDENTITY`: client, connection, broker, API) is shared by many records. A frame contains each identity
once, and the number of its identity for each record. Errors and topics are numbers too, with their names in separate arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import without_pandas  # noqa: F401 - for the side effect of the import
from twisted_kafka_spark.records.schema import PHASES, SHARE_FIELDS

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.int64]]

IDENTITY = (
    *("node", "listener", "protocol", "connection", "principal", "client_id", "software", "software_version"),
    *("api", "version"),
)
AMOUNTS = ("request_bytes", "response_bytes", *PHASES, "total_us")
IDENTITY_SCHEMA = pa.schema([(name, pa.int32() if name in ("node", "version") else pa.string()) for name in IDENTITY])
NO_SEQUENCE = -1
NO_DURATION = -1
NO_ACKS = -128
NO_GENERATION = -(1 << 30)
SHARE_COUNTS = tuple(field.name for field in SHARE_FIELDS[1:])
"""What happened to a share group's records."""
LARGEST_CODE = 1 << 62
"""Codes of combinations must be below this."""
MOST_CHARACTERS = 400
"""Characters of the text of a record's resources; the rest is cut."""
_DENSE = 4
"""If the codes are below this many times the number of rows, an array is used to find distinct codes, otherwise a hash table."""


class Coded(NamedTuple):
    """A column as codes, and the value of each code; several codes may have equal values."""

    codes: Numbers
    values: pa.Array


@dataclass(slots=True)
class Topics:
    """The topics of all records, in the order of the records; `parent` is the index of each topic's record."""

    parent: Numbers
    topic: Coded
    error: Coded
    records: Numbers
    bytes: Numbers
    partitions: Coded
    """The ids of its partitions as text, separated by commas; null if the line has none."""


@dataclass(slots=True)
class Transactions:
    """The transactions that records name, in the order of the records; `parent` is the index of each one's record."""

    parent: Numbers
    id: Coded
    outcome: Coded
    duration_ms: Numbers
    """`NO_DURATION` where no transaction ended."""
    timeout_ms: Numbers

    def __len__(self) -> int:
        return len(self.parent)


@dataclass(slots=True)
class Shares:
    """What happened to records of share groups, by topic, in the order of the log; `parent` is the index of each one's record."""

    parent: Numbers
    topic: Coded
    counts: dict[str, Numbers]
    """By the names of `SHARE_COUNTS`."""

    def __len__(self) -> int:
        return len(self.parent)


@dataclass(slots=True)
class Frame:
    """Records as columns of equal length."""

    time_us: Numbers
    identity: Numbers
    identities: pa.Table
    amounts: dict[str, Numbers]
    weight: Numbers
    sequence: Numbers
    error: Coded
    group: Coded
    member: Coded
    resources: Coded
    """The resources of a request besides topics, as text: `type name`, separated by commas; null if a line has none."""
    topics: Topics
    transactions: Transactions
    acks: Numbers
    """`NO_ACKS` where the request is no Produce."""
    generation: Numbers
    """The generation, or the member's epoch; `NO_GENERATION` where the request names none."""
    shares: Shares
    origin: object = None
    """What numbers identities, errors and topics: frames of one origin have the same numbers, and later ones more values."""

    def __len__(self) -> int:
        return len(self.time_us)

    def requests(self) -> Frame:
        """Return the records that are about a request; the others say what happened to a transaction or a member without one."""
        api = self.identities.column("api").combine_chunks()
        return self.chosen(api.is_valid().to_numpy(zero_copy_only=False)[self.identity]) if api.null_count else self

    def chosen(self, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> Frame:
        """Return the selected records."""
        if wanted.all():
            return self
        topics, kept = self.topics, wanted[self.topics.parent]
        transactions, kept_too = self.transactions, wanted[self.transactions.parent]
        shares, kept_shares = self.shares, wanted[self.shares.parent]
        new_place = np.cumsum(wanted) - 1
        return Frame(
            self.time_us[wanted],
            self.identity[wanted],
            self.identities,
            {name: values[wanted] for name, values in self.amounts.items()},
            self.weight[wanted],
            self.sequence[wanted],
            Coded(self.error.codes[wanted], self.error.values),
            Coded(self.group.codes[wanted], self.group.values),
            Coded(self.member.codes[wanted], self.member.values),
            Coded(self.resources.codes[wanted], self.resources.values),
            Topics(
                new_place[topics.parent[kept]],
                Coded(topics.topic.codes[kept], topics.topic.values),
                Coded(topics.error.codes[kept], topics.error.values),
                topics.records[kept],
                topics.bytes[kept],
                Coded(topics.partitions.codes[kept], topics.partitions.values),
            ),
            Transactions(
                new_place[transactions.parent[kept_too]],
                Coded(transactions.id.codes[kept_too], transactions.id.values),
                Coded(transactions.outcome.codes[kept_too], transactions.outcome.values),
                transactions.duration_ms[kept_too],
                transactions.timeout_ms[kept_too],
            ),
            self.acks[wanted],
            self.generation[wanted],
            Shares(
                new_place[shares.parent[kept_shares]],
                Coded(shares.topic.codes[kept_shares], shares.topic.values),
                {name: values[kept_shares] for name, values in shares.counts.items()},
            ),
            self.origin,
        )


def concatenated(frames: Sequence[Frame]) -> Frame:
    """Return the records of several frames as one."""
    if len(frames) == 1:
        return frames[0]
    starts = _starts([len(frame) for frame in frames])
    origins = [frame.origin for frame in frames]
    tables, parts = _places(origins, [frame.identities.num_rows for frame in frames])
    return Frame(
        np.concatenate([frame.time_us for frame in frames]),
        np.concatenate([frame.identity + start for frame, start in zip(frames, tables, strict=True)]),
        pa.concat_tables([frames[at].identities for at in parts]),
        {name: np.concatenate([frame.amounts[name] for frame in frames]) for name in AMOUNTS},
        np.concatenate([frame.weight for frame in frames]),
        np.concatenate([frame.sequence for frame in frames]),
        _joined([frame.error for frame in frames], origins),
        _joined([frame.group for frame in frames], origins),
        _joined([frame.member for frame in frames], origins),
        _joined([frame.resources for frame in frames], [None] * len(frames)),
        Topics(
            np.concatenate([frame.topics.parent + start for frame, start in zip(frames, starts, strict=True)]),
            _joined([frame.topics.topic for frame in frames], origins),
            _joined([frame.topics.error for frame in frames], origins),
            np.concatenate([frame.topics.records for frame in frames]),
            np.concatenate([frame.topics.bytes for frame in frames]),
            _joined([frame.topics.partitions for frame in frames], origins),
        ),
        Transactions(
            np.concatenate([frame.transactions.parent + start for frame, start in zip(frames, starts, strict=True)]),
            _joined([frame.transactions.id for frame in frames], [None] * len(frames)),
            _joined([frame.transactions.outcome for frame in frames], [None] * len(frames)),
            np.concatenate([frame.transactions.duration_ms for frame in frames]),
            np.concatenate([frame.transactions.timeout_ms for frame in frames]),
        ),
        np.concatenate([frame.acks for frame in frames]),
        np.concatenate([frame.generation for frame in frames]),
        Shares(
            np.concatenate([frame.shares.parent + start for frame, start in zip(frames, starts, strict=True)]),
            _joined([frame.shares.topic for frame in frames], [None] * len(frames)),
            {name: np.concatenate([frame.shares.counts[name] for frame in frames]) for name in SHARE_COUNTS},
        ),
    )


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(sizes)[:-1].tolist()]


def _places(origins: Sequence[object], sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Place parts' values one after another, those of an origin once; return where each part's begin, and the parts to take."""
    last = {id(origin): at for at, origin in enumerate(origins) if origin is not None}
    known: dict[int, int] = {}
    starts, taken, end = [], [], 0
    for at, origin in enumerate(origins):
        if origin is None or id(origin) not in known:
            part = at if origin is None else last[id(origin)]
            if origin is not None:
                known[id(origin)] = end
            taken.append(part)
            starts.append(end)
            end += sizes[part]
        else:
            starts.append(known[id(origin)])
    return starts, taken


def _joined(parts: Sequence[Coded], origins: Sequence[object]) -> Coded:
    starts, taken = _places(origins, [len(part.values) for part in parts])
    codes = np.concatenate([part.codes + start for part, start in zip(parts, starts, strict=True)])
    return Coded(codes, pa.concat_arrays([parts[at].values for at in taken]))


def from_batch(batch: pa.RecordBatch) -> Frame:
    """Return the records of a batch with the schema of a record."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    identity, first = _combined([coded(columns[name]) for name in IDENTITY], batch.num_rows)
    rows = pa.array(first)
    identities = pa.table([_plain(columns[name].take(rows)) for name in IDENTITY], schema=IDENTITY_SCHEMA)
    return Frame(
        pc.cast(pc.cast(columns["time"], pa.timestamp("us", "UTC")), pa.int64()).to_numpy(zero_copy_only=False),
        identity,
        identities,
        {name: numbers(columns[name]) for name in AMOUNTS},
        numbers(columns["weight"], 1),
        numbers(columns["sequence"], NO_SEQUENCE),
        coded(columns["error"]),
        coded(columns["group_id"]),
        coded(columns["member_id"]),
        _resources(columns["resources"]),
        _topics(columns["topics"]),
        _transactions(columns["transaction"]),
        numbers(columns["acks"], NO_ACKS),
        numbers(columns["generation"], NO_GENERATION),
        _shares(columns["share"]),
    )


def numbers(column: pa.Array, default: int = 0) -> Numbers:
    """Return a column as numbers, with nulls replaced by `default`."""
    if column.null_count:
        column = pc.fill_null(column, default)
    found: Numbers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def coded(column: pa.Array) -> Coded:
    """Return a column as codes; null has a code too."""
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column, null_encoding="encode")
    if column.indices.null_count:
        nothing = len(column.dictionary)
        values = pa.concat_arrays([column.dictionary, pa.nulls(1, column.dictionary.type)])
        return Coded(numbers(column.indices, nothing), values)
    return Coded(numbers(column.indices), column.dictionary)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _topics(column: pa.Array) -> Topics:
    entries = column.flatten()
    return Topics(
        pc.list_parent_indices(column).to_numpy(zero_copy_only=False).astype(np.int64),
        coded(entries.field("topic")),
        coded(entries.field("error")),
        numbers(entries.field("records")),
        numbers(entries.field("bytes")),
        coded(pc.binary_join(pc.cast(entries.field("partition_ids"), pa.list_(pa.string())), ",")),
    )


def no_resources(count: int) -> Coded:
    """Return the resources of as many records that name none."""
    return Coded(np.zeros(count, np.int64), pa.nulls(1, pa.string()))


def _resources(column: pa.Array) -> Coded:
    if column.null_count == len(column):
        return no_resources(len(column))
    entries = column.flatten()
    named = pc.binary_join_element_wise(entries.field("type"), pc.fill_null(entries.field("name"), "(default)"), " ")
    texts = pa.ListArray.from_arrays(_offsets(column), pc.fill_null(named, "?"))
    joined = pc.utf8_slice_codeunits(pc.binary_join(texts, ", "), 0, MOST_CHARACTERS)
    return coded(pc.if_else(column.is_valid(), joined, pa.scalar(None, pa.string())))


def _offsets(column: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.append(0, np.cumsum(lengths)), pa.int32())


def no_transactions() -> Transactions:
    """Return the transactions of records that name none."""
    nothing = np.empty(0, np.int64)
    return Transactions(
        nothing, Coded(nothing, pa.nulls(0, pa.string())), Coded(nothing, pa.nulls(0, pa.string())), nothing, nothing
    )


def _transactions(column: pa.Array) -> Transactions:
    if column.null_count == len(column):
        return no_transactions()
    parent = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    named = column.take(pa.array(parent))
    return Transactions(
        parent,
        coded(named.field("id")),
        coded(named.field("outcome")),
        numbers(named.field("duration_ms"), NO_DURATION),
        numbers(named.field("timeout_ms")),
    )


def no_shares() -> Shares:
    """Return the share groups' records of records that have none."""
    nothing = np.empty(0, np.int64)
    return Shares(nothing, Coded(nothing, pa.nulls(0, pa.string())), dict.fromkeys(SHARE_COUNTS, nothing))


def _shares(column: pa.Array) -> Shares:
    if column.null_count == len(column):
        return no_shares()
    entries = column.flatten()
    return Shares(
        pc.list_parent_indices(column).to_numpy(zero_copy_only=False).astype(np.int64),
        coded(entries.field("topic")),
        {name: numbers(entries.field(name)) for name in SHARE_COUNTS},
    )


def _combined(parts: Sequence[Coded], size: int) -> tuple[Numbers, Numbers]:
    """Number the combinations of codes; return the number of each row, and the first row of each number."""
    code, count = np.zeros(size, np.int64), 1
    for part in parts:
        if count * max(1, len(part.values)) > LARGEST_CODE:
            _, code = distinct(code, count)
            count = size
        code, count = code * max(1, len(part.values)) + part.codes, count * max(1, len(part.values))
    first, found = distinct(code, count)
    return found, first


def distinct(code: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Number the distinct codes, all below `count`; return the first row of each number, and the number of each row."""
    if count <= _DENSE * len(code):
        occurs = np.bincount(code, minlength=count) > 0
        place: Numbers = np.cumsum(occurs) - 1
        found, size = place[code], int(occurs.sum())
    else:
        encoded = pa.array(code).dictionary_encode()
        found, size = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    first: Numbers = np.empty(size, np.int64)
    first[found[::-1]] = np.arange(len(code) - 1, -1, -1)
    return first, found
