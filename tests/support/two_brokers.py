"""Two brokers in one process, each with a store and a controller of its own, that a third one's orders make a cluster."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually
from tests.support.features import finalize
from tests.support.ports import free_port
from twisted_kafka import Broker
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.log.batch_headers import BatchHeader
from twisted_kafka.log.producer_state.producer_state_manager import read_marker
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.coordinators.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from twisted_kafka.protocol.messages.coordinators.transaction_admin import DescribeTransactionsRequest
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.inter_broker import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.talk import Talk

TOPIC = "orders"
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
GROUP = "copiers"
EPOCH = 1_000
"""The foreign controller's, so that the brokers' own ones have no say any more."""
PRIVILEGED = "PLAINTEXT"
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 3,
    "request.timeout.ms": 5_000,
    "log.initial.task.delay.ms": 3_600_000,
}


def port_of(broker: Broker, listener: str) -> int:
    return next(end_point.port for end_point in broker.listeners if end_point.listener_name == listener)


def create_topic(talk: Talk, partitions: int = 2) -> None:
    new = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
    (created,) = talk.ask(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 5).topics
    assert not created.error_code
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    eventually(lambda: len(talk.ask(wanted, 5).topics[0].partitions) == partitions)


class Member:
    """One of the brokers: id, listeners and data stay, the process of it may stop and come back."""

    def __init__(self, broker_id: int, directory: Path, listeners: Mapping[str, str], **settings: object) -> None:
        """``listeners`` has a security protocol by name."""
        self.id = broker_id
        self._directory = directory
        self._settings = {
            **SETTINGS,
            "broker.id": broker_id,
            "listener.security.protocol.map": [f"{name}:{protocol}" for name, protocol in listeners.items()],
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self._listeners = listeners
        self.broker: Broker
        self.talk: Talk
        self.has_new_controller = False
        """Whether ``order`` has told it something since its start."""

    def start(self) -> None:
        listeners = [f"{name}://localhost:{free_port()}" for name in self._listeners]
        self.broker = Broker({**self._settings, "listeners": listeners}, data_dir=self._directory)
        self.broker.start()
        self.talk = Talk(port_of(self.broker, PRIVILEGED), f"test-{self.id}")
        self.has_new_controller = False

    def stop(self) -> None:
        self.talk.close()
        self.broker.stop()

    def prepare(self, coordinates: int, *, transaction_version: int = 0) -> None:
        """Have the topics, as this broker's own controller makes them, and be coordinator of groups (0) or transactions (1)."""
        coordinator = FindCoordinatorRequest(key="any", key_type=coordinates)
        eventually(lambda: not self.talk.ask(coordinator, 3).error_code)
        finalize(port_of(self.broker, PRIVILEGED), transaction_version)
        create_topic(self.talk)


def order(member: Member, leaders: Mapping[tuple[str, int], int], ports: Mapping[int, int], listener: str) -> None:
    """Tell a broker who leads, and where the brokers are, as the controller of a cluster does."""
    topics: dict[str, UpdateMetadataTopicState] = {}
    for (topic, index), leader in leaders.items():
        state = UpdateMetadataPartitionState(
            partition_index=index, controller_epoch=EPOCH, leader=leader, leader_epoch=1, isr=[leader], replicas=[leader]
        )
        topics.setdefault(topic, UpdateMetadataTopicState(topic_name=topic)).partition_states.append(state)
    alive = [
        UpdateMetadataBroker(id=each, endpoints=[UpdateMetadataEndpoint(port=port, host="localhost", listener=listener)])
        for each, port in ports.items()
    ]
    request = UpdateMetadataRequest(controller_id=9, controller_epoch=EPOCH, topic_states=list(topics.values()), live_brokers=alive)

    def known() -> set[str | None]:
        return {topic.name for topic in member.talk.ask(MetadataRequest(topics=None), 5).topics}

    own = known()
    assert not member.talk.ask(request, 6).error_code
    if not member.has_new_controller:
        # A broker takes topics that its store lacks for deleted when a new controller comes, and believes it after that.
        eventually(lambda: known() == own)
        member.has_new_controller = True
        assert not member.talk.ask(request, 6).error_code


