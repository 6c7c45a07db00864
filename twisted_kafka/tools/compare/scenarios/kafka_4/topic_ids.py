"""Produce v13 and other versions in which topics have ids and no names."""

from functools import partial

from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.messages.administration.topics import DeleteTopicsRequest
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from twisted_kafka.protocol.messages.coordinators.transactions import (
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.tools.compare.answers import plain
from twisted_kafka.tools.compare.data_requests import data
from twisted_kafka.tools.compare.talk import SCENARIOS_OF_KAFKA_4, Talk, scenario

UNKNOWN, OTHER = b"u" * 16, b"v" * 16
newer = partial(scenario, registry=SCENARIOS_OF_KAFKA_4)

Asked = tuple[bytes, list[int]]
"""The id of a topic, and partitions of it."""


def created(talk: Talk, partitions: int = 2) -> bytes:
    """Create a topic; return its id."""
    topic = talk.create("t", partitions)
    talk.known(topic)
    return talk.topic_id(topic)


def deleted(talk: Talk) -> None:
    """Delete the topic, and wait until the broker has forgotten it: with KRaft that is later than the answer."""
    topic_id = talk.topic_id(talk.topic("t"))
    talk.ask(DeleteTopicsRequest(topic_names=[talk.topic("t")], timeout_ms=10_000), 5, note=False)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
    talk.until(lambda: talk.ask(request, 12, note=False).topics[0].error_code, "the topic is still known")


def ask(talk: Talk, request: ProduceRequest, version: int) -> None:
    """Note the answer with its topics in the order of the request: Apache Kafka's comes from a hash table."""
    order = [topic.topic_id for topic in request.topic_data]
    answer = talk.ask(request, version, note=False)
    answer.responses.sort(key=lambda topic: order.index(topic.topic_id))
    talk.answers.append((f"ProduceRequest v{version}", plain(answer)))


def produce(*asked: Asked, acks: int = 1, records: bytes | None = None) -> ProduceRequest:
    batch = data(13) if records is None else records
    topics = [
        TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=each, records=batch) for each in indexes])
        for topic_id, indexes in asked
    ]
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=topics)


@newer(ProduceRequest, since=13)
def produce_by_id(talk: Talk, version: int) -> None:
    known = created(talk)
    for asked in (
        [(known, [0, 1])],
        [(known, [7])],
        [(UNKNOWN, [0, 1])],
        [(NO_UUID, [0])],
        [(known, [0]), (UNKNOWN, [0]), (NO_UUID, [0])],
        [(UNKNOWN, [0]), (OTHER, [0]), (known, [0])],
    ):
        ask(talk, produce(*asked), version)
    for topic_id in (known, UNKNOWN):
        ask(talk, produce((topic_id, [0]), records=b""), version)
        ask(talk, produce((topic_id, [0]), acks=5), version)
        ask(talk, produce((topic_id, [0]), records=data(version)[:-3]), version)


@newer(ProduceRequest, since=13)
def produce_to_a_topic_that_was_created_again(talk: Talk, version: int) -> None:
    old = created(talk)
    ask(talk, produce((old, [0])), version)
    deleted(talk)
    ask(talk, produce((old, [0])), version)
    new = created(talk)
    ask(talk, produce((old, [0])), version)
    ask(talk, produce((old, [0]), (new, [0])), version)
    talk.ask(fetch(new), 13)


def fetch(topic_id: bytes, offset: int = 0, high_watermark: int = 2**63 - 1) -> FetchRequest:
    partition = FetchPartition(fetch_offset=offset, partition_max_bytes=100_000, high_watermark=high_watermark)
    return FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])])


@newer(FetchRequest, since=18)
def fetch_by_id(talk: Talk, version: int) -> None:
    old = created(talk)
    ask(talk, produce((old, [0])), 13)
    talk.ask(fetch(old), version)
    for high_watermark in (0, 3, 9, -5):
        talk.ask(fetch(old, 3, high_watermark), version)
    talk.ask(fetch(UNKNOWN), version)
    deleted(talk)
    talk.ask(fetch(old), version)
    talk.ask(fetch(created(talk)), version)
    talk.ask(fetch(old), version)


