"""The share coordinator: its answers, its epochs, its records, and what it deletes from its log."""

from concurrent.futures import Future
from typing import Any

import pytest

from tests.support.share_bench import KEY, ORDERS, ShareBench, state_of
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.share.share_partition_key import SharePartitionKey
from twisted_kafka.share_coordinator import share_coordinator_shard
from twisted_kafka.share_coordinator.share_state import SNAPSHOT, UPDATE

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


@pytest.fixture
def bench() -> ShareBench:
    return ShareBench()


def test_a_state_is_initialized_written_and_read(bench: ShareBench) -> None:
    assert not bench.initialize(state_epoch=3).error_code
    assert state_of(bench.read(leader_epoch=0)) == (3, -1, [])
    assert not bench.write((0, 9, ACKNOWLEDGED, 1), (10, 12, AVAILABLE, 1), start_offset=0, state_epoch=3, count=10).error_code
    assert state_of(bench.read()) == (3, 0, [(0, 9, ACKNOWLEDGED, 1), (10, 12, AVAILABLE, 1)])
    summary = bench.summary()
    assert (summary.state_epoch, summary.start_offset, summary.delivery_complete_count) == (3, 0, 10)


def test_what_was_written_is_there_after_a_restart(bench: ShareBench) -> None:
    bench.initialize(start_offset=5)
    bench.read(leader_epoch=2)
    bench.write((5, 9, ARCHIVED, 5), leader_epoch=2)
    before = state_of(bench.read(leader_epoch=2))
    bench.restart()
    assert state_of(bench.read(leader_epoch=2)) == before == (1, 5, [(5, 9, ARCHIVED, 5)])
    assert bench.write(leader_epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_old_epochs_are_fenced(bench: ShareBench) -> None:
    bench.initialize(state_epoch=4)
    assert not bench.read(leader_epoch=7).error_code
    assert bench.read(leader_epoch=6).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert bench.write(leader_epoch=6, state_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert bench.write(leader_epoch=7, state_epoch=3).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert bench.initialize(state_epoch=3).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert not bench.initialize(state_epoch=4, start_offset=0).error_code


def test_negative_epochs_are_refused(bench: ShareBench) -> None:
    assert bench.initialize(state_epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    bench.initialize()
    assert bench.read(leader_epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    assert bench.write(leader_epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    assert bench.write(state_epoch=-1).error_code == ErrorCode.INVALID_REQUEST


def test_what_was_not_initialized_is_neither_read_nor_written(bench: ShareBench) -> None:
    assert bench.read().error_code == ErrorCode.INVALID_REQUEST
    assert bench.write((0, 1, ACKNOWLEDGED, 1)).error_code == ErrorCode.INVALID_REQUEST
    assert not bench.delete().error_code
    summary = bench.summary()
    assert (summary.error_code, summary.state_epoch, summary.leader_epoch, summary.start_offset) == (0, 0, 0, -1)
    assert bench.records() == []


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (SharePartitionKey("group", NO_UUID, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (SharePartitionKey("group", ORDERS, -1), ErrorCode.INVALID_REQUEST),
        (SharePartitionKey("group", ORDERS, 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (SharePartitionKey("group", b"x" * 16, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_does_not_exist_is_refused(bench: ShareBench, key: SharePartitionKey, error: ErrorCode) -> None:
    assert bench.initialize(key=key).error_code == error
    assert bench.delete(key=key).error_code == error
    assert bench.summary(key=key).error_code == error
    assert bench.read(key=key).error_code == ErrorCode.INVALID_REQUEST
    assert bench.records() == []


@pytest.mark.parametrize("batch", [(5, 4, 2, 1), (-1, 4, 2, 1), (0, 4, 7, 1)])
def test_a_state_that_no_leader_writes_is_refused(bench: ShareBench, batch: tuple[int, int, int, int]) -> None:
    bench.initialize()
    assert bench.write(batch).error_code == ErrorCode.INVALID_REQUEST
    assert len(bench.records()) == 1


def test_a_state_has_at_most_so_many_batches_as_a_record_can_hold(bench: ShareBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_coordinator_shard, "MAX_BATCHES", 4)
    bench.initialize(start_offset=0)
    runs = [(offset, offset, AVAILABLE, 1) for offset in range(0, 20, 2)]
    assert not bench.write(*runs[:3], start_offset=0).error_code
    assert bench.write(*runs[:5], start_offset=0).error_code == ErrorCode.INVALID_REQUEST
    assert bench.write(*runs[3:5], start_offset=0).error_code == ErrorCode.INVALID_REQUEST
    assert state_of(bench.read()) == (1, 0, runs[:3])
    assert not bench.write(*runs[3:5], start_offset=2).error_code
    assert state_of(bench.read()) == (1, 2, runs[1:5])


def test_the_last_entry_of_a_share_partition_counts(bench: ShareBench) -> None:
    bench.initialize(start_offset=0)
    request = bench.write_request((0, 3, ACKNOWLEDGED, 1), start_offset=0)
    request.topics += bench.write_request((0, 3, ARCHIVED, 1), start_offset=0).topics
    response: Any = bench.shares.write_state(request)
    assert [[each.partition for each in topic.partitions] for topic in response.results] == [[KEY.partition]]
    assert state_of(bench.read()) == (1, 0, [(0, 3, ARCHIVED, 1)])


def test_a_write_that_comes_late_does_not_move_the_start_offset_back(bench: ShareBench) -> None:
    bench.initialize(start_offset=0)
    bench.write((0, 4, ACKNOWLEDGED, 1), start_offset=0)
    bench.write((5, 9, ACKNOWLEDGED, 1), start_offset=5)
    bench.write((0, 4, ACKNOWLEDGED, 1), start_offset=0)
    assert state_of(bench.read()) == (1, 5, [(5, 9, ACKNOWLEDGED, 1)])
    bench.restart()
    assert state_of(bench.read()) == (1, 5, [(5, 9, ACKNOWLEDGED, 1)])


def test_the_count_of_complete_deliveries_is_that_of_the_last_start_offset(bench: ShareBench) -> None:
    """An old version of the request has no count (-1), and Kafka writes a late count no more than a late start offset."""
    bench.initialize(start_offset=0)
    for start_offset, count in ((0, -1), (0, 5), (0, -1), (0, 3), (-1, 7), (4, -1), (4, 1), (2, 9), (6, 0)):
        bench.write((9, 9, ACKNOWLEDGED, 1), start_offset=start_offset, count=count)
    written = [(record.value.start_offset, record.value.delivery_complete_count) for record in bench.records()]
    assert written == [(0, 0), (0, 0), (0, 5), (0, 5), (0, 5), (0, 5), (4, -1), (4, 1), (4, 1), (6, 0)]


def test_a_deleted_state_leaves_a_tombstone(bench: ShareBench) -> None:
    bench.initialize()
    bench.write((0, 4, ACKNOWLEDGED, 1))
    assert not bench.delete().error_code
    assert bench.read().error_code == ErrorCode.INVALID_REQUEST
    assert bench.records()[-1].value is None
    bench.restart()
    assert bench.read().error_code == ErrorCode.INVALID_REQUEST


def test_after_enough_updates_the_whole_state_is_written(bench: ShareBench) -> None:
    bench = ShareBench(updates_per_snapshot=2)
    bench.initialize()
    for offset in range(5):
        bench.write((offset, offset, ACKNOWLEDGED, 1), start_offset=0, count=offset + 1)
    kinds = [(record.kind, record.value.snapshot_epoch) for record in bench.records()]
    assert kinds == [(SNAPSHOT, 0), (UPDATE, 0), (UPDATE, 0), (SNAPSHOT, 1), (UPDATE, 1), (UPDATE, 1)]
    assert bench.records()[3].value.delivery_complete_count == 3
    assert state_of(bench.read()) == (1, 0, [(0, 4, ACKNOWLEDGED, 1)])


def test_a_leader_that_reads_in_a_new_epoch_writes_it(bench: ShareBench) -> None:
    bench.initialize()
    bench.read(leader_epoch=0)
    assert len(bench.records()) == 1
    bench.read(leader_epoch=1)
    bench.read(leader_epoch=1)
    assert [record.kind for record in bench.records()] == [SNAPSHOT, UPDATE]


def test_what_snapshots_replace_is_deleted() -> None:
    bench = ShareBench(updates_per_snapshot=1, prune_interval_ms=1_000, cold_snapshot_interval_ms=10_000)
    other = KEY._replace(partition=1)
    bench.initialize()
    bench.initialize(key=other)
    bench.write((0, 0, ACKNOWLEDGED, 1))
    bench.write((1, 1, ACKNOWLEDGED, 1))  # a snapshot at offset 3
    assert deleted_before(bench, 1_000) == 1  # the other share partition needs offset 1
    assert deleted_before(bench, 9_000) == 1
    assert deleted_before(bench, 2_000) == 4  # it is cold, and has a snapshot at offset 4; the first one has another at 5
    bench.restart()
    assert state_of(bench.read()) == (1, -1, [(0, 1, ACKNOWLEDGED, 1)])
    assert state_of(bench.read(key=other)) == (1, -1, [])


def deleted_before(bench: ShareBench, ms: int) -> int:
    bench.advance(ms)
    return bench.first_offset()


def test_cold_states_are_written_again_only_while_others_are_written() -> None:
    bench = ShareBench(cold_snapshot_interval_ms=1_000)
    bench.initialize()
    for _ in range(5):
        bench.advance(1_000)
    assert len(bench.records()) == 2


def test_the_states_of_a_deleted_topic_are_removed(bench: ShareBench) -> None:
    bench.initialize()
    bench.initialize(key=KEY._replace(group_id="other"))
    bench.topics.change({"payments": 1})
    bench.shares.on_topics_deleted()
    bench.scheduler.run_due()
    assert [record.value for record in bench.records()[2:]] == [None, None]
    assert [len(shard) for shard in bench.shares.runtime.peek()] == [0]


def test_states_that_could_not_be_removed_go_with_the_next_pruning() -> None:
    bench = ShareBench(prune_interval_ms=1_000)
    bench.initialize()
    bench.topics.change({"payments": 1})
    bench.log.fail_next = [ErrorCode.NOT_ENOUGH_REPLICAS]
    bench.shares.on_topics_deleted()
    bench.scheduler.run_due()
    assert [len(shard) for shard in bench.shares.runtime.peek()] == [1]
    bench.advance(1_000)
    assert [len(shard) for shard in bench.shares.runtime.peek()] == [0]


def test_an_answer_waits_for_the_replicas(bench: ShareBench) -> None:
    bench.initialize()
    bench.log.holds = True
    pending: Any = bench.write((0, 4, ACKNOWLEDGED, 1))
    assert isinstance(pending, Future)
    reading: Any = bench.read()
    assert isinstance(reading, Future)
    bench.log.release()
    assert not pending.result().results[0].partitions[0].error_code
    assert state_of(reading.result().results[0].partitions[0]) == (1, -1, [(0, 4, ACKNOWLEDGED, 1)])


def test_a_write_that_replicas_do_not_confirm_fails(bench: ShareBench) -> None:
    bench.initialize()
    bench.log.holds = True
    pending: Any = bench.write((0, 4, ACKNOWLEDGED, 1))
    bench.log.release(ErrorCode.REQUEST_TIMED_OUT)
    assert pending.result().results[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_broker_that_does_not_lead_says_so(bench: ShareBench) -> None:
    bench.shares.runtime.on_leadership_change([], [(0, 0)])
    assert bench.read().error_code == ErrorCode.NOT_COORDINATOR
    bench.shares.shutdown()
    assert bench.read().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
