"""The group coordinator's interface for share groups: their members, and the offsets of their partitions (KIP-932)."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from twisted_kafka.coordinator.runtime import CoordinatorRuntime
from twisted_kafka.group_coordinator.group_shard import GroupShard
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.share.persister_requests import SharePartitionId, summary_request
from twisted_kafka.group_coordinator.share.share_group_protocol import check_share_heartbeat
from twisted_kafka.group_coordinator.share.share_offsets import SharePartitionErrors, TopicErrors
from twisted_kafka.group_coordinator.shared.end_offsets import EndOffset
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import LEAVE_EPOCH
from twisted_kafka.protocol.errors import ErrorCode, InvalidGroupIdError, KafkaError
from twisted_kafka.protocol.messages.share.share_groups import (
    DescribedGroup,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from twisted_kafka.protocol.messages.share.share_state import (
    ReadShareGroupStateSummaryResponse,
    ReadShareGroupStateSummaryResponsePartitionResult,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.waiting.futures import and_then, then

NO_OFFSET = -1
NO_COUNT = -1


class ShareOffset(NamedTuple):
    """Where a group starts in a partition; -1 if that, or the lag, is unknown."""

    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    lag: int = -1
    error: ErrorCode = ErrorCode.NONE


Summary = ReadShareGroupStateSummaryResponsePartitionResult


class ShareGroups:
    """Share groups (Kafka: GroupCoordinatorService). Methods may be called on any thread; all may raise KafkaError."""

    def __init__(self, runtime: CoordinatorRuntime[GroupShard], environment: GroupEnvironment) -> None:
        self._runtime = runtime
        self._environment = environment

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client
    ) -> "ShareGroupHeartbeatResponse | Future[ShareGroupHeartbeatResponse]":
        """Add, keep or remove a member."""
        check_share_heartbeat(request)
        if request.member_epoch == LEAVE_EPOCH:
            return self._runtime.execute(request.group_id, lambda shard: shard.share.leave(request))
        return self._runtime.read(request.group_id, lambda shard: shard.share.heartbeat(request, client))

    def describe(self, group_id: str) -> "DescribedGroup | Future[DescribedGroup]":
        """Describe a group; errors are in the result."""

        def refused(error: KafkaError) -> DescribedGroup:
            return DescribedGroup(error_code=error.code, error_message=str(error), group_id=group_id)

        return self._runtime.try_read(group_id, lambda shard: shard.queries.describe_share(group_id), refused)

    # offsets

    def alter_offsets(
        self, group_id: str, offsets: Mapping[SharePartitionId, int]
    ) -> "SharePartitionErrors | Future[SharePartitionErrors]":
        """Set the start offsets of existing partitions for a group without members; return the errors."""
        _check_id(group_id)
        return self._runtime.read(group_id, lambda shard: shard.share_offsets.alter(group_id, offsets))

    def delete_offsets(self, group_id: str, topics: Collection[bytes]) -> "TopicErrors | Future[TopicErrors]":
        """Delete the offsets of existing topics for a group without members; return the errors."""
        _check_id(group_id)
        return self._runtime.read(group_id, lambda shard: shard.share_offsets.delete_topics(group_id, topics))

    def describe_offsets(
        self, group_id: str, partitions: Mapping[bytes, Sequence[int]] | None
    ) -> "Mapping[SharePartitionId, ShareOffset] | Future[Mapping[SharePartitionId, ShareOffset]]":
        """Return the start offsets and lags of partitions; None: of all that the group has offsets of."""
        if partitions is not None:
            return self._summary(group_id, partitions)
        found = self._runtime.read(group_id, lambda shard: shard.share_offsets.initialized(group_id))
        return and_then(
            found, lambda known: self._summary(group_id, {topic_id: sorted(indexes) for topic_id, indexes in known.items()})
        )

    def _summary(
        self, group_id: str, partitions: Mapping[bytes, Sequence[int]]
    ) -> "Mapping[SharePartitionId, ShareOffset] | Future[Mapping[SharePartitionId, ShareOffset]]":
        if not partitions:
            return {}
        summary = self._environment.persister.read_state_summary(summary_request(group_id, partitions))
        return and_then(summary, self._with_lags)

    def _with_lags(self, summary: ReadShareGroupStateSummaryResponse) -> "Future[Mapping[SharePartitionId, ShareOffset]]":
        names = self._environment.topics.snapshot.topic_names
        summaries = {(topic.topic_id, each.partition): each for topic in summary.results for each in topic.partitions}
        counted = {
            partition: TopicPartition(names[partition[0]], partition[1])
            for partition, each in summaries.items()
            if partition[0] in names and _has_lag(each)
        }
        ends = self._environment.end_offsets(set(counted.values()))
        return then(
            ends,
            lambda found: {
                partition: _offset(each, found[counted[partition]] if partition in counted else None)
                for partition, each in summaries.items()
            },
        )


def _has_lag(summary: Summary) -> bool:
    return not summary.error_code and summary.start_offset != NO_OFFSET and summary.delivery_complete_count != NO_COUNT


def _offset(summary: Summary, end: EndOffset | None) -> ShareOffset:
    if summary.error_code:
        return ShareOffset()  # as in Kafka, a share coordinator's error is not reported
    if end is None:
        return ShareOffset(summary.start_offset, summary.leader_epoch)
    if end.error:
        return ShareOffset(0, 0, -1, end.error)
    return ShareOffset(
        summary.start_offset, summary.leader_epoch, end.offset - summary.start_offset - summary.delivery_complete_count
    )


def _check_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupIdError("The group id is invalid: it is empty.")
