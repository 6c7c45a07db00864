"""Log directories and the replicas in them."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, Int64, String, Uuid


class AlterReplicaLogDirTopic(Struct):
    name: String = ""
    partitions: list[Int32] = field(factory=list)


class AlterReplicaLogDir(Struct):
    path: String = ""
    topics: list[AlterReplicaLogDirTopic] = field(factory=list)


class AlterReplicaLogDirsRequest(Message, key=34, versions=(0, 2), flexible=2):
    """Move replicas to other log directories of the broker."""

    dirs: list[AlterReplicaLogDir] = field(factory=list)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(factory=list)


class AlterReplicaLogDirsResponse(Message, key=34, versions=(0, 2), flexible=2):
    """Which moves were accepted."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(factory=list)


class DescribableLogDirTopic(Struct):
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


class DescribeLogDirsRequest(Message, key=35, versions=(0, 5), flexible=2):
    """Ask for the log directories of the broker and the replicas in them."""

    topics: list[DescribableLogDirTopic] | None = field(factory=list)


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Struct):
    name: String = ""
    partitions: list[DescribeLogDirsPartition] = field(factory=list)


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = field(factory=list)
    total_bytes: Int64 = field(default=-1, since=4, ignorable=True)
    usable_bytes: Int64 = field(default=-1, since=4, ignorable=True)
    is_cordoned: bool = field(default=False, since=5, ignorable=True)


class DescribeLogDirsResponse(Message, key=35, versions=(0, 5), flexible=2):
    """The log directories with the sizes of their replicas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=3, ignorable=True)
    results: list[DescribeLogDirsResult] = field(factory=list)


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: Int32 = 0


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[AssignReplicasToDirsRequestPartitionData] = field(factory=list)


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: Uuid = NO_UUID
    topics: list[AssignReplicasToDirsRequestTopicData] = field(factory=list)


class AssignReplicasToDirsRequest(Message, key=73, versions=(0, 0), flexible=0):
    """A broker reports to the controller which log directories its replicas are in."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: list[AssignReplicasToDirsRequestDirectoryData] = field(factory=list)


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: Uuid = NO_UUID
    partitions: list[AssignReplicasToDirsResponsePartitionData] = field(factory=list)


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: Uuid = NO_UUID
    topics: list[AssignReplicasToDirsResponseTopicData] = field(factory=list)


class AssignReplicasToDirsResponse(Message, key=73, versions=(0, 0), flexible=0):
    """Which assignments were accepted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: list[AssignReplicasToDirsResponseDirectoryData] = field(factory=list)
