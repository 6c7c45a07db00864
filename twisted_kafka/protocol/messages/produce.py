"""Produce."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, Int64, RecordBuffer, String, Uuid


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: RecordBuffer | None = None


class TopicProduceData(Struct):
    name: String = field(default="", until=12, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=13, ignorable=True)
    partition_data: list[PartitionProduceData] = field(factory=list)


class ProduceRequest(Message, key=0, versions=(0, 13), flexible=9):
    """Append record batches to partitions."""

    transactional_id: String | None = field(default=None, since=3)
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = field(factory=list)


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = field(default=-1, since=2, ignorable=True)
    log_start_offset: Int64 = field(default=-1, since=5, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(factory=list, since=8, ignorable=True)
    error_message: String | None = field(default=None, since=8, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = field(default=None, since=10, tag=0)


class TopicProduceResponse(Struct):
    name: String = field(default="", until=12, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=13, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ProduceResponse(Message, key=0, versions=(0, 13), flexible=9):
    """The offset at which each partition's batches were appended, or the error."""

    responses: list[TopicProduceResponse] = field(factory=list)
    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(factory=list, since=10, tag=0)
