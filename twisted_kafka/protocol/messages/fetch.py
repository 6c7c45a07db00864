"""Fetch."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, Int64, Records, String, Uuid


class ReplicaState(Struct):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = field(default=-1, since=9, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = field(default=-1, since=12)
    log_start_offset: Int64 = field(default=-1, since=5, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = field(default=NO_UUID, since=17, tag=0, ignorable=True)
    high_watermark: Int64 = field(default=9223372036854775807, since=18, tag=1, ignorable=True)


class FetchTopic(Struct):
    topic: String = field(default="", until=12, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=13, ignorable=True)
    partitions: list[FetchPartition] = field(factory=list)


class ForgottenTopic(Struct):
    topic: String = field(default="", until=12, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=13, ignorable=True)
    partitions: list[Int32] = field(factory=list)


class FetchRequest(Message, key=1, versions=(0, 18), flexible=12):
    """Read record batches from partitions, waiting until there are enough; consumers and follower replicas send it."""

    cluster_id: String | None = field(default=None, since=12, tag=0, ignorable=True)
    replica_id: Int32 = field(default=-1, until=14)
    replica_state: ReplicaState | None = field(default=None, since=15, tag=1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = field(default=0x7FFFFFFF, since=3, ignorable=True)
    isolation_level: Int8 = field(default=0, since=4, ignorable=True)
    session_id: Int32 = field(default=0, since=7, ignorable=True)
    session_epoch: Int32 = field(default=-1, since=7, ignorable=True)
    topics: list[FetchTopic] = field(factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(factory=list, since=7)
    rack_id: String = field(default="", since=11, ignorable=True)


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = field(default=-1, since=4, ignorable=True)
    log_start_offset: Int64 = field(default=-1, since=5, ignorable=True)
    diverging_epoch: EpochEndOffset | None = field(default=None, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = field(default=None, since=12, tag=1)
    snapshot_id: SnapshotId | None = field(default=None, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(factory=list, since=4, ignorable=True)
    preferred_read_replica: Int32 = field(default=-1, since=11)
    records: Records | None = None


class FetchableTopicResponse(Struct):
    topic: String = field(default="", until=12, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=13, ignorable=True)
    partitions: list[PartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class FetchResponse(Message, key=1, versions=(0, 18), flexible=12):
    """The record batches read, with each partition's high watermark and other offsets."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = field(default=0, since=7, ignorable=True)
    session_id: Int32 = field(default=0, since=7)
    responses: list[FetchableTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field(factory=list, since=16, tag=0)
