"""The records of a share partition from its start offset to its end offset: available, acquired by members, or complete.

A pure state machine: it does no input or output, reads no clock and has no lock. Records next to each other that are in the same
state are one ``Run``; an operation that treats them differently splits it. (Kafka: SharePartition's InFlightBatch, which keeps a
state for each batch or each offset.)

``start_offset`` is the first offset that is not complete. ``end_offset`` is the one after the last record that was ever
acquired. Offsets between two runs are not in the log: compaction has removed them.

An acknowledgement takes effect when the persister has it. Until then its records have a ``pending`` state, and nothing else
happens to them. If it cannot be written, they are still acquired.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from twisted_kafka.protocol.errors import InvalidRecordStateError, InvalidRequestError
from twisted_kafka.share.acknowledgements import ACCEPT, GAP, REJECT, RELEASE, RENEW, AcknowledgementBatch
from twisted_kafka.share.record_state import TRANSITIONS, RecordState

AVAILABLE: Final = RecordState.AVAILABLE
ACQUIRED: Final = RecordState.ACQUIRED
ARCHIVED: Final = RecordState.ARCHIVED

NO_MEMBER: Final = ""
_NEVER_NS: Final = -1
_LEAST_THROTTLED: Final = 2
"""Records delivered less often than this are never delivered in smaller groups."""


class Limits(NamedTuple):
    """A group's limits, which may change between two operations."""

    delivery_count_limit: int = 5
    max_record_locks: int = 2_000
    has_dead_letters: bool = False
    """Whether rejected records, and those over the limit, go to a dead-letter queue before they are archived."""

    @property
    def throttled_from(self) -> int:
        """The delivery count from which records are delivered in ever smaller groups, so that a bad one ends up alone."""
        return max(_LEAST_THROTTLED, (self.delivery_count_limit + 1) // 2)

    @property
    def given_up(self) -> RecordState:
        """The state of a record that is rejected or over the limit."""
        return RecordState.ARCHIVING if self.has_dead_letters else ARCHIVED


class Acquisition(NamedTuple):
    """The member that acquires records, its limits, its mode (KIP-1206), and the end of its locks."""

    member_id: str
    max_records: int
    batch_size: int
    is_record_limit: bool
    """At most ``max_records``. Otherwise whole batches, until there are enough records."""
    due_ns: int


class Acquired(NamedTuple):
    """Records that a member has acquired."""

    first_offset: int
    last_offset: int
    delivery_count: int


class PersistedBatch(NamedTuple):
    """A state for the persister."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int


class Run:
    """Records next to each other in one state."""

    __slots__ = ("count", "due_ns", "first", "is_gone", "last", "member_id", "pending", "pending_count", "state")

    def __init__(self, first: int, last: int, state: RecordState, count: int, member_id: str = NO_MEMBER, due_ns: int = -1) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.member_id = member_id
        self.due_ns = due_ns
        """When the acquisition lock expires."""
        self.pending: RecordState | None = None
        self.pending_count = 0
        self.is_gone = False
        """Whether all of it is before the start offset: it is no longer in the list."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def is_like(self, other: "Run") -> bool:
        """Return whether both, which are next to each other, can be one."""
        return (
            self.pending is None
            and other.pending is None
            and self.last + 1 == other.first
            and (self.state, self.count, self.member_id, self.due_ns) == (other.state, other.count, other.member_id, other.due_ns)
        )

    def split_off(self, offset: int) -> "Run":
        """End this run before ``offset``; return the rest."""
        rest = Run(offset, self.last, self.state, self.count, self.member_id, self.due_ns)
        self.last = offset - 1
        return rest


class Expired(NamedTuple):
    """A member's records whose locks have expired."""

    records: int
    over_limit: int
    """How many of them are not delivered again, as their delivery count has reached the limit."""


class Change:
    """A change that the persister has to confirm: the runs with a pending state, and what to write."""

    __slots__ = ("batches", "over_limit", "renewed", "runs")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.batches: list[PersistedBatch] = []
        self.over_limit = 0
        """Released records that are not delivered again, as their delivery count has reached the limit."""
        self.renewed = 0
        """Records whose locks were renewed: that is not persisted."""

    def add(self, run: Run, state: RecordState, count: int) -> None:
        """Give a run a pending state."""
        assert state in TRANSITIONS[run.state]
        run.pending = state
        run.pending_count = count
        self.runs.append(run)
        self.batches.append(PersistedBatch(run.first, run.last, state, count))


class InFlightRecords:
    """See the module."""

    __slots__ = ("_runs", "complete_count", "end_offset", "start_offset")

    def __init__(self, start_offset: int, persisted: Iterable[PersistedBatch] = ()) -> None:
        """``persisted`` is the state that was read, sorted. The records in its gaps were acquired at most: they are available."""
        self._runs: list[Run] = []
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.complete_count = 0
        """Records in flight whose delivery is complete, or will be when a change is confirmed (KIP-1226)."""
        for batch in persisted:
            if batch.last_offset < self.end_offset:
                continue
            first = max(batch.first_offset, self.end_offset)
            if first > self.end_offset:
                self._runs.append(Run(self.end_offset, first - 1, AVAILABLE, 0))
            state = AVAILABLE if batch.state is ACQUIRED else batch.state
            self._runs.append(Run(first, batch.last_offset, state, batch.delivery_count))
            if state.is_terminal:
                self.complete_count += batch.last_offset - first + 1
            self.end_offset = batch.last_offset + 1
        self._coalesce()
        self.advance()

    # what there is

    def __iter__(self) -> Iterator[Run]:
        """Iterate over the runs in order; the caller changes nothing meanwhile."""
        return iter(self._runs)

    def __len__(self) -> int:
        """Return how many offsets are in flight."""
        return self.end_offset - self.start_offset

    @property
    def next_fetch_offset(self) -> int:
        """The first offset that can be acquired, or the first one that never was."""
        return next((run.first for run in self._runs if run.state is AVAILABLE), self.end_offset)

    def can_acquire(self, limits: Limits) -> bool:
        """Return whether there is something to acquire, or room for more records."""
        return len(self) < limits.max_record_locks or self.next_fetch_offset < self.end_offset

    @property
    def next_due_ns(self) -> int | None:
        """When the first acquisition lock expires, or has expired; None if no record is acquired."""
        return min((run.due_ns for run in self._runs if run.state is ACQUIRED and run.pending is None), default=None)

    # acquiring

    def acquire(
        self, acquisition: Acquisition, limits: Limits, fetch_offset: int, batches: Iterable[tuple[int, int]]
    ) -> list[Acquired]:
        """Acquire records of batches that were read from ``fetch_offset`` on, each given by its first and last offset.

        ``batches`` are taken one after the other until there are enough. Available records that were not in the log any more
        are archived.
        """
        left = min(acquisition.max_records, limits.max_record_locks - len(self))
        last_allowed = None
        if left <= 0:
            # There is no room for new records, but released ones can be acquired again.
            left = min(acquisition.max_records, self.end_offset - fetch_offset)
            last_allowed = self.end_offset - 1
        if left <= 0:
            return []
        collected = _Collected(acquisition)
        position = fetch_offset
        for base, last in batches:
            if position < base:
                self._archive_available(position, base - 1)
            position = max(position, last + 1)
            first = max(base, self.start_offset)
            last = last if last_allowed is None else min(last, last_allowed)
            if first > last:
                continue
            may_go_on = self._acquire_again(collected, limits, first, last, left)
            if may_go_on and collected.count < left:
                self._acquire_new(collected, first, last, left)
            if not may_go_on or collected.count >= left:
                break
        self._coalesce()
        self.advance()
        return collected.acquired

    def _acquire_again(self, collected: "_Collected", limits: Limits, first: int, last: int, left: int) -> bool:
        """Acquire the available records from ``first`` to ``last``; return whether more may be acquired.

        A record that was delivered often may be what its consumers fail on. It is delivered in smaller and smaller groups, and
        alone the last time.
        """
        acquisition = collected.acquisition
        index = self._index_of(first)
        while index < len(self._runs) and self._runs[index].first <= last:
            run = self._runs[index]
            index += 1
            if run.state is not AVAILABLE:
                continue
            begin, end = max(run.first, first), min(run.last, last)
            if acquisition.is_record_limit:
                end = min(end, begin + left - collected.count - 1)
            is_throttled = run.count >= limits.throttled_from
            if is_throttled:
                if collected.count:
                    return False
                most = 1
                if run.count < limits.delivery_count_limit - 1:
                    most = max(1, len(run) >> (run.count - limits.throttled_from + 1))
                end = min(end, begin + most - 1)
            index = self._isolate(index - 1, begin, end)
            run = self._runs[index]
            index += 1
            run.state, run.count = ACQUIRED, run.count + 1
            run.member_id, run.due_ns = acquisition.member_id, acquisition.due_ns
            collected.add(begin, end, run.count)
            if is_throttled:
                return False
            if acquisition.is_record_limit and collected.count >= left:
                return False
        return True

    def _acquire_new(self, collected: "_Collected", first: int, last: int, left: int) -> None:
        """Acquire records that were never acquired before."""
        acquisition = collected.acquisition
        begin = max(first, self.end_offset)
        if acquisition.is_record_limit:
            last = min(last, begin + left - collected.count - 1)
        if begin > last:
            return
        if not self._runs:
            self.start_offset = begin
        self._runs.append(Run(begin, last, ACQUIRED, 1, acquisition.member_id, acquisition.due_ns))
        self.end_offset = last + 1
        collected.add(begin, last, 1)

    def drop_aborted(self, acquired: Sequence[Acquired], aborted: Sequence[tuple[int, int]]) -> list[Acquired]:
        """Archive acquired records that are in batches of aborted transactions; return the others. Both are in order.

        That is not persisted: a new leader finds the same.
        """
        left: list[Acquired] = []
        begin = 0
        for each in acquired:
            first = each.first_offset
            while begin < len(aborted) and aborted[begin][1] < first:
                begin += 1
            at = begin
            while at < len(aborted) and aborted[at][0] <= each.last_offset:
                aborted_first, aborted_last = aborted[at]
                at += 1
                if aborted_first > first:
                    left.append(each._replace(first_offset=first, last_offset=aborted_first - 1))
                last = min(aborted_last, each.last_offset)
                self._archive(max(aborted_first, first), last, ACQUIRED)
                first = last + 1
            if first <= each.last_offset:
                left.append(each._replace(first_offset=first))
        self._coalesce()
        self.advance()
        return left

    # acknowledging

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgementBatch], limits: Limits, due_ns: int) -> Change:
        """Begin to acknowledge records; renewed locks expire at ``due_ns``.

        All or nothing. Raises InvalidRecordStateError for records that the member has not acquired or that are being
        acknowledged already, InvalidRequestError for records that were never acquired. Records before the start offset are
        ignored: they are gone from the log.
        """
        acknowledged_to = -1
        for batch in batches:
            if batch.last_offset >= self.start_offset:
                self._check(member_id, batch, acknowledged_to)
            acknowledged_to = max(acknowledged_to, batch.last_offset)
        change = Change()
        for batch in batches:
            for first, last, kind in batch.ranges():
                self._acknowledge_range(change, max(first, self.start_offset), last, kind, limits, due_ns)
        self.complete_count += _complete(change)
        return change

    def _check(self, member_id: str, batch: AcknowledgementBatch, acknowledged_to: int) -> None:
        first = max(batch.first_offset, self.start_offset)
        index = self._index_of(first)
        if not self._runs:
            raise InvalidRecordStateError("Batch record not found. No records are in flight.")
        if index == len(self._runs):
            raise InvalidRequestError("Batch record not found. The first offset in request is past acquired records.")
        if self._runs[index].first > batch.last_offset:
            raise InvalidRecordStateError("Batch record not found. The request batch offsets are not found in the cache.")
        if batch.first_offset <= acknowledged_to:
            raise InvalidRecordStateError("A record is acknowledged twice in the same request.")
        if batch.last_offset >= self.end_offset:
            raise InvalidRequestError("Batch record not found. The last offset in request is past acquired records.")
        while index < len(self._runs) and self._runs[index].first <= batch.last_offset:
            run = self._runs[index]
            if run.state is not ACQUIRED:
                raise InvalidRecordStateError("The batch cannot be acknowledged. The batch is not in the acquired state.")
            if run.member_id != member_id:
                raise InvalidRecordStateError("Member is not the owner of batch record")
            if run.pending is not None:
                raise InvalidRecordStateError(
                    "The record state is invalid. The acknowledgement of delivery could not be completed."
                )
            index += 1

    def _acknowledge_range(self, change: Change, first: int, last: int, kind: int, limits: Limits, due_ns: int) -> None:
        """Acknowledge the records of a range in one way; they may be acknowledged."""
        index = self._index_of(first)
        while index < len(self._runs) and self._runs[index].first <= last:
            run = self._runs[index]
            index = self._isolate(index, max(run.first, first), min(run.last, last))
            run = self._runs[index]
            index += 1
            if kind == RENEW:
                run.due_ns = due_ns
                change.renewed += len(run)
            else:
                change.add(run, _state_after(kind, run.count, limits), run.count)
                change.over_limit += _over_limit(kind, run, limits)

    def release(self, member_id: str, limits: Limits) -> Change:
        """Begin to give back all records that a member has acquired: it has gone. As in Kafka, that delivery counts."""
        change = Change()
        for run in self._runs:
            if run.state is ACQUIRED and run.pending is None and run.member_id == member_id:
                change.add(run, _state_after(RELEASE, run.count, limits), run.count)
                change.over_limit += _over_limit(RELEASE, run, limits)
        self.complete_count += _complete(change)
        return change

    def settle(self, change: Change, *, is_written: bool) -> None:
        """End a change. If it was not written, the records are still acquired; locks may have expired meanwhile."""
        if not is_written:
            self.complete_count -= _complete(change)
        for run in change.runs:
            state, run.pending = run.pending, None
            if run.is_gone or not is_written or state is None:
                continue
            run.state, run.count = state, run.pending_count
            run.member_id, run.due_ns = NO_MEMBER, _NEVER_NS
        self._coalesce()

    def expire(self, now_ns: int, limits: Limits) -> tuple[list[PersistedBatch], dict[str, Expired]]:
        """Take back records whose locks have expired. That takes effect even if it cannot be written.

        Returns what to write, and what each member has lost.
        """
        batches = []
        lost: dict[str, Expired] = {}
        for run in self._runs:
            if run.state is ACQUIRED and run.pending is None and run.due_ns <= now_ns:
                state = _state_after(RELEASE, run.count, limits)
                records, over_limit = lost.get(run.member_id, _NONE_EXPIRED)
                lost[run.member_id] = Expired(records + len(run), over_limit + _over_limit(RELEASE, run, limits))
                self._move(run, state)
                batches.append(PersistedBatch(run.first, run.last, state, run.count))
        if batches:
            self._coalesce()
        return batches, lost

    # dead letters

    def archiving(self) -> list[tuple[int, int, int]]:
        """Return the records on their way to the dead-letter queue: first and last offsets with delivery counts."""
        return [(run.first, run.last, run.count) for run in self._runs if run.state is RecordState.ARCHIVING]

    def archive_dead(self, first: int, last: int) -> list[PersistedBatch]:
        """Archive records that are in the dead-letter queue; return what to write."""
        return self._archive(first, last, RecordState.ARCHIVING)

    # offsets

    def advance(self) -> bool:
        """Move the start offset past records whose delivery is complete; return whether it moved.

        Call it after the records' states are written: the request has the start offset of before.
        """
        done = 0
        for run in self._runs:
            if run.pending is not None or not run.state.is_terminal:
                break
            self.complete_count -= len(run)
            run.is_gone = True
            done += 1
        del self._runs[:done]
        before = self.start_offset
        if self._runs:
            self.start_offset = max(before, self._runs[0].first)
        elif done:
            self.start_offset = self.end_offset
        return self.start_offset != before

    def log_start_moved(self, offset: int) -> bool:
        """Forget the records before the log's new start offset; return False if they were forgotten already."""
        if offset <= self.start_offset:
            return False
        while self._runs and self._runs[0].first < offset:
            run = self._runs[0]
            state = run.state if run.pending is None else run.pending
            if state.is_terminal:
                self.complete_count -= min(run.last, offset - 1) - run.first + 1
            if run.last >= offset:
                run.first = offset
                break
            run.is_gone = True
            del self._runs[0]
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        return True

    # runs

    def _index_of(self, offset: int) -> int:
        """Return the index of the first run that does not end before the offset."""
        return bisect_left(self._runs, offset, key=_last_of)

    def _isolate(self, index: int, first: int, last: int) -> int:
        """Split a run so that one has exactly these offsets, which it contains; return that one's index."""
        run = self._runs[index]
        if first > run.first:
            index += 1
            self._runs.insert(index, run.split_off(first))
            run = self._runs[index]
        if last < run.last:
            self._runs.insert(index + 1, run.split_off(last + 1))
        return index

    def _move(self, run: Run, state: RecordState) -> None:
        assert state in TRANSITIONS[run.state]
        if state.is_terminal:
            self.complete_count += len(run)
        run.state, run.member_id, run.due_ns = state, NO_MEMBER, _NEVER_NS

    def _archive_available(self, first: int, last: int) -> None:
        """Archive available records that were not in the log where they should be. That is not persisted."""
        self._archive(max(first, self.start_offset), last, AVAILABLE)

    def _archive(self, first: int, last: int, state: RecordState) -> list[PersistedBatch]:
        """Archive the records of a range that are in a state; return which."""
        archived = []
        index = self._index_of(first)
        while index < len(self._runs) and self._runs[index].first <= last:
            run = self._runs[index]
            if run.state is state and run.pending is None:
                index = self._isolate(index, max(run.first, first), min(run.last, last))
                run = self._runs[index]
                self._move(run, ARCHIVED)
                archived.append(PersistedBatch(run.first, run.last, ARCHIVED, run.count))
            index += 1
        return archived

    def _coalesce(self) -> None:
        """Make one run of neighbours that are alike."""
        runs = self._runs
        if len(runs) < _LEAST_TO_COALESCE:
            return
        kept = [runs[0]]
        for run in runs[1:]:
            if kept[-1].is_like(run):
                kept[-1].last = run.last
                run.is_gone = True
            else:
                kept.append(run)
        if len(kept) < len(runs):
            self._runs = kept


