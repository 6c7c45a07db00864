"""Committed offsets of groups."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, Int64, String, Uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(default=-1, since=6, ignorable=True)
    commit_timestamp: Int64 = field(default=-1, since=1, until=1)
    committed_metadata: String | None = ""


class OffsetCommitRequestTopic(Struct):
    name: String = field(default="", until=9, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=10, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(factory=list)


class OffsetCommitRequest(Message, key=8, versions=(0, 10), flexible=8):
    """Commit a group's offsets for partitions."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = field(default=-1, since=1, ignorable=True)
    member_id: String = field(default="", since=1, ignorable=True)
    group_instance_id: String | None = field(default=None, since=7)
    retention_time_ms: Int64 = field(default=-1, since=2, until=4, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(factory=list)


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: String = field(default="", until=9, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=10, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(factory=list)


class OffsetCommitResponse(Message, key=8, versions=(0, 10), flexible=8):
    """Which offsets were committed."""

    throttle_time_ms: Int32 = field(default=0, since=3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(factory=list)


class OffsetFetchRequestTopic(Struct):
    name: String = field(default="", until=7)
    partition_indexes: list[Int32] = field(factory=list, until=7)


class OffsetFetchRequestTopics(Struct):
    name: String = field(default="", until=9, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=10, ignorable=True)
    partition_indexes: list[Int32] = field(factory=list)


class OffsetFetchRequestGroup(Struct):
    group_id: String = ""
    member_id: String | None = field(default=None, since=9, ignorable=True)
    member_epoch: Int32 = field(default=-1, since=9, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(factory=list)


class OffsetFetchRequest(Message, key=9, versions=(0, 10), flexible=6):
    """Ask for the committed offsets of groups."""

    group_id: String = field(default="", until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(factory=list, until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = field(factory=list, since=8)
    require_stable: bool = field(default=False, since=7)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = field(default=0, until=7)
    committed_offset: Int64 = field(default=0, until=7)
    committed_leader_epoch: Int32 = field(default=-1, since=5, until=7, ignorable=True)
    metadata: String | None = field(default="", until=7)
    error_code: Int16 = field(default=0, until=7)


class OffsetFetchResponseTopic(Struct):
    name: String = field(default="", until=7)
    partitions: list[OffsetFetchResponsePartition] = field(factory=list, until=7)


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: String = field(default="", until=9, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=10, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(factory=list)


class OffsetFetchResponseGroup(Struct):
    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = field(factory=list)
    error_code: Int16 = 0


class OffsetFetchResponse(Message, key=9, versions=(0, 10), flexible=6):
    """The committed offsets."""

    throttle_time_ms: Int32 = field(default=0, since=3, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(factory=list, until=7)
    error_code: Int16 = field(default=0, since=2, until=7, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(factory=list, since=8)


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Struct):
    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = field(factory=list)


class OffsetDeleteRequest(Message, key=47, versions=(0, 0)):
    """Delete committed offsets of a group."""

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = field(factory=list)


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = field(factory=list)


class OffsetDeleteResponse(Message, key=47, versions=(0, 0)):
    """Which offsets were deleted."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(factory=list)
