"""ListOffsets v0-11: v0 returns segments' base offsets, v2 isolation level, v4 leader epochs, v7 max timestamp, v8 earliest local,
v9 latest tiered, v10 a timeout for offsets in a remote tier, which nothing here waits for (KIP-1075), v11 earliest pending upload.
OffsetForLeaderEpoch v0-4: v1 leader epoch in the response, v2 fencing, v3 replica id. DeleteRecords v0-2."""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final

from twisted.logger import Logger

from twisted_kafka.log.results import TimestampAndOffset
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError, KafkaError
from twisted_kafka.protocol.messages.list_offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition, topic_partition_of
from twisted_kafka.replication.operations.delayed_delete_records import DeleteRecordsResult
from twisted_kafka.replication.operations.offset_queries import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    READ_COMMITTED,
)
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.data.flat_forms import FoundResponse, OneQuestion
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.waiting.futures import when_done

_DESCRIBE: Final = AclOperation.DESCRIBE
_TOPIC: Final = ResourceType.TOPIC

_FIRST_VERSION_OF_ONE_OFFSET: Final = 1
"""Before it the response has a list of offsets."""

_FIRST_VERSION_WITH_EPOCHS: Final = 4
_FIRST_VERSION_OF_SPECIALS: Final = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
_FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE: Final = 5

_NOT_FOUND: Final = TimestampAndOffset(-1, -1, -1)

_log = Logger()


