"""A broker and sessions in process, for tests of the console."""

from collections.abc import Iterable, Sequence
from typing import Any

import twisted_kafka
from tests.support.eventually import eventually
from twisted_kafka.console.cluster.coordinators import GROUP, coordinator_of
from twisted_kafka.console.cluster.producer import ALL, Producer
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.network.requests.kafka_principal import ANONYMOUS, KafkaPrincipal
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupHeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from twisted_kafka.protocol.messages.coordinators.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition

ADDRESS = "127.0.0.1"


def session_in(broker: twisted_kafka.Broker, user: str | None = None, timeout_s: float = 10.0) -> Session:
    """Return a session of a user in this broker."""
    principal = ANONYMOUS if user is None else KafkaPrincipal("User", user)
    return broker._server.local_broker().session(principal, ADDRESS, timeout_s)


def make_topic(session: Session, name: str, partitions: int = 1, **configs: str) -> str:

    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    (result,) = session.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics
    assert not result.error_code, result
    return name


def write(session: Session, topic: str, records: Iterable[Written], compression: Compression = Compression.NONE) -> None:
    """Write records, in a batch for each partition."""
    (found,) = session.topics([topic])
    producer = Producer(session, topic, len(found.partitions), ALL, compression)
    for each in records:
        producer.add(each)
    producer.flush()


def write_in_transaction_of_nobody(session: Session, topic: str, producer_id: int = 4711) -> None:
    """Write a record of a transaction that no coordinator knows, an hour ago, to partition 0."""
    written_ms = session.wall_ms() - 3_600_000
    batch = build_batch(
        [SimpleRecord(written_ms, None, b"paid")], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
    (leader,) = session.by_leader([TopicPartition(topic, 0)])
    request = ProduceRequest(transactional_id="nobody", acks=-1, timeout_ms=10_000, topic_data=data)
    (answer,) = session.ask(request, leader, latest=7).responses
    assert not answer.partition_responses[0].error_code, answer


def join_classic(session: Session, group: str, topic: str, partitions: Sequence[int]) -> str:
    """Let a member of a classic group join, with these partitions; return its id."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=list(partitions))]
    )
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")]
    join = JoinGroupRequest(
        group_id=group, session_timeout_ms=30_000, rebalance_timeout_ms=1_000, protocol_type="consumer", protocols=protocols
    )
    joined = eventually(lambda: each if not (each := session.ask(join, latest=3)).error_code else None)
    mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\x00\x00" + assignment.encode(0))
    sync = SyncGroupRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[mine])
    assert not session.ask(sync, latest=2).error_code
    return str(joined.member_id)


def leave_classic(session: Session, group: str, member_id: str) -> None:
    assert not session.ask(LeaveGroupRequest(group_id=group, member_id=member_id), latest=2).error_code


def join_consumer(session: Session, group: str, topic: str, *, kind: type[Any] = ConsumerGroupHeartbeatRequest) -> None:
    """Let a member of a consumer or share group join, and wait until it has partitions."""
    more: dict[str, Any] = {"rebalance_timeout_ms": 10_000, "topic_partitions": []} if kind is ConsumerGroupHeartbeatRequest else {}
    member_id, epoch = "AAAAAAAAAAAAAAAAAAAAAA", 0
    session.retrying(lambda: coordinator_of(session, group, GROUP))  # makes its topic

    def has_partitions() -> bool:
        nonlocal epoch
        first = more if not epoch else {}
        beat = kind(group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=[topic], **first)
        answer = session.ask(beat)
        if answer.error_code:
            return False
        epoch = answer.member_epoch
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    eventually(has_partitions)
