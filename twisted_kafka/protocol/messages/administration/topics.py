"""Creation and deletion of topics, and creation of partitions."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, String, Uuid


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = field(factory=list)


class CreatableTopicConfig(Struct):
    name: String = ""
    value: String | None = ""


class CreatableTopic(Struct):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = field(factory=list)
    configs: list[CreatableTopicConfig] = field(factory=list)


class CreateTopicsRequest(Message, key=19, versions=(0, 7), flexible=5):
    """Create topics, or only check whether they could be created."""

    topics: list[CreatableTopic] = field(factory=list)
    timeout_ms: Int32 = 60000
    validate_only: bool = field(default=False, since=1)


class CreatableTopicConfigs(Struct):
    name: String = ""
    value: String | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(Struct):
    name: String = ""
    topic_id: Uuid = field(default=NO_UUID, since=7, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = field(default="", since=1, ignorable=True)
    topic_config_error_code: Int16 = field(default=0, since=5, tag=0, ignorable=True)
    num_partitions: Int32 = field(default=-1, since=5, ignorable=True)
    replication_factor: Int16 = field(default=-1, since=5, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(factory=list, since=5, ignorable=True)


class CreateTopicsResponse(Message, key=19, versions=(0, 7), flexible=5):
    """The result for each topic."""

    throttle_time_ms: Int32 = field(default=0, since=2, ignorable=True)
    topics: list[CreatableTopicResult] = field(factory=list)


class DeleteTopicState(Struct):
    name: String | None = None
    topic_id: Uuid = NO_UUID


class DeleteTopicsRequest(Message, key=20, versions=(0, 6), flexible=4):
    """Delete topics by name or id."""

    topics: list[DeleteTopicState] = field(factory=list, since=6)
    topic_names: list[String] = field(factory=list, until=5, ignorable=True)
    timeout_ms: Int32 = 0


class DeletableTopicResult(Struct):
    name: String | None = field(default="", nullable_since=6)
    topic_id: Uuid = field(default=NO_UUID, since=6, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = field(default=None, since=5, ignorable=True)


class DeleteTopicsResponse(Message, key=20, versions=(0, 6), flexible=4):
    """The result for each topic."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    responses: list[DeletableTopicResult] = field(factory=list)


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = field(factory=list)


class CreatePartitionsTopic(Struct):
    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(factory=list)


class CreatePartitionsRequest(Message, key=37, versions=(0, 3), flexible=2):
    """Increase the number of partitions of topics."""

    topics: list[CreatePartitionsTopic] = field(factory=list)
    timeout_ms: Int32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(Struct):
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


class CreatePartitionsResponse(Message, key=37, versions=(0, 3), flexible=2):
    """The result for each topic."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(factory=list)