class OffsetApis:
    """Looks up offsets of partitions, and deletes records before an offset."""

    def __init__(self, replicas: ReplicaManager, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._replicas = replicas
        self._offsets = replicas.offsets

    @api(ListOffsetsRequest, ListOffsetsResponse, versions=(0, 11))
    def list_offsets(self, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """Find an offset by timestamp, or a special one, in each partition."""
        if request.isolation_level not in (0, READ_COMMITTED):
            raise InvalidRequestError(f"Invalid isolation level {request.isolation_level}")
        duplicates = _duplicates(request) if context.api_version > 0 else set()
        topics = []
        allowed = self._allowed(context, AclOperation.DESCRIBE, (topic.name for topic in request.topics))
        for topic in request.topics:
            answers = []
            first_error = 0
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                if topic.name not in allowed:
                    answer = _list_error(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                elif topic_partition in duplicates:
                    answer = _list_error(partition, ErrorCode.INVALID_REQUEST)
                elif partition.timestamp < 0 and not _knows_special(context.api_version, partition.timestamp):
                    answer = _list_error(partition, ErrorCode.UNSUPPORTED_VERSION)
                else:
                    answer = self._list_or_error(context.api_version, request, topic_partition, partition)
                first_error = first_error or answer.error_code
                answers.append(answer)
            context.note_topic(topic.name, tuple([each.partition_index for each in answers]), 0, 0, first_error)
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return ListOffsetsResponse(topics=topics)

    @list_offsets.undecoded
    def list_one_offset(self, context: RequestContext, frame: Buffer, offset: int) -> FoundResponse | None:
        """Handle the request if it has one partition and succeeds; otherwise return None.

        It does the same as ``list_offsets``, without decoding and encoding messages.
        """
        version = context.api_version
        one = OneQuestion.read(frame, version, offset) if version >= _FIRST_VERSION_OF_ONE_OFFSET else None
        if one is None or one.isolation_level not in (0, READ_COMMITTED):
            return None
        timestamp = one.timestamp
        if timestamp < 0 and not _knows_special(version, timestamp):
            return None
        authorization = self._authorization
        if (
            authorization.enforces
            and not authorization.remembers(context, _DESCRIBE, _TOPIC, one.name)
            and not authorization.is_allowed(context, _DESCRIBE, _TOPIC, one.name, logs_denied=False)
        ):
            return None  # `list_offsets` asks again, and responds
        topic_partition = topic_partition_of((one.name, one.partition_index))
        try:
            found = self._offsets.list_offset(
                topic_partition, timestamp, one.replica_id, one.isolation_level, one.current_leader_epoch
            )
        except (KafkaError, OSError):
            return None  # `list_offsets` runs into it again and responds
        context.note_topic(one.name, (one.partition_index,), 0, 0)
        timestamp_ms, found_offset, leader_epoch = _NOT_FOUND if found is None else found
        return FoundResponse(one.name, one.partition_index, timestamp_ms, found_offset, leader_epoch)

    def _allowed(self, context: RequestContext, operation: AclOperation, topics: Iterable[str]) -> set[str]:
        return self._authorization.allowed_of(context, operation, ResourceType.TOPIC, topics)

    def _list_or_error(
        self, version: int, request: ListOffsetsRequest, topic_partition: TopicPartition, partition: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        try:
            if version == 0:
                return self._list_before(request, topic_partition, partition)
            return self._list(version, request, topic_partition, partition)
        except KafkaError as error:
            code: int = error.code
            if code == ErrorCode.OFFSET_NOT_AVAILABLE and version < _FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE:
                code = ErrorCode.LEADER_NOT_AVAILABLE
        except OSError as error:
            _log.error("Failed to look up an offset of {partition}: {error}", partition=topic_partition, error=error)
            code = ErrorCode.KAFKA_STORAGE_ERROR
        return _list_error(partition, code)

    def _list(
        self, version: int, request: ListOffsetsRequest, topic_partition: TopicPartition, partition: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        found = self._offsets.list_offset(
            topic_partition, partition.timestamp, request.replica_id, request.isolation_level, partition.current_leader_epoch
        )
        if found is None:
            return _list_error(partition, 0)
        return ListOffsetsPartitionResponse(
            partition_index=partition.partition_index,
            timestamp=found.timestamp_ms,
            offset=found.offset,
            leader_epoch=found.leader_epoch if version >= _FIRST_VERSION_WITH_EPOCHS else -1,
        )

    def _list_before(
        self, request: ListOffsetsRequest, topic_partition: TopicPartition, partition: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        offsets = self._offsets.list_offsets_before(
            topic_partition, partition.timestamp, partition.max_num_offsets, request.replica_id
        )
        return ListOffsetsPartitionResponse(partition_index=partition.partition_index, old_style_offsets=offsets)

    @api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, versions=(0, 4))
    def offset_for_leader_epoch(
        self, context: RequestContext, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        """Return the end offset of a leader epoch in each partition."""
        topics = []
        names = {topic.topic for topic in request.topics}
        if not self._authorization.is_allowed_on_cluster(context, AclOperation.CLUSTER_ACTION, logs_denied=False):
            names = self._allowed(context, AclOperation.DESCRIBE, names)
        for topic in request.topics:
            if topic.topic not in names:
                refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                refused = [EpochEndOffset(partition=wanted.partition, error_code=refusal) for wanted in topic.partitions]
                context.note_topic(topic.topic, tuple([each.partition for each in refused]), 0, 0, refusal)
                topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=refused))
                continue
            answers = [self._end_of_epoch(TopicPartition(topic.topic, wanted.partition), wanted) for wanted in topic.partitions]
            error = next((answer.error_code for answer in answers if answer.error_code), 0)
            context.note_topic(topic.topic, tuple([each.partition for each in answers]), 0, 0, error)
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _end_of_epoch(self, topic_partition: TopicPartition, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            found = self._offsets.end_offset_for_epoch(topic_partition, wanted.current_leader_epoch, wanted.leader_epoch)
        except KafkaError as error:
            return EpochEndOffset(partition=wanted.partition, error_code=error.code)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=found.leader_epoch, end_offset=found.end_offset)

    @api(DeleteRecordsRequest, DeleteRecordsResponse, versions=(0, 2))
    def delete_records(
        self, context: RequestContext, request: DeleteRecordsRequest
    ) -> "DeleteRecordsResponse | Future[DeleteRecordsResponse]":
        """Delete the records before an offset (-1: the high watermark) of each partition; respond when all replicas have."""
        wanted = {
            TopicPartition(topic.name, partition.partition_index): partition.offset
            for topic in request.topics
            for partition in topic.partitions
        }
        allowed = self._allowed(context, AclOperation.DELETE, (topic.name for topic in request.topics))
        refused = {each: DeleteRecordsResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED) for each in wanted if each.topic not in allowed}
        if len(refused) == len(wanted):
            return _deleted(context, refused)
        left = {each: offset for each, offset in wanted.items() if each not in refused}
        return when_done(
            self._offsets.delete_records(request.timeout_ms, left), lambda results: _deleted(context, {**results, **refused})
        )


def _knows_special(version: int, timestamp: int) -> bool:
    first = _FIRST_VERSION_OF_SPECIALS.get(timestamp)
    return first is not None and version >= first


def _duplicates(request: ListOffsetsRequest) -> set[TopicPartition]:
    seen: set[TopicPartition] = set()
    duplicates = set()
    for topic in request.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            if topic_partition in seen:
                duplicates.add(topic_partition)
            seen.add(topic_partition)
    return duplicates


def _list_error(partition: ListOffsetsPartition, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=code)


def _deleted(context: RequestContext, results: dict[TopicPartition, DeleteRecordsResult]) -> DeleteRecordsResponse:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for topic_partition, result in results.items():
        topic = topics.get(topic_partition.topic)
        if topic is None:
            topic = topics[topic_partition.topic] = DeleteRecordsTopicResult(name=topic_partition.topic, partitions=[])
        topic.partitions.append(
            DeleteRecordsPartitionResult(
                partition_index=topic_partition.partition, low_watermark=result.low_watermark, error_code=result.error
            )
        )
    for topic in topics.values():
        error = next((partition.error_code for partition in topic.partitions if partition.error_code), 0)
        context.note_topic(topic.name, tuple([each.partition_index for each in topic.partitions]), 0, 0, error)
    return DeleteRecordsResponse(topics=list(topics.values()))
