"""The group coordinator's interface for API handlers: validation, routing by group id, errors as values."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeVar, cast

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.effects import Write
from twisted_kafka.coordinator.runtime import CoordinatorRuntime, UncommittedStateError
from twisted_kafka.group_coordinator.classic.membership import JoinAnswer
from twisted_kafka.group_coordinator.consumer.heartbeat_validation import check_heartbeat, is_leaving
from twisted_kafka.group_coordinator.group_router import Left
from twisted_kafka.group_coordinator.group_shard import GroupShard
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import Deleted, Fetched, OffsetFetch
from twisted_kafka.group_coordinator.requests import Client, JoinRequest, LeavingMember, Sender, SyncRequest
from twisted_kafka.group_coordinator.results import GroupDescription, GroupListing, JoinResult, SyncResult
from twisted_kafka.group_coordinator.share_groups import ShareGroups
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.shared.group_config_manager import GroupConfigManager
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import GroupCounts
from twisted_kafka.group_coordinator.state.group import Group
from twisted_kafka.group_coordinator.state.offset_store import Offsets
from twisted_kafka.group_coordinator.streams_groups import StreamsGroups
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidGroupIdError,
    KafkaError,
    NotCoordinatorError,
)
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
)
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.timing.scheduler import IScheduler, ScheduledTask
from twisted_kafka.waiting.futures import and_then

_log = Logger()

COUNTS_KEPT_NS = 1_000_000_000


class OffsetCommit(NamedTuple):
    """A commit of validated offsets; ``version`` is that of the request."""

    sender: Sender
    offsets: Offsets
    version: int


_NONE = ErrorCode.NONE
_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
T = TypeVar("T")


class GroupCoordinator:
    """Groups of all types and committed offsets (Kafka: GroupCoordinatorService). Methods may be called on any thread.

    A method that returns ``T | Future[T]`` returns a future if the result has to wait for other members or for replicas.
    The shard's method that each one calls has the details.
    """

    def __init__(self, runtime: CoordinatorRuntime[GroupShard], scheduler: IScheduler, environment: GroupEnvironment) -> None:
        self.runtime = runtime
        self.config = environment.config
        self._environment = environment
        self._scheduler = scheduler
        self._expiry: ScheduledTask | None = None
        self._counted: tuple[int, GroupCounts | None] = (0, None)
        self.share = ShareGroups(runtime, environment)
        self.streams = StreamsGroups(runtime, environment)

    @property
    def group_config_manager(self) -> GroupConfigManager:
        """The per-group configs."""
        return self._environment.group_config_manager

    def startup(self) -> None:
        """Start serving requests, and expiring offsets every ``offsets.retention.check.interval.ms``."""
        self.runtime.startup()
        period_ms = self.config.offsets_retention_check_interval_ms
        self._expiry = self._scheduler.schedule("delete-expired-group-metadata", self.expire_offsets, period_ms, period_ms)
        self._environment.metrics.expose(self._counts, self.runtime.partition_states)
        self._environment.metrics.expose_work(self.runtime.queue_size, self.runtime.busy_ns)

    def _counts(self) -> GroupCounts:
        """Return the number of groups by state, counted once for all gauges that are read together.

        Metrics are read on the main reactor's thread, so this takes no shard's lock.
        """
        now_ns = self._environment.clock.monotonic_ns()
        counted_ns, counts = self._counted
        if counts is None or now_ns - counted_ns >= COUNTS_KEPT_NS:
            counts = GroupCounts.total([shard.queries.counts() for shard in self.runtime.peek()])
            self._counted = (now_ns, counts)
        return counts

    def shutdown(self) -> None:
        """Stop serving requests and answer the parked ones."""
        if self._expiry is not None:
            self._expiry.cancel()
        self.runtime.shutdown()
        self.streams.close()

    def readers(self, topic: str) -> list[str]:
        """Return the ids of the groups of this broker that have an offset of the topic. Takes no shard's lock."""
        return [group_id for shard in self.runtime.peek() for group_id in shard.store.offsets.groups_with(topic)]

    def partition_for(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that stores the group."""
        return self.runtime.partition_for(group_id)

    def _execute(
        self, group_id: str, operation: "Callable[[GroupShard], T | Future[T] | Write[T]]", on_error: Callable[[ErrorCode], T]
    ) -> "T | Future[T]":
        """Run an operation on the group's shard; if the runtime or the operation raises, return the result of ``on_error``."""
        try:
            if not group_id:
                raise InvalidGroupIdError("The group id is empty.")
            return _unless_parked(self.runtime.execute(group_id, operation))
        except KafkaError as error:
            return on_error(error.code)

    def _call(self, group_id: str, operation: Callable[[GroupShard], T], on_error: Callable[[ErrorCode], T]) -> T:
        """Do as ``_execute``, for an operation that waits for nothing."""
        try:
            if not group_id:
                raise InvalidGroupIdError("The group id is empty.")
            return self.runtime.call(group_id, operation)
        except KafkaError as error:
            return on_error(error.code)

    def _read(
        self, group_id: str, operation: "Callable[[GroupShard], T | Future[T] | Write[T]]", on_error: Callable[[ErrorCode], T]
    ) -> "T | Future[T]":
        """Do as ``_execute``, for an operation that may be answered only from committed state."""
        return self.runtime.try_read(group_id, operation, lambda error: on_error(error.code))

    # the classic protocol

    def join(self, request: JoinRequest) -> "JoinResult | Future[JoinResult]":
        """Add a member or let it rejoin; the future completes when the rebalance is over."""

        def join(shard: GroupShard) -> "JoinAnswer | Write[JoinResult]":
            timeout_ms = request.terms.session_timeout_ms
            if not self.config.min_session_timeout_ms <= timeout_ms <= self.config.max_session_timeout_ms:
                return JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
            return shard.classic.join(request)

        def refused(error: ErrorCode) -> JoinResult:
            return JoinResult(error, request.member_id)

        def proceed(error: ErrorCode) -> "JoinResult | Future[JoinResult]":
            # A streams group without members becomes a classic one, once the plug-in has forgotten its topology.
            if error is ErrorCode.GROUP_DELETION_FAILED:
                return refused(ErrorCode.REBALANCE_IN_PROGRESS)
            return self._execute(request.group_id, join, refused)

        if self._environment.descriptions is None:
            return proceed(_NONE)
        return and_then(self.streams.forget_description(request.group_id), proceed)

    def sync(self, request: SyncRequest) -> "SyncResult | Future[SyncResult]":
        """Take the leader's assignments, and return the member's own."""

        def refused(error: ErrorCode) -> SyncResult:
            # The joins are lost while the group loads: the member has to rejoin, but must not look for another coordinator.
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS if error is _LOADING else error)

        return self._execute(request.sender.group_id, lambda shard: shard.classic.sync(request), refused)

    def heartbeat(self, sender: Sender) -> ErrorCode:
        """Keep a member's session alive."""

        def refused(error: ErrorCode) -> ErrorCode:
            return _NONE if error is _LOADING else error  # the session starts once the group is loaded

        return self._call(sender.group_id, lambda shard: shard.classic.heartbeat(sender), refused)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> "Left | Future[Left]":
        """Remove members."""

        def refused(error: ErrorCode) -> Left:
            return error, []

        return self._execute(group_id, lambda shard: shard.classic.leave(group_id, leaving), refused)

    # the consumer group protocol

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, version: int
    ) -> "ConsumerGroupHeartbeatResponse | Future[ConsumerGroupHeartbeatResponse]":
        """Add, keep or remove a member that uses the consumer group protocol.

        Raises InvalidRequestError and UnsupportedAssignorError for a malformed request, the errors of
        ``ConsumerGroupProtocol``, and those of a coordinator that is loading or elsewhere.
        """
        check_heartbeat(request, version, self._environment.assignors)
        group_id = request.group_id
        if is_leaving(request):
            return self.runtime.execute(group_id, lambda shard: shard.consumer.leave(request))
        return self.runtime.read(group_id, lambda shard: shard.consumer.heartbeat(request, client))

    # offsets

    def commit_offsets(self, sender: Sender, offsets: Offsets, version: int) -> "ErrorCode | Future[ErrorCode]":
        """Commit offsets that the caller has validated (known partitions, size of metadata); return one error for all of them."""
        # An empty group id is valid here: offset commits are older than groups.
        try:
            return self.runtime.execute(sender.group_id, lambda shard: shard.offsets.commit(sender, offsets, version))
        except KafkaError as error:
            return error.code

    def commit_each(self, commits: Sequence[OffsetCommit]) -> "list[ErrorCode | Future[ErrorCode]]":
        """Do as ``commit_offsets`` for each, with one append for all; their groups are in the same partition.

        All are checked before any is replayed. A commit reads nothing that others write but whether its group exists: one that is
        refused for that may have come before the one that makes the group, as far as its client knows.
        """
        keys = [each.sender.group_id for each in commits]
        try:
            return self.runtime.execute_together(keys, [_committing(each) for each in commits])
        except KafkaError as error:
            return [error.code] * len(commits)

    def transactional_partition(self, group_id: str) -> TopicPartition:
        """Return the partition that must be part of a transaction that commits offsets of the group.

        Raises InvalidGroupIdError for an empty id, and the errors of a coordinator that is loading or elsewhere.
        """
        if not group_id:
            raise InvalidGroupIdError("The group id is empty.")
        self.runtime.check(group_id)
        return TopicPartition(GROUP_METADATA_TOPIC, self.partition_for(group_id))

    def commit_transactional_offsets(
        self, sender: Sender, producer: Producer, guard: VerificationGuard | None, offsets: Offsets
    ) -> "ErrorCode | Future[ErrorCode]":
        """Write offsets that stay pending until the producer's transaction ends (TxnOffsetCommit); return one error for all.

        The caller has verified that ``transactional_partition`` is part of the open transaction; ``guard`` is the result of that.
        """
        return self._execute(
            sender.group_id, lambda shard: shard.offsets.commit_in_transaction(sender, producer, guard, offsets), ErrorCode
        )

    def end_transaction(
        self, partition: int, producer: Producer, coordinator_epoch: int, committed: bool, transaction_version: int = 0
    ) -> "ErrorCode | Future[ErrorCode]":
        """Write a transaction's marker into a partition of ``__consumer_offsets`` and commit or discard its offsets.

        Any reason for not doing so now is NOT_LEADER_OR_FOLLOWER: the transaction coordinator retries.
        """
        try:
            return self.runtime.end_transaction(partition, producer, coordinator_epoch, committed, transaction_version)
        except (NotCoordinatorError, CoordinatorLoadInProgressError, CoordinatorNotAvailableError):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def fetch_offsets(self, request: OffsetFetch) -> "tuple[ErrorCode, Fetched] | Future[tuple[ErrorCode, Fetched]]":
        """Return the group's error and its committed offsets."""
        return self.runtime.try_read(request.sender.group_id, lambda shard: shard.offsets.fetch(request), _not_fetched)

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> "Deleted | Future[Deleted]":
        """Delete committed offsets."""

        def refused(error: ErrorCode) -> Deleted:
            return error, {}

        if not group_id:
            return refused(ErrorCode.INVALID_GROUP_ID)
        # A removed group exists again if the write that removed it is lost.
        return self._read(group_id, lambda shard: shard.offsets.delete(group_id, partitions), refused)

    def expire_offsets(self) -> None:
        """Delete expired offsets, and empty groups without offsets, in all active partitions."""
        self.streams.forget_unused_descriptions()
        parts = self.runtime.execute_everywhere(lambda shard: shard.offsets.expire(is_first=True))
        count = sum(part.offsets for part in parts)
        while any(part.has_more for part in parts):
            parts = self.runtime.execute_everywhere(lambda shard: shard.offsets.expire(is_first=False))
            count += sum(part.offsets for part in parts)
        if count:
            _log.info("Deleted {n} expired offsets", n=count)

    def on_partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Let the shards learn of deleted partitions soon, on another thread: the caller applies the controller's orders.

        They delete the offsets of these partitions, and share groups forget topics that do not exist any more. Clients of a topic
        that is created again under the same name may commit before.
        """
        gone = tuple(partitions)
        if gone:
            deleted_ms = self._environment.clock.wall_ms()
            self.runtime.post_everywhere(lambda shard: shard.partitions_deleted(gone, deleted_ms))

    # administration

    def list_groups(self, states: Collection[str], types: Collection[str]) -> tuple[ErrorCode, list[GroupListing]]:
        """Return the groups with one of ``states`` and ``types`` (case-insensitive; empty: all), as far as they are committed.

        The error is COORDINATOR_LOAD_IN_PROGRESS while any partition loads.
        """
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}

        def look(shard: GroupShard, committed: Callable[[], dict[str, object]]) -> list[GroupListing]:
            return shard.queries.list_groups(lambda: cast("dict[str, Group | None]", committed()), wanted_states, wanted_types)

        found = self.runtime.look_everywhere(look)
        return (_LOADING if self.runtime.is_loading() else _NONE), [each for listings in found for each in listings]

    def describe_group(self, group_id: str) -> "GroupDescription | Future[GroupDescription]":
        """Describe a classic group."""

        def describe(shard: GroupShard) -> GroupDescription:
            return shard.queries.describe(group_id)

        def refused(error: ErrorCode) -> GroupDescription:
            return GroupDescription(error, group_id)

        # An empty group id is valid here: groups are older than the rule that forbids it.
        try:
            description = self.runtime.call(group_id, describe)
        except KafkaError as error:
            return refused(error.code)
        # Members are not stored, but whether there is a group without any is.
        return description if description.members else self._read(group_id, describe, refused)

    def describe_consumer_group(self, group_id: str) -> "DescribedGroup | Future[DescribedGroup]":
        """Describe a consumer group."""

        def refused(error: ErrorCode) -> DescribedGroup:
            return DescribedGroup(error_code=error, group_id=group_id)

        return self._read(group_id, lambda shard: shard.queries.describe_consumer(group_id), refused)

    def rebalance(self, group_id: str) -> ErrorCode:
        """Ask the members of a classic group to join again, as if one of them had changed its subscription."""
        return self._call(group_id, lambda shard: shard.classic.rebalance(group_id), ErrorCode)

    def delete_group(self, group_id: str) -> "ErrorCode | Future[ErrorCode]":
        """Delete a group without members."""

        def delete(error: ErrorCode) -> "ErrorCode | Future[ErrorCode]":
            return error or self._read(group_id, lambda shard: shard.delete_group(group_id), ErrorCode)

        return and_then(self.streams.forget_description(group_id), delete)


def _committing(commit: OffsetCommit) -> "Callable[[GroupShard], ErrorCode | Write[ErrorCode]]":
    return lambda shard: shard.offsets.commit(*commit)


def _not_fetched(error: KafkaError) -> tuple[ErrorCode, Fetched]:
    # Java consumers before 3.9 retry after NOT_COORDINATOR; they take COORDINATOR_NOT_AVAILABLE for fatal here (as in Kafka).
    return ErrorCode.NOT_COORDINATOR if isinstance(error, UncommittedStateError) else error.code, {}


def _unless_parked(result: "T | Future[T]") -> "T | Future[T]":
    """Unwrap the future of a parked request that its own operation has already answered."""
    if isinstance(result, Future) and result.done():
        return result.result()
    return result
