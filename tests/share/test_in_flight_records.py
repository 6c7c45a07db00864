"""The states of a share partition's records, compared with a model that has a state for each offset."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from twisted_kafka.protocol.errors import InvalidRecordStateError, InvalidRequestError
from twisted_kafka.share.acknowledgements import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgementBatch,
    acknowledgements_of,
    counts_of,
)
from twisted_kafka.share.in_flight_records import (
    Acquired,
    Acquisition,
    Change,
    Expired,
    InFlightRecords,
    Limits,
    PersistedBatch,
)
from twisted_kafka.share.record_state import RecordState

AVAILABLE, ACQUIRED, ARCHIVED = RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ARCHIVED
ACKNOWLEDGED = RecordState.ACKNOWLEDGED
LIMITS = Limits(delivery_count_limit=5, max_record_locks=100)


def want(member_id: str = "a", records: int = 500, *, size: int = 500, strict: bool = False, due_ns: int = 100) -> Acquisition:
    return Acquisition(member_id, records, size, strict, due_ns)


def batch(first: int, last: int, *types: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first, last, types)


def runs_of(records: InFlightRecords) -> list[tuple[int, int, RecordState, int]]:
    return [(run.first, run.last, run.state, run.count) for run in records]


def acknowledge(records: InFlightRecords, *batches: AcknowledgementBatch, member_id: str = "a", limits: Limits = LIMITS) -> Change:
    change = records.acknowledge(member_id, batches, limits, 200)
    records.settle(change, is_written=True)
    records.advance()
    return change


def test_whole_batches_are_acquired_until_there_are_enough() -> None:
    records = InFlightRecords(0)
    assert records.acquire(want(records=12), LIMITS, 0, [(0, 9), (10, 19), (20, 29)]) == [Acquired(0, 19, 1)]
    assert records.next_fetch_offset == 20


def test_a_strict_limit_splits_a_batch() -> None:
    records = InFlightRecords(0)
    assert records.acquire(want(records=12, strict=True), LIMITS, 0, [(0, 9), (10, 19)]) == [Acquired(0, 11, 1)]
    assert records.acquire(want("b", records=12, strict=True), LIMITS, 12, [(10, 19), (20, 29)]) == [Acquired(12, 23, 1)]


def test_acquired_records_come_in_groups_of_the_batch_size() -> None:
    records = InFlightRecords(0)
    some = [(offset, offset + 3) for offset in range(0, 20, 4)]
    assert records.acquire(want(size=6), LIMITS, 0, some) == [Acquired(0, 7, 1), Acquired(8, 15, 1), Acquired(16, 19, 1)]


def test_a_member_gets_no_more_than_may_be_in_flight() -> None:
    records = InFlightRecords(0)
    limits = LIMITS._replace(max_record_locks=10)
    assert records.acquire(want(), limits, 0, [(0, 9), (10, 19)]) == [Acquired(0, 9, 1)]
    assert not records.can_acquire(limits)
    assert records.acquire(want(), limits, 10, [(10, 19)]) == []
    acknowledge(records, batch(4, 5, RELEASE))
    assert records.can_acquire(limits)
    assert records.acquire(want("b"), limits, 4, [(0, 9), (10, 19)]) == [Acquired(4, 5, 2)]


def test_records_that_were_compacted_away_are_passed() -> None:
    records = InFlightRecords(0)
    records.acquire(want(), LIMITS, 0, [(0, 9), (20, 29)])
    assert runs_of(records) == [(0, 9, ACQUIRED, 1), (20, 29, ACQUIRED, 1)]
    acknowledge(records, batch(0, 9, ACCEPT), batch(20, 29, RELEASE))
    assert records.start_offset == 20
    assert records.acquire(want(), LIMITS, 20, [(40, 49)]) == [Acquired(40, 49, 1)]
    assert records.start_offset == 40


@pytest.mark.parametrize(("kind", "state"), [(ACCEPT, ACKNOWLEDGED), (REJECT, ARCHIVED), (GAP, ARCHIVED), (RELEASE, AVAILABLE)])
def test_an_acknowledgement_takes_effect_when_it_is_written(kind: int, state: RecordState) -> None:
    records = InFlightRecords(0)
    records.acquire(want(), LIMITS, 0, [(0, 9)])
    change = records.acknowledge("a", [batch(2, 3, kind)], LIMITS, 0)
    assert change.batches == [PersistedBatch(2, 3, state, 1)]
    assert records.next_fetch_offset == 10
    with pytest.raises(InvalidRecordStateError):
        records.acknowledge("a", [batch(3, 3, ACCEPT)], LIMITS, 0)
    records.settle(change, is_written=False)
    assert runs_of(records) == [(0, 9, ACQUIRED, 1)]
    acknowledge(records, batch(2, 3, kind))
    assert runs_of(records) == [(0, 1, ACQUIRED, 1), (2, 3, state, 1), (4, 9, ACQUIRED, 1)]


def test_a_renewed_lock_lasts_longer_and_is_not_written() -> None:
    records = InFlightRecords(0)
    records.acquire(want(due_ns=100), LIMITS, 0, [(0, 9)])
    change = acknowledge(records, batch(5, 9, RENEW))
    assert (change.batches, change.renewed) == ([], 5)
    assert records.expire(100, LIMITS) == ([PersistedBatch(0, 4, AVAILABLE, 1)], {"a": Expired(5, 0)})
    assert records.next_due_ns == 200


@pytest.mark.parametrize("has_dead_letters", [False, True])
def test_a_record_over_the_limit_is_given_up(has_dead_letters: bool) -> None:
    limits = LIMITS._replace(delivery_count_limit=2, has_dead_letters=has_dead_letters)
    end = RecordState.ARCHIVING if has_dead_letters else ARCHIVED
    records = InFlightRecords(0)
    for count in (1, 2):
        assert records.acquire(want(), limits, 0, [(0, 0)]) == [Acquired(0, 0, count)]
        (written,), lost = records.expire(100, limits)
        assert lost == {"a": Expired(1, int(count == 2))}
        assert written == PersistedBatch(0, 0, AVAILABLE if count == 1 else end, count)
    assert records.acquire(want(), limits, 0, [(0, 0)]) == []
    if has_dead_letters:
        assert not records.advance()
        assert records.archive_dead(0, 0) == [PersistedBatch(0, 0, ARCHIVED, 2)]
    records.advance()
    assert (records.start_offset, records.complete_count) == (1, 0)


def test_a_record_that_fails_often_ends_up_alone() -> None:
    records = InFlightRecords(0)
    sizes = []
    for _ in range(6):
        acquired = records.acquire(want(), LIMITS, records.next_fetch_offset, [(0, 7)])
        sizes.append([(each.last_offset - each.first_offset + 1, each.delivery_count) for each in acquired])
        records.settle(records.release("a", LIMITS), is_written=True)
        records.advance()
    assert sizes == [[(8, 1)], [(8, 2)], [(8, 3)], [(4, 4)], [(1, 5)], [(1, 5)]]


def test_the_start_offset_waits_for_every_record_before() -> None:
    records = InFlightRecords(0)
    records.acquire(want(), LIMITS, 0, [(0, 9)])
    acknowledge(records, batch(5, 9, ACCEPT))
    assert (records.start_offset, records.complete_count) == (0, 5)
    acknowledge(records, batch(0, 4, REJECT))
    assert (records.start_offset, records.end_offset, records.complete_count) == (10, 10, 0)


def test_the_state_that_was_persisted_comes_back_with_its_gaps() -> None:
    persisted = [PersistedBatch(5, 6, ACKNOWLEDGED, 1), PersistedBatch(9, 9, AVAILABLE, 3), PersistedBatch(10, 11, ARCHIVED, 5)]
    records = InFlightRecords(2, persisted)
    assert runs_of(records) == [
        (2, 4, AVAILABLE, 0),
        (5, 6, ACKNOWLEDGED, 1),
        (7, 8, AVAILABLE, 0),
        (9, 9, AVAILABLE, 3),
        (10, 11, ARCHIVED, 5),
    ]
    assert (records.next_fetch_offset, records.end_offset, records.complete_count) == (2, 12, 4)
    assert records.acquire(want(), LIMITS, 2, [(0, 20)]) == [Acquired(2, 4, 1), Acquired(7, 8, 1)]


def test_records_that_are_gone_from_the_log_are_forgotten() -> None:
    records = InFlightRecords(0)
    records.acquire(want(), LIMITS, 0, [(0, 9)])
    change = records.acknowledge("a", [batch(2, 6, ACCEPT)], LIMITS, 0)
    assert records.log_start_moved(4)
    assert not records.log_start_moved(4)
    records.settle(change, is_written=True)
    records.advance()
    assert (records.start_offset, records.complete_count) == (7, 0)
    acknowledge(records, batch(0, 3, ACCEPT))  # ignored
    assert records.log_start_moved(50)
    assert (records.start_offset, records.end_offset, len(records), runs_of(records)) == (50, 50, 0, [])


def test_records_of_aborted_transactions_are_archived() -> None:
    records = InFlightRecords(0)
    acquired = records.acquire(want(), LIMITS, 0, [(0, 9)])
    assert records.drop_aborted(acquired, [(0, 2), (5, 6)]) == [Acquired(3, 4, 1), Acquired(7, 9, 1)]
    assert (records.start_offset, runs_of(records)[1]) == (3, (5, 6, ARCHIVED, 1))
    more = records.acquire(want(size=2, records=4), LIMITS, 10, [(10, 11), (12, 13)])
    assert records.drop_aborted(more, [(8, 8), (11, 12), (13, 13)]) == [Acquired(10, 10, 1)]


class CountedOffset(int):
    """An offset that counts its comparisons."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        CountedOffset.comparisons += 1
        return int(self) < other

    def __le__(self, other: int) -> bool:
        CountedOffset.comparisons += 1
        return int(self) <= other


