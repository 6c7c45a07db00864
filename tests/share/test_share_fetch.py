"""ShareFetch and ShareAcknowledge of a broker, asked over connections as members do."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from tests.support.eventually import WAIT_S, eventually
from tests.support.share_client import (
    RawClient,
    ShareMember,
    acquired_of,
    error_of,
    initialize,
    new_topic,
    read_state,
    set_group_configs,
)
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.list_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from twisted_kafka.protocol.messages.share.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from twisted_kafka.replication.operations.reader import LogReader
from twisted_kafka.testing import Broker

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
LOCK_MS = 30_000
_names = itertools.count()


class Topic(NamedTuple):
    """A topic with a share group of its own."""

    broker: Broker
    client: RawClient
    name: str
    topic_id: bytes
    partitions: int

    def produce(self, *values: str, partition: int = 0) -> None:
        for value in values:
            self.broker.produce(self.name, value, partition=partition)

    def member(self, member_id: str, *partitions: int) -> ShareMember:
        return ShareMember(self.broker.bootstrap_servers, self.name, member_id, self.topic_id, partitions or (0,))

    def state(self, partition: int = 0) -> tuple[int, list[tuple[int, int, int, int]]]:
        return read_state(self.client, self.name, self.topic_id, partition)


@pytest.fixture
def make(broker: Broker, client: RawClient) -> Callable[..., Topic]:
    def make(partitions: int = 1, **configs: str) -> Topic:
        name = f"topic-{next(_names)}"
        topic_id = new_topic(client, name, partitions, **configs)
        for partition in range(partitions):
            initialize(client, name, topic_id, partition=partition)
        return Topic(broker, client, name, topic_id, partitions)

    return make


@pytest.fixture
def topic(make: Callable[..., Topic]) -> Topic:
    return make()


def test_a_record_is_delivered_acknowledged_and_not_delivered_again(topic: Topic) -> None:
    topic.produce("a", "b")
    with topic.member("one") as one, topic.member("two") as two:
        assert one.acquired() == [(0, 1, 1)]
        assert two.acquired(max_wait_ms=0) == []
        assert error_of(one.acknowledge((0, 1, [ACCEPT]))) == (0, 0)
    assert topic.state() == (0, [(0, 1, 2, 1)])


def test_a_fetch_waits_for_the_first_record(topic: Topic) -> None:
    with topic.member("one") as one:
        assert one.acquired(max_wait_ms=0) == []
        one.send_fetch(max_wait_ms=20_000)
        topic.produce("a")
        assert acquired_of(one.received_fetch()) == [(0, 0, 1)]


def waiting(broker: Broker) -> int:
    """Return how many fetches wait."""
    found = broker.embedded.metrics.value("DelayedOperationPurgatory", "NumDelayedOperations", delayedOperation="ShareFetch")
    assert isinstance(found, int)
    return found


def test_a_produce_beside_a_fetch_of_many_partitions_reads_one_of_them(
    make: Callable[..., Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make(5)
    counts: list[int] = []
    read = LogReader.read

    def counted(self: LogReader, params: Any, fetches: Any, *rest: Any, **options: Any) -> Any:
        if options.get("from_purgatory"):
            counts.append(len(fetches))
        return read(self, params, fetches, *rest, **options)

    with topic.member("one", *range(5)) as one:
        assert one.acquired(max_wait_ms=0) == []
        monkeypatch.setattr(LogReader, "read", counted)
        one.send_fetch(max_wait_ms=20_000)
        eventually(lambda: waiting(topic.broker) == 1)
        assert counts == []  # none of them has more
        topic.produce("a", partition=3)
        assert acquired_by_partition(one.received_fetch()) == {3: [(0, 0)]}
        assert counts == [1]
        one.send_fetch(max_wait_ms=20_000, min_bytes=130)
        eventually(lambda: waiting(topic.broker) == 1)
        topic.produce("b", partition=1)
        topic.produce("c", partition=2)
        assert acquired_by_partition(one.received_fetch()) == {1: [(0, 0)], 2: [(0, 0)]}
        assert counts == [1, 1, 2]
        topic.produce("d", partition=4)
        assert acquired_by_partition(one.fetch(max_wait_ms=100, min_bytes=1000)) == {4: [(0, 0)]}
        assert counts[3:] == [1, 1]


def acquired_by_partition(response: Any) -> dict[int, list[tuple[int, int]]]:
    """Return the offsets that each partition of a response has; partitions without records have none."""
    partitions = [each for topic in response.responses for each in topic.partitions]
    return {each.partition_index: [(it.first_offset, it.last_offset) for it in each.acquired_records] for each in partitions}


def test_the_first_fetch_of_a_group_has_the_records_of_one_partition(make: Callable[..., Topic]) -> None:
    """Kafka 4.4.0 answers when the first share partition is loaded, and librdkafka's tests expect it (0179)."""
    topic = make(3)
    for partition in range(3):
        topic.produce("a", "b", partition=partition)
    with topic.member("one", 0, 1, 2) as one, topic.member("two", 0, 1, 2) as two:
        assert acquired_by_partition(one.fetch()) == {0: [(0, 1)]}
        assert acquired_by_partition(one.fetch()) == {1: [(0, 1)], 2: [(0, 1)]}
        for partition in range(3):
            topic.produce("c", partition=partition)
        assert acquired_by_partition(two.fetch()) == {0: [(2, 2)], 1: [(2, 2)], 2: [(2, 2)]}


