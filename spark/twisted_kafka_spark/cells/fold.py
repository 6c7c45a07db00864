"""Fold frames into cells: the work of each Spark task before anything is shuffled.

Rows are grouped by the codes of a frame, and measures are added with `bincount`. A piece of 100,000 lines becomes a few thousand
cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark.cells import bundles, histogram, kinds, security, shards, transactions
from twisted_kafka_spark.cells.kinds import HOUR_S, KINDS, NO_EPOCH, SERVED, TIMES
from twisted_kafka_spark.cells.security import GROUP_REFUSAL, PLAIN_PROTOCOLS
from twisted_kafka_spark.cells.seen import Origin, Seen
from twisted_kafka_spark.cells.shares import DELIVERY_COUNT, EVENTS
from twisted_kafka_spark.records.clocks import HOUR_US, MINUTE_US, NOBODY, WRITTEN, note_skews
from twisted_kafka_spark.records.frame import (
    IDENTITY,
    LARGEST_CODE,
    MOST_CHARACTERS,
    NO_SEQUENCE,
    Coded,
    Frame,
    concatenated,
    distinct,
    from_batch,
)
from twisted_kafka_spark.records.kafka_names import ADMINISTRATION, EPOCH_APIS, LINEAGE_APIS, OLDEST_IN_KAFKA_4, WAITS_BY_DESIGN
from twisted_kafka_spark.records.lines import LineReader, Records, completed
from twisted_kafka_spark.records.pieces import Piece, blocks
from twisted_kafka_spark.records.schema import ABORTED
from twisted_kafka_spark.thresholds import REBALANCE_APIS, STORM_APIS

if TYPE_CHECKING:
    Numbers = np.ndarray[Any, np.dtype[np.int64]]

FOLD_ROWS = 1 << 17
"""Records that are folded at a time: more records give fewer cells, but take more memory."""
OUT_ROWS = 1 << 14
"""Cells that Spark takes at a time."""
_MICROSECOND = 1_000_000
_MILLISECOND = 1_000

_MOST_RUNS = 1_000
"""The most runs of consecutive numbers in a fold. If there are more, lines in the smallest gaps count as read."""

_MOST_TABLES = 100
"""The maximum number of tables of cells that a task keeps before it merges them."""

_BY_IDENTITY = ("listeners", "versions", "software")
_BY_IDENTITY_WITH_ENDS = ("principals", "clients", "connections", "addresses")
"""Kinds of an hour whose keys depend on the identity of a request."""
_MOVING_APIS = ("Produce", "Fetch")
"""The APIs that cells of kind `nodes` distinguish, and that those of kind `routes` are about."""
READ = "read"
"""The `error` of a cell of kind `lines` that counts records."""


@dataclass(frozen=True, slots=True)
class Folding:
    """The conversion of lines to cells; it is sent to the executors.

    `grain_s` overrides the grain of every kind (streams need the same grain for all). Records before `since`, or at or after
    `until`, both in the format of the field `time`, are skipped. `utc_offset_s` is the UTC offset of Kafka's request log,
    `group_by` the keys of cells of that kind. `latest_us`: the latest possible time (`clocks.latest_us`). Lines that were `seen`
    are skipped.
    """

    grain_s: int = 0
    since: str = ""
    until: str = ""
    utc_offset_s: int = 0
    group_by: tuple[str, ...] = ()
    latest_us: int = 0
    seen: Seen = field(default_factory=Seen)

    def reader(self) -> LineReader:
        """Return a reader of lines."""
        return LineReader(self.utc_offset_s, self.latest_us)

    def shards_of_lines(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches with one column of lines, or of blocks of lines, into shards of cells."""
        reader = self.reader()
        frames = (frame for batch in batches for frame in reader.frames(batch.column(0)))
        yield from shards.shards(bundles.unique(self.folded(frames, reader)))

    def shards_of_records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches of records, which may lack columns that cells do not need, into shards of cells."""
        reader = LineReader()
        records = (reader.found.without_rows(batch) for batch in batches)
        frames = (_frame(batch, reader.found) for batch in records if batch.num_rows)
        yield from shards.shards(bundles.unique(self.folded(frames, reader)))

    def of_lines(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches with one column of lines, or of blocks of lines, into cells."""
        reader = self.reader()
        frames = (frame for batch in batches for frame in reader.frames(batch.column(0)))
        yield from bundles.wide(self.folded(frames, reader)).to_batches(OUT_ROWS)

    def of_records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold batches of records, which may lack columns that cells do not need."""
        reader = LineReader()
        frames = (_frame(batch, reader.found) for batch in batches if batch.num_rows)
        yield from bundles.wide(self.folded(frames, reader)).to_batches(OUT_ROWS)

    def parsed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Parse lines into records without folding them, and rows without a time (`Records.as_rows`)."""
        reader = self.reader()
        for batch in batches:
            yield from reader.records(batch.column(0))
        yield reader.found.as_rows()

    def streams(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        """Fold the lines of a task's pieces into unique cells: an Arrow stream for each kind."""
        reader = self.reader()
        frames = (frame for piece in pieces for frame in _frames_of(piece, reader))
        for kind, table in bundles.unique(self.folded(frames, reader)):
            yield bundles.stream(kind, table)

    def folded(self, frames: Iterable[Frame], reader: LineReader) -> bundles.Cells:
        """Return the cells of all frames, and those of the lines that the reader could not parse."""
        made: bundles.Cells = []
        waiting: list[Frame] = []
        count = 0
        for frame in frames:
            wanted = self.seen.unseen(self.in_period(frame))
            if len(wanted):
                waiting.append(wanted)
                count += len(wanted)
            if count >= FOLD_ROWS:
                made += _cells_of(concatenated(waiting), self.grain_s, self.group_by)
                waiting, count = [], 0
            if len(made) > _MOST_TABLES:
                made = list(bundles.merged(made).items())
        if waiting:
            made += _cells_of(concatenated(waiting), self.grain_s, self.group_by)
        return made + _refused(reader.found)

    def in_period(self, frame: Frame) -> Frame:
        """Return the records of a frame from `since` to before `until`."""
        if self.since:
            frame = frame.chosen(frame.time_us >= _microseconds(self.since))
        return frame.chosen(frame.time_us < _microseconds(self.until)) if self.until and len(frame) else frame


def _frame(batch: pa.RecordBatch, found: Records) -> Frame:
    """Return the frame of records; note wrong times, if the batch has a column with what corrected times were (`WRITTEN`)."""
    if WRITTEN in batch.schema.names:
        note_skews(batch, found.skews)
    return from_batch(completed(batch))


def _frames_of(piece: Piece, reader: LineReader) -> Iterator[Frame]:
    reader.begin(piece.path)
    for block in blocks(piece):
        yield from reader.frames_of_block(block)


@dataclass(frozen=True, slots=True)
class Planned:
    """Pieces of files by task; each task gets its number in a batch of one row.

    `origins`: the files of a log that is rolled up, by path; their cells say which lines they are of.
    """

    folding: Folding
    tasks: Sequence[Sequence[Piece]]
    origins: Mapping[str, Origin] = field(default_factory=dict)

    def parsed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task, and rows without a time (`Records.as_rows`)."""
        reader = self.folding.reader()
        for piece in self._pieces(batches):
            reader.begin(piece.path)
            for block in blocks(piece):
                yield from reader.records(pa.array([block], pa.binary()))
        yield reader.found.as_rows()

    def folded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the shards of a task's cells."""
        reader = self.folding.reader()
        noted: bundles.Cells = []
        frames = (frame for piece in self._pieces(batches) for frame in self._frames(piece, reader, noted))
        made = self.folding.folded(frames, reader)
        yield from shards.shards(bundles.unique([*made, *bundles.merged(noted).items()]))

    def _pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.tasks[number]

    def _frames(self, piece: Piece, reader: LineReader, noted: bundles.Cells) -> Iterator[Frame]:
        """Yield the frames of a piece. If it is of a log that is rolled up, add cells about its lines to `noted`."""
        origin = self.origins.get(piece.path)
        if origin is None:
            yield from _frames_of(piece, reader)
            return
        reader.begin(piece.path)
        known = origin.hours(piece.start, piece.stop)
        hours: set[int] = set()
        wanted: set[int] = set()
        stop = piece.start
        for block in blocks(piece):
            stop += len(block)
            for frame in reader.frames_of_block(block):
                hours.update(np.unique(frame.time_us // HOUR_US).tolist())
                mine = self.folding.in_period(frame)
                wanted.update(np.unique(mine.time_us // HOUR_US).tolist())
                yield origin.unseen(mine, known)
        refused = _refused_lines(reader.found, origin.hour)
        if None not in known:
            noted += refused
        if stop > piece.start:
            noted.append(("seen", _seen(origin.rows(piece.start, stop, hours, wanted))))


def _microseconds(time: str) -> int:
    return int(np.datetime64(time.rstrip("Z"), "us").astype(np.int64))


@dataclass(slots=True)
class _Rows:
    """The rows to group: the time and the identity of each row, and further keys by name."""

    seconds: Numbers
    identity: Numbers
    identities: pa.Table
    weight: Numbers
    keys: dict[str, Coded]

    @classmethod
    def of(cls, frame: Frame) -> _Rows:
        """Return the rows of a frame's records."""
        keys = {"error": _deduplicated(frame.error), "group_id": frame.group}
        return cls(frame.time_us // _MICROSECOND, frame.identity, frame.identities, frame.weight, keys)

    def chosen(self, places: Numbers) -> _Rows:
        """Return the rows at some places."""
        keys = {name: Coded(column.codes[places], column.values) for name, column in self.keys.items()}
        return _Rows(self.seconds[places], self.identity[places], self.identities, self.weight[places], keys)

    def coded(self, name: str) -> Coded:
        """Return a key's column."""
        if name in self.keys:
            return self.keys[name]
        return Coded(self.identity, self.identities.column(name).combine_chunks())


def _group(rows: _Rows, keys: Sequence[str], at: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first row of each group, and the group of each row."""
    parts: list[tuple[Numbers, int]] = []
    who = [name for name in keys if name in IDENTITY and name not in rows.keys]
    if who:
        number, count = _numbered(rows.identities, who)
        parts.append((number[rows.identity], count))
    parts += [(rows.keys[name].codes, max(1, len(rows.keys[name].values))) for name in keys if name not in who]
    return _combined(at, parts)


def _combined(at: Numbers, parts: Sequence[tuple[Numbers, int]]) -> tuple[Numbers, Numbers]:
    """Group rows by their times and codes, each with a bound; return the first row of each group, and the group of each row."""
    low = int(at.min())
    code, size = at - low, int(at.max()) - low + 1
    for codes, count in parts:
        if size * count > LARGEST_CODE:
            first, code = distinct(code, size)
            size = len(first)
        code, size = code * count + codes, size * count
    return distinct(code, size)


def _numbered(identities: pa.Table, names: Sequence[str]) -> tuple[Numbers, int]:
    """Number the identities by their values of these fields; return the number of each identity, and how many numbers there are."""
    code, count = np.zeros(identities.num_rows, np.int64), 1
    for name in names:
        encoded = identities.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        size = len(encoded.dictionary)
        first, code = distinct(code * size + encoded.indices.to_numpy(), count * size)
        count = len(first)
    return code, count


def _cells(
    kind: str,
    rows: _Rows,
    measures: dict[str, Numbers],
    grain_s: int,
    extremes: dict[str, Numbers] | None = None,
    keys: Sequence[str] = (),
) -> tuple[str, pa.Table]:
    """Return the cells of one kind, one for each group of rows with equal keys: those of its kind, or some of them."""
    declared = KINDS[kind]
    grain = grain_s or declared.grain_s
    wanted = keys or declared.keys
    at = rows.seconds // grain
    first, group = _group(rows, wanted, at)
    columns: dict[str, pa.Array] = {
        "at": pa.array(at[first] * (grain * _MICROSECOND), pa.timestamp("us", "UTC")),
    }
    for key in wanted:
        codes, values = rows.coded(key)
        columns[key] = values.take(pa.array(codes[first]))
    for name, values in {"requests": rows.weight, **measures}.items():
        columns[name] = pa.array(_sums(group, values, len(first)))
    for name, values in (extremes or {}).items():
        columns[name] = pa.array(_extreme(name, first, group, values))
    return kind, pa.table(columns)


_LOWEST = {measure.name for measure in kinds.MEASURES if measure.merge == "min"}


def _sums(group: Numbers, values: Numbers, count: int) -> Numbers:
    found: Numbers = np.bincount(group, weights=values, minlength=count).astype(np.int64)
    return found


def _extreme(name: str, first: Numbers, group: Numbers, values: Numbers) -> Numbers:
    found = values[first]
    (np.minimum if name in _LOWEST else np.maximum).at(found, group, values)
    return found


def _bucketed(values: Numbers) -> Coded:
    found = histogram.buckets(values)
    return Coded(found - histogram.ZERO, pa.array(np.arange(histogram.ZERO, int(found.max()) + 1, dtype=np.int32)))


def _cells_of(frame: Frame, grain_s: int, group_by: Sequence[str]) -> bundles.Cells:
    seconds = frame.time_us // _MICROSECOND
    made: bundles.Cells = [("lines", _lines_read(frame, seconds, grain_s))]
    if (frame.sequence != NO_SEQUENCE).any():
        made.append(("runs", _runs(frame, seconds, grain_s)))
    if len(frame.transactions):
        made += _transactions(frame, grain_s)
    if len(frame.shares):
        made += _shares(frame, grain_s)
    failed = security.failed_logins(frame)
    if len(failed):
        made.append(_failed_logins(frame, failed, grain_s))
    requests = frame.requests()
    return made + _cells_of_requests(requests, grain_s, group_by) if len(requests) else made


def _transactions(frame: Frame, grain_s: int) -> bundles.Cells:
    found = transactions.events(frame)
    kept = np.flatnonzero(found >= 0)
    if not len(kept):
        return []
    named, parent = frame.transactions, frame.transactions.parent[kept]
    duration_us = named.duration_ms[kept] * _MILLISECOND
    durations = _bucketed(duration_us)
    unknown = duration_us < 0
    keys = {
        "transactional_id": _deduplicated(Coded(named.id.codes[kept], named.id.values)),
        "event": Coded(found[kept], pa.array(transactions.EVENTS)),
        "bucket": Coded(
            np.where(unknown, len(durations.values), durations.codes), pa.concat_arrays([durations.values, pa.nulls(1, pa.int32())])
        ),
    }
    time_us, weight = frame.time_us[parent], frame.weight[parent]
    rows = _Rows(time_us // _MICROSECOND, frame.identity[parent], frame.identities, weight, keys)
    known_us = np.where(unknown, 0, duration_us)
    extremes = {"max_us": known_us, "first_us": time_us, "last_us": time_us, "timeout_us": named.timeout_ms[kept] * _MILLISECOND}
    return [_cells("transactions", rows, {"total_us": known_us * weight}, grain_s, extremes)]


def _shares(frame: Frame, grain_s: int) -> Iterator[tuple[str, pa.Table]]:
    """Yield the cells of what happened to share groups' records: those of each event."""
    shares = frame.shares
    member = _deduplicated(Coded(frame.member.codes[shares.parent], frame.member.values))
    for event in EVENTS:
        count = shares.counts[event]
        places = np.flatnonzero(count)
        if not len(places):
            continue
        parent = shares.parent[places]
        keys = {
            "group_id": Coded(frame.group.codes[parent], frame.group.values),
            "topic": _deduplicated(Coded(shares.topic.codes[places], shares.topic.values)),
            "note": Coded(member.codes[places], member.values),
            "event": Coded(np.zeros(len(places), np.int64), pa.array([event])),
        }
        time_us, weight = frame.time_us[parent], frame.weight[parent]
        rows = _Rows(time_us // _MICROSECOND, frame.identity[parent], frame.identities, weight, keys)
        extremes = {"delivery_count": shares.counts[DELIVERY_COUNT][places], "first_us": time_us, "last_us": time_us}
        yield _cells("shares", rows, {"records": count[places] * weight}, grain_s, extremes)


def _failed_logins(frame: Frame, failed: Numbers, grain_s: int) -> tuple[str, pa.Table]:
    identity, time_us, addresses = frame.identity[failed], frame.time_us[failed], security.addresses(frame)
    keys = {
        "note": Coded(addresses.codes[failed], addresses.values),
        "error": _deduplicated(Coded(frame.error.codes[failed], frame.error.values)),
    }
    rows = _Rows(time_us // _MICROSECOND, identity, frame.identities, frame.weight[failed], keys)
    return _cells("logins", rows, {}, grain_s, {"first_us": time_us, "last_us": time_us})


def _cells_of_requests(frame: Frame, grain_s: int, group_by: Sequence[str]) -> bundles.Cells:
    rows, measures = _Rows.of(frame), _measures(frame)
    traffic = {name: values for name, values in measures.items() if name in KINDS["traffic"].measures}
    longest, ends, addresses = {"max_us": frame.amounts["total_us"]}, _ends(frame), security.addresses(frame)
    made = [_cells("traffic", rows, traffic, grain_s, longest)]
    by_identity = _Rows(rows.seconds, rows.identity, rows.identities, rows.weight, {"note": addresses})
    made += _of_identities(by_identity, measures, ends, grain_s)
    made.append(_cells("persons", rows, _of("persons", measures), grain_s, ends))
    made.append(_of_nodes(frame, rows, measures, grain_s))
    if group_by:
        made.append(_grouped_by(frame, rows, measures, grain_s, group_by))
    made += _of_some(frame, rows, measures, addresses, grain_s)
    made += _histograms(frame, rows, measures, grain_s)
    if len(frame.topics.parent):
        made += _topics(frame, grain_s)
    return made


def _of_identities(
    rows: _Rows, measures: dict[str, Numbers], ends: dict[str, Numbers], grain_s: int
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the cells of kinds of an hour whose keys depend on the identity."""
    added = {name for kind in (*_BY_IDENTITY, *_BY_IDENTITY_WITH_ENDS) for name in KINDS[kind].measures}
    each, sums, extremes = _by_hour(rows, {name: values for name, values in measures.items() if name in added}, ends, grain_s)
    for kind in _BY_IDENTITY:
        yield _cells(kind, each, _of(kind, sums), grain_s)
    for kind in _BY_IDENTITY_WITH_ENDS:
        yield _cells(kind, each, _of(kind, sums), grain_s, extremes)
    has_node = pc.is_valid(rows.identities.column("node"))
    is_route = pc.and_(pc.is_in(rows.identities.column("api"), pa.array(_MOVING_APIS)), has_node)
    for kind, wanted in (("node_versions", has_node), ("routes", is_route)):
        places = np.flatnonzero(wanted.to_numpy()[each.identity])
        if len(places):
            yield _cells(kind, each.chosen(places), {}, grain_s, _at(places, extremes))


def _by_hour(
    rows: _Rows, measures: dict[str, Numbers], extremes: dict[str, Numbers], grain_s: int
) -> tuple[_Rows, dict[str, Numbers], dict[str, Numbers]]:
    """Add up the rows of an hour that have the same identity and keys; return those rows, their measures and their extremes.

    Kinds of an hour whose keys are some of these are folded from far fewer rows then.
    """
    parts = [(rows.identity, rows.identities.num_rows)]
    parts += [(column.codes, max(1, len(column.values))) for column in rows.keys.values()]
    first, group = _combined(rows.seconds // (grain_s or HOUR_S), parts)
    each = rows.chosen(first)
    each.weight = _sums(group, rows.weight, len(first))
    sums = {name: _sums(group, values, len(first)) for name, values in measures.items()}
    return each, sums, {name: _extreme(name, first, group, values) for name, values in extremes.items()}


def _with(rows: _Rows, **keys: Coded) -> _Rows:
    return _Rows(rows.seconds, rows.identity, rows.identities, rows.weight, {**rows.keys, **keys})


def _of_nodes(frame: Frame, rows: _Rows, measures: dict[str, Numbers], grain_s: int) -> tuple[str, pa.Table]:
    api = pc.index_in(frame.identities.column("api").combine_chunks(), pa.array(_MOVING_APIS))
    codes = pc.fill_null(api, len(_MOVING_APIS)).to_numpy(zero_copy_only=False).astype(np.int64)
    kept = Coded(codes[frame.identity], pa.array([*_MOVING_APIS, None], pa.string()))
    return _cells("nodes", _with(rows, api=kept), _of("nodes", measures), grain_s)


def _grouped_by(frame: Frame, rows: _Rows, measures: dict[str, Numbers], grain_s: int, keys: Sequence[str]) -> tuple[str, pa.Table]:
    """Return the cells of `--group-by`; by topic, a request counts for each topic that it names, or for none."""
    if "topic" not in keys:
        return _cells("group_by", rows, _of("group_by", measures), grain_s, keys=keys)
    topics = frame.topics
    without = np.flatnonzero(np.bincount(topics.parent, minlength=len(frame)) == 0)
    parent = np.append(topics.parent, without)
    nothing = np.full(len(without), len(topics.topic.values))
    topic = _deduplicated(
        Coded(np.append(topics.topic.codes, nothing), pa.concat_arrays([topics.topic.values, pa.nulls(1, pa.string())]))
    )
    of_request = {name: Coded(column.codes[parent], column.values) for name, column in rows.keys.items()}
    each = _Rows(rows.seconds[parent], rows.identity[parent], rows.identities, rows.weight[parent], {**of_request, "topic": topic})
    return _cells(
        "group_by", each, {name: values[parent] for name, values in _of("group_by", measures).items()}, grain_s, keys=keys
    )


def _measures(frame: Frame) -> dict[str, Numbers]:
    """Return the measures of each record that are added, by name."""
    weight, amounts, topics = frame.weight, frame.amounts, frame.topics
    moved = {
        name: np.bincount(topics.parent, weights=values, minlength=len(frame)).astype(np.int64)
        for name, values in (("records", topics.records), ("bytes", topics.bytes))
    }
    return {
        "failed": _failed(frame.error) * weight,
        "throttled": (amounts["throttle_us"] > 0) * weight,
        "empty": (moved["bytes"] == 0) * weight,
        "acks_0": (frame.acks == 0) * weight,
        "acks_1": (frame.acks == 1) * weight,
        "acks_all": (frame.acks == -1) * weight,
        "aborted": _aborted(frame) * weight,
        **{name: values * weight for name, values in (amounts | moved).items()},
    }


def _aborted(frame: Frame) -> Numbers:
    """Return 1 for each record that aborted its transaction."""
    named = frame.transactions
    found = np.zeros(len(frame), np.int64)
    if len(named):
        is_abort = np.array([value == ABORTED for value in named.outcome.values.to_pylist()], np.bool_)
        found[named.parent[is_abort[named.outcome.codes]]] = 1
    return found


def _of(kind: str, measures: dict[str, Numbers]) -> dict[str, Numbers]:
    return {name: measures[name] for name in KINDS[kind].measures if name in measures}


def _histograms(frame: Frame, rows: _Rows, measures: dict[str, Numbers], grain_s: int) -> Iterator[tuple[str, pa.Table]]:
    served = frame.amounts["total_us"] - frame.amounts["throttle_us"]
    served -= np.where(_is(frame, lambda api, *_: api in WAITS_BY_DESIGN), frame.amounts["remote_us"], 0)
    for phase, times in (*((name, frame.amounts[name]) for name in TIMES), (SERVED, served)):
        rows.keys["bucket"] = _bucketed(times)
        rows.keys["phase"] = Coded(np.zeros(len(frame), np.int64), pa.array([phase]))
        yield _cells("phases", rows, {}, grain_s)
    rows.keys["bucket"] = _coarse(rows.keys["bucket"])
    yield _cells("client_latency", rows, _of("client_latency", measures), grain_s)
    yield _cells("heat", rows, {}, grain_s)


def _coarse(column: Coded) -> Coded:
    """Return buckets as coarse ones."""
    numbers = np.floor_divide(column.values.to_numpy(), histogram.COARSE)
    low = int(numbers[0])
    return Coded((numbers - low)[column.codes].astype(np.int64), pa.array(np.arange(low, int(numbers[-1]) + 1, dtype=np.int32)))


def _of_some(
    frame: Frame, rows: _Rows, measures: dict[str, Numbers], addresses: Coded, grain_s: int
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the cells of kinds that are about some of the requests only."""
    has_failed = _failed(frame.error) > 0
    of_request = {
        "client_minutes": _is(frame, lambda api, *_: api in STORM_APIS) | (frame.amounts["throttle_us"] > 0),
        "new_connections": _is(frame, _begins_a_connection) & ~has_failed,
        "old_versions": _is(frame, lambda api, version, _: api in OLDEST_IN_KAFKA_4 and (version or 0) < OLDEST_IN_KAFKA_4[api]),
        "errors": has_failed,
        "groups": _is_of_interest_to_a_group(frame),
        "plain_text": _is(frame, lambda api, version, protocol: protocol in PLAIN_PROTOCOLS),
    }
    for kind, wanted in of_request.items():
        places = np.flatnonzero(wanted)
        if len(places):
            yield _cells(kind, rows.chosen(places), _at(places, _of(kind, measures)), grain_s)
    if has_failed.any():
        yield _failures(frame.chosen(has_failed), Coded(addresses.codes[has_failed], addresses.values), grain_s)
    has_group = frame.group.values.is_valid().to_numpy(zero_copy_only=False)[frame.group.codes]
    is_change = _is(frame, lambda api, *_: api in ADMINISTRATION)
    for kind, wanted, note in (("members", has_group, frame.member), ("administration", is_change, _subjects(frame, is_change))):
        places = np.flatnonzero(wanted)
        if len(places):
            mine = _with(rows.chosen(places), note=_deduplicated(Coded(note.codes[places], note.values)))
            ends = _ends(frame) | _epochs(frame) if kind == "members" else _ends(frame)
            yield _cells(kind, mine, _at(places, _of(kind, measures)), grain_s, _at(places, ends))


def _at(places: Numbers, measures: dict[str, Numbers]) -> dict[str, Numbers]:
    return {name: values[places] for name, values in measures.items()}


def _epochs(frame: Frame) -> dict[str, Numbers]:
    """Return the generation, or the group's epoch, that each request of a member names."""
    known = (frame.generation > 0) & _is(frame, lambda api, *_: api in EPOCH_APIS)
    return {"first_epoch": np.where(known, frame.generation, NO_EPOCH), "last_epoch": np.where(known, frame.generation, 0)}


def _ends(frame: Frame) -> dict[str, Numbers]:
    return {"first_us": frame.time_us, "last_us": frame.time_us}


def _failures(failed: Frame, addresses: Coded, grain_s: int) -> tuple[str, pa.Table]:
    """Return the cells of failed requests, each with the first of its topics that failed, or its first topic."""
    topics = failed.topics
    codes = np.full(len(failed), len(topics.topic.values))
    codes[topics.parent[::-1]] = topics.topic.codes[::-1]
    bad = np.flatnonzero(_failed(topics.error))[::-1]
    codes[topics.parent[bad]] = topics.topic.codes[bad]
    topic = Coded(codes, pa.concat_arrays([topics.topic.values, pa.nulls(1, pa.string())]))
    rows = _with(_Rows.of(failed), topic=_deduplicated(topic), note=addresses)
    return _cells("failures", rows, {}, grain_s, _ends(failed))


def _subjects(frame: Frame, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> Coded:
    """Return the topics and other resources of the wanted requests as text; null for all others."""
    if not wanted.any():
        return Coded(np.zeros(len(frame), np.int64), pa.nulls(1, pa.string()))
    named: dict[int, list[str]] = {int(at): [] for at in np.flatnonzero(wanted)}
    inside = np.flatnonzero(wanted[frame.topics.parent])
    names = frame.topics.topic.values.take(pa.array(frame.topics.topic.codes[inside])).to_pylist()
    for parent, name in zip(frame.topics.parent[inside].tolist(), names, strict=True):
        named[parent].append(f"topic {name}")
    codes, texts = np.zeros(len(frame), np.int64), [None, *map(_joined_once, _subjects_of(frame, named))]
    codes[list(named)] = np.arange(1, len(named) + 1)
    return Coded(codes, pa.array(texts, pa.string()))


def _subjects_of(frame: Frame, named: dict[int, list[str]]) -> Iterator[list[str]]:
    places = list(named)
    others = frame.resources.values.take(pa.array(frame.resources.codes[places])).to_pylist()
    for at, other in zip(places, others, strict=True):
        yield [*named[at], *((other or "").split(", ") if other else ())]


def _joined_once(names: list[str]) -> str | None:
    return ", ".join(dict.fromkeys(names))[:MOST_CHARACTERS] or None


def _is_of_interest_to_a_group(frame: Frame) -> np.ndarray[Any, np.dtype[np.bool_]]:
    has_group = frame.group.values.is_valid().to_numpy(zero_copy_only=False)
    is_refused = np.array([error == GROUP_REFUSAL for error in frame.error.values.to_pylist()], np.bool_)
    moves = _is(frame, lambda api, *_: api in REBALANCE_APIS)
    found: np.ndarray[Any, np.dtype[np.bool_]] = has_group[frame.group.codes] & (moves | is_refused[frame.error.codes])
    return found


def _begins_a_connection(api: str, _: int | None, protocol: str | None) -> bool:
    return api == ("SaslHandshake" if (protocol or "").startswith("SASL") else "ApiVersions")


def _is(frame: Frame, condition: Callable[[str, int | None, str | None], bool]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which records satisfy a condition on API, version and protocol."""
    keys = ("api", "version", "protocol")
    number, count = _numbered(frame.identities, keys)
    first = np.zeros(count, np.int64)
    first[number] = np.arange(len(number))
    columns = [frame.identities.column(name).take(pa.array(first)).to_pylist() for name in keys]
    found: np.ndarray[Any, np.dtype[np.bool_]] = np.array([condition(*each) for each in zip(*columns, strict=True)], np.bool_)
    return found[number[frame.identity]]


def _topics(frame: Frame, grain_s: int) -> Iterator[tuple[str, pa.Table]]:
    topics = frame.topics
    parent, weight = topics.parent, frame.weight[topics.parent]
    keys = {"topic": _deduplicated(topics.topic), "error": _deduplicated(topics.error)}
    keys["group_id"] = Coded(frame.group.codes[parent], frame.group.values)
    time_us = frame.time_us[parent]
    rows = _Rows(time_us // _MICROSECOND, frame.identity[parent], frame.identities, weight, keys)
    ids = _Partitions(topics.partitions.values)
    named = (ids.counts[topics.partitions.codes] > 0) & _is(frame, lambda api, *_: api in ("Produce", "Fetch"))[parent]
    if named.any():
        yield "partitions", _of_partitions(rows, topics.partitions.codes, topics.bytes, np.flatnonzero(named), ids, grain_s)
    moved = {"records": topics.records * weight, "bytes": topics.bytes * weight}
    most = {"partitions": ids.highest[topics.partitions.codes] + 1, "first_us": time_us, "last_us": time_us}
    each, sums, extremes = _by_hour(rows, moved, most, grain_s)
    yield _cells("topics", each, sums, grain_s, {"partitions": extremes.pop("partitions")})
    has_failed = _failed(each.keys["error"])
    sums["failed"] = has_failed * each.weight
    moves = pc.is_in(frame.identities.column("api"), pa.array(sorted(LINEAGE_APIS))).to_numpy()
    moving = np.flatnonzero(moves[each.identity])
    if len(moving):
        yield _cells("lineage", each.chosen(moving), _at(moving, sums), grain_s, _at(moving, extremes))
    failed = np.flatnonzero(has_failed)
    if len(failed):
        yield _cells("topic_errors", each.chosen(failed), {}, grain_s)


class _Partitions:
    """Lists of partition ids: of each list, the ids, how many there are, and the highest, or -1."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts
        self.ids = [[int(each) for each in text.split(",")] if text else [] for text in texts.to_pylist()]
        self.counts = np.array([len(ids) for ids in self.ids], np.int64)
        self.highest = np.array([max(ids, default=-1) for ids in self.ids], np.int64)


def _of_partitions(rows: _Rows, codes: Numbers, moved: Numbers, named: Numbers, lists: _Partitions, grain_s: int) -> pa.Table:
    """Return the cells of partitions: rows are grouped by their lists first, of which there are few."""
    keys = {"topic": Coded(rows.keys["topic"].codes[named], rows.keys["topic"].values)}
    keys["note"] = Coded(codes[named], pa.array(np.arange(len(lists.ids)), pa.int64()))
    weight = rows.weight[named]
    inner = _Rows(rows.seconds[named], rows.identity[named], rows.identities, weight, keys)
    each = moved[named] // lists.counts[codes[named]] * weight
    _, table = _cells("partitions", inner, {"bytes": each}, grain_s, keys=("topic", "note", "api"))
    ids = pa.array(lists.ids, pa.list_(pa.int32())).take(table.column("note").combine_chunks())
    whole = table.drop_columns(["note"]).take(ids.value_parent_indices()).append_column("partition", ids.flatten())
    sums = [("requests", "sum"), ("bytes", "sum")]
    grouped = whole.group_by(["at", "topic", "partition", "api"], use_threads=False).aggregate(sums)
    return grouped.rename_columns([name.removesuffix("_sum") for name in grouped.column_names])


def _deduplicated(column: Coded) -> Coded:
    """Return a column in which equal values have equal codes."""
    encoded = column.values.dictionary_encode(null_encoding="encode")
    return Coded(encoded.indices.to_numpy().astype(np.int64)[column.codes], encoded.dictionary)


def _failed(error: Coded) -> Numbers:
    is_error = error.values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    found: Numbers = is_error[error.codes]
    return found


def _runs(frame: Frame, seconds: Numbers, grain_s: int) -> pa.Table:
    """Return the runs of consecutive line numbers of each broker and hour; overlapping runs show that lines were read twice."""
    numbered = np.flatnonzero(frame.sequence != NO_SEQUENCE)
    numbers = frame.sequence[numbered]
    brokers = np.array([node or 0 for node in frame.identities.column("node").to_pylist()], np.int64)
    nodes = brokers[frame.identity[numbered]]
    grain = grain_s or KINDS["runs"].grain_s
    at = seconds[numbered] // grain
    # Several threads may number and write lines in slightly different order, and a piece may contain several files.
    order = np.lexsort((numbers, at, nodes))
    numbers, nodes, at = numbers[order], nodes[order], at[order]
    steps = np.diff(numbers, prepend=numbers[0])
    other = (np.diff(nodes, prepend=nodes[0]) != 0) | (np.diff(at, prepend=at[0]) != 0)
    starts = _starts_of_runs(steps, other)
    stops = np.append(starts[1:], len(numbers))
    return pa.table(
        {
            "at": pa.array(at[starts] * (grain * _MICROSECOND), pa.timestamp("us", "UTC")),
            "node": pa.array(nodes[starts], pa.int32()),
            "note": pa.array(numbers[starts]).cast(pa.string()),
            "requests": stops - starts,
            "first_us": numbers[starts],
            "last_us": numbers[stops - 1],
        }
    )


def _starts_of_runs(steps: Numbers, other: np.ndarray[Any, np.dtype[np.bool_]]) -> Numbers:
    """Return where runs begin: after gaps in the numbers, the largest ones if there are many, as where lines were left out."""
    gaps = np.flatnonzero((steps > 1) & ~other)
    if len(gaps) > _MOST_RUNS:
        gaps = gaps[np.argsort(-steps[gaps], kind="stable")[:_MOST_RUNS]]
    found: Numbers = np.unique(np.concatenate([[0], np.flatnonzero(other), gaps]))
    return found


def _lines_read(frame: Frame, seconds: Numbers, grain_s: int) -> pa.Table:
    grain = grain_s or KINDS["lines"].grain_s
    hours, counts = np.unique(seconds // grain, return_counts=True)
    at = pa.array(hours * (grain * _MICROSECOND), pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "error": [READ] * len(hours), "requests": counts})


def _seen(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a table of cells of kind `seen`."""
    types = kinds.arrow_schema()
    timed = [{**row, "at": row["hour"] * HOUR_US} for row in rows]
    names = ("at", *KINDS["seen"].keys, *KINDS["seen"].measures)
    integers = pa.schema([types.field(name) if name != "at" else pa.field("at", pa.int64()) for name in names])
    table = pa.Table.from_pylist(timed, integers)
    return table.set_column(0, types.field("at"), table["at"].cast(types.field("at").type))


def _refused_lines(found: Records, hour: int | None = None) -> bundles.Cells:
    """Take the lines without a record; return their cells, which are of an hour (its number since 1970) if that is known."""
    made: bundles.Cells = []
    at = pa.scalar(None if hour is None else hour * HOUR_US, pa.timestamp("us", "UTC"))
    for reason, count in found.refused.items():
        notes: list[str | None] = [found.samples[reason]]
        counts = [1]
        if count > 1:
            notes.append(None)
            counts.append(count - 1)
        columns = {"error": [reason] * len(notes), "note": pa.array(notes, pa.string()), "requests": counts}
        made.append(("lines", pa.table({"at": pa.repeat(at, len(notes)), **columns})))
    found.refused.clear()
    found.samples.clear()
    return made


def _skewed(found: Records) -> pa.Table:
    """Return the cells of the lines with a wrong time."""
    rows = [
        (minute * MINUTE_US, None if node == NOBODY else node, which, each.lines, each.first_us, each.last_us, each.most_us)
        for (node, which, minute), each in found.skews.items()
    ]
    columns = dict(zip(("at", *KINDS["clocks"].keys, *KINDS["clocks"].measures), zip(*rows, strict=True), strict=True))
    types = kinds.arrow_schema()
    table = pa.table({name: pa.array(values, types.field(name).type if name != "at" else None) for name, values in columns.items()})
    return table.set_column(0, types.field("at"), table["at"].cast(types.field("at").type))


def _refused(found: Records) -> bundles.Cells:
    """Return cells of the lines without a record, of those with a wrong time, and of the topic ids."""
    made = _refused_lines(found)
    if found.skews:
        made.append(("clocks", _skewed(found)))
    if found.topic_ids:
        ids = found.topic_ids
        made.append(("topic_ids", pa.table({"topic": list(ids), "note": list(ids.values()), "requests": [1] * len(ids)})))
    return made
