"""The runtime: who may be asked when, what happens to answers when replicas are slow, what a broken log does."""

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.coordinator_fakes import Bench, join
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.effects import Write
from twisted_kafka.group_coordinator.group_records import offset_commit
from twisted_kafka.group_coordinator.group_shard import GroupShard
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.group_coordinator.results import GroupListing
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.waiting.futures import gather, then

PARTITION = TopicPartition("t", 0)
LOG = TopicPartition(GROUP_METADATA_TOPIC, 0)


def commit(bench: Bench, offset: int, group_id: str = "g") -> Any:
    return bench.groups.commit_offsets(Sender(group_id), {PARTITION: OffsetCommitValue(offset=offset)}, 9)


def fetched(bench: Bench, group_id: str = "g") -> Any:
    fetched: Any = bench.groups.fetch_offsets(OffsetFetch(Sender(group_id), [PARTITION], False))
    error, offsets = fetched
    assert error == 0
    value = offsets[PARTITION]
    return value and value.offset


def listed(bench: Bench) -> list[str]:
    error, listings = bench.groups.list_groups((), ())
    assert error is ErrorCode.NONE
    return sorted(each.group_id for each in listings)


def test_a_partition_that_can_not_be_read_is_not_available_and_is_tried_again() -> None:
    bench = Bench()
    commit(bench, 5)
    bench.restart(load=False)
    bench.log.missing = True
    bench.elect()
    assert commit(bench, 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.missing = False
    bench.elect()
    assert fetched(bench) == 5


def test_a_corrupt_partition_serves_nothing() -> None:
    bench = Bench()
    commit(bench, 5)
    bench.log.batches[LOG][0] = bytearray(bench.log.batches[LOG][0])
    bench.log.batches[LOG].append(b"\0" * 5 + b"rubbish" * 20)
    bench.restart()
    assert bench.groups.fetch_offsets(OffsetFetch(Sender("g"), None, False))[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_partition_whose_shard_fails_after_loading_keeps_no_other_from_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = GroupShard.loaded

    def failing(shard: Any) -> None:
        if not failures:
            failures.append(shard)
            raise ValueError
        loaded(shard)

    failures: list[Any] = []
    monkeypatch.setattr(GroupShard, "loaded", failing)
    bench = Bench(partitions=2)
    assert bench.runtime.partition_states() == {"loading": 0, "active": 1, "failed": 1}
    bench.elect(epoch=1)
    assert bench.runtime.partition_states() == {"loading": 0, "active": 2, "failed": 0}


def test_records_of_unknown_kinds_are_left_out() -> None:
    bench = Bench()
    commit(bench, 5)
    strange = build_batch([SimpleRecord(0, b"\0\x63what", b"\0\0ever"), SimpleRecord(0, None, b"x"), SimpleRecord(0, b"\0", b"")])
    bench.log.batches[LOG].append(strange)
    commit(bench, 6)
    bench.restart()
    assert fetched(bench) == 6


def test_a_record_whose_key_ends_after_its_kind_is_corrupt() -> None:
    bench = Bench()
    bench.log.batches[LOG].append(build_batch([SimpleRecord(0, b"\0\1", b"\0\0")]))
    bench.restart()
    assert bench.runtime.partition_states() == {"loading": 0, "active": 0, "failed": 1}


def test_reads_wait_for_what_they_saw_to_be_committed() -> None:
    bench = Bench()
    commit(bench, 5)
    bench.log.holds = True
    first, second = commit(bench, 6), commit(bench, 7)
    read = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), [PARTITION], False))
    assert not first.done()
    assert not second.done()
    assert not read.done()
    bench.log.release()
    assert (first.result(), second.result()) == (0, 0)
    assert read.result()[1][PARTITION].offset == 7


def test_offsets_that_are_not_committed_in_time_are_not_told() -> None:
    bench = Bench()
    commit(bench, 5)
    bench.log.holds = True
    commit(bench, 6)
    request = OffsetFetch(Sender("g"), [PARTITION], False)
    waiting = bench.groups.fetch_offsets(request)
    bench.log.release(ErrorCode.REQUEST_TIMED_OUT)
    assert waiting.result(0) == bench.groups.fetch_offsets(request) == (ErrorCode.NOT_COORDINATOR, {})
    bench.log.commit()
    assert fetched(bench) == 6


def test_groups_that_may_be_lost_are_not_told_of() -> None:
    bench = Bench(partitions=2)
    commit(bench, 5, "here")
    bench.log.holds = True
    commit(bench, 6, "new")
    described = bench.groups.describe_group("new")
    assert isinstance(described, Future)
    assert listed(bench) == ["here"]
    assert not described.done()
    bench.log.release()
    assert listed(bench) == ["here", "new"]
    assert (described.result(0).error, described.result(0).state) == (ErrorCode.NONE, "Empty")