def test_the_first_fetch_looks_further_if_the_first_partition_has_not_enough(make: Callable[..., Topic]) -> None:
    topic = make(2)
    topic.produce("a", partition=1)
    with topic.member("one", 0, 1) as one:
        assert acquired_by_partition(one.fetch(max_wait_ms=60_000)) == {0: [], 1: [(0, 0)]}
    topic = make(3)
    for partition in (1, 2):
        topic.produce("a", partition=partition)
    with topic.member("one", 0, 1, 2) as one:
        assert acquired_by_partition(one.fetch(max_wait_ms=60_000)) == {0: [], 1: [(0, 0)]}
        assert acquired_by_partition(one.fetch(max_wait_ms=60_000)) == {2: [(0, 0)]}
    topic = make(2)
    for partition in range(2):
        topic.produce("a", partition=partition)
    with topic.member("one", 0, 1) as one:
        assert acquired_by_partition(one.fetch(max_wait_ms=60_000, min_bytes=100)) == {0: [(0, 0)], 1: [(0, 0)]}


def test_the_last_of_several_entries_of_a_partition_counts(topic: Topic) -> None:
    topic.produce("a", "b")
    with topic.member("one") as one:
        assert one.acquired() == [(0, 1, 1)]
        parts = [
            AcknowledgePartition(
                partition_index=0,
                acknowledgement_batches=[AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[ACCEPT])],
            )
            for offset in (0, 1)
        ]
        request = ShareAcknowledgeRequest(
            group_id=topic.name,
            member_id="one",
            share_session_epoch=one.epoch,
            topics=[AcknowledgeTopic(topic_id=topic.topic_id, partitions=[part]) for part in parts],
        )
        answer = one.call(request, ShareAcknowledgeResponse, 2)
        assert [[each.partition_index for each in found.partitions] for found in answer.responses] == [[0]]
        assert topic.state() == (0, [(1, 1, 2, 1)])


