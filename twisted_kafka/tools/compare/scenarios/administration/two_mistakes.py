"""Two mistakes in one request: the error names the one that Kafka looks for first."""

from itertools import combinations
from typing import Any

from twisted_kafka.protocol.messages.administration.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from twisted_kafka.protocol.messages.administration.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ReassignablePartition,
    ReassignableTopic,
)
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from twisted_kafka.protocol.messages.administration.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from twisted_kafka.tools.compare.scenarios.administration.configs import APPEND, BROKER, BROKER_LOGGER, SET, TOPIC, change, replace
from twisted_kafka.tools.compare.talk import Talk, scenario


def settings(*pairs: tuple[str, str | None]) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=name, value=value) for name, value in pairs]


def assigned(*lists: tuple[int, list[int]]) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in lists]


@scenario(CreateTopicsRequest, since=7)
def topics_with_two_mistakes(talk: Talk, version: int) -> None:
    exists = talk.create("exists.one")
    mistakes: list[dict[str, Any]] = [
        {"name": exists},
        {"name": exists.replace(".", "_")},
        {"name": "a/b"},
        {"name": ""},
        {"name": "x" * 250},
        {"name": "__cluster_metadata"},
        {"num_partitions": 0},
        {"replication_factor": 0},
        {"replication_factor": 9},
        {"configs": settings(("no.such.key", "1"))},
        {"configs": settings(("retention.ms", None))},
        {"configs": settings(("retention.ms", "soon"))},
        {"configs": settings(("no.such.key", "1"), ("retention.ms", None))},
        {"configs": settings(("retention.ms", "soon"), ("retention.ms", None))},
        {"configs": settings(("retention.ms", "1"), ("retention.ms", "soon"))},
        {"configs": settings(("remote.storage.enable", "true"))},
        {"assignments": assigned((0, [1]))},
        {"assignments": assigned((1, [1]))},
        {"assignments": assigned((0, [1, 1]))},
        {"assignments": assigned((0, []))},
        {"assignments": assigned((0, [1]), (1, [1, 2]))},
        {"assignments": assigned((0, [9]))},
        {"assignments": assigned((0, [-1]))},
    ]
    pairs = [one | other for one, other in combinations(mistakes, 2) if not one.keys() & other.keys()]
    alone = [one | {"num_partitions": -1, "replication_factor": -1} for one in mistakes if "assignments" in one]
    both = [one | other for one in alone for other in mistakes if not one.keys() & other.keys()]
    for fields in mistakes + alone + pairs + both:
        topic = CreatableTopic(**{"name": talk.topic("new"), "num_partitions": 1, "replication_factor": 1, **fields})
        talk.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True), version)
    for fields in mistakes:
        topic = CreatableTopic(**{"name": talk.topic("new"), "num_partitions": 1, "replication_factor": 1, **fields})
        talk.ask(CreateTopicsRequest(topics=[topic, topic], timeout_ms=10_000, validate_only=True), version)


@scenario(CreatePartitionsRequest, since=3)
def growth_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("a", 3)
    for name in (topic, talk.topic("missing"), "a/b"):
        for count in (-1, 0, 2, 3, 4, 5, 20_000):
            for lists in (None, [], [[1]], [[9]], [[1, 1]], [[]], [[1, 2]], [[1], [9]], [[1], []], [[1], [1, 1]], [[-1]]):  # type: ignore[var-annotated]
                assignments = None if lists is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in lists]
                if count == 20_000 and name == topic:
                    continue  # there is a limit here, and none in Apache Kafka
                entry = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
                request = CreatePartitionsRequest(topics=[entry], timeout_ms=10_000, validate_only=True)
                talk.ask(request, version)
        entry = CreatePartitionsTopic(name=name, count=2, assignments=[])
        talk.ask(CreatePartitionsRequest(topics=[entry, entry], timeout_ms=10_000, validate_only=True), version)


@scenario(DeleteTopicsRequest, since=6)
def deletions_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("a")
    topic_id = talk.topic_id(topic)
    unknown = bytes(range(16))
    for states in (
        [(None, bytes(16))],
        [(talk.topic("missing"), unknown)],
        [("a/b", bytes(16))],
        [("", bytes(16))],
        [("", unknown)],
        [(None, unknown), (None, unknown)],
        [(talk.topic("missing"), bytes(16)), (talk.topic("missing"), bytes(16))],
        [(None, unknown), (talk.topic("missing"), unknown)],
        [(topic, topic_id), (talk.topic("missing"), bytes(16))],
    ):
        wanted = [DeleteTopicState(name=name, topic_id=each) for name, each in states]
        talk.ask(DeleteTopicsRequest(topics=wanted, timeout_ms=5000), version)