class TransactionalProducer:
    """A producer that speaks the protocol of a ``transaction.version`` to the brokers that it is told."""

    def __init__(self, coordinator: Talk, name: str, version: int) -> None:
        self._coordinator = coordinator
        self.name = name
        self._has_epochs = version == 2
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        answers = []

        def is_answered() -> bool:
            answers.append(coordinator.ask(request, 4))
            return answers[-1].error_code != ErrorCode.CONCURRENT_TRANSACTIONS

        eventually(is_answered)
        assert not answers[-1].error_code
        self.now = Producer(answers[-1].producer_id, answers[-1].producer_epoch)

    @staticmethod
    def ask(talk: Talk, request: Message, version: int) -> Any:
        answer = talk.ask(request, version)
        assert not getattr(answer, "error_code", 0), answer
        return answer

    def add(self, *partitions: int) -> None:
        if self._has_epochs:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.now.producer_id,
            v3_and_below_producer_epoch=self.now.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))],
        )
        (topic,) = self._coordinator.ask(request, 3).results_by_topic_v3_and_below
        assert not any(each.partition_error_code for each in topic.results_by_partition)

    def produce(self, talk: Talk, partition: int, value: bytes, sequence: int = 0, version: int = 11) -> int:
        batch = build_batch(
            [SimpleRecord(timestamp_ms=int(time.time() * 1000), value=value)],  # an old one would roll the segment
            producer_id=self.now.producer_id,
            producer_epoch=self.now.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=10_000, topic_data=[data])
        error: int = talk.ask(request, 12 if self._has_epochs else version).responses[0].partition_responses[0].error_code
        return error

    def commit_offsets(self, talk: Talk, offset: int) -> int:
        """Commit the group's offset in the transaction, with the group coordinator that ``talk`` asks."""
        producer_id, epoch = self.now
        if not self._has_epochs:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.name, group_id=GROUP, producer_id=producer_id, producer_epoch=epoch
            )
            self.ask(self._coordinator, added, 3)
        entry = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[entry])]
        request = TxnOffsetCommitRequest(
            transactional_id=self.name, group_id=GROUP, producer_id=producer_id, producer_epoch=epoch, topics=topics
        )
        answer = talk.ask(request, 5 if self._has_epochs else 3)
        error: int = answer.topics[0].partitions[0].error_code
        return error

    def end(self, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.now.producer_id,
            producer_epoch=self.now.epoch,
            committed=committed,
        )
        answer = self.ask(self._coordinator, request, 5 if self._has_epochs else 3)
        if self._has_epochs:
            self.now = Producer(answer.producer_id, answer.producer_epoch)

    def await_state(self, state: str) -> None:
        eventually(lambda: self.state() == state, self.state)

    def state(self) -> str:
        (found,) = self._coordinator.ask(DescribeTransactionsRequest(transactional_ids=[self.name]), 0).transaction_states
        state: str = found.transaction_state
        return state


def read_committed(talk: Talk, partition: int) -> list[bytes]:
    """Return the values that a read_committed consumer sees."""
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]
    )
    (answer,) = talk.ask(request, 11).responses[0].partitions
    assert not answer.error_code
    aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or [])
    values = []
    hidden: set[int] = set()
    for batch in batches(bytes(answer.records or b"")):
        if batch.is_control:
            hidden.discard(batch.producer_id)
            continue
        hidden |= {producer_id for first, producer_id in aborted if first <= batch.base_offset}
        aborted = [(first, producer_id) for first, producer_id in aborted if first > batch.base_offset]
        if batch.producer_id not in hidden:
            values += [bytes(record.value or b"") for record in batch.records()]
    return values


def stable_offset(talk: Talk) -> int:
    """Return the group's offset as a member with ``require_stable`` gets it: -1 if there is none, -2 while it is not known."""
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    (partition,) = talk.ask(OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=True), 7).topics[0].partitions
    offset: int = -2 if partition.error_code else partition.committed_offset
    return offset


def markers(directory: Path) -> list[tuple[int, bool]]:
    """Return the markers in a partition's segments: producer ids, and whether each is a commit."""
    found = []
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        at = 0
        while at < len(data):
            header = BatchHeader(data, at, at)
            marker = read_marker(data, header) if header.is_control else None
            if marker is not None:
                found.append((header.producer_id, not marker[0]))
            at += header.size_bytes
    return found