@pytest.mark.parametrize("length", [0, 37])
def test_a_member_id_has_at_most_36_characters(topic: Topic, length: int) -> None:
    with topic.member("m" * length) as wrong:
        assert wrong.fetch().error_code == ErrorCode.INVALID_REQUEST
        assert wrong.acknowledge((0, 0, [ACCEPT])).error_code == ErrorCode.INVALID_REQUEST
        request = ShareGroupHeartbeatRequest(group_id=topic.name, member_id="m" * length, subscribed_topic_names=[topic.name])
        assert wrong.call(request, ShareGroupHeartbeatResponse, 1).error_code == ErrorCode.INVALID_REQUEST
    with topic.member("m" * 36) as right:
        assert right.acquired(max_wait_ms=0) == []


@pytest.mark.parametrize("limits", [{"max_records": 0}, {"max_bytes": 0}])
def test_a_fetch_for_nothing_is_answered_at_once(topic: Topic, limits: dict[str, int]) -> None:
    with topic.member("one") as one:
        assert one.fetch(max_wait_ms=60_000, **limits).responses == []
        topic.produce("a")
        assert one.fetch(max_wait_ms=60_000, **limits).responses == []
        assert one.acquired() == [(0, 0, 1)]
        assert one.fetch((0, 0, [ACCEPT]), max_wait_ms=60_000, **limits).responses[0].partitions[0].acknowledge_error_code == 0
    assert topic.state() == (0, [(0, 0, 2, 1)])


def test_a_fetch_of_at_least_no_bytes_does_not_wait(topic: Topic) -> None:
    with topic.member("one") as one:
        assert one.acquired(max_wait_ms=60_000, min_bytes=0) == []


def test_a_released_record_ends_the_wait_of_another_member(topic: Topic) -> None:
    topic.produce("a")
    with topic.member("one") as one, topic.member("two") as two:
        assert one.acquired() == [(0, 0, 1)]
        assert two.acquired(max_wait_ms=0) == []
        two.send_fetch(max_wait_ms=20_000)
        assert error_of(one.acknowledge((0, 0, [RELEASE]))) == (0, 0)
        assert acquired_of(two.received_fetch()) == [(0, 0, 2)]


def test_a_lock_expires(topic: Topic) -> None:
    topic.produce("a")
    with topic.member("one") as one, topic.member("two") as two:
        assert one.acquired() == [(0, 0, 1)]
        assert two.acquired(max_wait_ms=0) == []
        two.send_fetch(max_wait_ms=2 * LOCK_MS)
        topic.broker.clock.advance(ms=LOCK_MS)
        assert acquired_of(two.received_fetch()) == [(0, 0, 2)]
        assert error_of(one.acknowledge((0, 0, [ACCEPT]))) == (0, ErrorCode.INVALID_RECORD_STATE)


def test_a_renewed_lock_does_not_expire(topic: Topic) -> None:
    topic.produce("a")
    with topic.member("one") as one:
        assert one.acquired() == [(0, 0, 1)]
        topic.broker.clock.advance(ms=LOCK_MS - 1_000)
        assert error_of(one.acknowledge((0, 0, [RENEW]))) == (0, ErrorCode.INVALID_REQUEST)
        assert error_of(one.fetch((0, 0, [RENEW]), renews=True)) == (0, 0)
        topic.broker.clock.advance(ms=LOCK_MS - 1_000)
        assert error_of(one.acknowledge((0, 0, [ACCEPT]))) == (0, 0)


def test_a_member_that_disconnects_gives_its_records_back(topic: Topic) -> None:
    topic.produce("a")
    with topic.member("two") as two:
        with topic.member("one") as one:
            assert one.acquired() == [(0, 0, 1)]
            assert two.acquired(max_wait_ms=0) == []
        assert two.acquired(max_wait_ms=20_000) == [(0, 0, 2)]


