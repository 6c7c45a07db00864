"""Metadata and DescribeTopicPartitions."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, String, Uuid


class MetadataRequestTopic(Struct):
    topic_id: Uuid = field(default=NO_UUID, since=10, ignorable=True)
    name: String | None = field(default="", nullable_since=10)


class MetadataRequest(Message, key=3, versions=(0, 13), flexible=9):
    """Ask for brokers, topics and the leaders of partitions; may create missing topics."""

    topics: list[MetadataRequestTopic] | None = field(factory=list, nullable_since=1)
    allow_auto_topic_creation: bool = field(default=True, since=4)
    include_cluster_authorized_operations: bool = field(default=False, since=8, until=10)
    include_topic_authorized_operations: bool = field(default=False, since=8)


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = field(default=None, since=1, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = field(default=-1, since=7, ignorable=True)
    replica_nodes: list[Int32] = field(factory=list)
    isr_nodes: list[Int32] = field(factory=list)
    offline_replicas: list[Int32] = field(factory=list, since=5, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = field(default="", nullable_since=12)
    topic_id: Uuid = field(default=NO_UUID, since=10, ignorable=True)
    is_internal: bool = field(default=False, since=1, ignorable=True)
    partitions: list[MetadataResponsePartition] = field(factory=list)
    topic_authorized_operations: Int32 = field(default=-2147483648, since=8)


class MetadataResponse(Message, key=3, versions=(0, 13), flexible=9):
    """The cluster as this broker knows it."""

    throttle_time_ms: Int32 = field(default=0, since=3, ignorable=True)
    brokers: list[MetadataResponseBroker] = field(factory=list)
    cluster_id: String | None = field(default=None, since=2, ignorable=True)
    controller_id: Int32 = field(default=-1, since=1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(factory=list)
    cluster_authorized_operations: Int32 = field(default=-2147483648, since=8, until=10)
    error_code: Int16 = field(default=0, since=13, ignorable=True)


class TopicRequest(Struct):
    name: String = ""


class Cursor(Struct):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(Message, key=75, versions=(0, 0), flexible=0):
    """Ask for the partitions of topics, a page at a time."""

    topics: list[TopicRequest] = field(factory=list)
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = field(factory=list)
    isr_nodes: list[Int32] = field(factory=list)
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = field(factory=list)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = NO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(factory=list)
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponse(Message, key=75, versions=(0, 0), flexible=0):
    """A page of topics with their partitions."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(factory=list)
    next_cursor: Cursor | None = None
