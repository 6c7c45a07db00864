import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.replication_harness import BROKER, OTHER, TP, Harness
from twisted_kafka.log.results import TimestampAndOffset
from twisted_kafka.protocol.errors import (
    ErrorCode,
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    UnknownTopicOrPartitionError,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.replica import Replica
from twisted_kafka.waiting.futures import when_done

BOTH = (BROKER, OTHER)
T0 = 1_700_000_000_000


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    h = Harness(tmp_path)
    h.lead(epoch=2)
    for step, value in enumerate((b"a", b"b", b"c")):
        h.append(value, batch_options={"timestamp_ms": T0 + 1000 * step})
    return h


def ask(
    h: Harness, timestamp: int, *, replica: int = -1, isolation: int = 0, epoch: int = -1, tp: Any = TP
) -> TimestampAndOffset | None:
    return h.replicas.offsets.list_offset(tp, timestamp, replica, isolation, epoch)


def test_special_timestamps(h: Harness) -> None:
    h.replicas.get_partition(TP).delete_records(1)
    assert ask(h, -1) == (-1, 3, 2)
    assert ask(h, -2) == ask(h, -4) == (-1, 1, 2)
    assert ask(h, -3) == (T0 + 2000, 2, 2)
    assert ask(h, -5) == (-1, -1, -1)


def test_by_time(h: Harness) -> None:
    assert ask(h, T0 + 500) == (T0 + 1000, 1, 2)
    assert ask(h, T0 + 5000) is None


def test_an_empty_log(h: Harness) -> None:
    h.lead("empty", epoch=1)
    tp = TopicPartition("empty", 0)
    assert ask(h, -1, tp=tp) == (-1, 0, 1)
    assert ask(h, -3, tp=tp) is None


def test_a_log_without_any_leader_epoch_begins_in_none(h: Harness) -> None:
    h.order("followed", leader=OTHER, replicas=BOTH)
    tp = TopicPartition("followed", 0)
    assert ask(h, -2, tp=tp, replica=-2) == (-1, 0, -1)


def test_a_reader_of_committed_records_sees_the_last_stable_offset(h: Harness) -> None:
    h.begin_transaction(b"d")
    assert [ask(h, -1, isolation=isolation).offset for isolation in (0, 1)] == [4, 3]
    assert [ask(h, T0 + 2001, isolation=isolation) for isolation in (0, 1)] == [None, None]
    h.end_transaction()
    assert [ask(h, -1, isolation=isolation).offset for isolation in (0, 1)] == [5, 5]


def test_consumers_see_the_high_watermark_followers_the_end(h: Harness) -> None:
    h.lead("r", replicas=BOTH)
    tp = TopicPartition("r", 0)
    h.append(b"a", topic_partition=tp)
    assert ask(h, -1, tp=tp).offset == 0
    assert ask(h, -1, tp=tp, replica=OTHER).offset == 1
    assert ask(h, T0, tp=tp) is None
    assert ask(h, T0, tp=tp, replica=OTHER).offset == 0


def test_a_new_leader_does_not_know_yet(h: Harness, tmp_path: Path) -> None:
    h.lead("r", replicas=BOTH)
    tp = TopicPartition("r", 0)
    h.append(b"a", topic_partition=tp)
    h.lead("r", replicas=BOTH, epoch=1, version=1)
    with pytest.raises(OffsetNotAvailableError):
        ask(h, -1, tp=tp)
    with pytest.raises(OffsetNotAvailableError):
        ask(h, T0 + 9999, tp=tp)
    assert ask(h, -2, tp=tp).offset == 0


def test_who_may_ask(h: Harness) -> None:
    with pytest.raises(FencedLeaderEpochError):
        ask(h, -1, epoch=1)
    with pytest.raises(UnknownTopicOrPartitionError):
        ask(h, -1, tp=TopicPartition("nowhere", 0))
    h.order(leader=OTHER, epoch=3, replicas=BOTH, version=1)
    with pytest.raises(NotLeaderOrFollowerError):
        ask(h, -1)
    assert ask(h, -1, replica=-2).offset == 3  # a tool for debugging


class TestSegmentStarts:
    def starts(self, h: Harness, timestamp: int, count: int = 10, replica: int = -1) -> list[int | Any]:
        return h.replicas.offsets.list_offsets_before(TP, timestamp, count, replica)

    @pytest.fixture
    def h(self, h: Harness) -> Harness:
        log = h.replicas.get_partition(TP).log
        log.roll()
        h.append(b"d")
        h.clock.advance_ms(60_000)
        for number, segment in enumerate(log.segments):
            os.utime(segment.path, (T0 / 1000 + number, T0 / 1000 + number))
        return h

    def test_latest_and_earliest(self, h: Harness) -> None:
        assert self.starts(h, -1) == [4, 3, 0]
        assert self.starts(h, -1, count=1) == [4]
        assert self.starts(h, -2) == [0]

    def test_no_more_than_asked_for(self, h: Harness) -> None:
        assert [self.starts(h, -1, count=count) for count in (0, -1, 2, 3)] == [[], [], [4, 3], [4, 3, 0]]

    @pytest.mark.medium
    def test_an_empty_log_has_one_start(self, h: Harness) -> None:
        h.lead("empty")
        assert h.replicas.offsets.list_offsets_before(TopicPartition("empty", 0), -1, 10, -1) == [0]

    def test_only_tools_ask_a_follower(self, h: Harness) -> None:
        h.order(leader=OTHER, epoch=3, replicas=BOTH, version=1)
        with pytest.raises(NotLeaderOrFollowerError):
            self.starts(h, -1)
        assert self.starts(h, -1, replica=-2) == [4, 3, 0]

    def test_by_time_of_change(self, h: Harness) -> None:
        assert self.starts(h, T0 + 500) == self.starts(h, T0) == [0]
        assert self.starts(h, T0 + 1500) == [3, 0]
        assert self.starts(h, T0 - 1) == []

    def test_a_consumer_sees_at_most_the_high_watermark(self, h: Harness) -> None:
        log = h.replicas.get_partition(TP).log
        log.update_high_watermark(2)
        assert self.starts(h, -1) == [2, 0]
        assert self.starts(h, -1, replica=OTHER) == [4, 3, 0]
        log.update_high_watermark(3)
        assert self.starts(h, -1) == [3, 3, 0], "as with Kafka, the high watermark is added to the starts up to it"


class TestDeletingRecords:
    def delete(self, h: Harness, offset: int, *, tp: Any = TP, timeout_ms: int = 1000) -> Any:
        return when_done(h.replicas.offsets.delete_records(timeout_ms, {tp: offset}), lambda results: results[tp])

    def test_up_to_an_offset_and_to_the_high_watermark(self, h: Harness) -> None:
        assert self.delete(h, 1).low_watermark == 1
        assert self.delete(h, 0).low_watermark == 1
        assert self.delete(h, -1).low_watermark == 3
        assert h.replicas.get_partition(TP).log.log_start_offset == 3

    @pytest.mark.parametrize("offset", [-2, 4])
    def test_out_of_range(self, h: Harness, offset: int) -> None:
        result = self.delete(h, offset)
        assert (result.error, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    def test_refused(self, h: Harness) -> None:
        h.lead("compacted", config={"cleanup.policy": "compact"})
        h.lead("__consumer_offsets")
        assert self.delete(h, 0, tp=TopicPartition("compacted", 0)).error == ErrorCode.POLICY_VIOLATION
        assert self.delete(h, 0, tp=TopicPartition("__consumer_offsets", 0)).error == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert self.delete(h, 0, tp=TopicPartition("nowhere", 0)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.delete(h, 0, tp=TopicPartition("__transaction_state", 0)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.fixture
    def replicated(self, h: Harness) -> TopicPartition:
        h.lead("r", replicas=BOTH, isr=(BROKER,))
        tp = TopicPartition("r", 0)
        h.append(b"a", b"b", topic_partition=tp)
        return tp

    def test_it_waits_for_the_followers_logs(self, h: Harness, replicated: TopicPartition) -> None:
        answer = self.delete(h, 1, tp=replicated)
        follower: Replica = h.replicas.get_partition(replicated).remote_replicas[OTHER]
        follower.fetched(2, 1, T0, 2)
        h.replicas.purgatories.check_all(replicated)
        assert (answer.result(0).error, answer.result(0).low_watermark) == (0, 1)

    def test_what_is_not_reached_in_time_does_not_fail_the_others(self, h: Harness, replicated: TopicPartition) -> None:
        other = TopicPartition("s", 0)
        h.lead("s", replicas=BOTH, isr=(BROKER,))
        h.append(b"a", topic_partition=other)
        answer = h.replicas.offsets.delete_records(1000, {replicated: 1, other: 1, TP: 1})
        assert isinstance(answer, Future)
        h.replicas.get_partition(other).remote_replicas[OTHER].fetched(1, 1, T0, 1)
        h.replicas.purgatories.check_all(other)
        assert not answer.done()
        h.advance_ms(1001)
        errors = {tp: (result.error, result.low_watermark) for tp, result in answer.result(0).items()}
        assert errors == {replicated: (ErrorCode.REQUEST_TIMED_OUT, -1), other: (0, 1), TP: (0, 1)}

    def test_it_times_out(self, h: Harness, replicated: TopicPartition) -> None:
        answer = self.delete(h, 1, tp=replicated)
        h.advance_ms(1001)
        assert answer.result(0).error == ErrorCode.REQUEST_TIMED_OUT

    def test_it_fails_when_the_leader_changes(self, h: Harness, replicated: TopicPartition) -> None:
        answer = self.delete(h, 1, tp=replicated)
        h.order("r", leader=OTHER, epoch=1, replicas=BOTH, version=1)
        assert answer.result(0).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_end_of_an_epoch(h: Harness) -> None:
    h.lead(epoch=5, version=1)
    h.append(b"d")
    ends = [h.replicas.offsets.end_offset_for_epoch(TP, -1, epoch) for epoch in (2, 4, 5, 6)]
    assert ends == [(2, 3), (2, 3), (5, 4), (-1, -1)]
    with pytest.raises(FencedLeaderEpochError):
        h.replicas.offsets.end_offset_for_epoch(TP, 2, 2)
    h.order(leader=OTHER, epoch=6, replicas=BOTH, version=2)
    with pytest.raises(NotLeaderOrFollowerError):
        h.replicas.offsets.end_offset_for_epoch(TP, -1, 2)