def test_each_aborted_batch_is_compared_with_few_acquired_ones() -> None:
    records = InFlightRecords(0)
    acquired = records.acquire(want(size=1), LIMITS, 0, [(offset, offset) for offset in range(100)])
    aborted = [(CountedOffset(offset), CountedOffset(offset)) for offset in range(1, 100, 2)]
    assert records.drop_aborted(acquired, aborted) == [Acquired(offset, offset, 1) for offset in range(0, 100, 2)]
    assert 0 < CountedOffset.comparisons < 5 * 100


@pytest.mark.parametrize(
    ("batches", "error"),
    [
        ([batch(10, 12, ACCEPT)], InvalidRequestError),
        ([batch(5, 12, ACCEPT)], InvalidRequestError),
        ([batch(0, 2, ACCEPT), batch(2, 3, ACCEPT)], InvalidRecordStateError),
        ([batch(0, 0, ACCEPT), batch(8, 9, ACCEPT)], InvalidRecordStateError),
    ],
)
def test_a_bad_acknowledgement_changes_nothing(batches: Sequence[AcknowledgementBatch], error: type[Exception]) -> None:
    records = InFlightRecords(0)
    records.acquire(want(), LIMITS, 0, [(0, 7)])
    records.acquire(want("b"), LIMITS, 8, [(8, 9)])
    before = runs_of(records)
    with pytest.raises(error):
        records.acknowledge("a", batches, LIMITS, 0)
    assert runs_of(records) == before


