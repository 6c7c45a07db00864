"""ApiVersions, Metadata, topics, configurations and the cluster's description: good input and bad."""

from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.messages.administration.configs import DescribeConfigsRequest, DescribeConfigsResource
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
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.cluster import DescribeClusterRequest
from twisted_kafka.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    TopicRequest,
)
from twisted_kafka.tools.compare.answers import plain
from twisted_kafka.tools.compare.talk import Talk, scenario

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8


@scenario(ApiVersionsRequest)
def api_versions_bad(talk: Talk, version: int) -> None:
    if version >= 3:
        for name, software_version in (("", "1"), ("-bad", "1"), ("ok", ""), ("with space", "1"), ("ok", "1!")):
            answer = talk.ask(
                ApiVersionsRequest(client_software_name=name, client_software_version=software_version), version, note=False
            )
            talk.answers.append((name, (answer.error_code, len(answer.api_keys))))
    for unknown in (99, -1):
        talk.ask_bytes(ApiVersionsRequest, unknown, b"", answer_version=0)
    talk.ask_bytes(ApiVersionsRequest, 0, b"trailing bytes", note=False)


@scenario(ApiVersionsRequest, 3)
def features(talk: Talk, version: int) -> None:
    answer = talk.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), version, note=False)
    talk.answers.append(("supported", [(each.name, each.min_version, each.max_version) for each in answer.supported_features]))
    talk.answers.append(("finalized", [(each.name, each.max_version_level) for each in answer.finalized_features]))


@scenario(MetadataRequest)
def metadata_good(talk: Talk, version: int) -> None:
    topic, other = talk.create("a", 3), talk.create("b")
    names = [MetadataRequestTopic(name=name) for name in (topic, other)]
    talk.ask(MetadataRequest(topics=names), version)
    talk.ask(MetadataRequest(topics=[names[0], names[0]]), version)
    if version >= 1:
        talk.ask(MetadataRequest(topics=[]), version)
    everything = MetadataRequest(topics=None if version >= 1 else [])
    answer = talk.ask(everything, version, note=False)
    ours = [plain(each) for each in sorted(answer.topics, key=lambda each: each.name) if each.name in (topic, other)]
    talk.answers.append(("all", ours))
    if version >= 8:
        request = MetadataRequest(topics=names[:1], include_topic_authorized_operations=True)
        if version <= 10:
            request.include_cluster_authorized_operations = True
        talk.ask(request, version)
    if version >= 10:
        by_id = MetadataRequestTopic(name=None, topic_id=talk.topic_id(topic))
        talk.ask(MetadataRequest(topics=[by_id]), version)


@scenario(MetadataRequest, until=8)
def text_that_is_none(talk: Talk, version: int) -> None:
    talk.ask_bytes(MetadataRequest, version, b"\0\0\0\1\0\2\xff\xfe" + (b"\1" if version >= 4 else b"") + b"\0\0" * (version >= 8))


@scenario(MetadataRequest)
def metadata_bad(talk: Talk, version: int) -> None:
    for name in ("a/b", "", ".", "x" * 250, talk.topic("auto")):
        talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), version)
    if version >= 4:
        missing = MetadataRequestTopic(name=talk.topic("missing"))
        talk.ask(MetadataRequest(topics=[missing], allow_auto_topic_creation=False), version)
    if version >= 10:
        for topic_id in (bytes(range(16)), NO_UUID):
            talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)]), version)
        both = MetadataRequestTopic(name=talk.topic("x"), topic_id=bytes(range(16)))
        talk.ask(MetadataRequest(topics=[both]), version)


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def topic_of(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=settings)


@scenario(CreateTopicsRequest)
def create_topics_good(talk: Talk, version: int) -> None:
    talk.ask(create(topic_of(talk.topic("a"), 3)), version)
    talk.ask(create(topic_of(talk.topic("b"), retention_ms="1000", cleanup_policy="compact")), version)
    assigned = CreatableTopic(name=talk.topic("c"), num_partitions=-1, replication_factor=-1)
    assigned.assignments = [CreatableReplicaAssignment(partition_index=at, broker_ids=[1]) for at in range(2)]
    talk.ask(create(assigned), version)
    if version >= 1:
        talk.ask(create(topic_of(talk.topic("d"), 2), validate_only=True), version)
    if version >= 4:
        talk.ask(create(topic_of(talk.topic("e"), -1, -1)), version)
    if version >= 1:
        talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name=talk.topic(each)) for each in "abc"]), 8)


@scenario(CreateTopicsRequest)
def create_topics_bad(talk: Talk, version: int) -> None:
    exists = talk.create("exists.one")
    for bad in (
        topic_of(exists),
        topic_of(exists.replace(".", "_")),
        topic_of(""),
        topic_of("."),
        topic_of(".."),
        topic_of("a/b"),
        topic_of("x" * 250),
        topic_of(talk.topic("p0"), 0),
        topic_of(talk.topic("p-2"), -2),
        topic_of(talk.topic("r0"), 1, 0),
        topic_of(talk.topic("r2"), 1, 2),
        topic_of(talk.topic("unknown"), no_such_key="1"),
        topic_of(talk.topic("value"), retention_ms="soon"),
        topic_of(talk.topic("range"), segment_bytes="1"),
        topic_of(talk.topic("null"), retention_ms=None),
        topic_of(talk.topic("policy"), cleanup_policy="compress"),
    ):
        talk.ask(create(bad), version)
    name = talk.topic("assigned")
    for assignments, partitions in (
        ([(0, [1]), (2, [1])], -1),
        ([(0, [1]), (0, [1])], -1),
        ([(0, [1, 1])], -1),
        ([(0, [9])], -1),
        ([(0, [])], -1),
        ([(0, [1])], 1),
    ):
        bad = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)
        bad.assignments = [CreatableReplicaAssignment(partition_index=at, broker_ids=ids) for at, ids in assignments]
        talk.ask(create(bad), version)
    talk.ask(create(topic_of(talk.topic("twice")), topic_of(talk.topic("twice")), topic_of(talk.topic("once"))), version)
    talk.ask(create(), version)


