"""AlterReplicaLogDirs v0-2, DescribeLogDirs v0-5 (KIP-113): v3 top-level error, v4 total and usable bytes (KIP-827), v5
cordoned directories (KIP-1066)."""

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.messages.administration.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.log_dirs.alter_log_dirs import AlterLogDirs, DirectoryDescription
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.server.inner_requests import is_handed_over


class LogDirApis:
    """Log directories of this broker, and the replicas in them."""

    def __init__(self, moves: AlterLogDirs, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._moves = moves

    @api(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, versions=(0, 2))
    def alter_replica_log_dirs(self, context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        """Start moving replicas to other log directories."""
        self._authorization.require_cluster(context, AclOperation.ALTER)
        destinations = {
            TopicPartition(topic.name, partition): directory.path
            for directory in request.dirs
            for topic in directory.topics
            for partition in topic.partitions
        }
        topics: dict[str, AlterReplicaLogDirTopicResult] = {}
        for (name, partition), error in self._moves.alter(destinations).items():
            if error:
                context.note_error(error)
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = AlterReplicaLogDirTopicResult(topic_name=name)
            topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=error))
        for topic in topics.values():
            moved = tuple([each.partition_index for each in topic.partitions])
            context.note_topic(
                topic.topic_name, moved, 0, 0, next((each.error_code for each in topic.partitions if each.error_code), 0)
            )
        return AlterReplicaLogDirsResponse(results=list(topics.values()))

    @api(DescribeLogDirsRequest, DescribeLogDirsResponse, versions=(0, 5))
    def describe_log_dirs(self, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """Return the log directories with the sizes of their replicas."""
        self._authorization.require_cluster(context, AclOperation.DESCRIBE)
        wanted = None
        if request.topics is not None:
            wanted = {TopicPartition(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
        response = DescribeLogDirsResponse(results=[_result(directory) for directory in self._moves.describe(wanted)])
        return DescribeLogDirsResponse() if is_handed_over(context, response) else response


def _result(directory: DirectoryDescription) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in directory.logs:
        name, partition = log.topic_partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = DescribeLogDirsTopic(name=name)
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition,
                partition_size=log.size_bytes,
                offset_lag=log.offset_lag,
                is_future_key=log.is_future,
            )
        )
    return DescribeLogDirsResult(
        error_code=directory.error,
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
        is_cordoned=directory.is_cordoned,
    )
