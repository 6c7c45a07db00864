"""Groups of the consumer protocol (KIP-848)."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, String, Uuid


class ConsumerGroupHeartbeatRequestTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


class ConsumerGroupHeartbeatRequest(Message, key=68, versions=(0, 1), flexible=0):
    """A member of a consumer group reports its state and asks for its assignment."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: String | None = field(default=None, since=1)
    server_assignor: String | None = None
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


class ConsumerGroupHeartbeatResponseAssignment(Struct):
    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = field(factory=list)


class ConsumerGroupHeartbeatResponse(Message, key=68, versions=(0, 1), flexible=0):
    """The member's epoch and assignment."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = None


class ConsumerGroupDescribeRequest(Message, key=69, versions=(0, 1), flexible=0):
    """Ask for the state and the members of consumer groups."""

    group_ids: list[String] = field(factory=list)
    include_authorized_operations: bool = False


class ConsumerGroupDescribeResponseTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    partitions: list[Int32] = field(factory=list)


class ConsumerGroupDescribeResponseAssignment(Struct):
    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = field(factory=list)


class Member(Struct):
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(factory=list)
    subscribed_topic_regex: String | None = None
    assignment: ConsumerGroupDescribeResponseAssignment = field(factory=ConsumerGroupDescribeResponseAssignment)
    target_assignment: ConsumerGroupDescribeResponseAssignment = field(factory=ConsumerGroupDescribeResponseAssignment)
    member_type: Int8 = field(default=-1, since=1, ignorable=True)


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = field(factory=list)
    authorized_operations: Int32 = -2147483648


class ConsumerGroupDescribeResponse(Message, key=69, versions=(0, 1), flexible=0):
    """The groups with their members."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(factory=list)
