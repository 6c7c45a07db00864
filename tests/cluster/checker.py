"""Finds in a history what a cluster must not do; the kinds of faults are those of Jepsen's Kafka workload."""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from tests.cluster.history import Commit, History, Isolation, Log, Outcome, Reading, Send


class Kind(Enum):
    """The kinds of faults."""

    LOST = "an acknowledged record is not in the log"
    MISPLACED = "an acknowledged record is not at the offset that its producer was told"
    DUPLICATE = "a record of an idempotent producer is in the log more than once"
    REORDERED = "records of an idempotent producer are in the log in another order than it sent them"
    INVENTED = "a record is in the log, or was read, that nobody sent"
    VANISHED = "a record that a consumer read is not in the log, or elsewhere"
    BACKWARDS = "a consumer was given an offset again, or one before"
    SKIPPED = "a consumer was not given a record, and was given later ones"
    COMMIT_LOST = "a group's committed offset went back"
    COMMITTED_LOST = "a record of a committed transaction is not seen by those who read what is committed"
    ABORTED_SEEN = "a record of an aborted transaction is seen by those who read what is committed"
    HALF_SEEN = "of a transaction whose end its producer does not know, some records are seen and some are not"


class Fault(NamedTuple):
    """One of them."""

    kind: Kind
    where: str

    def __str__(self) -> str:
        return f"{self.kind.name} ({self.kind.value}): {self.where}"


def check(history: History) -> list[Fault]:
    """Return all faults of a history."""
    found: list[Fault] = []
    checker = _Checker(history)
    for rule in _RULES:
        found += rule(checker)
    return found


def told(faults: list[Fault], most: int = 20) -> str:
    """Return faults as text for a failed test."""
    kinds = ", ".join(f"{kind.name} {sum(1 for _ in of)}" for kind, of in itertools.groupby(faults, lambda fault: fault.kind))
    return f"{len(faults)} faults: {kinds}\n" + "\n".join(str(fault) for fault in faults[:most])


