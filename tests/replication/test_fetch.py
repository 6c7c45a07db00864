from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs

from tests.support.replication_harness import BROKER, OTHER, TOPIC, TP, Harness, batch_of, in_thread, topic_id
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.protocol.errors import CorruptRecordError, ErrorCode
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.operations.delayed_fetch import DelayedFetch, FetchAnswer
from twisted_kafka.replication.operations.reader import MOST_UNKNOWN
from twisted_kafka.replication.operations.waiting_fetches import WaitingFetches
from twisted_kafka.replication.partition.fetch_data import FetchParams, PartitionFetch

BOTH = (BROKER, OTHER)
TP1 = TopicPartition(TOPIC, 1)


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def params(
    *,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    isolation: Any = FetchIsolation.HIGH_WATERMARK,
    version: int = 12,
    replica: int = -1,
) -> FetchParams:
    return FetchParams(replica, wait_ms, min_bytes, max_bytes, isolation, version)


def ask(
    offset: int,
    *,
    topic_partition: Any = TP,
    topic_uuid: bytes = bytes(16),
    max_bytes: int = 1 << 20,
    epoch: int = -1,
    last_epoch: int = -1,
) -> PartitionFetch:
    fetch = PartitionFetch(topic_partition, topic_uuid, 0, offset, max_bytes, epoch, last_epoch)
    fetch.log_start_offset = 0
    return fetch


def fetch(h: Harness, *fetches: Any, **how: Any) -> Any:
    return h.replicas.reader.fetch(params(**how), list(fetches))


def test_data_stays_in_its_file(h: Harness) -> None:
    h.lead()
    h.append(b"hello")
    [read] = fetch(h, ask(0))
    assert isinstance(read.records, FileRegion)
    assert b"hello" in read.records.read()
    assert (read.high_watermark, read.last_stable_offset, read.log_start_offset) == (1, 1, 0)


def test_nothing_new_and_no_wait(h: Harness) -> None:
    h.lead()
    h.append(b"a")
    [read] = fetch(h, ask(1))
    assert (read.error, read.size_bytes, read.high_watermark) == (0, 0, 1)


@pytest.mark.parametrize("offset", [-1, 5])
def test_out_of_range(h: Harness, offset: int) -> None:
    h.lead()
    h.append(b"a")
    [read] = fetch(h, ask(offset), wait_ms=1000)
    assert (read.error, read.high_watermark, read.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)


def test_below_the_log_start_is_out_of_range(h: Harness) -> None:
    partition = h.lead()
    h.append(b"a")
    h.append(b"b")
    partition.delete_records(1)
    assert fetch(h, ask(0))[0].error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(h, ask(1))[0].log_start_offset == 1


