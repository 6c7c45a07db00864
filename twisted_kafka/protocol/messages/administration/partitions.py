"""Leader elections and partition reassignments."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int8, Int16, Int32, String


class ElectLeadersRequestTopicPartitions(Struct):
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


class ElectLeadersRequest(Message, key=43, versions=(0, 2), flexible=2):
    """Elect new leaders for partitions."""

    election_type: Int8 = field(default=0, since=1)
    topic_partitions: list[ElectLeadersRequestTopicPartitions] | None = field(factory=list)
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReplicaElectionResult(Struct):
    topic: String = ""
    partition_result: list[PartitionResult] = field(factory=list)


class ElectLeadersResponse(Message, key=43, versions=(0, 2), flexible=2):
    """The result for each election."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=1)
    replica_election_results: list[ReplicaElectionResult] = field(factory=list)


class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


class ReassignableTopic(Struct):
    name: String = ""
    partitions: list[ReassignablePartition] = field(factory=list)


class AlterPartitionReassignmentsRequest(Message, key=45, versions=(0, 1), flexible=0):
    """Start or cancel reassignments of partitions to other replicas."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: bool = field(default=True, since=1)
    topics: list[ReassignableTopic] = field(factory=list)


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReassignableTopicResponse(Struct):
    name: String = ""
    partitions: list[ReassignablePartitionResponse] = field(factory=list)


class AlterPartitionReassignmentsResponse(Message, key=45, versions=(0, 1), flexible=0):
    """The result for each reassignment."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: bool = field(default=True, since=1, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = field(factory=list)


class ListPartitionReassignmentsTopics(Struct):
    name: String = ""
    partition_indexes: list[Int32] = field(factory=list)


class ListPartitionReassignmentsRequest(Message, key=46, versions=(0, 0), flexible=0):
    """Ask for the reassignments that are running."""

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] = field(factory=list)
    adding_replicas: list[Int32] = field(factory=list)
    removing_replicas: list[Int32] = field(factory=list)


class OngoingTopicReassignment(Struct):
    name: String = ""
    partitions: list[OngoingPartitionReassignment] = field(factory=list)


class ListPartitionReassignmentsResponse(Message, key=46, versions=(0, 0), flexible=0):
    """The running reassignments."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = field(factory=list)