def test_a_group_that_is_being_deleted_is_listed_until_that_is_committed() -> None:
    bench = Bench()
    commit(bench, 5)
    bench.log.holds = True
    deleted: Any = bench.groups.delete_group("g")
    assert listed(bench) == ["g"]
    bench.log.release(ErrorCode.REQUEST_TIMED_OUT)
    assert deleted.result(0) is not ErrorCode.NONE
    assert bench.groups.list_groups(["empty"], ["classic"]) == (ErrorCode.NONE, [GroupListing("g", "", "Empty", "classic")])
    bench.log.commit()
    assert bench.groups.describe_group("g").state == "Dead"
    assert listed(bench) == []


def test_a_group_that_always_commits_is_listed() -> None:
    """Its first commit is committed, a later one never is at the time of the question."""
    bench = Bench()
    bench.log.holds = True
    commit(bench, 1)
    for offset in range(2, 5):
        commit(bench, offset)
        bench.log.held.pop(0).set_result(ErrorCode.NONE)
        assert listed(bench) == ["g"]


def test_a_write_in_doubt_hides_its_own_group_only() -> None:
    bench = Bench(partitions=2)
    for number in range(20):
        commit(bench, number, f"g{number}")
    bench.log.holds = True
    commit(bench, 99, "g7")
    commit(bench, 99, "new")
    bench.log.release(ErrorCode.REQUEST_TIMED_OUT)
    assert [fetched(bench, f"g{number}") for number in range(20) if number != 7] == [*range(7), *range(8, 20)]
    description: Any = bench.groups.describe_group("new")
    hidden: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g7"), [PARTITION]))
    assert (description.error, hidden[0]) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    assert listed(bench) == sorted(f"g{number}" for number in range(20))
    bench.log.commit()
    assert fetched(bench, "g7") == fetched(bench, "new") == 99
    assert listed(bench) == sorted([*(f"g{number}" for number in range(20)), "new"])


@pytest.mark.parametrize("committed", [False, True])
def test_a_marker_in_doubt_hides_the_groups_of_its_transaction_only(committed: bool) -> None:
    bench = Bench()
    commit(bench, 1, "other")
    commit(bench, 1)
    producer = Producer(7, 0)
    value = OffsetCommitValue(offset=2)
    assert bench.groups.commit_transactional_offsets(Sender("g"), producer, None, {PARTITION: value}) is ErrorCode.NONE
    bench.log.holds = True
    bench.groups.end_transaction(0, producer, 0, committed)
    bench.log.release(ErrorCode.REQUEST_TIMED_OUT)
    hidden: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), [PARTITION]))
    assert (hidden[0], fetched(bench, "other")) == (ErrorCode.NOT_COORDINATOR, 1)
    bench.log.commit()
    assert fetched(bench) == (2 if committed else 1)


def test_the_end_of_a_loaded_log_hides_its_own_groups_only() -> None:
    bench = Bench()
    for group_id in ("kept", "changed", "deleted"):
        commit(bench, 1, group_id)
    bench.log.holds = True
    commit(bench, 2, "changed")
    commit(bench, 2, "new")
    bench.groups.delete_group("deleted")
    bench.reload(epoch=1)
    assert fetched(bench, "kept") == 1
    for group_id in ("changed", "new", "deleted"):
        hidden: Any = bench.groups.fetch_offsets(OffsetFetch(Sender(group_id), [PARTITION]))
        assert hidden[0] is ErrorCode.NOT_COORDINATOR
    assert listed(bench) == ["changed", "deleted", "kept"]
    bench.log.release()
    assert (fetched(bench, "changed"), fetched(bench, "new"), fetched(bench, "deleted")) == (2, 2, None)
    assert listed(bench) == ["changed", "kept", "new"]


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_groups_are_listed_once_they_are_committed_although_nobody_asks_for_them(is_reloaded: bool) -> None:
    bench = Bench()
    commit(bench, 1, "deleted")
    bench.log.holds = True
    commit(bench, 2, "new")
    bench.groups.delete_group("deleted")
    if is_reloaded:
        bench.reload(epoch=1)
    else:
        bench.log.release(ErrorCode.REQUEST_TIMED_OUT)
    assert listed(bench) == ["deleted"]
    bench.log.commit()
    assert listed(bench) == ["new"]


