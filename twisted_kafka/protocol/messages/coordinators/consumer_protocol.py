"""The metadata and assignments that classic consumers exchange in JoinGroup and SyncGroup."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Bytes, Int32, String


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    """The metadata that a consumer sends in JoinGroup: the topics it subscribes to."""

    topics: list[String] = field(factory=list)
    user_data: Bytes | None = None
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = field(factory=list, since=1, ignorable=True)
    generation_id: Int32 = field(default=-1, since=2, ignorable=True)
    rack_id: String | None = field(default=None, since=3, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    """The partitions assigned to a consumer, as it gets them from SyncGroup."""

    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = field(factory=list)
    user_data: Bytes | None = None
