from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.replication_harness import BROKER, OTHER, TOPIC, TP, Harness, batch_of, follower_fetches
from twisted_kafka.log.validation.types import AppendOrigin
from twisted_kafka.protocol.errors import ErrorCode, NotLeaderOrFollowerError
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.partition import LeaderState, Partition, PartitionHost

BOTH = (BROKER, OTHER)


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def test_offsets_follow_each_other_and_are_readable_at_once(h: Harness) -> None:
    partition = h.lead()
    assert (h.append(b"a", b"b").base_offset, h.append(b"c").base_offset) == (0, 2)
    assert partition.log.high_watermark == partition.log.log_end_offset == 3


@pytest.mark.parametrize("committed", [False, True])
def test_what_was_appended_before_another_led_is_not_acknowledged(h: Harness, committed: bool) -> None:
    partition = h.lead(replicas=BOTH, epoch=1)
    genuine = partition.log.append_as_leader

    def append(*args: Any, **options: Any) -> Any:
        partition.log.append_as_leader = genuine
        info = genuine(*args, **options)
        # The handler stands still here. The other broker leads meanwhile, has none of it, and this one leads again.
        h.order(leader=OTHER, replicas=BOTH, epoch=2, version=1)
        partition.truncate_to(0, 2)
        h.order(replicas=BOTH, epoch=3, version=2)
        h.append(b"other")
        if committed:
            follower_fetches(h, 1, epoch=3)
        return info

    partition.log.append_as_leader = append
    answer = h.append(b"lost", acks=-1)
    if not committed:
        assert answer.done(), "there is nothing to wait for"
    assert answer.result(0)[TP].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


class Moving:
    """A log during whose next reading of the high watermark something happens."""

    def __init__(self, log: Any, happen: Callable[[], object]) -> None:
        self._log = log
        self._happen: Callable[[], object] | None = happen

    def __getattr__(self, name: str) -> Any:
        if name == "high_watermark" and self._happen is not None:
            happen, self._happen = self._happen, None
            happen()
        return getattr(self._log, name)


def follow_and_advance(partition: Partition) -> None:
    """Follow a leader that has other records, and has committed them."""
    partition.make_follower(LeaderState(1, OTHER, 2, BOTH, BOTH, 1))
    partition.log.update_high_watermark(partition.log.log_end_offset)


def test_what_another_leader_committed_is_not_taken_for_what_was_appended_here(h: Harness) -> None:
    partition = h.lead(replicas=BOTH, epoch=1)
    leader_since = partition.leader_since
    h.append(b"lost")
    follow_and_advance(partition)
    assert not partition.has_committed(0, leader_since)


def test_leadership_that_is_lost_while_a_waiting_produce_is_looked_at_is_noticed(h: Harness) -> None:
    partition: Any = h.lead(replicas=BOTH, epoch=1)
    answer = h.append(b"lost", acks=-1)
    partition.log = Moving(partition.log, lambda: follow_and_advance(partition))
    h.replicas.purgatories.produce.check_and_complete(TP)
    assert answer.result(0)[TP].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_result_says_how_many_records_and_where_the_log_begins(h: Harness) -> None:
    h.lead()
    result = h.append(b"a", b"b")
    assert (result.error, result.record_count, result.log_start_offset, result.log_append_time_ms) == (0, 2, 0, -1)


@pytest.mark.parametrize("acks", [-2, 2, 17])
def test_other_acks_are_refused(h: Harness, acks: Any) -> None:
    assert h.append(b"a", acks=acks).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "as in Kafka, this is said first"
    h.lead()
    assert h.append(b"a", acks=acks).error == ErrorCode.INVALID_REQUIRED_ACKS


def test_acks_all_with_one_replica_is_answered_at_once(h: Harness) -> None:
    h.lead()
    assert h.append(b"a", acks=-1).base_offset == 0