def test_an_append_that_completes_inside_another_operation_does_not_block() -> None:
    """The same thread holds the shard's lock when the older append's future is completed."""
    bench = Bench()
    bench.log.holds = True
    first = commit(bench, 1)
    held = bench.log.held.pop()
    append = bench.log.append

    def append_and_complete(partition: Any, batch: Any, guard: Any) -> Any:
        bench.log.append = append
        bench.log.holds = False
        held.set_result(ErrorCode.NONE)
        return append(partition, batch, guard)

    bench.log.append = append_and_complete
    assert commit(bench, 2) == 0
    assert first.result(0) == 0
    assert fetched(bench) == 2


def test_an_append_that_completes_after_the_partition_has_gone_is_still_answered() -> None:
    bench = Bench()
    bench.log.holds = True
    answer = commit(bench, 1)
    bench.groups.runtime.on_leadership_change([], [(0, 5)])
    bench.log.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert answer.result(0) == ErrorCode.NOT_COORDINATOR


def test_an_append_that_raises_is_an_error_of_the_operation() -> None:
    bench = Bench()

    def fail(*_: object) -> ErrorCode:
        raise ZeroDivisionError

    bench.log.append = fail  # type: ignore[assignment]
    assert commit(bench, 1) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert fetched(bench) is None


def test_a_callback_that_fails_after_the_replicas_have_the_records_is_answered() -> None:
    bench = Bench()
    bench.log.holds = True
    record = offset_commit("g", PARTITION.topic, PARTITION.partition, OffsetCommitValue(offset=1))
    answer: int | Future[int] = bench.runtime.execute("g", lambda _: Write([record], lambda _: 1 // 0))
    bench.log.release()
    assert isinstance(answer, Future)
    with pytest.raises(ZeroDivisionError):
        answer.result(0)


def test_a_timer_of_an_older_election_does_nothing() -> None:
    bench = Bench()
    bench.groups.join(join("g"))
    timers = len(bench.timer)
    assert timers
    bench.reload(epoch=1)
    bench.advance(10_000)
    assert bench.groups.describe_group("g").state == "Dead"


def test_stopped_coordinator_is_not_available() -> None:
    bench = Bench()
    bench.groups.shutdown()
    assert commit(bench, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.groups.list_groups((), ())[1] == []


def test_offsets_of_deleted_partitions_are_removed() -> None:
    bench = Bench(partitions=3)
    for index in range(9):
        commit(bench, index, f"g{index}")
    bench.delete_partitions([PARTITION])
    assert all(fetched(bench, f"g{index}") is None for index in range(9))
    bench.restart()
    assert bench.groups.list_groups((), ())[1] == []


def test_a_transaction_s_offsets_count_when_it_commits() -> None:
    bench = Bench()

    def pending(producer_id: Any, offset: Any) -> None:
        record = offset_commit("g", "t", 0, OffsetCommitValue(offset=offset)).simple(0)
        bench.log.batches[LOG].append(
            build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
        )

    commit(bench, 1)
    pending(7, 2)
    bench.restart()
    assert fetched(bench) == 1
    answer: Any = bench.groups.fetch_offsets(OffsetFetch(Sender("g"), [PARTITION], True))
    error, offsets = answer
    assert (error, offsets[PARTITION]) == (0, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    bench.log.batches[LOG].append(marker(7, commit=True))
    pending(8, 3)
    bench.log.batches[LOG].append(marker(8, commit=False))
    bench.restart()
    assert bench.groups.fetch_offsets(OffsetFetch(Sender("g"), [PARTITION], True))[1][PARTITION].offset == 2


def marker(producer_id: int, commit: bool) -> bytearray:
    return end_transaction_marker(commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)


@pytest.mark.medium
def test_many_threads_commit_at_once() -> None:
    bench = Bench(partitions=4)

    def work(number: Any) -> None:
        for offset in range(200):
            answer = commit(bench, offset, f"g{number % 5}")
            assert (answer.result(30) if isinstance(answer, Future) else answer) == 0

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(len(bench.log.records(TopicPartition(GROUP_METADATA_TOPIC, index))) for index in range(4)) == 1600
    assert [fetched(bench, f"g{index}") for index in range(5)] == [199] * 5


def test_futures_pass_failures_on() -> None:
    first: Future[Any] = Future()
    second: Future[Any] = Future()
    both = gather([first, 2, second], sum)  # type: ignore[arg-type]
    first.set_result(1)
    assert not both.done()
    second.set_result(3)
    assert both.result(0) == 6
    assert gather([1, 2], sum) == 3
    broken: Future[Any] = Future()
    chained = then(broken, lambda value: value)
    broken.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        chained.result(0)
