"""Share groups (KIP-932)."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, String, Uuid


class ShareGroupHeartbeatRequest(Message, key=76, versions=(0, 1), flexible=0):
    """A member of a share group reports its state and asks for its assignment."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


class ShareGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


class ShareGroupHeartbeatResponseAssignment(Struct):
    topic_partitions: list[ShareGroupHeartbeatResponseTopicPartitions] = field(factory=list)


class ShareGroupHeartbeatResponse(Message, key=76, versions=(0, 1), flexible=0):
    """The member's epoch and assignment."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ShareGroupHeartbeatResponseAssignment | None = None


class ShareGroupDescribeRequest(Message, key=77, versions=(0, 1), flexible=0):
    """Ask for the state and the members of share groups."""

    group_ids: list[String] = field(factory=list)
    include_authorized_operations: bool = False


class ShareGroupDescribeResponseTopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    partitions: list[Int32] = field(factory=list)


class ShareGroupDescribeResponseAssignment(Struct):
    topic_partitions: list[ShareGroupDescribeResponseTopicPartitions] = field(factory=list)


class Member(Struct):
    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = field(factory=list)
    assignment: ShareGroupDescribeResponseAssignment = field(factory=ShareGroupDescribeResponseAssignment)


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


class ShareGroupDescribeResponse(Message, key=77, versions=(0, 1), flexible=0):
    """The groups with their members."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(factory=list)
