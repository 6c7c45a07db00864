"""Offsets of a log: ListOffsets, DeleteRecords, OffsetForLeaderEpoch."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int8, Int16, Int32, Int64, String


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = field(default=-1, since=4, ignorable=True)
    timestamp: Int64 = 0
    max_num_offsets: Int32 = field(default=1, until=0)


class ListOffsetsTopic(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartition] = field(factory=list)


class ListOffsetsRequest(Message, key=2, versions=(0, 11), flexible=6):
    """Ask for the offsets of partitions at a timestamp, or at a special position such as the log start."""

    replica_id: Int32 = 0
    isolation_level: Int8 = field(default=0, since=2)
    topics: list[ListOffsetsTopic] = field(factory=list)
    timeout_ms: Int32 = field(default=0, since=10, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: list[Int64] = field(factory=list, until=0)
    timestamp: Int64 = field(default=-1, since=1)
    offset: Int64 = field(default=-1, since=1)
    leader_epoch: Int32 = field(default=-1, since=4)


class ListOffsetsTopicResponse(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = field(factory=list)


class ListOffsetsResponse(Message, key=2, versions=(0, 11), flexible=6):
    """The offsets and timestamps found."""

    throttle_time_ms: Int32 = field(default=0, since=2, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(factory=list)


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Struct):
    name: String = ""
    partitions: list[DeleteRecordsPartition] = field(factory=list)


class DeleteRecordsRequest(Message, key=21, versions=(0, 2), flexible=2):
    """Delete the records of partitions before an offset."""

    topics: list[DeleteRecordsTopic] = field(factory=list)
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = field(factory=list)


class DeleteRecordsResponse(Message, key=21, versions=(0, 2), flexible=2):
    """The new log start offsets."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(factory=list)


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = field(default=-1, since=2, ignorable=True)
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = field(factory=list)


class OffsetForLeaderEpochRequest(Message, key=23, versions=(0, 4), flexible=4):
    """Ask for the end offset of a leader epoch."""

    replica_id: Int32 = field(default=-2, since=3, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(factory=list)


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = field(default=-1, since=1, ignorable=True)
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: String = ""
    partitions: list[EpochEndOffset] = field(factory=list)


class OffsetForLeaderEpochResponse(Message, key=23, versions=(0, 4), flexible=4):
    """The end offsets of the epochs."""

    throttle_time_ms: Int32 = field(default=0, since=2, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(factory=list)
