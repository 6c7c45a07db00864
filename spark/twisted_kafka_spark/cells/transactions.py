"""Transactions: what a line says about one, and what all lines say about each transactional id.

The line of a transaction's end has its outcome and duration, so transactions are counted by adding, in any order. One is still open
if its id was used in a transaction later than it is known to have none open, which needs no order either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twisted_kafka_spark import without_pandas  # noqa: F401 - for the side effect of the import
from twisted_kafka_spark.records.schema import OUTCOMES, STUCK, TIMED_OUT

if TYPE_CHECKING:
    from twisted_kafka_spark.records.frame import Frame, Numbers

REFUSED, ACTIVE, ENDED = "refused", "active", "ended"
EVENTS = (*OUTCOMES, REFUSED, ACTIVE, ENDED, STUCK)
"""The events of a transactional id that a line can report: how a transaction ended; that a producer was refused because another
one has the id; that a transaction was open; that none was open any more; that a decided one cannot end."""

_FENCING_ERRORS = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
_EVENT_OF_API = {
    "Produce": ACTIVE,  # from the version in which it adds partitions
    "AddPartitionsToTxn": ACTIVE,
    "AddOffsetsToTxn": ACTIVE,
    "TxnOffsetCommit": ACTIVE,
    "EndTxn": ENDED,
    "InitProducerId": ENDED,
}
"""The event that a request without an error reports."""
_PRODUCE_ADDS_SINCE = 12
"""The version since which a Produce adds partitions to its transaction (KIP-890); before, another request has done so."""
_NOTHING = -1
Row = dict[str, Any]


def events(frame: Frame) -> Numbers:
    """Return the index in `EVENTS` of each of the frame's transactions, or `_NOTHING`, which is negative."""
    named = frame.transactions
    by_api = _indexes(_EVENT_OF_API, frame.identities.column("api").combine_chunks())
    api, version = frame.identities.column("api"), frame.identities.column("version")
    is_only_writing = pc.and_(pc.equal(api, "Produce"), pc.less(version, _PRODUCE_ADDS_SINCE))
    by_api[pc.fill_null(is_only_writing, False).to_numpy(zero_copy_only=False)] = _NOTHING
    by_outcome = _indexes({each: each for each in (*OUTCOMES, STUCK)}, named.outcome.values)
    refused = _indexes(dict.fromkeys(_FENCING_ERRORS, REFUSED), frame.error.values)
    has_failed = frame.error.values.is_valid().to_numpy(zero_copy_only=False)
    has_ended = named.outcome.values.is_valid().to_numpy(zero_copy_only=False)
    error = frame.error.codes[named.parent]
    of_request = np.where(has_failed[error], refused[error], by_api[frame.identity[named.parent]])
    outcome = by_outcome[named.outcome.codes]
    of_end = np.where(outcome == _NOTHING, EVENTS.index(ENDED), outcome)  # an outcome of a later version
    found: Numbers = np.where(has_ended[named.outcome.codes], of_end, of_request)
    return found


def _indexes(meaning: Mapping[str, str], values: pa.Array) -> Numbers:
    found = [EVENTS.index(meaning[value]) if value in meaning else _NOTHING for value in values.to_pylist()]
    return np.array(found, np.int64)


