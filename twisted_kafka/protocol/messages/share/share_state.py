"""The state of share groups, kept by the share coordinator (KIP-932)."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, Int64, String, Uuid


class InitializeShareGroupStateRequestPartitionData(Struct):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


class InitializeStateData(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[InitializeShareGroupStateRequestPartitionData] = field(factory=list)


class InitializeShareGroupStateRequest(Message, key=83, versions=(0, 0), flexible=0):
    """Initialize the state of share-group partitions."""

    group_id: String = ""
    topics: list[InitializeStateData] = field(factory=list)


class InitializeShareGroupStateResponsePartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class InitializeStateResult(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[InitializeShareGroupStateResponsePartitionResult] = field(factory=list)


class InitializeShareGroupStateResponse(Message, key=83, versions=(0, 0), flexible=0):
    """The result for each partition."""

    results: list[InitializeStateResult] = field(factory=list)


class ReadShareGroupStateRequestPartitionData(Struct):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


class ReadStateData(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[ReadShareGroupStateRequestPartitionData] = field(factory=list)


class ReadShareGroupStateRequest(Message, key=84, versions=(0, 0), flexible=0):
    """Read the state of share-group partitions."""

    group_id: String = ""
    topics: list[ReadStateData] = field(factory=list)


class ReadShareGroupStateResponseStateBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class ReadShareGroupStateResponsePartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[ReadShareGroupStateResponseStateBatch] = field(factory=list)


class ReadStateResult(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[ReadShareGroupStateResponsePartitionResult] = field(factory=list)


class ReadShareGroupStateResponse(Message, key=84, versions=(0, 0), flexible=0):
    """The state of each partition."""

    results: list[ReadStateResult] = field(factory=list)


class WriteShareGroupStateRequestStateBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class WriteShareGroupStateRequestPartitionData(Struct):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, since=1, ignorable=True)
    state_batches: list[WriteShareGroupStateRequestStateBatch] = field(factory=list)


class WriteStateData(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[WriteShareGroupStateRequestPartitionData] = field(factory=list)


class WriteShareGroupStateRequest(Message, key=85, versions=(0, 1), flexible=0):
    """Change the state of share-group partitions."""

    group_id: String = ""
    topics: list[WriteStateData] = field(factory=list)


class WriteShareGroupStateResponsePartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class WriteStateResult(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[WriteShareGroupStateResponsePartitionResult] = field(factory=list)


class WriteShareGroupStateResponse(Message, key=85, versions=(0, 1), flexible=0):
    """The result for each partition."""

    results: list[WriteStateResult] = field(factory=list)


class DeleteShareGroupStateRequestPartitionData(Struct):
    partition: Int32 = 0


class DeleteStateData(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[DeleteShareGroupStateRequestPartitionData] = field(factory=list)


class DeleteShareGroupStateRequest(Message, key=86, versions=(0, 0), flexible=0):
    """Delete the state of share-group partitions."""

    group_id: String = ""
    topics: list[DeleteStateData] = field(factory=list)


class DeleteShareGroupStateResponsePartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteStateResult(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[DeleteShareGroupStateResponsePartitionResult] = field(factory=list)


class DeleteShareGroupStateResponse(Message, key=86, versions=(0, 0), flexible=0):
    """The result for each partition."""

    results: list[DeleteStateResult] = field(factory=list)


class ReadShareGroupStateSummaryRequestPartitionData(Struct):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


class ReadStateSummaryData(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[ReadShareGroupStateSummaryRequestPartitionData] = field(factory=list)


class ReadShareGroupStateSummaryRequest(Message, key=87, versions=(0, 1), flexible=0):
    """Read the start offsets of share-group partitions without their records' states."""

    group_id: String = ""
    topics: list[ReadStateSummaryData] = field(factory=list)


class ReadShareGroupStateSummaryResponsePartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, since=1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[ReadShareGroupStateSummaryResponsePartitionResult] = field(factory=list)


class ReadShareGroupStateSummaryResponse(Message, key=87, versions=(0, 1), flexible=0):
    """The start offset of each partition."""

    results: list[ReadStateSummaryResult] = field(factory=list)
