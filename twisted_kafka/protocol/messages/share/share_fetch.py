"""Fetching and acknowledging in share groups (KIP-932)."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, Int64, Records, String, Uuid


class AcknowledgementBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = field(factory=list)


class FetchPartition(Struct):
    partition_index: Int32 = 0
    partition_max_bytes: Int32 = field(default=0, until=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field(factory=list)


class FetchTopic(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[FetchPartition] = field(factory=list)


class ForgottenTopic(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = field(factory=list)


class ShareFetchRequest(Message, key=78, versions=(0, 2), flexible=0):
    """Acquire records for a share group, and acknowledge earlier ones."""

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32 = field(default=0, since=1)
    batch_size: Int32 = field(default=0, since=1)
    share_acquire_mode: Int8 = field(default=0, since=2, ignorable=True)
    is_renew_ack: bool = field(default=False, since=2)
    topics: list[FetchTopic] = field(factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(factory=list)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class ShareFetchResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(factory=LeaderIdAndEpoch)
    records: Records | None = field(default=None, nullable_until=0)
    acquired_records: list[AcquiredRecords] = field(factory=list)


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[ShareFetchResponsePartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ShareFetchResponse(Message, key=78, versions=(0, 2), flexible=0):
    """The record batches, and which of their records were acquired."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = field(default=0, since=1)
    responses: list[ShareFetchableTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field(factory=list)


class AcknowledgePartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(factory=list)


class AcknowledgeTopic(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[AcknowledgePartition] = field(factory=list)


class ShareAcknowledgeRequest(Message, key=79, versions=(0, 2), flexible=0):
    """Acknowledge records that a share-group member had acquired."""

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: bool = field(default=False, since=2)
    topics: list[AcknowledgeTopic] = field(factory=list)


class ShareAcknowledgeResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(factory=LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[ShareAcknowledgeResponsePartitionData] = field(factory=list)


class ShareAcknowledgeResponse(Message, key=79, versions=(0, 2), flexible=0):
    """The results of the acknowledgements."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = field(default=0, since=2, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field(factory=list)
