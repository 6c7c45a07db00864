"""Appends of several clients to one partition at once: how they are counted, and how each waits.

That the results are those of one append after the other is tested in tests/log and tests/server/apis/data/test_produce_together.py.
"""

from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.support.replication_harness import BROKER, OTHER, TOPIC, TP, Harness, batch_of, follower_fetches
from twisted_kafka.log import unified_log
from twisted_kafka.log.validation.log_validator import validate_and_assign_offsets
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.operations.purgatories import Purgatories

BOTH = (BROKER, OTHER)


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def append_each(h: Harness, *each: Any, acks: int = 1, timeout_ms: int = 1000, to: TopicPartition = TP) -> list[Any]:
    batches = [(records if isinstance(records, bytearray) else batch_of(records), timeout_ms) for records in each]
    return list(h.replicas.appender.append_each(to, acks, batches))


def corrupt() -> bytearray:
    damaged = batch_of(b"damaged")
    damaged[-1] ^= 1
    return damaged


def meter(h: Harness, name: str, **tags: str) -> Any:
    return h.metrics.value("BrokerTopicMetrics", name, **tags)


def test_each_is_counted(h: Harness) -> None:
    h.lead()
    sizes = [len(batch_of(b"a")), len(batch_of(b"b", b"c"))]
    append_each(h, b"a", corrupt(), batch_of(b"b", b"c"))
    for tags in ({}, {"topic": TOPIC}):
        assert meter(h, "MessagesInPerSec", **tags) == 3
        assert meter(h, "BytesInPerSec", **tags) == sum(sizes)
        assert meter(h, "TotalProduceRequestsPerSec", **tags) == 3
    assert meter(h, "InvalidMessageCrcRecordsPerSec") == 1


def test_what_waits_for_the_partition_is_looked_at_once(h: Harness) -> None:
    h.lead()
    with patch.object(Purgatories, "check_all", autospec=True) as check:
        append_each(h, b"a", b"b", b"c")
        assert check.call_count == 1
        append_each(h, corrupt())
        assert check.call_count == 1


def test_what_fails_the_partition_fails_all(h: Harness) -> None:
    assert [each.error for each in append_each(h, b"a", b"b")] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    h.announce(leader=OTHER, replicas=(OTHER,))
    assert [each.error for each in append_each(h, b"a", b"b")] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    h.order(leader=OTHER, replicas=BOTH)
    assert [each.error for each in append_each(h, b"a", b"b")] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


def test_internal_topics_are_refused(h: Harness) -> None:
    internal = TopicPartition("__consumer_offsets", 0)
    assert append_each(h, b"a", to=internal)[0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    h.lead(internal.topic)
    assert append_each(h, b"a", to=internal)[0].error == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_too_few_in_sync_replicas_fail_those_with_acks_all(h: Harness) -> None:
    h.lead(config={"min.insync.replicas": "2"}, replicas=BOTH, isr=(BROKER,))
    assert [each.error for each in append_each(h, b"a", b"b", acks=-1)] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert [each.error for each in append_each(h, b"a", b"b", acks=1)] == [0, 0]


def test_with_acks_all_each_waits_for_its_own_records(h: Harness) -> None:
    partition = h.lead(replicas=BOTH)
    first, bad, second = append_each(h, b"a", corrupt(), b"b", acks=-1)
    assert bad.error == ErrorCode.CORRUPT_MESSAGE
    assert isinstance(first, Future)
    assert isinstance(second, Future)
    follower_fetches(h, 1)
    assert first.result(0)[TP].base_offset == 0
    assert not second.done()
    follower_fetches(h, 2)
    assert (second.result(0)[TP].error, second.result(0)[TP].base_offset) == (0, 1)
    assert partition.log.high_watermark == 2


def test_with_acks_all_each_waits_as_long_as_it_says(h: Harness) -> None:
    h.lead(replicas=BOTH)
    each = [(batch_of(b"a"), 100), (batch_of(b"b"), 5000)]
    first, second = h.replicas.appender.append_each(TP, -1, each)
    assert isinstance(first, Future)
    assert isinstance(second, Future)
    h.advance_ms(200)
    assert first.result(0)[TP].error == ErrorCode.REQUEST_TIMED_OUT
    assert not second.done()


def test_an_unexpected_error_is_that_requests_own(h: Harness) -> None:
    h.lead()

    def fail_at_two_records(records: Any, context: Any) -> Any:
        info = validate_and_assign_offsets(records, context)
        if info.record_count == 2:
            raise ZeroDivisionError
        return info

    with patch.object(unified_log, "validate_and_assign_offsets", fail_at_two_records):
        results = append_each(h, b"a", batch_of(b"b", b"c"), b"d")
    assert [each.error for each in results] == [0, ErrorCode.UNKNOWN_SERVER_ERROR, 0]
    assert [each.base_offset for each in results] == [0, -1, 1]
