"""The group coordinator as the API handlers see it: checks, routing by group id, errors as values."""

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.coordinator.group.group_config import GroupConfig
from twisted_kafka.coordinator.group.joining import JoinRequest
from twisted_kafka.coordinator.group.offset_store import Offsets
from twisted_kafka.coordinator.group.results import (
    GroupDescription,
    GroupListing,
    JoinResult,
    LeavingMember,
    LeftMember,
    SyncResult,
)
from twisted_kafka.coordinator.group.shard import GroupShard
from twisted_kafka.coordinator.interfaces import IShardFactory
from twisted_kafka.coordinator.records import GROUP_RECORD_KINDS, RecordKinds
from twisted_kafka.coordinator.runtime import CoordinatorRuntime
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.futures import then
from twisted_kafka.timing.scheduler import IScheduler

GROUP_METADATA_TOPIC = "__consumer_offsets"

_NONE = ErrorCode.NONE
_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
T = TypeVar("T")
FetchedOffsets = dict[TopicPartition, OffsetCommitValue | ErrorCode | None]


def _new_id() -> str:
    import uuid  # some milliseconds that a start needn't wait for

    return str(uuid.uuid4())


@implementer(IShardFactory)
class GroupShards:
    """Makes the shards of ``__consumer_offsets``."""

    def __init__(self, clock: IClock, config: GroupConfig, new_id: Callable[[], str] = _new_id) -> None:
        self._clock = clock
        self._config = config
        self._new_id = new_id

    def kinds(self) -> RecordKinds:
        """Return the kinds of record that the shards understand."""
        return GROUP_RECORD_KINDS

    def shard(self, partition: int, effects: Effects) -> GroupShard:
        """Return a new, empty shard."""
        return GroupShard(effects, self._clock, self._config, self._new_id)


