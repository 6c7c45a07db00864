"""Streams groups (KIP-1071)."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int8, Int16, Int32, Int64, String, Uint16
from twisted_kafka.protocol.messages.streams.streams_topology import TopologyDescription


class KeyValue(Struct):
    key: String = ""
    value: String = ""


class TopicInfo(Struct):
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = field(factory=list)


class CopartitionGroup(Struct):
    source_topics: list[Int16] = field(factory=list)
    source_topic_regex: list[Int16] = field(factory=list)
    repartition_source_topics: list[Int16] = field(factory=list)


class StreamsGroupHeartbeatRequestSubtopology(Struct):
    subtopology_id: String = ""
    source_topics: list[String] = field(factory=list)
    source_topic_regex: list[String] = field(factory=list)
    state_changelog_topics: list[TopicInfo] = field(factory=list)
    repartition_sink_topics: list[String] = field(factory=list)
    repartition_source_topics: list[TopicInfo] = field(factory=list)
    copartition_groups: list[CopartitionGroup] = field(factory=list)


class StreamsGroupHeartbeatRequestTopology(Struct):
    epoch: Int32 = 0
    subtopologies: list[StreamsGroupHeartbeatRequestSubtopology] = field(factory=list)


class TaskIds(Struct):
    subtopology_id: String = ""
    partitions: list[Int32] = field(factory=list)


class Endpoint(Struct):
    host: String = ""
    port: Uint16 = 0


class TaskOffset(Struct):
    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


class StreamsGroupHeartbeatRequest(Message, key=88, versions=(0, 1), flexible=0):
    """A member of a streams group reports its state and asks for its tasks."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: StreamsGroupHeartbeatRequestTopology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


class Status(Struct):
    status_code: Int8 = 0
    status_detail: String = ""


class StreamsGroupHeartbeatResponseTopicPartition(Struct):
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = field(factory=Endpoint)
    active_partitions: list[StreamsGroupHeartbeatResponseTopicPartition] = field(factory=list)
    standby_partitions: list[StreamsGroupHeartbeatResponseTopicPartition] = field(factory=list)


class StreamsGroupHeartbeatResponse(Message, key=88, versions=(0, 1), flexible=0):
    """The member's epoch and its tasks."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag_legacy: Int32 = field(default=0, until=0)
    task_offset_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int64 = field(default=-1, since=1, ignorable=True)
    status: list[Status] | None = field(factory=list)
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    topology_description_required: bool = field(default=False, since=1)
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


class StreamsGroupDescribeRequest(Message, key=89, versions=(0, 1), flexible=0):
    """Ask for the state, the topology and the members of streams groups."""

    group_ids: list[String] = field(factory=list)
    include_authorized_operations: bool = False
    include_topology_description: bool = field(default=False, since=1)


class StreamsGroupDescribeResponseSubtopology(Struct):
    subtopology_id: String = ""
    source_topics: list[String] = field(factory=list)
    repartition_sink_topics: list[String] = field(factory=list)
    state_changelog_topics: list[TopicInfo] = field(factory=list)
    repartition_source_topics: list[TopicInfo] = field(factory=list)


class StreamsGroupDescribeResponseTopology(Struct):
    epoch: Int32 = 0
    subtopologies: list[StreamsGroupDescribeResponseSubtopology] | None = None


class Assignment(Struct):
    active_tasks: list[TaskIds] = field(factory=list)
    standby_tasks: list[TaskIds] = field(factory=list)
    warmup_tasks: list[TaskIds] = field(factory=list)


class Member(Struct):
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(factory=list)
    task_offsets: list[TaskOffset] = field(factory=list)
    task_end_offsets: list[TaskOffset] = field(factory=list)
    assignment: Assignment = field(factory=Assignment)
    target_assignment: Assignment = field(factory=Assignment)
    is_classic: bool = False


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: StreamsGroupDescribeResponseTopology | None = None
    members: list[Member] = field(factory=list)
    authorized_operations: Int32 = -2147483648
    topology_description: TopologyDescription | None = field(default=None, since=1)
    topology_description_status: Int8 = field(default=0, since=1)
    assignor_name: String | None = field(default=None, since=1, ignorable=True)


class StreamsGroupDescribeResponse(Message, key=89, versions=(0, 1), flexible=0):
    """The groups with their topologies and members."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(factory=list)
