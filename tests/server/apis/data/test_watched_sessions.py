"""Consumers' sessions of many partitions, whose fetches read only the changed ones."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.budget import share_of
from tests.support.replica_apis import Apis
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_watch import READ_IN_TURN
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.server.fetch_session import LEAST_WATCHED

TOPIC = "many"
PARTITIONS = LEAST_WATCHED + 4


class Consumer:
    """Fetches in a session, and takes all records of each response, as clients do."""

    def __init__(self, apis: Apis, partitions: int = PARTITIONS) -> None:
        self.apis = apis
        self.offsets = dict.fromkeys(range(partitions), 0)
        self.values: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
        self.session, self.epoch = 0, 0
        self.changed = list(self.offsets)

    def request(self, **fields: Any) -> FetchRequest:
        asked = [
            FetchPartition(partition=each, fetch_offset=self.offsets[each], partition_max_bytes=1 << 20) for each in self.changed
        ]
        topics = [FetchTopic(topic=TOPIC, partitions=asked)] if asked else []
        return FetchRequest(min_bytes=1, session_id=self.session, session_epoch=self.epoch, topics=topics, **fields)

    def take(self, response: Any) -> list[int]:
        """Take the response's records; return the partitions that had some."""
        assert response.error_code == 0
        self.session, self.epoch = response.session_id, self.epoch + 1
        self.changed = []
        for topic in response.responses:
            for data in topic.partitions:
                assert data.error_code == 0
                for batch in batches(data.records):
                    self.values[data.partition_index] += [record.value for record in batch.records() if record.value]
                    self.offsets[data.partition_index] = batch.last_offset + 1
                if data.records:
                    self.changed.append(data.partition_index)
        return self.changed

    def poll(self, **fields: Any) -> list[int]:
        return self.take(self.apis.call(self.request(**fields), 12))


def many(directory: Path, **how: Any) -> Apis:
    apis = Apis(directory, **how)
    for partition in range(PARTITIONS):
        apis.lead(TOPIC, partition)
    return apis


@pytest.fixture
def apis(tmp_path: Path) -> Apis:
    return many(tmp_path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that were read."""
    found: list[int] = []

    def read(self: Partition, *arguments: Any, _genuine: Any = Partition.read) -> Any:
        found.append(self.topic_partition.partition)
        return _genuine(self, *arguments)

    monkeypatch.setattr(Partition, "read", read)
    return found


def append(apis: Apis, partition: int, *values: bytes) -> None:
    apis.append(*values, topic_partition=TopicPartition(TOPIC, partition))


def settle(consumer: Consumer) -> None:
    for _ in range(3):
        consumer.poll()


def test_idle_partitions_are_not_read(apis: Apis, reads: list[int]) -> None:
    consumer = Consumer(apis)
    settle(consumer)
    reads.clear()
    assert consumer.poll() == []
    assert len(reads) <= READ_IN_TURN
    append(apis, 3, b"a")
    reads.clear()
    assert consumer.poll() == [3]
    assert len(reads) <= 1 + READ_IN_TURN
    assert consumer.values[3] == [b"a"]


def test_a_small_session_reads_all(apis: Apis, reads: list[int]) -> None:
    consumer = Consumer(apis, LEAST_WATCHED - 1)
    settle(consumer)
    reads.clear()
    consumer.poll()
    assert len(reads) == LEAST_WATCHED - 1


def test_a_session_that_grows_is_watched(apis: Apis, reads: list[int]) -> None:
    consumer = Consumer(apis, LEAST_WATCHED - 1)
    settle(consumer)
    for partition in range(LEAST_WATCHED - 1, PARTITIONS):
        consumer.offsets[partition], consumer.values[partition] = 0, []
        consumer.changed.append(partition)
    settle(consumer)
    reads.clear()
    append(apis, 2, b"a")
    assert consumer.poll() == [2]
    assert len(reads) <= 1 + READ_IN_TURN


def test_a_waiting_fetch_is_answered_with_what_changes(apis: Apis) -> None:
    consumer = Consumer(apis)
    settle(consumer)
    waiting = apis.start(consumer.request(max_wait_ms=500), 12)
    assert not waiting.done()
    append(apis, 7, b"a")
    assert consumer.take(apis.decoded(FetchRequest, waiting.result(0), 12)) == [7]


def test_partitions_take_turns_when_bytes_are_limited(apis: Apis) -> None:
    consumer = Consumer(apis)
    settle(consumer)
    for number in range(3):
        for partition in (1, 5, 9):
            append(apis, partition, b"%d" % number)
    found = [consumer.poll(max_bytes=1) for _ in range(3)]
    assert sorted(found) == [[1], [5], [9]]


def test_records_that_a_client_does_not_take_are_sent_again(apis: Apis) -> None:
    consumer = Consumer(apis)
    settle(consumer)
    append(apis, 4, b"a")
    assert consumer.poll() == [4]
    consumer.changed.clear()  # the client asks from the same offset again
    assert consumer.poll() == [4]


def test_an_open_transaction_does_not_settle_a_partition(tmp_path: Path) -> None:
    apis = many(tmp_path, **{"transaction.partition.verification.enable": False})
    consumer = Consumer(apis)
    settle(consumer)
    open_transaction = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    apis.append(b"a", topic_partition=TopicPartition(TOPIC, 2), batch_options=open_transaction)
    assert consumer.poll(isolation_level=1) == []
    assert consumer.poll(isolation_level=1) == []
    assert consumer.poll() == [2]


def test_the_records_of_a_throttled_fetch_are_sent_next(tmp_path: Path) -> None:
    apis = many(tmp_path)
    consumer = Consumer(apis)
    settle(consumer)
    append(apis, 4, b"a")
    apis.quotas.update_client("client", {"consumer_byte_rate": "1000000"})
    measured = apis.start(consumer.request(), 12)
    consumer.take(apis.decoded(FetchRequest, measured.throttled(100), 12))
    measured = apis.start(consumer.request(), 12)
    assert consumer.take(apis.decoded(FetchRequest, measured.answer(), 12)) == [4]


@pytest.mark.parametrize("seed", range(share_of(40)))
def test_nothing_is_lost_in_any_order_of_appends_and_fetches(apis: Apis, seed: int) -> None:
    chance = random.Random(seed)
    consumer = Consumer(apis)
    expected: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    waiting: Any = None
    for number in range(60):
        if chance.random() < 0.5:
            partition, value = chance.randrange(6), b"%d" % number
            append(apis, partition, value)
            expected[partition].append(value)
        if waiting is not None:
            if waiting.done():
                consumer.take(apis.decoded(FetchRequest, waiting.result(0), 12))
                waiting = None
            continue
        how = {"max_bytes": chance.choice((1, 300, 1 << 20)), "isolation_level": chance.randrange(2)}
        answer = apis.start(consumer.request(max_wait_ms=chance.choice((0, 500)), **how), 12)
        if hasattr(answer, "done"):
            waiting = answer
        else:
            consumer.take(apis.decoded(FetchRequest, answer, 12))
    if waiting is not None:
        apis.advance_ms(1000)
        consumer.take(apis.decoded(FetchRequest, waiting.result(0), 12))
    for _ in range(100):
        if consumer.values == expected:
            break
        consumer.poll(max_bytes=1)
    assert consumer.values == expected