_LEAST_TO_COALESCE: Final = 2
_NONE_EXPIRED: Final = Expired(0, 0)


class _Collected:
    """What an acquisition has so far."""

    __slots__ = ("acquired", "acquisition", "count")

    def __init__(self, acquisition: Acquisition) -> None:
        self.acquisition = acquisition
        self.acquired: list[Acquired] = []
        self.count = 0

    def add(self, first: int, last: int, delivery_count: int) -> None:
        """Add records. Those that belong together become one group, which grows to ``batch_size``."""
        self.count += last - first + 1
        if self.acquired:
            before = self.acquired[-1]
            is_next = before.last_offset + 1 == first and before.delivery_count == delivery_count
            has_room = before.last_offset - before.first_offset + 1 < self.acquisition.batch_size
            if is_next and (self.acquisition.is_record_limit or has_room):
                self.acquired[-1] = before._replace(last_offset=last)
                return
        self.acquired.append(Acquired(first, last, delivery_count))


def _last_of(run: Run) -> int:
    return run.last


def _complete(change: Change) -> int:
    """Return for how many records of a change, as far as they are still in flight, the delivery will be complete."""
    return sum(len(run) for run in change.runs if not run.is_gone and run.pending is not None and run.pending.is_terminal)


def _over_limit(kind: int, run: Run, limits: Limits) -> int:
    """Return how many records of an acquired run have had their last delivery, if they are given back."""
    return len(run) if kind == RELEASE and run.count >= limits.delivery_count_limit else 0


def _state_after(kind: int, delivery_count: int, limits: Limits) -> RecordState:
    """Return the state of an acquired record after an acknowledgement, or the end of its lock, which is like a release."""
    if kind == RELEASE:
        return AVAILABLE if delivery_count < limits.delivery_count_limit else limits.given_up
    return {ACCEPT: RecordState.ACKNOWLEDGED, REJECT: limits.given_up, GAP: ARCHIVED}[kind]
