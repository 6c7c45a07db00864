"""The group coordinator as the API handlers see it: checks, routing by group id, errors as values."""

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.group.consumer.heartbeat_validation import check_heartbeat, is_leaving
from twisted_kafka.coordinator.group.environment import GroupEnvironment
from twisted_kafka.coordinator.group.group_config_manager import GroupConfigManager
from twisted_kafka.coordinator.group.group_coordinator_metrics import GroupCounts
from twisted_kafka.coordinator.group.group_shard import GroupShard
from twisted_kafka.coordinator.group.offsets.offset_metadata_manager import Deleted, Fetched, OffsetFetch
from twisted_kafka.coordinator.group.offsets.offset_store import Offsets
from twisted_kafka.coordinator.group.requests import Client, JoinRequest, LeavingMember, Sender, SyncRequest
from twisted_kafka.coordinator.group.results import GroupDescription, GroupListing, JoinResult, LeftMember, SyncResult
from twisted_kafka.coordinator.runtime import CoordinatorRuntime
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    InvalidGroupIdError,
    KafkaError,
    NotCoordinatorError,
)
from twisted_kafka.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
)
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.timing.scheduler import IScheduler

COUNTS_KEPT_NS = 1_000_000_000

_NONE = ErrorCode.NONE
_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
T = TypeVar("T")