@dataclass(slots=True)
class _Producer:
    """The events of a transactional id in cells. Times are in microseconds, those of an event since 1970."""

    transactional_id: str | None
    client_id: str | None = None
    principal: str | None = None
    client_us: int = 0
    """The last time that this client used the id."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EVENTS, 0))
    first_us: dict[str, int] = field(default_factory=dict)
    last_us: dict[str, int] = field(default_factory=dict)
    """The first and the last time of each event."""
    buckets: dict[str, dict[int, int]] = field(default_factory=lambda: {outcome: {} for outcome in OUTCOMES})
    """The durations of the transactions with each outcome, as a histogram."""
    total_us: int = 0
    max_us: int = 0
    timeout_us: int = 0

    @property
    def closed_us(self) -> int:
        """The last time that no transaction was open, 0 if it is not known."""
        return max(self.last_us.get(event, 0) for event in (*OUTCOMES, ENDED))

    def count(self, cell: Row) -> None:
        """Count a cell of this id."""
        event, last_us = cell["event"], cell["last_us"]
        self.counts[event] += cell["requests"]
        self.first_us[event] = min(cell["first_us"], self.first_us.get(event, last_us))
        self.last_us[event] = max(last_us, self.last_us.get(event, 0))
        self.timeout_us = max(self.timeout_us, cell["timeout_us"] or 0)
        if cell["bucket"] is not None and event in OUTCOMES:
            buckets = self.buckets[event]
            buckets[cell["bucket"]] = buckets.get(cell["bucket"], 0) + cell["requests"]
            self.total_us += cell["total_us"]
            self.max_us = max(self.max_us, cell["max_us"])
        has_client = cell["client_id"] is not None or cell["principal"] is not None
        if has_client and event != REFUSED and last_us > self.client_us:
            self.client_id, self.principal, self.client_us = cell["client_id"], cell["principal"], last_us

    def row(self, now_us: int, others_closed_us: int) -> Row:
        """Return the row of the report's table; `others_closed_us` is `closed_us` of the ids without a name."""
        active_us = self.last_us.get(ACTIVE, 0)
        # An id may have a name in only one part of the log: a transaction closed without a name may be this id's.
        is_open = self.transactional_id is not None and active_us > max(self.closed_us, others_closed_us)
        stuck_us = self.last_us.get(STUCK, 0)
        is_stuck = stuck_us > max(self.closed_us, active_us)
        ended = sum(self.counts[outcome] for outcome in OUTCOMES)
        return {
            "transactional_id": self.transactional_id,
            "client_id": self.client_id,
            "principal": self.principal,
            "begun": ended + is_open,
            **{event.replace("-", "_"): self.counts[event] for event in (*OUTCOMES, REFUSED)},
            "open": int(is_open),
            "first_timed_out_us": self.first_us.get(TIMED_OUT),
            "last_timed_out_us": self.last_us.get(TIMED_OUT),
            "first_stuck_us": self.first_us.get(STUCK) if is_stuck else None,
            "last_stuck_us": stuck_us if is_stuck else None,
            "active_us": active_us if is_open else None,
            "idle_us": now_us - active_us if is_open else None,
            "timeout_us": self.timeout_us or None,
            "total_us": self.total_us,
            "max_us": self.max_us,
            "buckets": self.buckets,
        }


def rows(cells: pa.Table, now_us: int) -> list[Row]:
    """Return a row about each transactional id, the one with the most transactions first, all without a name last.

    `now_us`: the time of the last line. `idle_us`: how long the id has not been used in a transaction that is open. `buckets`:
    histograms of durations by outcome.
    """
    found: dict[str | None, _Producer] = {}
    keys = ["transactional_id", "client_id", "principal", "event", "bucket"]
    sums = [
        ("requests", "sum"),
        ("total_us", "sum"),
        ("max_us", "max"),
        ("first_us", "min"),
        ("last_us", "max"),
        ("timeout_us", "max"),
    ]
    merged = cells.group_by(keys, use_threads=False).aggregate(sums)
    names = [f"{name}_{how}" for name, how in sums]
    for cell in merged.select([*keys, *names]).rename_columns([*keys, *dict(sums)]).to_pylist():
        found.setdefault(cell["transactional_id"], _Producer(cell["transactional_id"])).count(cell)
    others_us = found[None].closed_us if None in found else 0
    made = [producer.row(now_us, others_us) for producer in found.values()]
    return sorted(made, key=lambda row: (row["transactional_id"] is None, -row["begun"], row["transactional_id"] or ""))