def test_nothing_is_acknowledged_while_nothing_is_in_flight() -> None:
    with pytest.raises(InvalidRecordStateError):
        InFlightRecords(0).acknowledge("a", [batch(0, 2, ACCEPT)], LIMITS, 0)


class Sent:
    def __init__(self, first: int, last: int, *types: int) -> None:
        self.first_offset, self.last_offset, self.acknowledge_types = first, last, types


@pytest.mark.parametrize(
    "sent",
    [
        [Sent(3, 2, 1)],
        [Sent(0, 2, 1, 1)],
        [Sent(0, 2)],
        [Sent(0, 0, 5)],
        [Sent(0, 0, -1)],
        [Sent(-1, 0, 1)],
        [Sent(3, 4, 1), Sent(1, 2, 1)],
        [Sent(0, 0, RENEW)],
    ],
)
def test_malformed_batches_are_refused(sent: list[Any]) -> None:
    assert acknowledgements_of(sent, REJECT) is None


def test_types_may_be_given_for_each_offset() -> None:
    (found,) = acknowledgements_of([Sent(3, 6, 1, 1, 3, 4)], RENEW) or []
    assert list(found.ranges()) == [(3, 4, 1), (5, 5, 3), (6, 6, 4)]
    assert counts_of([found, found]) == {1: 4, 3: 2, 4: 2}


OFFSETS = 24
MEMBERS = ("a", "b", "c")