class _Checker:
    """A history with what the rules look up."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.log: Log = history.final[Isolation.READ_UNCOMMITTED]
        self.committed: Log = history.final[Isolation.READ_COMMITTED]
        self.sent = {send.value: send for send in history.sends}
        self.places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for partition, records in self.log.items():
            for offset, value in records:
                self.places[value].append((partition, offset))
        self.seen = {value for records in self.committed.values() for _, value in records}
        self.in_transactions: dict[tuple[str, int], list[Send]] = defaultdict(list)
        for send in history.sends:
            if send.transaction is not None:
                self.in_transactions[send.producer, send.transaction].append(send)

    def was_sent_in_other_epochs(self, places: list[tuple[int, int]]) -> bool:
        """Return whether the producer sent a record in another epoch each time: no broker can know that they are one.

        librdkafka does so to recover from a gap, with records that a leader had appended before it answered that it leads no more
        (https://github.com/confluentinc/librdkafka/issues/4953).
        """
        known = self.history.epochs
        return all(place in known for place in places) and len({known[place] for place in places}) == len(places)

    def final(self, reading: Reading) -> list[tuple[int, str]]:
        """Return what a consumer of that kind has to be given of its partition."""
        return self.history.final[reading.isolation].get(reading.partition, [])


def _acknowledged(checker: _Checker) -> Iterator[Fault]:
    for send in checker.history.sends:
        if send.outcome is not Outcome.OK:
            continue
        places = checker.places.get(send.value)
        if not places:
            yield Fault(Kind.LOST, f"{send.value} at {send.offset} of partition {send.partition}")
        elif send.offset is not None and (send.partition, send.offset) not in places:
            yield Fault(Kind.MISPLACED, f"{send.value} was acknowledged at {send.offset} of {send.partition} and is at {places}")


def _duplicates(checker: _Checker) -> Iterator[Fault]:
    for value, places in checker.places.items():
        send = checker.sent.get(value)
        if len(places) > 1 and send is not None and send.idempotent and not checker.was_sent_in_other_epochs(places):
            yield Fault(Kind.DUPLICATE, f"{value} at {places}")


def _order(checker: _Checker) -> Iterator[Fault]:
    for partition, records in checker.log.items():
        latest: dict[str, Send] = {}
        for offset, value in records:
            send = checker.sent.get(value)
            if send is None or not send.idempotent:
                continue
            if (partition, offset) != checker.places[value][0]:
                continue  # a duplicate is one fault, if it is any
            before = latest.setdefault(send.producer, send)
            if before.number > send.number:
                yield Fault(Kind.REORDERED, f"{value} at {offset} of partition {partition} is after {before.value}")
            latest[send.producer] = send


def _invented(checker: _Checker) -> Iterator[Fault]:
    for value, places in checker.places.items():
        if value not in checker.sent:
            yield Fault(Kind.INVENTED, f"{value} at {places}")
    for reading in checker.history.readings:
        for offset, value in reading.records:
            if value not in checker.sent:
                yield Fault(Kind.INVENTED, f"{value} was read by {reading.consumer} at {offset} of {reading.partition}")


def _vanished(checker: _Checker) -> Iterator[Fault]:
    there = {isolation: {part: dict(records) for part, records in log.items()} for isolation, log in checker.history.final.items()}
    for reading in checker.history.readings:
        records = there[reading.isolation].get(reading.partition, {})
        for offset, value in reading.records:
            if value in checker.sent and records.get(offset) != value:
                where = f"{value} was read by {reading.consumer} at {offset} of partition {reading.partition}"
                yield Fault(Kind.VANISHED, f"{where}, which has {records.get(offset)}; it is at {checker.places.get(value)}")


def _advance(checker: _Checker) -> Iterator[Fault]:
    for reading in checker.history.readings:
        final = checker.final(reading)
        where = f"{reading.consumer} of partition {reading.partition}"
        last = reading.start - 1
        for offset, value in reading.records:
            if offset <= last:
                yield Fault(Kind.BACKWARDS, f"{value} at {offset} was read by {where} after {last}")
            else:
                first, end = (bisect.bisect_left(final, (at, "")) for at in (last + 1, offset))
                for skipped in final[first:end]:
                    yield Fault(Kind.SKIPPED, f"{skipped} by {where}, between {last} and {offset}")
            last = max(last, offset)


def _commits(checker: _Checker) -> Iterator[Fault]:
    by_place: dict[tuple[str, int], list[Commit]] = defaultdict(list)
    for commit in checker.history.commits:
        by_place[commit.group, commit.partition].append(commit)
    for (group, partition), commits in by_place.items():
        written = sorted((each for each in commits if not each.was_read), key=lambda each: each.ended)
        ends = [each.ended for each in written]
        highest = list(itertools.accumulate((each.offset for each in written), max))
        for read in commits:
            before = bisect.bisect_left(ends, read.began)
            if read.was_read and before and highest[before - 1] > read.offset:
                yield Fault(Kind.COMMIT_LOST, f"{highest[before - 1]} of {group} in partition {partition} was {read.offset} later")


def _transactions(checker: _Checker) -> Iterator[Fault]:
    for transaction in checker.history.transactions:
        name = f"transaction {transaction.number} of {transaction.producer}"
        sends = checker.in_transactions[transaction.producer, transaction.number]
        seen = [send.value for send in sends if send.value in checker.seen]
        unseen = [send.value for send in sends if send.value not in checker.seen]
        if transaction.outcome is Outcome.OK and unseen:
            yield Fault(Kind.COMMITTED_LOST, f"{unseen} of {name}")
        elif transaction.outcome is Outcome.FAILED and seen:
            yield Fault(Kind.ABORTED_SEEN, f"{seen} of {name}")
        elif transaction.outcome is Outcome.UNKNOWN and seen and unseen:
            yield Fault(Kind.HALF_SEEN, f"{seen}, but not {unseen}, of {name}")


_RULES: tuple[Callable[[_Checker], Iterator[Fault]], ...] = (
    _acknowledged,
    _duplicates,
    _order,
    _invented,
    _vanished,
    _advance,
    _commits,
    _transactions,
)
