"""The checker finds each fault in a history that is made by hand, and none in a clean one."""

from collections.abc import Callable

from tests.cluster.checker import Kind, check, told
from tests.cluster.history import Commit, History, Isolation, Outcome, Reading, Send, Transaction
from tests.support.cases import case

GROUP = "group"


def clean() -> History:
    """Return a history without faults, of everything that there is.

    Partition 0 has a/0 to a/3 and, in a transaction that was committed, t/0; partition 1 has t/1 of the same, then t/2 of one that
    was aborted; a/4 timed out and is not there, a/5 timed out and is.
    """
    sends = [Send("a", number, 0, outcome=Outcome.OK, offset=number) for number in range(4)]
    sends[2].offset = None  # acknowledged by a try that found it there
    sends += [Send("a", 4, 0), Send("a", 5, 0)]
    sends += [
        Send("t", 0, 0, transaction=0, outcome=Outcome.OK, offset=4),
        Send("t", 1, 1, transaction=0, outcome=Outcome.OK, offset=0),
        Send("t", 2, 1, transaction=1, outcome=Outcome.OK, offset=2),
        Send("t", 3, 1, transaction=2),
        Send("t", 4, 0, transaction=2),
    ]
    first = [(number, f"a/{number}") for number in range(4)] + [(4, "t/0"), (6, "a/5")]
    return History(
        sends=sends,
        transactions=[Transaction("t", 0, Outcome.OK), Transaction("t", 1, Outcome.FAILED), Transaction("t", 2)],
        readings=[
            Reading("whole", 0, Isolation.READ_UNCOMMITTED, 0, list(first)),
            Reading("member", 0, Isolation.READ_COMMITTED, 0, first[:3]),
            Reading("other member", 0, Isolation.READ_COMMITTED, 2, first[2:4]),
            Reading("committed", 1, Isolation.READ_COMMITTED, 0, [(0, "t/1")]),
            Reading("uncommitted", 1, Isolation.READ_UNCOMMITTED, 0, [(0, "t/1"), (2, "t/2")]),
        ],
        commits=[
            Commit(GROUP, 0, 2, 1.0, 2.0),
            Commit(GROUP, 0, 2, 3.0, 4.0, was_read=True),
            Commit(GROUP, 0, 4, 5.0, 6.0),
            Commit(GROUP, 0, 2, 5.5, 6.5, was_read=True),  # asked before the commit was acknowledged
        ],
        final={
            Isolation.READ_UNCOMMITTED: {0: list(first), 1: [(0, "t/1"), (2, "t/2")]},
            Isolation.READ_COMMITTED: {0: list(first), 1: [(0, "t/1")]},
        },
    )


def lose(history: History) -> None:
    for isolation in Isolation:
        history.final[isolation][0].remove((0, "a/0"))
    for reading in history.readings:
        reading.records = [each for each in reading.records if each != (0, "a/0")]


def move(history: History) -> None:
    history.sends[3].offset = 7


def double(history: History) -> None:
    history.final[Isolation.READ_UNCOMMITTED][0].append((8, "a/5"))


def double_elsewhere(history: History) -> None:
    history.final[Isolation.READ_UNCOMMITTED][1].append((9, "a/5"))


def swap(history: History) -> None:
    for send, offset in zip(history.sends[:2], (1, 0), strict=True):
        send.offset = offset
    for records in [*(log[0] for log in history.final.values()), *(each.records for each in history.readings)]:
        if (0, "a/0") in records:
            records[:2] = [(0, "a/1"), (1, "a/0")]


def come_late(history: History) -> None:
    # What timed out is written after all, behind what was sent later.
    for isolation in Isolation:
        history.final[isolation][0].append((7, "a/4"))


def invent(history: History) -> None:
    history.final[Isolation.READ_UNCOMMITTED][1].append((5, "b/0"))


def read_invented(history: History) -> None:
    history.readings[0].records.append((7, "b/0"))


