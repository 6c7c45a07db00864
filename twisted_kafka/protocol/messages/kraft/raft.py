"""The KRaft quorum."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, Int64, Records, String, Uint16, Uuid


class VoteRequestPartitionData(Struct):
    partition_index: Int32 = 0
    replica_epoch: Int32 = 0
    replica_id: Int32 = 0
    replica_directory_id: Uuid = field(default=NO_UUID, since=1, ignorable=True)
    voter_directory_id: Uuid = field(default=NO_UUID, since=1, ignorable=True)
    last_offset_epoch: Int32 = 0
    last_offset: Int64 = 0
    pre_vote: bool = field(default=False, since=2)


class VoteRequestTopicData(Struct):
    topic_name: String = ""
    partitions: list[VoteRequestPartitionData] = field(factory=list)


class VoteRequest(Message, key=52, versions=(0, 2), flexible=0):
    """A KRaft candidate asks for a vote, or whether it would get one."""

    cluster_id: String | None = None
    voter_id: Int32 = field(default=-1, since=1, ignorable=True)
    topics: list[VoteRequestTopicData] = field(factory=list)


class VoteResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    vote_granted: bool = False


class VoteResponseTopicData(Struct):
    topic_name: String = ""
    partitions: list[VoteResponsePartitionData] = field(factory=list)


class VoteResponseNodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Uint16 = 0


class VoteResponse(Message, key=52, versions=(0, 2), flexible=0):
    """The vote."""

    error_code: Int16 = 0
    topics: list[VoteResponseTopicData] = field(factory=list)
    node_endpoints: list[VoteResponseNodeEndpoint] = field(factory=list, since=1, tag=0)


class BeginQuorumEpochRequestPartitionData(Struct):
    partition_index: Int32 = 0
    voter_directory_id: Uuid = field(default=NO_UUID, since=1, ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class BeginQuorumEpochRequestTopicData(Struct):
    topic_name: String = ""
    partitions: list[BeginQuorumEpochRequestPartitionData] = field(factory=list)


class LeaderEndpoint(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0


class BeginQuorumEpochRequest(Message, key=53, versions=(0, 1), flexible=1):
    """A new KRaft leader announces itself to the voters."""

    cluster_id: String | None = None
    voter_id: Int32 = field(default=-1, since=1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData] = field(factory=list)
    leader_endpoints: list[LeaderEndpoint] = field(factory=list, since=1, ignorable=True)


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: String = ""
    partitions: list[BeginQuorumEpochResponsePartitionData] = field(factory=list)


class BeginQuorumEpochResponseNodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Uint16 = 0


class BeginQuorumEpochResponse(Message, key=53, versions=(0, 1), flexible=1):
    """Whether the voter accepts the leader."""

    error_code: Int16 = 0
    topics: list[BeginQuorumEpochResponseTopicData] = field(factory=list)
    node_endpoints: list[BeginQuorumEpochResponseNodeEndpoint] = field(factory=list, since=1, tag=0)


class ReplicaInfo(Struct):
    candidate_id: Int32 = 0
    candidate_directory_id: Uuid = NO_UUID


class EndQuorumEpochRequestPartitionData(Struct):
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    preferred_successors: list[Int32] = field(factory=list, until=0, ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field(factory=list, since=1, ignorable=True)


class EndQuorumEpochRequestTopicData(Struct):
    topic_name: String = ""
    partitions: list[EndQuorumEpochRequestPartitionData] = field(factory=list)


class EndQuorumEpochRequest(Message, key=54, versions=(0, 1), flexible=1):
    """A KRaft leader resigns and names its preferred successors."""

    cluster_id: String | None = None
    topics: list[EndQuorumEpochRequestTopicData] = field(factory=list)
    leader_endpoints: list[LeaderEndpoint] = field(factory=list, since=1, ignorable=True)


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: String = ""
    partitions: list[EndQuorumEpochResponsePartitionData] = field(factory=list)


class EndQuorumEpochResponseNodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Uint16 = 0


class EndQuorumEpochResponse(Message, key=54, versions=(0, 1), flexible=1):
    """Whether the voter accepts the resignation."""

    error_code: Int16 = 0
    topics: list[EndQuorumEpochResponseTopicData] = field(factory=list)
    node_endpoints: list[EndQuorumEpochResponseNodeEndpoint] = field(factory=list, since=1, tag=0)


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: Int32 = 0


class DescribeQuorumRequestTopicData(Struct):
    topic_name: String = ""
    partitions: list[DescribeQuorumRequestPartitionData] = field(factory=list)


class DescribeQuorumRequest(Message, key=55, versions=(0, 2), flexible=0):
    """Ask for the state of the KRaft quorum."""

    topics: list[DescribeQuorumRequestTopicData] = field(factory=list)


class ReplicaState(Struct):
    replica_id: Int32 = 0
    replica_directory_id: Uuid = field(default=NO_UUID, since=2)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = field(default=-1, since=1, ignorable=True)
    last_caught_up_timestamp: Int64 = field(default=-1, since=1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(default="", since=2, ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = field(factory=list)
    observers: list[ReplicaState] = field(factory=list)


class DescribeQuorumResponseTopicData(Struct):
    topic_name: String = ""
    partitions: list[DescribeQuorumResponsePartitionData] = field(factory=list)


class Listener(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0


class Node(Struct):
    node_id: Int32 = 0
    listeners: list[Listener] = field(factory=list)


class DescribeQuorumResponse(Message, key=55, versions=(0, 2), flexible=0):
    """The leader, the voters and the observers with their offsets."""

    error_code: Int16 = 0
    error_message: String | None = field(default="", since=2, ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = field(factory=list)
    nodes: list[Node] = field(factory=list, since=2)


class SnapshotId(Struct):
    end_offset: Int64 = 0
    epoch: Int32 = 0


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = field(factory=SnapshotId)
    position: Int64 = 0
    replica_directory_id: Uuid = field(default=NO_UUID, since=1, tag=0, ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: String = ""
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = field(factory=list)


class FetchSnapshotRequest(Message, key=59, versions=(0, 1), flexible=0):
    """Read a part of a KRaft snapshot."""

    cluster_id: String | None = field(default=None, tag=0)
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFFFFFF
    topics: list[FetchSnapshotRequestTopicSnapshot] = field(factory=list)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = field(factory=SnapshotId)
    current_leader: LeaderIdAndEpoch | None = field(default=None, tag=0)
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: Records = b""


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: String = ""
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = field(factory=list)


class FetchSnapshotResponseNodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Uint16 = 0


class FetchSnapshotResponse(Message, key=59, versions=(0, 1), flexible=0):
    """The bytes read."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[FetchSnapshotResponseTopicSnapshot] = field(factory=list)
    node_endpoints: list[FetchSnapshotResponseNodeEndpoint] = field(factory=list, since=1, tag=0)
