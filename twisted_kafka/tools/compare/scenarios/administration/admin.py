"""Elections, reassignments, features and producers: good input and bad."""

from twisted_kafka.protocol.messages.administration.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from twisted_kafka.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from twisted_kafka.protocol.messages.coordinators.transaction_admin import DescribeProducersRequest, TopicRequest
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.talk import Talk, scenario

START_MS = 1_700_000_000_000


@scenario(ElectLeadersRequest)
def elect_leaders(talk: Talk, version: int) -> None:
    topic = talk.create("a", 2)
    for election in (0, 1) if version else (0,):
        for name, partitions in ((topic, [0, 1]), (topic, [5]), (talk.topic("missing"), [0]), (topic, []), (topic, [0, 0])):
            named = [ElectLeadersRequestTopicPartitions(topic=name, partitions=partitions)]
            talk.ask(ElectLeadersRequest(election_type=election, topic_partitions=named, timeout_ms=5000), version)
        talk.ask(ElectLeadersRequest(election_type=election, topic_partitions=None, timeout_ms=5000), version)
        talk.ask(ElectLeadersRequest(election_type=election, topic_partitions=[], timeout_ms=5000), version)
    if version:
        named = [ElectLeadersRequestTopicPartitions(topic=topic, partitions=[0])]
        talk.ask(ElectLeadersRequest(election_type=7, topic_partitions=named, timeout_ms=5000), version)


@scenario(AlterPartitionReassignmentsRequest)
def alter_partition_reassignments(talk: Talk, version: int) -> None:
    topic = talk.create("a", 2)
    for name, partition, replicas in (
        (topic, 0, [1]),
        (topic, 0, None),
        (topic, 0, []),
        (topic, 0, [1, 1]),
        (topic, 0, [-1]),
        (topic, 0, [2]),
        (topic, 0, [1, 2]),
        (topic, 7, [1]),
        (topic, 7, None),
        (talk.topic("missing"), 0, [1]),
        (talk.topic("missing"), 0, [9]),
    ):
        moves = [ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)])]
        talk.ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=moves), version)
    talk.ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[]), version)


@scenario(ListPartitionReassignmentsRequest)
def list_partition_reassignments(talk: Talk, version: int) -> None:
    topic = talk.create("a")
    for topics in (None, [], [(topic, [0])], [(topic, [9]), (talk.topic("missing"), [0])]):
        named = None if topics is None else [ListPartitionReassignmentsTopics(name=a, partition_indexes=b) for a, b in topics]
        talk.ask(ListPartitionReassignmentsRequest(timeout_ms=5000, topics=named), version)


@scenario(UpdateFeaturesRequest)
def update_features(talk: Talk, version: int) -> None:
    for feature, level in (("metadata.version", 10), ("", 1), ("unheard.of", 3), ("unheard.of", 0), ("kraft.version", 1)):
        update = FeatureUpdateKey(feature=feature, max_version_level=level)
        talk.ask(UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update]), version)
        if version == 0:
            update = FeatureUpdateKey(feature=feature, max_version_level=level, allow_downgrade=True)
            talk.ask(UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update]), version)
        else:
            for upgrade_type in (0, 2, 3):
                update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=upgrade_type)
                talk.ask(UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update], validate_only=True), version)
    talk.ask(UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[]), version)


@scenario(DescribeProducersRequest)
def describe_producers(talk: Talk, version: int) -> None:
    topic = talk.create("a", 2)
    talk.ask(DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0, 1, 7])]), version)
    records = build_batch([SimpleRecord(START_MS, None, b"x", ())] * 3, producer_id=4711, producer_epoch=2, base_sequence=0)
    topic_data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=1, records=records)])
    talk.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic_data]), 7)
    answer = talk.ask(DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[1])]), version)
    assert [each.producer_id for each in answer.topics[0].partitions[0].active_producers] == [4711]
    for name in (talk.topic("missing"), "", "a/b"):
        talk.ask(DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[0])]), version)
    talk.ask(DescribeProducersRequest(topics=[]), version)
