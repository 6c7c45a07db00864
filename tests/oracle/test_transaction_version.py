"""Producers with ``transaction.version`` 2 get the answers of Apache Kafka 4: epochs, errors and states, at levels 2 and 1."""

import time
from collections.abc import Callable, Iterator
from copy import copy

import pytest

from tests.support.clients.clients import java_library
from tests.support.clients.served import ServedBroker
from tests.support.features import finalize
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.compared import running
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transaction_admin import DescribeTransactionsRequest
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.answers import differences
from twisted_kafka.tools.compare.preparation import warm
from twisted_kafka.tools.compare.talk import TIMEOUT_S, Talk

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600)]

VERSION = "4.4.0"
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "log.initial.task.delay.ms": 3_600_000,  # or retention deletes the records, which have old timestamps, in between
}
SHORT_TIMEOUT_MS = 300
NOW_MS = 1_700_000_000_000
NO_PRODUCER = Producer(-1, -1)
PREPARED = ("PrepareCommit", "PrepareAbort")


class Transactional:
    """A producer as a test makes it speak; it takes on the epochs that it is given."""

    def __init__(self, talk: Talk, topic: str, name: str, timeout_ms: int = 60_000) -> None:
        self.talk = talk
        self.topic = topic
        self.name = talk.topic(name)
        self.timeout_ms = timeout_ms
        self.now = NO_PRODUCER
        self.init()

    def other(self, shift: int) -> Producer:
        return Producer(self.now.producer_id, self.now.epoch + shift)

    def init(self, expected: Producer | None = None) -> None:
        request = self.init_request(expected or NO_PRODUCER)
        deadline = time.monotonic() + TIMEOUT_S
        while self.talk.ask(request, 5, note=False).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.settle()
        answer = self.talk.ask(request, 5)  # once more, so that both brokers were asked without anything under way
        if not answer.error_code:
            self.now = Producer(answer.producer_id, answer.producer_epoch)

    def init_request(self, expected: Producer = NO_PRODUCER) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
        )

    def produce(self, sequence: int = 0, version: int = 12, as_: Producer | None = None) -> None:
        producer_id, epoch = as_ or self.now
        batch = build_batch(
            [SimpleRecord(NOW_MS, None, b"v")],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = TopicProduceData(name=self.topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        self.talk.ask(ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=5000, topic_data=[data]), version)

    def offsets(self, version: int = 5, as_: Producer | None = None) -> None:
        producer_id, epoch = as_ or self.now
        partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=partitions)],
        )
        self.talk.ask(request, version)

    def add(self) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.now.producer_id,
            v3_and_below_producer_epoch=self.now.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[0])],
        )
        self.talk.ask(request, 3)

    def end(self, committed: bool = True, version: int = 5, as_: Producer | None = None) -> None:
        producer_id, epoch = as_ or self.now
        request = EndTxnRequest(transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=committed)
        answer = self.talk.ask(request, version)
        if version >= 5 and not answer.error_code:
            self.now = Producer(answer.producer_id, answer.producer_epoch)
        self.settle()
        self.describe()

    def describe(self, note: bool = True) -> str:
        (state,) = self.talk.ask(DescribeTransactionsRequest(transactional_ids=[self.name]), 0, note=note).transaction_states
        return str(state.transaction_state)

    def settle(self, *unless: str) -> None:
        """Wait until the markers are written, and the state is none of these."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.describe(note=False) in (*PREPARED, *unless):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def ends_and_what_is_asked_again(talk: Talk, topic: str) -> None:
    one = Transactional(talk, topic, "one")
    one.produce()
    one.produce(1)
    one.offsets()
    one.describe()
    one.end()
    for committed in (True, False):
        one.end(committed, as_=one.other(-1))
    one.end()
    one.end(False)
    for committed, shift in ((False, -1), (True, -1), (False, -2), (False, 1)):
        one.end(committed, as_=one.other(shift))
    one.produce()
    one.end(as_=one.other(-1))
    one.end(False, as_=one.other(-1))
    one.end()
    none = Transactional(talk, topic, "none")
    none.end()
    none.end(False)
    none.end()


def what_does_not_belong(talk: Talk, topic: str) -> None:
    one = Transactional(talk, topic, "one")
    one.produce(3)
    one.describe()
    one.end(False)
    one.produce(as_=one.other(5))
    one.produce(as_=Producer(one.now.producer_id + 1_000_000, 0))
    one.produce()
    one.end()
    for shift in (-1, 1):
        one.produce(as_=one.other(shift))
        one.offsets(as_=one.other(shift))
    one.offsets(as_=Producer(one.now.producer_id + 1_000_000, 0))
    one.topic = talk.topic("missing")
    one.produce()
    one.describe()


def another_one_with_the_id(talk: Talk, topic: str) -> None:
    one = Transactional(talk, topic, "one")
    one.produce()
    Transactional(talk, topic, "one")
    for committed in (True, False):
        one.end(committed)
    one.produce(1)
    one.offsets()


def an_older_one_with_the_id(talk: Talk, topic: str) -> None:
    one = Transactional(talk, topic, "one")
    one.produce()
    one.end()
    older = copy(one)
    talk.ask(older.init_request(), 5)
    older.now = one.other(1)
    older.add()
    older.end(False, version=4)
    one.end(False)
    one.end(True)


def what_takes_too_long(talk: Talk, topic: str) -> None:
    for committed in (False, True):
        late = Transactional(talk, topic, f"late-{committed}", SHORT_TIMEOUT_MS)
        late.produce()
        late.settle("Ongoing")
        late.describe()
        late.end(committed)
        late.end(False)
        late.produce()
    again = Transactional(talk, topic, "again", SHORT_TIMEOUT_MS)
    again.produce()
    again.settle("Ongoing")
    again.init(again.now)
    again.produce()
    again.end()
    older = Transactional(talk, topic, "older", SHORT_TIMEOUT_MS)
    older.add()
    older.settle("Ongoing")
    older.end(version=4)
    older.end(False, version=4)


def older_producers(talk: Talk, topic: str) -> None:
    one = Transactional(talk, topic, "one")
    for version in (11, 10):
        one.produce(version=version)
    for version in (4, 3):
        one.offsets(version)
    one.add()
    one.produce(version=11)
    one.end(version=4)
    one.add()
    one.produce(1, version=11)
    one.end(False, version=4)
    one.end(False, version=4)
    one.add()
    one.produce(2, version=11)
    one.end()
    one.add()
    one.produce(version=11)
    one.end(version=4)
    one.produce(1)
    one.end(version=4)
    one.produce(2)
    one.end()


def markers(talk: Talk, topic: str) -> None:
    one = Transactional(talk, topic, "one")
    one.produce()
    for shift, version in ((0, 2), (1, 2), (1, 2), (0, 2), (1, 0), (0, 1)):
        marker = WritableTxnMarker(
            producer_id=one.now.producer_id,
            producer_epoch=one.now.epoch + shift,
            transaction_version=version,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        )
        talk.ask(WriteTxnMarkersRequest(markers=[marker]), 2)


@pytest.fixture(scope="module")
def kafka_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if java_library("kafka_2.13", VERSION) is None:
        pytest.skip("Java or Maven is not installed")
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka-4"), kraft=True, version=VERSION, **SETTINGS)
    with running(broker):
        yield broker


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    settings = [f"{key}={value}" for key, value in SETTINGS.items()]
    broker = ServedBroker(tmp_path_factory.mktemp("newer") / "data", *settings)
    broker.start()
    try:
        warm(broker.port)
        finalize(broker.port, 2)
        yield broker
    finally:
        broker.stop()


def compared(kafka_4: ApacheKafka, newer: ServedBroker, level: int, scenario: Callable[[Talk, str], None]) -> list[str]:
    """Return the differences between the brokers' answers in a scenario."""
    answers = []
    for port in (kafka_4.port, newer.port):
        if level == 1:
            finalize(port, 1)
        talk = Talk(port, f"{scenario.__name__}.{level}")
        try:
            topic = talk.create("t")
            talk.known(topic)
            scenario(talk, topic)
        finally:
            talk.close()
            if level == 1:
                finalize(port, 2)
        answers.append(talk.answers)
    return [
        f"{at} {expected[0]} {path}: Kafka {kafkas!r}, here {our!r}"
        for at, (expected, said) in enumerate(zip(*answers, strict=True))
        for path, kafkas, our in differences(expected[1], said[1])
    ]


@pytest.mark.parametrize(
    "scenario",
    [
        ends_and_what_is_asked_again,
        what_does_not_belong,
        another_one_with_the_id,
        pytest.param(what_takes_too_long, marks=pytest.mark.alone),
        older_producers,
        markers,
    ],
    ids=lambda scenario: scenario.__name__,
)
@pytest.mark.parametrize("level", [2, 1])
def test_answers_are_those_of_kafka_4(
    kafka_4: ApacheKafka, newer: ServedBroker, level: int, scenario: Callable[[Talk, str], None]
) -> None:
    found = compared(kafka_4, newer, level, scenario)
    assert not found, "\n" + "\n".join(found)


def test_a_producer_does_not_get_the_epoch_of_the_one_that_fenced_it(kafka_4: ApacheKafka, newer: ServedBroker) -> None:
    """Kafka 4 takes its abort for one that it asks for again, as the epoch is by one higher than its own."""
    found = compared(kafka_4, newer, 2, an_older_one_with_the_id)
    assert [each for each in found if ".error_code" in each] == [
        "8 EndTxnRequest v5 .error_code: Kafka 0, here 90",
        "10 EndTxnRequest v5 .error_code: Kafka 48, here 90",
    ]