class GroupCoordinator:
    """Consumer groups and committed offsets (Kafka's GroupCoordinator). Methods may be called on any thread.

    Where a method returns ``T | Future[T]``, a future means that the answer waits: for other members, or for replicas.
    """

    log = Logger()

    def __init__(self, runtime: CoordinatorRuntime, scheduler: IScheduler, config: GroupConfig) -> None:
        self.runtime = runtime
        self.config = config
        self._scheduler = scheduler
        self._expiry: Any = None

    def startup(self) -> None:
        """Begin to answer, and to expire offsets every ``offsets.retention.check.interval.ms``."""
        self.runtime.startup()
        period_ms = self.config.offsets_retention_check_interval_ms
        self._expiry = self._scheduler.schedule("delete-expired-group-metadata", self.expire_offsets, period_ms, period_ms)

    def shutdown(self) -> None:
        """Stop, answering what is parked."""
        if self._expiry is not None:
            self._expiry.cancel()
        self.runtime.shutdown()

    def on_leadership_change(self, leaders: Iterable[tuple[int, int]], followers: Iterable[tuple[int, int]]) -> None:
        """Take over and hand over partitions of ``__consumer_offsets``, each given as (partition, leader epoch).

        Epoch -1, unknown, is that of a partition which is not on this broker any more: it's handed over in any case.
        """
        for partition, epoch in followers:
            self.runtime.resigned(partition, None if epoch < 0 else epoch)
        for partition, epoch in leaders:
            self.runtime.elected(partition, epoch)

    def partition_for(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that holds the group."""
        return self.runtime.partition_for(group_id)

    # the group's protocol

    def join(self, request: JoinRequest) -> "JoinResult | Future[JoinResult]":
        """Let a member in, or in again; the future is answered when the rebalance is over."""
        member_id = request.member_id
        if not request.group_id:
            return JoinResult(ErrorCode.INVALID_GROUP_ID, member_id)
        timeout_ms = request.terms.session_timeout_ms
        try:
            if not self.config.min_session_timeout_ms <= timeout_ms <= self.config.max_session_timeout_ms:
                self.runtime.check(request.group_id)
                return JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, member_id)
            return _unless_parked(self.runtime.execute(request.group_id, GroupShard.join, request))
        except KafkaError as error:
            return JoinResult(error.code, member_id)

    def sync(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol: tuple[str | None, str | None],
        assignments: dict[str, bytes],
    ) -> "SyncResult | Future[SyncResult]":
        """Hand in the leader's assignments, and get the own one."""
        if not group_id:
            return SyncResult(ErrorCode.INVALID_GROUP_ID)
        try:
            result = self.runtime.execute(
                group_id, GroupShard.sync, group_id, member_id, instance_id, generation, protocol, assignments
            )
        except KafkaError as error:
            # While it loads, who joined is lost: the member is to join again, and needs no other coordinator for it.
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS if error.code == _LOADING else error.code)
        return _unless_parked(result)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Keep a session alive."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        try:
            error: ErrorCode = self.runtime.execute(group_id, GroupShard.heartbeat, group_id, member_id, instance_id, generation)
        except KafkaError as refused:
            return _NONE if refused.code == _LOADING else refused.code  # its session begins when it's loaded
        return error

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> tuple[ErrorCode, list[LeftMember]]:
        """Let members go."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID, []
        try:
            result: tuple[ErrorCode, list[LeftMember]] = self.runtime.execute(group_id, GroupShard.leave, group_id, leaving)
        except KafkaError as error:
            return error.code, []
        return result

    # offsets

    def commit_offsets(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, offsets: Offsets
    ) -> "ErrorCode | Future[ErrorCode]":
        """Commit offsets of partitions that exist, with metadata within its limit; one error for all of them."""
        try:
            answer: ErrorCode | Future[ErrorCode] = self.runtime.execute(
                group_id, GroupShard.commit, group_id, member_id, instance_id, generation, offsets
            )
        except KafkaError as error:
            return error.code
        return answer

    def fetch_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition] | None, require_stable: bool
    ) -> "tuple[ErrorCode, FetchedOffsets] | Future[tuple[ErrorCode, FetchedOffsets]]":
        """Return committed offsets; see GroupShard.fetch."""
        try:
            result = self.runtime.read(group_id, GroupShard.fetch, group_id, partitions, require_stable)
        except KafkaError as error:
            return error.code, {}
        if isinstance(result, Future):
            return then(result, lambda fetched: (_NONE, fetched))
        return _NONE, result

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> Any:
        """Forget committed offsets; returns (the group's error, the partitions' errors), or a future of it."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID, {}
        try:
            return self.runtime.execute(group_id, GroupShard.delete_offsets, group_id, partitions)
        except KafkaError as error:
            return error.code, {}

    def expire_offsets(self) -> None:
        """Remove the offsets and groups that have had their time, in all partitions."""
        count = sum(self.runtime.execute_everywhere(GroupShard.expire_offsets))
        if count:
            self.log.info("removed {n} expired offsets", n=count)

    def on_partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the offsets of deleted partitions."""
        gone = frozenset(partitions)
        if not gone:
            return
        self.runtime.execute_everywhere(lambda shard: shard.delete_partitions(gone.__contains__))

    # administration

    def list_groups(self, states: Collection[str], types: Collection[str]) -> tuple[ErrorCode, list[GroupListing]]:
        """Return the groups in one of ``states`` and of one of ``types`` (any case; empty: all), and whether some are loading."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        listings = [
            listing
            for listings in self.runtime.execute_everywhere(GroupShard.list_groups)
            for listing in listings
            if (not wanted_states or listing.state.lower() in wanted_states)
            and (not wanted_types or listing.type.lower() in wanted_types)
        ]
        return (_LOADING if self.runtime.is_loading() else _NONE), listings

    def describe_group(self, group_id: str) -> GroupDescription:
        """Describe a group."""
        try:
            description = self.runtime.execute(group_id, GroupShard.describe, group_id)
        except KafkaError as error:
            return GroupDescription(error.code, group_id)
        return description  # type: ignore[no-any-return]

    def delete_group(self, group_id: str) -> "ErrorCode | Future[ErrorCode]":
        """Delete an empty group."""
        try:
            return self.runtime.execute(group_id, GroupShard.delete_group, group_id)  # type: ignore[no-any-return]
        except KafkaError as error:
            return error.code


def _unless_parked(result: "T | Future[T]") -> "T | Future[T]":
    """Unwrap a parked request that its own operation answered already."""
    if isinstance(result, Future) and result.done():
        return result.result()
    return result
