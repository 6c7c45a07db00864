"""Records about segments in tiered storage."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Bytes, Int8, Int32, Int64, String, Uuid


class TopicIdPartitionEntry(Struct):
    name: String = ""
    id: Uuid = NO_UUID
    partition: Int32 = 0


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = field(factory=TopicIdPartitionEntry)
    id: Uuid = NO_UUID


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: Int32 = 0
    offset: Int64 = 0


class RemoteLogSegmentMetadataRecord(Message, key=0, versions=(0, 0), flexible=0):
    """A segment that is being copied to tiered storage."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(factory=RemoteLogSegmentIdEntry)
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(factory=list)
    segment_size_in_bytes: Int32 = 0
    custom_metadata: Bytes | None = None
    remote_log_segment_state: Int8 = 0
    txn_index_empty: bool = field(default=False, tag=0)


class RemoteLogSegmentMetadataUpdateRecord(Message, key=1, versions=(0, 0), flexible=0):
    """A segment in tiered storage changed its state."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(factory=RemoteLogSegmentIdEntry)
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    custom_metadata: Bytes | None = None
    remote_log_segment_state: Int8 = 0


class RemotePartitionDeleteMetadataRecord(Message, key=2, versions=(0, 0), flexible=0):
    """A partition in tiered storage is being deleted."""

    topic_id_partition: TopicIdPartitionEntry = field(factory=TopicIdPartitionEntry)
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    remote_partition_delete_state: Int8 = 0


class RemoteLogSegmentMetadataSnapshotRecord(Message, key=3, versions=(0, 0), flexible=0):
    """A segment in tiered storage, as it is kept in a snapshot."""

    segment_id: Uuid = NO_UUID
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(factory=list)
    segment_size_in_bytes: Int32 = 0
    custom_metadata: Bytes | None = None
    remote_log_segment_state: Int8 = 0
    txn_index_empty: bool = field(default=False, tag=0)
