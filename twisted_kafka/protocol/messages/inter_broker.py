"""The messages between the controller of a ZooKeeper-era cluster and its brokers."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, Int64, String, Uuid


class LeaderAndIsrPartitionState(Struct):
    topic_name: String = field(default="", until=1, ignorable=True)
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(factory=list)
    partition_epoch: Int32 = 0
    replicas: list[Int32] = field(factory=list)
    adding_replicas: list[Int32] = field(factory=list, since=3, ignorable=True)
    removing_replicas: list[Int32] = field(factory=list, since=3, ignorable=True)
    is_new: bool = field(default=False, since=1, ignorable=True)
    leader_recovery_state: Int8 = field(default=0, since=6)


class LeaderAndIsrTopicState(Struct):
    topic_name: String = ""
    topic_id: Uuid = field(default=NO_UUID, since=5, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = field(factory=list)


class LeaderAndIsrLiveLeader(Struct):
    broker_id: Int32 = 0
    host_name: String = ""
    port: Int32 = 0


class LeaderAndIsrRequest(Message, key=4, versions=(0, 7), flexible=4):
    """The controller assigns leaders and followers of partitions to a broker."""

    controller_id: Int32 = 0
    is_kraft_controller: bool = field(default=False, since=7)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = field(default=-1, since=2, ignorable=True)
    type: Int8 = field(default=0, since=5)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(factory=list, until=1)
    topic_states: list[LeaderAndIsrTopicState] = field(factory=list, since=2)
    live_leaders: list[LeaderAndIsrLiveLeader] = field(factory=list)


class LeaderAndIsrPartitionError(Struct):
    topic_name: String = field(default="", until=4, ignorable=True)
    partition_index: Int32 = 0
    error_code: Int16 = 0


class LeaderAndIsrTopicError(Struct):
    topic_id: Uuid = NO_UUID
    partition_errors: list[LeaderAndIsrPartitionError] = field(factory=list)


class LeaderAndIsrResponse(Message, key=4, versions=(0, 7), flexible=4):
    """The result for each partition."""

    error_code: Int16 = 0
    partition_errors: list[LeaderAndIsrPartitionError] = field(factory=list, until=4)
    topics: list[LeaderAndIsrTopicError] = field(factory=list, since=5)


class StopReplicaPartitionV0(Struct):
    topic_name: String = field(default="", until=0)
    partition_index: Int32 = field(default=0, until=0)


class StopReplicaTopicV1(Struct):
    name: String = field(default="", until=2)
    partition_indexes: list[Int32] = field(factory=list, until=2)


class StopReplicaPartitionState(Struct):
    partition_index: Int32 = 0
    leader_epoch: Int32 = -1
    delete_partition: bool = False


class StopReplicaTopicState(Struct):
    topic_name: String = ""
    partition_states: list[StopReplicaPartitionState] = field(factory=list)


class StopReplicaRequest(Message, key=5, versions=(0, 4), flexible=2):
    """The controller orders a broker to stop replicas, and optionally to delete them."""

    controller_id: Int32 = 0
    is_kraft_controller: bool = field(default=False, since=4)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = field(default=-1, since=1, ignorable=True)
    delete_partitions: bool = field(default=False, until=2)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(factory=list, until=0)
    topics: list[StopReplicaTopicV1] = field(factory=list, since=1, until=2)
    topic_states: list[StopReplicaTopicState] = field(factory=list, since=3)


class StopReplicaPartitionError(Struct):
    topic_name: String = ""
    partition_index: Int32 = 0
    error_code: Int16 = 0


class StopReplicaResponse(Message, key=5, versions=(0, 4), flexible=2):
    """The result for each replica."""

    error_code: Int16 = 0
    partition_errors: list[StopReplicaPartitionError] = field(factory=list)


class UpdateMetadataPartitionState(Struct):
    topic_name: String = field(default="", until=4, ignorable=True)
    partition_index: Int32 = 0
    controller_epoch: Int32 = 0
    leader: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(factory=list)
    zk_version: Int32 = 0
    replicas: list[Int32] = field(factory=list)
    offline_replicas: list[Int32] = field(factory=list, since=4, ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: String = ""
    topic_id: Uuid = field(default=NO_UUID, since=7, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = field(factory=list)


class UpdateMetadataEndpoint(Struct):
    port: Int32 = 0
    host: String = ""
    listener: String = field(default="", since=3, ignorable=True)
    security_protocol: Int16 = 0


class UpdateMetadataBroker(Struct):
    id: Int32 = 0
    v0_host: String = field(default="", until=0, ignorable=True)
    v0_port: Int32 = field(default=0, until=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = field(factory=list, since=1, ignorable=True)
    rack: String | None = field(default="", since=2, ignorable=True)


class UpdateMetadataRequest(Message, key=6, versions=(0, 8), flexible=6):
    """The controller sends a broker the state of partitions and the live brokers."""

    controller_id: Int32 = 0
    is_kraft_controller: bool = field(default=False, since=8)
    type: Int8 = field(default=0, since=8, tag=0)
    controller_epoch: Int32 = 0
    broker_epoch: Int64 = field(default=-1, since=5, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(factory=list, until=4)
    topic_states: list[UpdateMetadataTopicState] = field(factory=list, since=5)
    live_brokers: list[UpdateMetadataBroker] = field(factory=list)


class UpdateMetadataResponse(Message, key=6, versions=(0, 8), flexible=6):
    """Whether the broker applied the update."""

    error_code: Int16 = 0


class ControlledShutdownRequest(Message, key=7, versions=(0, 3), flexible=3):
    """A broker asks the controller to move its partitions' leaders to other brokers before it stops."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = field(default=-1, since=2, ignorable=True)


class RemainingPartition(Struct):
    topic_name: String = ""
    partition_index: Int32 = 0


class ControlledShutdownResponse(Message, key=7, versions=(0, 3), flexible=3):
    """The partitions that the broker still leads."""

    error_code: Int16 = 0
    remaining_partitions: list[RemainingPartition] = field(factory=list)