def test_unknown_partition_another_brokers_and_one_that_is_followed(h: Harness) -> None:
    assert h.append(b"a").error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    h.announce(leader=OTHER, replicas=(OTHER,))
    assert h.append(b"a").error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    h.order(leader=OTHER, replicas=BOTH)
    assert h.append(b"a").error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_is_refused_is_counted_by_its_fault(h: Harness) -> None:
    h.lead(config={"cleanup.policy": "compact"})
    damaged = batch_of(b"a")
    damaged[-1] ^= 1
    without_sequence = batch_of(b"a", producer_id=1, producer_epoch=0)
    old = [bytes(batch_of(b"a", magic=magic)) for magic in (1, 0)]
    for data, error, meter in (
        (damaged, ErrorCode.CORRUPT_MESSAGE, "InvalidMessageCrcRecordsPerSec"),
        (without_sequence, ErrorCode.INVALID_RECORD, "InvalidOffsetOrSequenceRecordsPerSec"),
        (bytearray(b"".join(old)), ErrorCode.INVALID_RECORD, "InvalidMagicNumberRecordsPerSec"),
        (batch_of(b"a"), ErrorCode.INVALID_RECORD, "NoKeyCompactedTopicRecordsPerSec"),
    ):
        results: Any = h.replicas.appender.append(1000, 1, {TP: data})
        assert results[TP].error == error
        assert h.metrics.value("BrokerTopicMetrics", meter) == 1


def test_internal_topics_need_to_be_allowed(h: Harness) -> None:
    internal = TopicPartition("__consumer_offsets", 0)
    h.lead(internal.topic)
    assert h.append(b"a", topic_partition=internal).error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert h.append(b"a", topic_partition=internal, internal_topics_allowed=True).error == 0


def test_a_partition_is_led_by_nobody_at_first(h: Harness) -> None:
    led = h.lead()
    host = PartitionHost(BROKER, h.clock, 1000, h.logs, h.metadata.alive)
    partition = Partition(led.log, led.topic_id, led.stats, host)
    assert (partition.is_leader, partition.leader_id, partition.isr) == (False, -1, frozenset())
    with pytest.raises(NotLeaderOrFollowerError):
        partition.append_as_leader(batch_of(b"a"), AppendOrigin.CLIENT, 1)