def test_errors_of_the_partition(h: Harness) -> None:
    assert fetch(h, ask(0), wait_ms=100)[0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    h.announce(leader=OTHER)
    assert fetch(h, ask(0), wait_ms=100)[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(h, ask(0, topic_partition=None, topic_uuid=b"x" * 16))[0].error == ErrorCode.UNKNOWN_TOPIC_ID


def test_leader_epochs_fence(h: Harness) -> None:
    h.lead(epoch=5)
    assert fetch(h, ask(0, epoch=5))[0].error == 0
    assert fetch(h, ask(0, epoch=4))[0].error == ErrorCode.FENCED_LEADER_EPOCH
    assert fetch(h, ask(0, epoch=6))[0].error == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_the_topic_id_must_be_the_logs(h: Harness) -> None:
    h.lead()
    assert fetch(h, ask(0, topic_uuid=topic_id(TOPIC)))[0].error == 0
    assert fetch(h, ask(0, topic_uuid=b"y" * 16))[0].error == ErrorCode.INCONSISTENT_TOPIC_ID


def test_consumers_see_the_high_watermark_followers_the_end(h: Harness) -> None:
    h.lead(replicas=BOTH)
    h.append(b"a")
    assert fetch(h, ask(0))[0].size_bytes == 0
    assert fetch(h, ask(0), replica=OTHER, isolation=FetchIsolation.LOG_END)[0].size_bytes > 0


def test_a_follower_serves_consumers_from_version_11_on(h: Harness) -> None:
    h.lead(replicas=BOTH)
    h.order(leader=OTHER, epoch=1, replicas=BOTH, version=1)
    assert fetch(h, ask(0), version=10)[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(h, ask(0), version=11)[0].error == 0


class TestLimits:
    @pytest.fixture
    def size(self, h: Harness) -> int:
        h.lead()
        h.lead(partition=1)
        for tp in (TP, TP1):
            for _ in range(2):
                h.append(b"x" * 100, topic_partition=tp)
        return len(batch_of(b"x" * 100))

    def sizes(self, h: Harness, version: int = 12, **how: Any) -> list[int]:
        partition_max = how.pop("partition_max", 1 << 20)
        reads = fetch(
            h, ask(0, max_bytes=partition_max), ask(0, topic_partition=TP1, max_bytes=partition_max), version=version, **how
        )
        assert not any(read.error for read in reads)
        return [read.size_bytes for read in reads]

    def test_all(self, h: Harness, size: int) -> None:
        assert self.sizes(h) == [2 * size, 2 * size]

    def test_the_partition_limit_cuts_within_a_batch(self, h: Harness, size: int) -> None:
        assert self.sizes(h, partition_max=size + 10) == [size + 10, size + 10]

    def test_the_first_batch_comes_whole_and_only_the_first(self, h: Harness, size: int) -> None:
        assert self.sizes(h, partition_max=10) == [size, 0]

    def test_the_request_limit_is_shared(self, h: Harness, size: int) -> None:
        assert self.sizes(h, max_bytes=3 * size) == [2 * size, size]
        assert self.sizes(h, max_bytes=1) == [size, 0]

    def test_old_versions_get_a_piece_of_the_first_batch(self, h: Harness, size: int) -> None:
        assert self.sizes(h, version=2, partition_max=10) == [10, 10]

    def test_what_the_first_partition_uses_up_is_not_left_for_the_next(self, h: Harness, size: int) -> None:
        for version in (2, 12):
            assert self.sizes(h, version=version, max_bytes=2 * size) == [2 * size, 0]
            assert self.sizes(h, version=version, max_bytes=2 * size - 1, partition_max=size) == [
                size,
                size - 1 if version == 2 else 0,
            ]
        assert self.sizes(h, version=2, partition_max=0) == [0, 0]


class TestWaiting:
    def test_an_append_completes_it_on_the_appending_thread(self, h: Harness) -> None:
        h.lead()
        answer = fetch(h, ask(0), wait_ms=500)
        assert isinstance(answer, Future)
        completed = []
        answer.add_done_callback(lambda _: completed.append(True))
        in_thread(lambda: h.append(b"new"))
        assert completed == [True]
        [read] = answer.result(0)
        assert b"new" in read.records.read()

    def test_it_is_over_after_max_wait(self, h: Harness) -> None:
        h.lead()
        answer = fetch(h, ask(0), wait_ms=500)
        h.advance_ms(499)
        assert not answer.done()
        h.advance_ms(2)
        assert answer.result(0)[0].size_bytes == 0

    def test_it_waits_however_short_max_wait_is(self, h: Harness) -> None:
        h.lead()
        assert isinstance(fetch(h, ask(0), wait_ms=1), Future)

    @pytest.mark.parametrize("replica", [0, OTHER])
    def test_a_follower_that_waits_reads_from_the_leader_only(self, h: Harness, replica: int) -> None:
        replicas = (BROKER, replica)
        h.lead(replicas=replicas)
        answer = fetch(h, ask(0), wait_ms=500, replica=replica, isolation=FetchIsolation.LOG_END)
        h.order(leader=replica, epoch=1, replicas=replicas, version=1)
        assert answer.result(0)[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_min_bytes_are_summed_over_batches(self, h: Harness) -> None:
        h.lead()
        size = len(batch_of(b"a"))
        answer = fetch(h, ask(0), wait_ms=500, min_bytes=3 * size)
        h.append(b"a")
        h.append(b"a")
        assert not answer.done()
        h.append(b"a")
        assert answer.result(0)[0].size_bytes == 3 * size

    def test_exactly_min_bytes_are_enough(self, h: Harness) -> None:
        h.lead()
        h.lead(partition=1)
        h.append(b"a")
        h.append(b"a", topic_partition=TP1)
        size = len(batch_of(b"a"))
        both = ask(0), ask(0, topic_partition=TP1)
        assert [read.size_bytes for read in fetch(h, *both, wait_ms=500, min_bytes=2 * size)] == [size, size]
        assert isinstance(fetch(h, *both, wait_ms=500, min_bytes=2 * size + 1), Future)

    @pytest.mark.medium
    def test_min_bytes_count_what_was_there_before(self, h: Harness) -> None:
        h.lead()
        size = len(batch_of(b"a"))
        h.append(b"a")
        h.append(b"a")
        answer = fetch(h, ask(1), wait_ms=500, min_bytes=2 * size)
        h.append(b"a")
        assert answer.result(0)[0].size_bytes == 2 * size

    def test_min_bytes_are_summed_over_partitions(self, h: Harness) -> None:
        h.lead()
        h.lead(partition=1)
        size = len(batch_of(b"a"))
        answer = fetch(h, ask(0), ask(0, topic_partition=TP1), wait_ms=500, min_bytes=2 * size)
        h.append(b"a")
        assert not answer.done()
        h.append(b"a", topic_partition=TP1)
        assert [read.size_bytes for read in answer.result(0)] == [size, size]

    def test_a_partitions_limit_bounds_what_it_counts_for(self, h: Harness) -> None:
        h.lead()
        size = len(batch_of(b"a"))
        answer = fetch(h, ask(0, max_bytes=size), wait_ms=500, min_bytes=2 * size)
        for _ in range(3):
            h.append(b"a")
        assert not answer.done()

    def test_another_segment_is_news(self, h: Harness) -> None:
        partition = h.lead()
        h.append(b"a")
        answer = fetch(h, ask(0), wait_ms=500, min_bytes=1 << 19)
        partition.log.roll()
        h.append(b"b")
        assert answer.done()

    def test_a_change_of_leader_completes_it(self, h: Harness) -> None:
        h.lead(replicas=BOTH)
        answer = fetch(h, ask(0), wait_ms=500, version=10)
        h.order(leader=OTHER, epoch=1, replicas=BOTH, version=1)
        assert answer.result(0)[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_followers_wait_for_the_end_consumers_for_the_high_watermark(self, h: Harness) -> None:
        h.lead(replicas=BOTH)
        consumer = fetch(h, ask(0), wait_ms=500)
        follower = fetch(h, ask(0), wait_ms=500, replica=OTHER, isolation=FetchIsolation.LOG_END)
        h.append(b"a")
        assert follower.done()
        assert not consumer.done()
        fetch(h, ask(1), replica=OTHER, isolation=FetchIsolation.LOG_END)
        assert consumer.result(0)[0].size_bytes > 0

    def test_a_follower_out_of_sync_is_not_answered_early(self, h: Harness) -> None:
        h.lead(replicas=BOTH)
        h.lead(partition=1, replicas=BOTH, isr=(BROKER,))
        answer = fetch(h, ask(0), wait_ms=500, replica=OTHER, isolation=FetchIsolation.LOG_END)
        h.append(b"a", topic_partition=TP1)
        assert not answer.done()

    def test_a_reader_of_committed_records_waits_for_the_end_of_the_transaction(self, h: Harness) -> None:
        partition = h.lead()
        h.append(b"before")
        partition.log.roll()
        h.begin_transaction(b"in it")
        answer = fetch(h, ask(1), wait_ms=500, isolation=FetchIsolation.TXN_COMMITTED)
        h.append(b"after")
        assert not answer.done()
        h.end_transaction()
        [read] = answer.result(0)
        assert (read.size_bytes > 0, read.aborted_transactions) == (True, [])

    def test_a_deleted_partition_completes_it(self, h: Harness) -> None:
        h.lead()
        answer = fetch(h, ask(0), wait_ms=500)
        h.stop_replica()
        assert answer.result(0)[0].error == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_failure_of_the_read_is_the_answer(self, h: Harness) -> None:
        def fail() -> Any:
            raise RuntimeError("a bug")

        operation = DelayedFetch(h.replicas.partitions, params(wait_ms=500), [], None, fail)
        assert operation.force_complete()
        with pytest.raises(RuntimeError, match="a bug"):
            operation.future.result(0)

    def test_an_error_is_told_at_once(self, h: Harness) -> None:
        h.lead()
        h.announce(partition=1, leader=OTHER)
        reads = fetch(h, ask(0), ask(0, topic_partition=TP1), wait_ms=500)
        assert [read.error for read in reads] == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def test_a_partition_that_nobody_knows_does_not_hasten_it(self, h: Harness) -> None:
        h.lead()
        unknown = ask(0, topic_partition=TP1), ask(0, topic_partition=None, topic_uuid=b"?" * 16)
        answer = fetch(h, ask(0), *unknown, wait_ms=500)
        assert not answer.done()
        h.append(b"a")
        errors = [read.error for read in answer.result(0)]
        assert errors == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]
        assert isinstance(fetch(h, *unknown, wait_ms=500), list)

    def test_nothing_asked_for_is_answered_at_once(self, h: Harness) -> None:
        assert fetch(h, wait_ms=500) == []

    def test_no_operation_stays_behind(self, h: Harness) -> None:
        h.lead()
        for _ in range(10):
            fetch(h, ask(0), wait_ms=500)
        assert h.replicas.purgatories.fetch.num_delayed == 10
        h.append(b"a")
        assert h.replicas.purgatories.fetch.num_delayed == h.replicas.purgatories.fetch.watched == 0


class TestDivergence:
    """The epochs here: 1 from offset 0, 3 from offset 2, the log's end is 3 (KIP-595)."""

    @pytest.fixture
    def h(self, tmp_path: Path) -> Harness:
        h = Harness(tmp_path)
        h.lead(epoch=1)
        h.append(b"a", b"b")
        h.lead(epoch=3, version=1)
        h.append(b"c")
        return h

    @pytest.mark.parametrize(
        ("offset", "last_epoch", "expected"),
        [(2, 1, None), (3, 3, None), (3, 1, (1, 2)), (3, 2, (1, 2)), (2, 3, None)],
    )
    def test_where_the_readers_log_branched_off(
        self, h: Harness, offset: int, last_epoch: int, expected: tuple[int, int] | None
    ) -> None:
        reads: Any = (
            fetch(h, ask(offset, last_epoch=last_epoch), wait_ms=10)
            if expected
            else h.replicas.reader.fetch(params(), [ask(offset, last_epoch=last_epoch)])
        )
        read = reads[0]
        assert (read.error, read.diverging_epoch) == (0, expected)
        assert (read.size_bytes > 0) == (expected is None and offset < 3)

    def test_a_reader_that_branched_off_gets_no_records_where_there_are_some(self, h: Harness) -> None:
        h.append(b"d")
        [read] = fetch(h, ask(3, last_epoch=2))
        assert (read.diverging_epoch, read.size_bytes) == ((1, 2), 0)

    def test_a_log_does_not_branch_off_at_its_start(self, h: Harness) -> None:
        partition = h.replicas.get_partition(TP)
        partition.delete_records(2)
        assert fetch(h, ask(2, last_epoch=3))[0].size_bytes > 0
        assert fetch(h, ask(1, last_epoch=3))[0].error == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_the_first_epoch_and_one_without_records_are_known(self, tmp_path: Path) -> None:
        h = Harness(tmp_path / "first")
        h.lead(epoch=0)
        h.lead(epoch=1, version=1)
        h.append(b"a")
        assert fetch(h, ask(0, last_epoch=0))[0].size_bytes > 0
        assert fetch(h, ask(1, last_epoch=0))[0].diverging_epoch == (0, 0)

    @pytest.mark.parametrize(
        ("start_of_3", "cut_at", "new_epoch", "expected"), [(2, 2, 1, (1, 3)), (1, 2, 4, (3, 2)), (2, 2, 4, (1, 2))]
    )
    def test_a_reader_that_waits_is_told_when_its_log_branches_off(
        self, tmp_path: Path, start_of_3: int, cut_at: int, new_epoch: int, expected: tuple[int, int]
    ) -> None:
        """A consumer waits at the end of a follower, which replaces its last record by its new leader's."""
        h = Harness(tmp_path / "follower")
        h.order(leader=OTHER, replicas=BOTH)
        log = h.replicas.get_partition(TP).log
        for offset in range(3):
            epoch = 1 if offset < start_of_3 else 3
            log.append_as_follower(batch_of(b"%d" % offset, base_offset=offset, partition_leader_epoch=epoch))
        log.update_high_watermark(3)
        answer = fetch(h, ask(3, last_epoch=3), wait_ms=500)
        h.replicas.purgatories.check_all(TP)
        assert not answer.done()
        log.truncate_to(cut_at)
        log.append_as_follower(batch_of(b"new", base_offset=cut_at, partition_leader_epoch=new_epoch))
        log.assign_epoch_start_offset(5, 3)
        log.update_high_watermark(3)
        h.replicas.purgatories.check_all(TP)
        assert answer.result(0)[0].diverging_epoch == expected

    def test_an_epoch_from_the_future_is_out_of_range(self, h: Harness) -> None:
        assert fetch(h, ask(3, last_epoch=9))[0].error == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_disk_that_fails_is_a_storage_error_of_its_partition(h: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = h.lead()
    h.lead(partition=1)
    h.append(b"a")
    h.append(b"a", topic_partition=TP1)

    def fail(*args: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(partition.log, "read", fail)
    assert [read.error for read in fetch(h, ask(0), ask(0, topic_partition=TP1))] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    for tags in ({}, {"topic": TOPIC}):
        assert h.metrics.value("BrokerTopicMetrics", "FailedFetchRequestsPerSec", **tags) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(CorruptRecordError("damaged"), ErrorCode.CORRUPT_MESSAGE), (RuntimeError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR)],
)
def test_what_goes_wrong_in_a_read_is_its_partitions_error(
    h: Harness, monkeypatch: pytest.MonkeyPatch, error: Exception, code: ErrorCode
) -> None:
    partition = h.lead()
    h.append(b"a")

    def fail(*args: Any) -> None:
        raise error

    monkeypatch.setattr(partition.log, "read", fail)
    with capturedLogs() as events:
        assert fetch(h, ask(0))[0].error == code
    (event,) = events
    assert ("log_failure" in event) == (code == ErrorCode.UNKNOWN_SERVER_ERROR), "a damaged file is one line, a bug has a traceback"


def test_what_clients_recover_from_is_no_failure_of_the_broker(h: Harness) -> None:
    h.lead(epoch=2)
    for each in (ask(5), ask(0, epoch=1), ask(0, epoch=3), ask(0, topic_partition=TP1), ask(0, topic_uuid=b"y" * 16)):
        assert fetch(h, each)[0].error
    assert h.metrics.value("BrokerTopicMetrics", "FailedFetchRequestsPerSec") == 0


@pytest.mark.parametrize("commit", [True, False])
def test_only_readers_of_committed_records_get_a_list_of_aborted_transactions(h: Harness, commit: bool) -> None:
    h.lead()
    h.begin_transaction(b"a")
    for isolation in FetchIsolation:
        [read] = fetch(h, ask(0), isolation=isolation)
        assert (read.size_bytes > 0) == (isolation != FetchIsolation.TXN_COMMITTED)
        assert (read.high_watermark, read.last_stable_offset) == (1, 0)
    h.end_transaction(commit=commit)
    aborted = [] if commit else [(1, 0, 1, 2)]
    for isolation in FetchIsolation:
        reads = fetch(h, ask(0), isolation=isolation) + fetch(h, ask(2), isolation=isolation)
        found = [read.aborted_transactions for read in reads]
        assert found == ([aborted, []] if isolation == FetchIsolation.TXN_COMMITTED else [None, None])


def test_the_meters(h: Harness) -> None:
    h.lead()
    h.append(b"a")
    fetch(h, ask(0))
    fetch(h, ask(0), ask(0, topic_partition=TP1))
    assert h.metrics.value("BrokerTopicMetrics", "TotalFetchRequestsPerSec") == 3
    assert h.metrics.value("BrokerTopicMetrics", "TotalFetchRequestsPerSec", topic=TOPIC) == 2
    answer = fetch(h, ask(1), wait_ms=500)
    h.append(b"b")
    assert answer.done(), "it read twice for one request"
    assert h.metrics.value("BrokerTopicMetrics", "TotalFetchRequestsPerSec") == 4
    assert h.metrics.value("BrokerTopicMetrics", "TotalFetchRequestsPerSec", topic=TOPIC) == 3


def test_no_wake_up_is_lost_between_an_append_and_a_fetch_that_begins_to_wait(h: Harness) -> None:
    """A consumer follows an appender on another thread: whichever is first, each fetch is answered by data."""
    h.lead()
    count = 300

    def consume() -> Any:
        offset = 0
        while offset < count:
            answer = fetch(h, ask(offset), wait_ms=60_000)
            [read] = answer.result(30) if isinstance(answer, Future) else answer
            assert read.size_bytes > 0
            offset = read.high_watermark
        return offset

    with ThreadPoolExecutor(3) as pool:
        consumers = [pool.submit(consume) for _ in range(2)]
        appender = pool.submit(lambda: [h.append(b"x").base_offset for _ in range(count)])
        assert appender.result(30) == list(range(count))
        assert [consumer.result(30) for consumer in consumers] == [count, count]
    assert h.replicas.purgatories.fetch.watched == 0


def test_what_is_unknown_is_looked_for_once_and_stays_unknown_in_the_answer(h: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    h.lead()
    unknown = [ask(0, topic_partition=TopicPartition("nope", number)) for number in range(50)]
    asked: list[TopicPartition] = []
    absence = h.replicas.partitions.absence
    monkeypatch.setattr(type(h.replicas.partitions), "absence", lambda self, each: asked.append(each) or absence(each))
    future = fetch(h, *unknown[:25], ask(0), *unknown[25:], wait_ms=100)
    assert len(asked) == 50
    h.append(b"a")
    reads = future.result(0)
    assert len(asked) == 50
    assert [read.error for read in reads] == [3] * 25 + [0] + [3] * 25
    assert reads[25].size_bytes


def test_a_fetch_whose_client_has_gone_is_waited_for_no_longer(h: Harness) -> None:
    h.lead()
    future = fetch(h, ask(0), wait_ms=2**31 - 1)
    assert h.replicas.purgatories.fetch.watched == 1
    future.give_up()
    assert h.replicas.purgatories.fetch.watched == 0
    assert len(h.timer) == 0
    assert future.give_up is None
    assert [read.error for read in future.result(0)] == [0]


def test_the_oldest_fetches_are_answered_when_many_partitions_are_waited_for(h: Harness) -> None:
    waiting = WaitingFetches(most_partitions=10)
    fetches = [DelayedFetch(h.replicas.partitions, params(wait_ms=100), [], None, list) for _ in range(4)]
    for each in fetches[:3]:
        waiting.add(each, 4)
    assert [each.future.done() for each in fetches] == [True, False, False, False]
    fetches[1].force_complete()
    waiting.add(fetches[3], 6)
    assert [each.future.done() for each in fetches] == [True, True, False, False]
    waiting.add(DelayedFetch(h.replicas.partitions, params(wait_ms=100), [], None, list), 1)
    assert [each.future.done() for each in fetches] == [True, True, True, False]


@pytest.mark.parametrize(("unknown", "waits"), [(MOST_UNKNOWN, True), (MOST_UNKNOWN + 1, False)])
def test_a_fetch_of_many_unknown_partitions_does_not_wait(h: Harness, unknown: int, waits: bool) -> None:
    h.lead()
    many = [ask(0, topic_partition=TopicPartition("nope", number)) for number in range(unknown)]
    assert isinstance(fetch(h, ask(0), *many, wait_ms=100), FetchAnswer) is waits