def truncate(history: History) -> None:
    # A record that nobody acknowledged and somebody read.
    for isolation in Isolation:
        history.final[isolation][0].remove((6, "a/5"))


def replace(history: History) -> None:
    # What was read at an offset is something else now, and not at a place of its own.
    history.readings[4].records[1] = (1, "t/2")


def go_back(history: History) -> None:
    history.readings[0].records.append((6, "a/5"))


def begin_before(history: History) -> None:
    history.readings[2].records.insert(0, (1, "a/1"))


def skip(history: History) -> None:
    del history.readings[0].records[2]


def skip_the_first(history: History) -> None:
    del history.readings[2].records[0]


def lose_commit(history: History) -> None:
    history.commits.append(Commit(GROUP, 0, 2, 7.0, 8.0, was_read=True))


def lose_first_commit(history: History) -> None:
    history.commits.append(Commit(GROUP, 0, -1, 2.5, 2.6, was_read=True))


def half_commit(history: History) -> None:
    history.final[Isolation.READ_COMMITTED][1].clear()
    history.readings[3].records.clear()


def show_aborted(history: History) -> None:
    history.final[Isolation.READ_COMMITTED][1].append((2, "t/2"))


def read_aborted(history: History) -> None:
    history.readings[3].records.append((2, "t/2"))


def end_half(history: History) -> None:
    for isolation in Isolation:
        history.final[isolation][1].append((6, "t/3"))


FAULTS: dict[Callable[[History], None], set[Kind]] = {
    lose: {Kind.LOST},
    move: {Kind.MISPLACED},
    double: {Kind.DUPLICATE},
    double_elsewhere: {Kind.DUPLICATE},
    swap: {Kind.REORDERED},
    come_late: {Kind.REORDERED},
    invent: {Kind.INVENTED},
    read_invented: {Kind.INVENTED},
    truncate: {Kind.VANISHED},
    replace: {Kind.VANISHED},
    go_back: {Kind.BACKWARDS},
    begin_before: {Kind.BACKWARDS},
    skip: {Kind.SKIPPED},
    skip_the_first: {Kind.SKIPPED},
    lose_commit: {Kind.COMMIT_LOST},
    lose_first_commit: {Kind.COMMIT_LOST},
    half_commit: {Kind.COMMITTED_LOST},
    show_aborted: {Kind.ABORTED_SEEN},
    read_aborted: {Kind.VANISHED},
    end_half: {Kind.HALF_SEEN},
}


def test_a_clean_history_has_no_faults() -> None:
    assert check(clean()) == []


def test_each_fault_is_found_and_nothing_else() -> None:
    for damage, kinds in FAULTS.items():
        with case(damage.__name__):
            history = clean()
            damage(history)
            faults = check(history)
            assert {fault.kind for fault in faults} == kinds, told(faults)


def test_every_kind_is_looked_for() -> None:
    assert set.union(*FAULTS.values()) == set(Kind)


def test_what_a_producer_without_idempotence_does_is_no_fault() -> None:
    for damage in (double, swap, come_late):
        with case(damage.__name__):
            history = clean()
            for send in history.sends:
                send.idempotent = False
            damage(history)
            assert check(history) == []


def test_what_is_sent_again_in_another_epoch_of_the_producer_is_no_fault_of_brokers() -> None:
    history = clean()
    history.final[Isolation.READ_UNCOMMITTED][0] += [(7, "a/3"), (8, "a/5")]
    for epoch, kinds in ((0, {Kind.DUPLICATE}), (1, set())):
        history.epochs = {(0, offset): 0 for offset in range(7)} | {(0, 7): epoch, (0, 8): epoch}
        assert {fault.kind for fault in check(history)} == kinds


def test_merging_keeps_everything() -> None:
    whole = clean()
    merged = History.merged([History(sends=whole.sends[:5]), History(sends=whole.sends[5:], transactions=whole.transactions)])
    merged = History.merged([merged, History(readings=whole.readings, commits=whole.commits)])
    merged.final = whole.final
    assert merged == whole
    assert merged.acknowledged == 7