@pytest.mark.parametrize("request_name", ["fetch", "acknowledge"])
def test_the_last_request_of_a_session_releases_the_rest(topic: Topic, request_name: str) -> None:
    topic.produce("a", "b")
    with topic.member("one") as one, topic.member("two") as two:
        assert sum(last - first + 1 for first, last, _ in one.acquired()) == 2
        assert error_of(getattr(one, request_name)((0, 0, [ACCEPT]), epoch=-1)) == (0, 0)
        assert two.acquired() == [(1, 1, 2)]
        assert one.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_session_has_epochs(topic: Topic) -> None:
    with topic.member("one") as one:
        assert one.acknowledge((0, 0, [ACCEPT]), epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert one.acknowledge((0, 0, [ACCEPT]), epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert one.fetch(epoch=-1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert one.fetch((0, 0, [ACCEPT]), epoch=0).error_code == ErrorCode.INVALID_REQUEST
        assert one.fetch(max_wait_ms=0).error_code == 0
        assert one.fetch(epoch=2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert one.fetch(max_wait_ms=0).error_code == 0


def test_a_partition_that_is_forgotten_is_not_fetched(make: Callable[..., Topic]) -> None:
    topic = make(partitions=2)
    topic.produce("a", partition=0)
    topic.produce("b", partition=1)
    with topic.member("one", 0, 1) as one:
        assert one.fetch(max_wait_ms=0).error_code == 0
        one.forget(1)
        topic.produce("c", partition=1)
        eventually(lambda: one.acquired(max_wait_ms=100) == [])


def test_a_partition_that_comes_back_is_in_the_response(topic: Topic) -> None:
    """Even without records, and once only: so the client knows that the broker has it."""
    with topic.member("one") as one:
        assert len(one.fetch(max_wait_ms=0).responses) == 1
        assert one.fetch(max_wait_ms=0).responses == []
        one.forget(0)
        added = [FetchTopic(topic_id=topic.topic_id, partitions=[FetchPartition(partition_index=0)])]
        request = ShareFetchRequest(
            group_id=topic.name, member_id="one", share_session_epoch=one.epoch, max_records=1, topics=added
        )
        assert len(one.call(request, ShareFetchResponse, 2).responses) == 1
        assert one.fetch(epoch=one.epoch + 1, max_wait_ms=0).responses == []


def test_a_partition_without_acknowledgements_is_not_in_the_response(topic: Topic) -> None:
    with topic.member("one") as one:
        one.fetch(max_wait_ms=0)
        answer = one.acknowledge()
        assert (answer.error_code, answer.responses) == (0, [])


def test_the_last_fetch_may_name_partitions(topic: Topic) -> None:
    topic.produce("a")
    added = [FetchTopic(topic_id=topic.topic_id, partitions=[FetchPartition(partition_index=0)])]
    request = ShareFetchRequest(group_id=topic.name, member_id="one", share_session_epoch=-1, topics=added)
    with topic.member("one") as one, topic.member("two") as two:
        assert one.call(request, ShareFetchResponse, 2).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert one.acquired() == [(0, 0, 1)]
        assert one.call(request, ShareFetchResponse, 2).error_code == 0
        assert two.acquired() == [(0, 0, 2)]


def test_each_delivery_counts_and_the_last_one_ends_in_the_archive(topic: Topic) -> None:
    topic.produce("poison", "good")
    with topic.member("one") as one:
        seen = []
        for _ in range(7):
            acquired = one.acquired(max_records=1)
            seen += [(first, count) for first, _, count in acquired]
            assert error_of(one.acknowledge(*[(first, last, [RELEASE]) for first, last, _ in acquired])) == (0, 0)
        assert seen[:5] == [(0, count) for count in range(1, 6)]
        assert seen[5] == (1, 1)
    start, batches = topic.state()
    assert (start, batches[0]) in [(0, (0, 0, 4, 5)), (1, (1, 1, 0, 1)), (1, (1, 1, 0, 2))]


def test_bad_acknowledgements_lose_nothing(topic: Topic) -> None:
    topic.produce("a", "b")
    with topic.member("one") as one, topic.member("two") as two:
        one.acquired()
        two.acquired(max_wait_ms=0)
        bad = {
            ErrorCode.INVALID_RECORD_STATE: two.acknowledge((0, 1, [ACCEPT])),
            ErrorCode.INVALID_REQUEST: one.acknowledge((0, 7, [ACCEPT])),
        }
        assert {error: error_of(response)[1] for error, response in bad.items()} == {error: error for error in bad}
        assert error_of(one.acknowledge((1, 1, [ACCEPT]), (0, 0, [ACCEPT])))[1] == ErrorCode.INVALID_REQUEST
        assert error_of(one.acknowledge((0, 1, [REJECT, ACCEPT]))) == (0, 0)
        assert error_of(one.acknowledge((0, 1, [ACCEPT]))) == (0, 0)  # before the start offset: ignored, as in Kafka


def test_an_unknown_topic_and_an_uninitialized_group(topic: Topic) -> None:
    unknown = ShareMember(topic.broker.bootstrap_servers, topic.name, "one", b"?" * 16)
    with unknown:
        assert error_of(unknown.fetch()) == (0, ErrorCode.UNKNOWN_TOPIC_ID)
    other = ShareMember(topic.broker.bootstrap_servers, "other group", "one", topic.topic_id)
    with other:
        assert error_of(other.fetch()) == (0, ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize(("mode", "acquired"), [(0, 3), (1, 2)])
def test_the_acquire_mode_says_whether_the_limit_is_strict(topic: Topic, mode: int, acquired: int) -> None:
    topic.broker.produce(topic.name, ["a", "b", "c"])  # one batch
    with topic.member("one") as one:
        (found,) = one.acquired(max_records=2, mode=mode)
        assert found[1] - found[0] + 1 == acquired
    with topic.member("two") as two:
        assert two.fetch(mode=9).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.medium
def test_a_group_that_reads_committed_records_gets_no_aborted_ones(topic: Topic) -> None:
    set_group_configs(topic.client, topic.name, share_isolation_level="read_committed")
    topic.broker.embedded.apply_config_changes(WAIT_S)
    producer = Producer({"bootstrap.servers": topic.broker.bootstrap_servers, "transactional.id": topic.name})
    producer.init_transactions()
    for value, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic.name, value, partition=0)
        producer.flush()
        end()
    with topic.member("one") as one:
        delivered = [offset for first, last, _ in one.acquired() for offset in range(first, last + 1)]
        assert 0 not in delivered
        assert 2 in delivered, "offsets 1 and 3 have the markers, which the member reports as gaps"


def test_records_deleted_from_the_log_are_passed(topic: Topic) -> None:
    topic.produce("a", "b", "c")
    partitions = [DeleteRecordsPartition(partition_index=0, offset=2)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic.name, partitions=partitions)], timeout_ms=10_000)
    topic.client.call(request, DeleteRecordsResponse, 2)
    with topic.member("one") as one:
        assert one.acquired() == [(2, 2, 1)]


@pytest.mark.medium
def test_the_state_outlives_the_broker() -> None:
    with Broker({"share.coordinator.state.topic.num.partitions": 1}) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            topic_id = new_topic(client, "orders")
            initialize(client, "group", topic_id)
        for value in "abc":
            broker.produce("orders", value)
        with ShareMember(broker.bootstrap_servers, "group", "one", topic_id) as one:
            assert sum(last - first + 1 for first, last, _ in one.acquired()) == 3
            assert error_of(one.acknowledge((0, 0, [ACCEPT]), (2, 2, [ACCEPT]))) == (0, 0)
        broker.stop()
        broker.start()
        with ShareMember(broker.bootstrap_servers, "group", "one", topic_id) as one:
            # The release of the second record may have been written, or not any more.
            assert eventually(lambda: _restarted(one)) in ([(1, 1, 1)], [(1, 1, 2)])


def _restarted(one: ShareMember) -> Any:
    one.epoch = 0
    response = one.fetch()
    return acquired_of(response) if error_of(response) == (0, 0) else []