def commit(group: str, *asked: Asked, metadata: str = "", generation: int = -1) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            topic_id=topic_id,
            partitions=[
                OffsetCommitRequestPartition(partition_index=each, committed_offset=5, committed_metadata=metadata)
                for each in indexes
            ],
        )
        for topic_id, indexes in asked
    ]
    member_id = "stranger" if generation >= 0 else ""
    return OffsetCommitRequest(group_id=group, member_id=member_id, generation_id_or_member_epoch=generation, topics=topics)


@newer(OffsetCommitRequest, since=10)
def commit_by_id(talk: Talk, version: int) -> None:
    known, group = created(talk), talk.topic("group")
    for asked in (
        [(known, [0, 1])],
        [(known, [7])],
        [(UNKNOWN, [0])],
        [(NO_UUID, [0])],
        [(UNKNOWN, [0]), (known, [0, 9]), (OTHER, [1])],
        [],
    ):
        talk.ask(commit(group, *asked), version)
    both = (UNKNOWN, [0]), (known, [0])
    talk.ask(commit("", *both), version)
    talk.ask(commit(group, *both, generation=3), version)
    talk.ask(commit(group, *both, metadata="x" * 5000), version)
    deleted(talk)
    talk.ask(commit(group, (known, [0])), version)
    again = created(talk)
    talk.ask(commit(group, (known, [0]), (again, [0])), version)
    talk.ask(commit(group, (known, [1])), version)
    ask_offsets(talk, group, [(again, [0, 1])], version)


def ask_offsets(talk: Talk, group: str, asked: list[Asked] | None, version: int) -> None:
    """Note a group's offsets, its topics in the order of the request."""
    topics = None if asked is None else [OffsetFetchRequestTopics(topic_id=one, partition_indexes=at) for one, at in asked]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    answer = talk.ask(request, version, note=False)
    if asked is not None:
        order = [topic_id for topic_id, _ in asked]
        answer.groups[0].topics.sort(key=lambda topic: order.index(topic.topic_id))
    talk.answers.append((f"OffsetFetchRequest v{version}", plain(answer)))


@newer(OffsetFetchRequest, since=10)
def fetch_offsets_by_id(talk: Talk, version: int) -> None:
    known, group = created(talk), talk.topic("group")
    talk.ask(commit(group, (known, [0])), 10)
    for name in (group, talk.topic("none"), ""):
        for asked in ([(known, [0, 1, 9])], [(UNKNOWN, [0]), (known, [0]), (NO_UUID, [0, 1])], [(UNKNOWN, [0])], [], None):
            ask_offsets(talk, name, asked, version)
    deleted(talk)
    ask_offsets(talk, group, None, version)
    ask_offsets(talk, group, [(known, [0])], version)
    again = created(talk)
    ask_offsets(talk, group, None, version)
    ask_offsets(talk, group, [(known, [0]), (again, [0])], version)


@newer(TxnOffsetCommitRequest, since=6)
def commit_by_id_in_a_transaction(talk: Talk, version: int) -> None:
    name, group = talk.topic("id"), talk.topic("group")
    known = created(talk)
    init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    producer = talk.ask(init, 5, note=False)

    def ask(*asked: Asked, metadata: str = "", epoch: int = 0) -> None:
        topics = [
            TxnOffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=each, committed_offset=5, committed_metadata=metadata)
                    for each in indexes
                ],
            )
            for topic_id, indexes in asked
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch + epoch,
            topics=topics,
        )
        talk.ask(request, version)

    for asked in ([(UNKNOWN, [0])], [(NO_UUID, [0])], [(known, [9])], [(UNKNOWN, [0]), (known, [0])], []):
        ask(*asked)
    ask((UNKNOWN, [0]), (known, [0]), epoch=3)
    ask((UNKNOWN, [0]), (known, [0]), metadata="x" * 5000)
    deleted(talk)
    ask((known, [0]))
    created(talk)
    ask((known, [0]))