class GroupCoordinator:
    """Groups of both protocols and committed offsets (Kafka's GroupCoordinator). Methods may be called on any thread.

    Where a method returns ``T | Future[T]``, a future means that the answer waits: for other members, or for replicas.
    What each does is said at the method of the shard's part that it asks.
    """

    log = Logger()

    def __init__(self, runtime: CoordinatorRuntime, scheduler: IScheduler, environment: GroupEnvironment) -> None:
        self.runtime = runtime
        self.config = environment.config
        self._environment = environment
        self._scheduler = scheduler
        self._expiry: Any = None
        self._counted: tuple[int, GroupCounts | None] = (0, None)

    @property
    def group_config_manager(self) -> GroupConfigManager:
        """The settings that groups have of their own."""
        return self._environment.group_config_manager

    def startup(self) -> None:
        """Begin to answer, and to expire offsets every ``offsets.retention.check.interval.ms``."""
        self.runtime.startup()
        period_ms = self.config.offsets_retention_check_interval_ms
        self._expiry = self._scheduler.schedule("delete-expired-group-metadata", self.expire_offsets, period_ms, period_ms)
        self._environment.metrics.expose(self._counts, self.runtime.partition_states)
        self._environment.metrics.expose_work(self.runtime.queue_size, self.runtime.busy_ns)

    def _counts(self) -> GroupCounts:
        """Return how many groups there are by state; counted once for all gauges that are read together.

        Metrics are read on the main reactor's thread, so this waits for no shard.
        """
        now_ns = self._environment.clock.monotonic_ns()
        counted_ns, counts = self._counted
        if counts is None or now_ns - counted_ns >= COUNTS_KEPT_NS:
            counts = GroupCounts.total([shard.queries.counts() for shard in self.runtime.peek()])
            self._counted = (now_ns, counts)
        return counts

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

    def _ask(self, group_id: str, operation: Callable[[GroupShard], Any], refused: Callable[[ErrorCode], T]) -> Any:
        """Run an operation on the group's shard; who can't be asked for it, or says why not, is answered with ``refused``."""
        try:
            if not group_id:
                raise InvalidGroupIdError("a group must have an id")
            return _unless_parked(self.runtime.execute(group_id, operation))
        except KafkaError as error:
            return refused(error.code)

    # the classic protocol

    def join(self, request: JoinRequest) -> "JoinResult | Future[JoinResult]":
        """Let a member in, or in again; the future is answered when the rebalance is over."""

        def join(shard: GroupShard) -> Any:
            timeout_ms = request.terms.session_timeout_ms
            if not self.config.min_session_timeout_ms <= timeout_ms <= self.config.max_session_timeout_ms:
                return JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
            return shard.classic.join(request)

        answer: JoinResult | Future[JoinResult] = self._ask(
            request.group_id, join, lambda error: JoinResult(error, request.member_id)
        )
        return answer

    def sync(self, request: SyncRequest) -> "SyncResult | Future[SyncResult]":
        """Hand in the leader's assignments, and get the own one."""

        def refused(error: ErrorCode) -> SyncResult:
            # While it loads, who joined is lost: the member is to join again, and needs no other coordinator for it.
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS if error is _LOADING else error)

        answer: SyncResult | Future[SyncResult] = self._ask(
            request.sender.group_id, lambda shard: shard.classic.sync(request), refused
        )
        return answer

    def heartbeat(self, sender: Sender) -> ErrorCode:
        """Keep a session alive."""

        def refused(error: ErrorCode) -> ErrorCode:
            return _NONE if error is _LOADING else error  # its session begins when it's loaded

        answer: ErrorCode = self._ask(sender.group_id, lambda shard: shard.classic.heartbeat(sender), refused)
        return answer

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Any:
        """Let members go; returns (the group's error, the LeftMembers), or a future of it."""

        def refused(error: ErrorCode) -> tuple[ErrorCode, list[LeftMember]]:
            return error, []

        return self._ask(group_id, lambda shard: shard.classic.leave(group_id, leaving), refused)

    # the consumer protocol

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, version: int
    ) -> "ConsumerGroupHeartbeatResponse | Future[ConsumerGroupHeartbeatResponse]":
        """Let a member of the consumer protocol in, keep it in, or let it go. Raises KafkaError."""
        check_heartbeat(request, version, self._environment.assignors)
        group_id = request.group_id
        if is_leaving(request):
            answer: ConsumerGroupHeartbeatResponse | Future[ConsumerGroupHeartbeatResponse] = self.runtime.execute(
                group_id, lambda shard: shard.consumer.leave(request)
            )
        else:
            answer = self.runtime.read(group_id, lambda shard: shard.consumer.heartbeat(request, client))
        return answer

    # offsets

    def commit_offsets(self, sender: Sender, offsets: Offsets, version: int) -> "ErrorCode | Future[ErrorCode]":
        """Commit offsets of partitions that exist, with metadata within its limit; one error for all of them."""
        # Groups without a name have offsets too: commits are older than groups.
        try:
            answer: ErrorCode | Future[ErrorCode] = self.runtime.execute(
                sender.group_id, lambda shard: shard.offsets.commit(sender, offsets, version)
            )
        except KafkaError as error:
            return error.code
        return answer

    def transactional_partition(self, group_id: str) -> TopicPartition:
        """Return the partition that a transaction must have in it to commit offsets of the group. Raises KafkaError."""
        if not group_id:
            raise InvalidGroupIdError("a group must have an id")
        self.runtime.check(group_id)
        return TopicPartition(GROUP_METADATA_TOPIC, self.partition_for(group_id))

    def commit_transactional_offsets(
        self, sender: Sender, producer: Producer, guard: VerificationGuard | None, offsets: Offsets
    ) -> "ErrorCode | Future[ErrorCode]":
        """Write offsets that count once the producer's transaction is committed (TxnOffsetCommit); one error for all of them.

        Whether the transaction is open, and has ``transactional_partition`` in it, the caller has verified; ``guard`` is of that.
        """
        answer: ErrorCode | Future[ErrorCode] = self._ask(
            sender.group_id, lambda shard: shard.offsets.commit_in_transaction(sender, producer, guard, offsets), ErrorCode
        )
        return answer

    def end_transaction(
        self, partition: int, producer: Producer, coordinator_epoch: int, committed: bool
    ) -> "ErrorCode | Future[ErrorCode]":
        """Write the marker of a transaction into a partition of ``__consumer_offsets`` (WriteTxnMarkers); its offsets count then.

        The transaction coordinator takes NOT_LEADER_OR_FOLLOWER for "not yet, or not here", and asks again.
        """
        try:
            return self.runtime.end_transaction(partition, producer, coordinator_epoch, committed)
        except (NotCoordinatorError, CoordinatorLoadInProgressError, CoordinatorNotAvailableError):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def fetch_offsets(self, request: OffsetFetch) -> "tuple[ErrorCode, Fetched] | Future[tuple[ErrorCode, Fetched]]":
        """Return the group's error and its committed offsets."""
        try:
            answer: tuple[ErrorCode, Fetched] | Future[tuple[ErrorCode, Fetched]] = self.runtime.read(
                request.sender.group_id, lambda shard: shard.offsets.fetch(request)
            )
        except KafkaError as error:
            return error.code, {}
        return answer

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> Any:
        """Forget committed offsets; returns (the group's error, the partitions' errors), or a future of it."""

        def refused(error: ErrorCode) -> Deleted:
            return error, {}

        return self._ask(group_id, lambda shard: shard.offsets.delete(group_id, partitions), refused)

    def expire_offsets(self) -> None:
        """Remove the offsets and groups that have had their time, in all partitions."""
        count = sum(self.runtime.execute_everywhere(lambda shard: shard.offsets.expire()))
        if count:
            self.log.info("removed {n} expired offsets", n=count)

    def on_partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the offsets of deleted partitions."""
        gone = frozenset(partitions)
        if gone:
            self.runtime.execute_everywhere(lambda shard: shard.offsets.forget_partitions(gone.__contains__))

    # administration

    def list_groups(self, states: Collection[str], types: Collection[str]) -> tuple[ErrorCode, list[GroupListing]]:
        """Return the groups in one of ``states`` and of one of ``types`` (any case; empty: all), and whether some are loading."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        listings = [
            listing
            for listings in self.runtime.execute_everywhere(lambda shard: shard.queries.list_groups())
            for listing in listings
            if (not wanted_states or listing.state.lower() in wanted_states)
            and (not wanted_types or listing.type.lower() in wanted_types)
        ]
        return (_LOADING if self.runtime.is_loading() else _NONE), listings

    def describe_group(self, group_id: str) -> GroupDescription:
        """Describe a classic group."""
        try:
            description: GroupDescription = self.runtime.execute(group_id, lambda shard: shard.queries.describe(group_id))
        except KafkaError as error:
            return GroupDescription(error.code, group_id)
        return description

    def describe_consumer_group(self, group_id: str) -> "DescribedGroup | Future[DescribedGroup]":
        """Describe a group of the consumer protocol."""
        try:
            described: DescribedGroup | Future[DescribedGroup] = self.runtime.read(
                group_id, lambda shard: shard.queries.describe_consumer(group_id)
            )
        except KafkaError as error:
            return DescribedGroup(error_code=error.code, group_id=group_id)
        return described

    def delete_group(self, group_id: str) -> "ErrorCode | Future[ErrorCode]":
        """Delete an empty group."""
        try:
            return self.runtime.execute(  # type: ignore[no-any-return]
                group_id, lambda shard: shard.offsets.delete_group(group_id)
            )
        except KafkaError as error:
            return error.code


def _unless_parked(result: "T | Future[T]") -> "T | Future[T]":
    """Unwrap a parked request that its own operation answered already."""
    if isinstance(result, Future) and result.done():
        return result.result()
    return result