CONFIGS: tuple[list[tuple[str, str | None]], ...] = (
    [("retention.ms", "x")],
    [("retention.ms", None)],
    [("no.such.key", "1")],
    [("no.such.key", None)],
    [("retention.ms", "1"), ("retention.ms", "2")],
    [("retention.ms", "x"), ("retention.ms", None)],
    [("no.such.key", "1"), ("retention.ms", "x")],
    [("retention.ms", "x"), ("no.such.key", "1")],
    [("no.such.key", "1"), ("no.such.key", "1")],
    [("retention.ms", "x"), ("segment.bytes", None)],
    [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5"), ("no.such.key", "1")],
    [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5"), ("remote.storage.enable", "true")],
)


@scenario(AlterConfigsRequest, since=2)
def replaced_configs_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("a")
    for kind, names in ((TOPIC, (topic, talk.topic("missing"), "a/b", "")), (BROKER, ("1", "7", "x", "-1")), (77, ("1", ""))):
        for name in names:
            for configs in CONFIGS:
                talk.ask(replace(kind, name, configs, validate_only=True), version)


@scenario(IncrementalAlterConfigsRequest, since=1)
def changed_configs_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("a")
    resources = (
        (TOPIC, (topic, talk.topic("missing"), "a/b", "")),
        (BROKER, ("1", "7", "x", "-1")),
        (BROKER_LOGGER, ("1", "7", "x", "")),
        (77, ("1", "")),
    )
    for kind, names in resources:
        for name in names:
            for configs in CONFIGS:
                talk.ask(change(kind, name, [(key, SET, value) for key, value in configs], validate_only=True), version)
            for changes in (
                [("retention.ms", APPEND, "1"), ("no.such.key", SET, "1")],
                [("retention.ms", APPEND, None)],
                [("retention.ms", SET, None), ("segment.bytes", APPEND, "1")],
                [("segment.bytes", APPEND, "1"), ("segment.bytes", SET, "1")],
                [("cleanup.policy", APPEND, "burn"), ("retention.ms", SET, "x")],
                [("cleanup.policy", APPEND, None), ("retention.ms", SET, "x")],
            ):
                if name not in ("1", topic) or kind == TOPIC:
                    talk.ask(change(kind, name, changes, validate_only=True), version)  # type: ignore[arg-type]


@scenario(AlterPartitionReassignmentsRequest)
def reassignments_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("a", 2)
    for name in (topic, talk.topic("missing"), "a/b", ""):
        for partition in (0, 7, -1):
            for replicas in (None, [], [9], [1, 1], [9, 9], [-1], [-1, -1], [-1, 9], [9, 1, 1]):
                moves = [
                    ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)])
                ]
                talk.ask(AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=moves), version)


@scenario(ElectLeadersRequest, since=1)
def elections_with_two_mistakes(talk: Talk, version: int) -> None:
    topic = talk.create("a")
    for election in (0, 1):
        for name in (talk.topic("missing"), "a/b", ""):
            named = [
                ElectLeadersRequestTopicPartitions(topic=name, partitions=[0, 0, -1]),
                ElectLeadersRequestTopicPartitions(topic=topic, partitions=[5, 0]),
            ]
            talk.ask(ElectLeadersRequest(election_type=election, topic_partitions=named, timeout_ms=5000), version)


@scenario(AlterClientQuotasRequest, since=1)
def quotas_with_two_mistakes(talk: Talk, version: int) -> None:
    wrong = (
        OpData(key="no.such.key", value=1.0),
        OpData(key="connection_creation_rate", value=1.5),
        OpData(key="connection_creation_rate", value=-1.0),
        OpData(key="producer_byte_rate", value=-1.0),
        OpData(key="", value=1.0),
    )
    for entity in (
        [],
        [("ip", "")],
        [("ip", "nowhere.invalid")],
        [("ip", "nowhere.invalid"), ("user", "a")],
        [("ip", ""), ("user", "")],
        [("group", ""), ("ip", "127.0.0.1")],
        [("group", "x"), ("user", "")],
        [("user", ""), ("group", "x")],
        [("user", "a"), ("user", "b")],
        [("user", ""), ("client-id", "")],
        [("ip", "127.0.0.1")],
        [("user", "a")],
    ):
        for operation in wrong:
            named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            entry = AlterClientQuotasRequestEntryData(entity=named, ops=[operation])
            talk.ask(AlterClientQuotasRequest(entries=[entry], validate_only=True), version)


@scenario(DescribeClientQuotasRequest, since=1)
def filters_with_two_mistakes(talk: Talk, version: int) -> None:
    for components in (
        [("", 0, "a"), ("group", 0, "a")],
        [("group", 0, "a"), ("", 0, "a")],
        [("ip", 0, "a"), ("user", 0, "a"), ("group", 0, "a")],
        [("ip", 0, "a"), ("ip", 0, "a"), ("user", 0, "a")],
        [("group", 0, "a"), ("group", 0, "a")],
        [("", 0, "a"), ("", 0, "a")],
        [("user", 0, "a"), ("user", 0, "a"), ("", 0, "a")],
    ):
        wanted = [ComponentData(entity_type=kind, match_type=match, match=name) for kind, match, name in components]
        talk.ask(DescribeClientQuotasRequest(components=wanted, strict=False), version)
