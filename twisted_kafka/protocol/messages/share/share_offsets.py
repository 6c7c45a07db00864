"""Offsets of share groups (KIP-932)."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, Int64, String, Uuid


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""
    partitions: list[Int32] = field(factory=list)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(factory=list)


class DescribeShareGroupOffsetsRequest(Message, key=90, versions=(0, 1), flexible=0):
    """Ask for the start offsets of share groups."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(factory=list)


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = field(default=-1, since=1, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = NO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(factory=list)


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(factory=list)
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(Message, key=90, versions=(0, 1), flexible=0):
    """The start offset of each partition."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(factory=list)


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(factory=list)


class AlterShareGroupOffsetsRequest(Message, key=91, versions=(0, 0), flexible=0):
    """Set the start offsets of a share group."""

    group_id: String = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(factory=list)


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = NO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(factory=list)


class AlterShareGroupOffsetsResponse(Message, key=91, versions=(0, 0), flexible=0):
    """The result for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(factory=list)


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""


class DeleteShareGroupOffsetsRequest(Message, key=92, versions=(0, 0), flexible=0):
    """Delete the offsets of a share group for topics."""

    group_id: String = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(factory=list)


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = NO_UUID
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteShareGroupOffsetsResponse(Message, key=92, versions=(0, 0), flexible=0):
    """The result for each topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(factory=list)