@scenario(CreateTopicsRequest)
def topics_of_strange_numbers(talk: Talk, version: int) -> None:
    numbers = ("NaN", "-NaN", "nan", "inf", "Infinity", "1e-1", "0.5f", "1D", ".5", "1.", "0_1", " 0.5 ", "", "one", "-0.1")
    for at, number in enumerate(numbers):
        talk.ask(create(topic_of(talk.topic(str(at)), min_cleanable_dirty_ratio=number)), version)


@scenario(DeleteTopicsRequest)
def delete_topics(talk: Talk, version: int) -> None:
    def ask(*names: str) -> None:
        if version < 6:
            talk.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000), version)
        else:
            talk.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=10_000), version)

    a, b = talk.create("a", 3), talk.create("b")
    ask(a)
    ask(a)
    ask("a/b", b)
    ask()
    if version >= 6:
        c, d = talk.create("c"), talk.create("d")
        by_id = DeleteTopicState(name=None, topic_id=talk.topic_id(c))
        talk.ask(DeleteTopicsRequest(topics=[by_id], timeout_ms=10_000), version)
        talk.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=bytes(range(16)))], timeout_ms=10_000), version)
        talk.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=d), DeleteTopicState(name=d)], timeout_ms=10_000), version)
        both = DeleteTopicState(name=d, topic_id=talk.topic_id(d))
        talk.ask(DeleteTopicsRequest(topics=[both], timeout_ms=10_000), version)


@scenario(CreatePartitionsRequest)
def create_partitions(talk: Talk, version: int) -> None:
    topic = talk.create("a", 2)

    def ask(name: str, count: int, assignments: list[list[int]] | None = None, validate_only: bool = False) -> None:
        entry = CreatePartitionsTopic(name=name, count=count)
        entry.assignments = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        talk.ask(CreatePartitionsRequest(topics=[entry], timeout_ms=10_000, validate_only=validate_only), version)

    ask(topic, 3, validate_only=True)
    ask(topic, 3)
    ask(topic, 5, [[1], [1]])
    ask(topic, 5)
    ask(topic, 1)
    ask(topic, 0)
    ask(topic, 7, [[1]])
    ask(topic, 6, [[9]])
    ask(topic, 6, [[1, 1]])
    ask(topic, 6, [])
    ask("no." + topic, 3)
    entry = CreatePartitionsTopic(name=topic, count=9, assignments=None)
    talk.ask(CreatePartitionsRequest(topics=[entry, entry], timeout_ms=10_000), version)
    talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 8)


@scenario(DescribeClusterRequest)
def describe_cluster(talk: Talk, version: int) -> None:
    talk.ask(DescribeClusterRequest(), version)
    talk.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)


@scenario(DescribeTopicPartitionsRequest)
def describe_topic_partitions(talk: Talk, version: int) -> None:
    topic, other = talk.create("a", 5), talk.create("b", 2)
    talk.known(topic)
    talk.known(other)
    wanted = [TopicRequest(name=name) for name in (other, topic, talk.topic("missing"), "a/b")]
    talk.ask(DescribeTopicPartitionsRequest(topics=wanted), version)
    talk.ask(DescribeTopicPartitionsRequest(topics=wanted[:2], response_partition_limit=4), version)
    talk.ask(DescribeTopicPartitionsRequest(topics=wanted[:1] * 2, response_partition_limit=0), version)
    talk.ask(DescribeTopicPartitionsRequest(topics=wanted[:2], response_partition_limit=5), version)
    for name, partition in ((topic, 3), (topic, 9), (other, 1), (talk.topic("missing"), 0), (topic + "x", 0), (topic, -1)):
        cursor = Cursor(topic_name=name, partition_index=partition)
        talk.ask(DescribeTopicPartitionsRequest(topics=wanted[:3], cursor=cursor), version)


@scenario(DescribeConfigsRequest)
def describe_configs(talk: Talk, version: int) -> None:
    topic = talk.create("a", retention_ms="5000", cleanup_policy="compact")

    def ask(kind: int, name: str, keys: list[str] | None = None) -> None:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        request = DescribeConfigsRequest(resources=[resource])
        if version >= 1:
            request.include_synonyms = True
        if version >= 3:
            request.include_documentation = True
        talk.ask(request, version)

    ask(TOPIC, topic)
    ask(TOPIC, topic, ["retention.ms", "segment.bytes", "no.such.key"])
    ask(TOPIC, topic, [])
    ask(TOPIC, "no." + topic)
    ask(TOPIC, "a/b")
    ask(TOPIC, "")
    ask(BROKER, "1", ["num.io.threads", "log.retention.hours", "log.retention.ms", "num.partitions", "ssl.keystore.password"])
    ask(BROKER, "1")
    ask(BROKER, "", ["num.io.threads"])
    ask(BROKER, "9")
    ask(BROKER, "x")
    ask(BROKER_LOGGER, "9")
    ask(1, "x")