def test_one_partitions_failure_is_its_own(h: Harness) -> None:
    h.lead()
    other = TopicPartition(TOPIC, 1)
    results: Any = h.replicas.appender.append(0, 1, {other: batch_of(b"x"), TP: batch_of(b"y")})
    assert [results[tp].error for tp in (other, TP)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


def test_a_corrupt_batch_is_refused_and_nothing_is_written(h: Harness) -> None:
    partition = h.lead()
    batch = batch_of(b"abc")
    batch[-1] ^= 1
    results: Any = h.replicas.appender.append(0, 1, {TP: batch})
    assert results[TP].error == ErrorCode.CORRUPT_MESSAGE
    assert partition.log.log_end_offset == 0


def test_too_few_in_sync_replicas(h: Harness) -> None:
    h.lead(config={"min.insync.replicas": "2"}, replicas=BOTH, isr=(BROKER,))
    assert h.append(b"a", acks=-1).error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert h.append(b"a", acks=1).error == 0


def test_the_minimum_is_never_more_than_the_replicas_there_are(h: Harness) -> None:
    h.lead(config={"min.insync.replicas": "3"})
    assert h.append(b"a", acks=-1).error == 0
    h.lead("two", config={"min.insync.replicas": "3"}, replicas=BOTH)
    assert isinstance(h.append(b"a", acks=-1, topic_partition=TopicPartition("two", 0)), Future)


def test_exactly_the_minimum_of_in_sync_replicas_is_enough(h: Harness) -> None:
    h.lead(config={"min.insync.replicas": "2"}, replicas=(BROKER, OTHER, 3), isr=BOTH)
    answer = h.append(b"a", acks=-1)
    follower_fetches(h, 1)
    assert answer.result(0)[TP].error == 0


class TestWithAFollower:
    def test_broker_0_is_a_follower_like_any_other(self, h: Harness) -> None:
        partition = h.lead(replicas=(BROKER, 0))
        h.append(b"a")
        assert follower_fetches(h, 0, replica=0).size_bytes > 0, "it reads beyond the high watermark"
        assert partition.log.high_watermark == 0
        follower_fetches(h, 1, replica=0)
        assert partition.log.high_watermark == 1
        h.order(leader=0, epoch=1, replicas=(BROKER, 0), version=1)
        assert follower_fetches(h, 0, replica=0).error == ErrorCode.NOT_LEADER_OR_FOLLOWER, "it reads from the leader only"

    def test_the_high_watermark_is_what_all_in_sync_replicas_have(self, h: Harness) -> None:
        partition = h.lead(replicas=BOTH)
        h.append(b"a", b"b")
        assert partition.log.high_watermark == 0
        follower_fetches(h, 1)
        assert partition.log.high_watermark == 1
        follower_fetches(h, 2)
        assert partition.log.high_watermark == 2

    def test_acks_all_waits_for_the_follower(self, h: Harness) -> None:
        h.lead(replicas=BOTH)
        answer = h.append(b"a", acks=-1)
        assert isinstance(answer, Future)
        assert not answer.done()
        follower_fetches(h, 1)
        assert answer.result(0)[TP].error == 0
        assert answer.result(0)[TP].base_offset == 0

    def test_acks_all_times_out(self, h: Harness) -> None:
        h.lead(replicas=BOTH)
        answer = h.append(b"a", acks=-1, timeout_ms=300)
        h.advance_ms(299)
        assert not answer.done()
        h.advance_ms(2)
        assert answer.result(0)[TP].error == ErrorCode.REQUEST_TIMED_OUT

    def test_acks_all_fails_when_the_leader_changes(self, h: Harness) -> None:
        h.lead(replicas=BOTH)
        answer = h.append(b"a", acks=-1)
        h.order(leader=OTHER, epoch=1, replicas=BOTH, version=1)
        assert answer.result(0)[TP].error == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_in_sync_replicas_fell_below_the_minimum_after_the_append(self, h: Harness) -> None:
        h.lead(config={"min.insync.replicas": "2"}, replicas=BOTH)
        partition = h.replicas.get_partition(TP)
        answer = h.append(b"a", acks=-1)
        partition.log.update_high_watermark(1)
        h.order(epoch=0, replicas=BOTH, isr=(BROKER,), version=1)
        assert answer.result(0)[TP].error == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def test_a_replica_out_of_sync_is_not_waited_for(self, h: Harness) -> None:
        partition = h.lead(replicas=BOTH, isr=(BROKER,))
        h.append(b"a")
        assert partition.log.high_watermark == 1

    def test_a_broker_without_replica_may_not_fetch_as_follower(self, h: Harness) -> None:
        h.lead(replicas=BOTH)
        assert follower_fetches(h, 0, replica=9).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_unexpected_failures_are_counted_expected_ones_not(h: Harness) -> None:
    h.lead(config={"min.insync.replicas": "2"}, replicas=BOTH, isr=(BROKER,))
    h.append(b"a", acks=-1)
    h.append(b"a", acks=-1)
    h.append(b"a", topic_partition=TopicPartition("nowhere", 0))
    assert h.metrics.value("BrokerTopicMetrics", "FailedProduceRequestsPerSec") == 2
    assert h.metrics.value("BrokerTopicMetrics", "FailedProduceRequestsPerSec", topic=TOPIC) == 2
    assert h.metrics.value("BrokerTopicMetrics", "TotalProduceRequestsPerSec") == 3


def test_requests_bytes_and_records_are_counted_for_the_topic_and_for_all(h: Harness) -> None:
    h.lead()
    h.lead("u")
    sizes = [len(batch_of(b"a", b"b")), len(batch_of(b"c"))]
    h.append(b"a", b"b")
    h.append(b"a", b"b")
    h.append(b"c", topic_partition=TopicPartition("u", 0))
    h.append(b"a", topic_partition=TopicPartition("nowhere", 0))

    def counts(**tags: str) -> list[object]:
        names = ("TotalProduceRequestsPerSec", "MessagesInPerSec", "BytesInPerSec")
        return [h.metrics.value("BrokerTopicMetrics", name, **tags) for name in names]

    assert counts(topic=TOPIC) == [2, 4, 2 * sizes[0]]
    assert counts(topic="u") == [1, 1, sizes[1]]
    assert counts() == [4, 5, 2 * sizes[0] + sizes[1]]


def test_only_the_bytes_of_batches_that_are_too_large_count_as_rejected(h: Harness) -> None:
    h.lead(config={"max.message.bytes": "200"})
    large = batch_of(b"x" * 300)
    assert h.append(b"x" * 300).error == ErrorCode.MESSAGE_TOO_LARGE
    damaged = batch_of(b"a")
    damaged[-1] ^= 1
    h.replicas.appender.append(0, 1, {TP: damaged})
    for tags in ({}, {"topic": TOPIC}):
        assert h.metrics.value("BrokerTopicMetrics", "BytesRejectedPerSec", **tags) == len(large)


def test_a_refused_batch_is_answered_with_its_bad_records_and_the_start_of_the_log(h: Harness) -> None:
    """KIP-467: the producer learns which records were refused and why."""
    partition = h.lead(config={"cleanup.policy": "compact,delete"})
    keyed = bytearray(build_batch([SimpleRecord(1_700_000_000_000, b"k", b"v")]))
    h.replicas.appender.append(0, 1, {TP: keyed})
    partition.delete_records(1)
    result = h.append(b"keyless")
    assert (result.error, result.base_offset, result.log_start_offset) == (ErrorCode.INVALID_RECORD, -1, 1)
    assert [index for index, _ in result.record_errors] == [0]
    assert result.error_message
    h.lead("u", config={"min.insync.replicas": "2"}, replicas=BOTH, isr=(BROKER,))
    result = h.append(b"a", topic_partition=TopicPartition("u", 0), acks=-1)
    assert (list(result.record_errors), result.error_message, result.log_start_offset) == ([], None, 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(5, "Input/output error"), ErrorCode.KAFKA_STORAGE_ERROR), (RuntimeError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_what_goes_wrong_in_the_log_is_its_partitions_error(
    h: Harness, monkeypatch: pytest.MonkeyPatch, error: Exception, code: ErrorCode
) -> None:
    partition = h.lead()
    h.append(b"a")
    partition.delete_records(1)

    def fail(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(partition.log, "append_as_leader", fail)
    result = h.append(b"a")
    assert (result.error, result.base_offset) == (code, -1)
    assert result.log_start_offset == (-1 if code == ErrorCode.KAFKA_STORAGE_ERROR else 1)


def topics_with_metrics(h: Harness) -> set[str]:
    return {value for name, _ in h.metrics.items() if name.type == "BrokerTopicMetrics" for _, value in name.tags}


def test_topics_that_there_are_not_have_no_metrics(h: Harness) -> None:
    partition = h.lead()
    for number in range(100):
        unknown = TopicPartition(f"no-such-{number}", 0)
        assert h.append(b"a", topic_partition=unknown).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topics_with_metrics(h) == set()
    assert h.metrics.value("BrokerTopicMetrics", "TotalProduceRequestsPerSec") == 100
    h.append(b"a")
    assert topics_with_metrics(h) == {TOPIC}
    h.replicas.stats.remove(TOPIC)
    partition.stats.mark("FailedProduceRequestsPerSec", 1)  # by a request that was under way
    assert topics_with_metrics(h) == set()