class EveryOffset(RuleBasedStateMachine):
    """Each offset's state in a dictionary, changed by the same operations."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits(delivery_count_limit=3, max_record_locks=12)
        self.records = InFlightRecords(0)
        self.now_ns = 0
        self.states: dict[int, tuple[RecordState, str]] = {}
        self.owners: dict[int, str] = {}
        self.complete: set[int] = set()
        self.changes: list[Change] = []
        self.log_start = 0

    @rule(member=st.sampled_from(MEMBERS), count=st.integers(1, 8), size=st.integers(1, 5), strict=st.booleans())
    def acquire(self, member: str, count: int, size: int, strict: bool) -> None:
        start = self.records.next_fetch_offset
        batches = [(first, first + 3) for first in range(start - start % 4, OFFSETS, 4)]
        acquisition = Acquisition(member, count, size, strict, self.now_ns + 10)
        acquired = self.records.acquire(acquisition, self.limits, start, batches)
        got = [offset for each in acquired for offset in range(each.first_offset, each.last_offset + 1)]
        assert len(got) == len(set(got))
        assert not strict or len(got) <= count
        for offset in got:
            assert offset not in self.owners, "acquired by two members at once"
            assert offset not in self.complete, "delivered after its delivery was complete"
            assert offset >= self.log_start
            self.owners[offset] = member

    @precondition(lambda self: self.owners)
    @rule(data=st.data(), kind=st.sampled_from([GAP, ACCEPT, RELEASE, REJECT, RENEW]))
    def acknowledge(self, data: st.DataObject, kind: int) -> None:
        first = data.draw(st.sampled_from(sorted(self.owners)))
        member = data.draw(st.sampled_from(MEMBERS))
        last = first + data.draw(st.integers(0, 3))
        pending = {offset for change in self.changes for run in change.runs for offset in range(run.first, run.last + 1)}
        offsets = [offset for offset in range(first, last + 1) if offset >= self.records.start_offset]
        is_right = last < self.records.end_offset and all(
            self.owners.get(offset) == member and offset not in pending for offset in offsets
        )
        try:
            change = self.records.acknowledge(member, [batch(first, last, kind)], self.limits, self.now_ns + 10)
        except (InvalidRecordStateError, InvalidRequestError):
            assert not is_right
            return
        assert is_right
        if change.runs:
            self.changes.append(change)

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        change = self.records.release(member, self.limits)
        if change.runs:
            self.changes.append(change)

    @precondition(lambda self: self.changes)
    @rule(data=st.data(), is_written=st.booleans())
    def answer(self, data: st.DataObject, is_written: bool) -> None:
        change = self.changes.pop(data.draw(st.integers(0, len(self.changes) - 1)))
        written = [(run.first, run.last, run.pending) for run in change.runs if not run.is_gone]
        self.records.settle(change, is_written=is_written)
        self.records.advance()
        for first, last, state in written:
            for offset in range(first, last + 1):
                if is_written:
                    del self.owners[offset]
                    if state is not None and state.is_terminal:
                        self.complete.add(offset)

    @rule(ns=st.integers(1, 12))
    def wait(self, ns: int) -> None:
        self.now_ns += ns
        for each in self.records.expire(self.now_ns, self.limits)[0]:
            for offset in range(each.first_offset, each.last_offset + 1):
                del self.owners[offset]
                if each.state.is_terminal:
                    self.complete.add(offset)
        self.records.advance()

    @rule(by=st.integers(1, 5))
    def delete_records(self, by: int) -> None:
        self.log_start = min(self.log_start + by, OFFSETS)
        self.records.log_start_moved(self.log_start)
        self.owners = {offset: owner for offset, owner in self.owners.items() if offset >= self.log_start}

    @invariant()
    def runs_say_the_same(self) -> None:
        before = self.records.start_offset
        for run in self.records:
            assert before <= run.first <= run.last < self.records.end_offset
            before = run.last + 1
            for offset in range(run.first, run.last + 1):
                assert (run.state is ACQUIRED) == (offset in self.owners)
                if run.state is ACQUIRED:
                    assert run.member_id == self.owners[offset]
                assert run.state.is_terminal == (offset in self.complete)
        assert all(self.records.start_offset <= offset < self.records.end_offset for offset in self.owners)
        complete = [
            offset for run in self.records for offset in range(run.first, run.last + 1) if (run.pending or run.state).is_terminal
        ]
        assert self.records.complete_count == len(complete)


TestEveryOffset = pytest.mark.medium(EveryOffset.TestCase)
