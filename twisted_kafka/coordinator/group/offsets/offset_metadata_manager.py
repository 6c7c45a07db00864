"""Commits, fetches, deletes and expires offsets of groups of both types (Kafka: OffsetMetadataManager)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.effects import Effects, Write, Writes
from twisted_kafka.coordinator.group.append_errors import group_store_error, offset_commit_error
from twisted_kafka.coordinator.group.classic.rebalance import Rebalancer
from twisted_kafka.coordinator.group.environment import GroupEnvironment
from twisted_kafka.coordinator.group.group_records import group_tombstone, offset_commit, offset_tombstone
from twisted_kafka.coordinator.group.offsets.offset_expiration import expired_offsets
from twisted_kafka.coordinator.group.requests import Sender
from twisted_kafka.coordinator.group.state import consumer_group_records as consumer_records
from twisted_kafka.coordinator.group.state.classic_group import ClassicGroup
from twisted_kafka.coordinator.group.state.classic_group_state import COMPLETING_REBALANCE, DEAD, EMPTY
from twisted_kafka.coordinator.group.state.consumer_group import ConsumerGroup
from twisted_kafka.coordinator.group.state.group_store import Group, GroupStore
from twisted_kafka.coordinator.group.state.offset_store import Offsets
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition

_NONE = ErrorCode.NONE
T = TypeVar("T")

MEMBER_EPOCHS_SINCE = 9
"""The version of OffsetCommit that members with the consumer group protocol have to use."""

Fetched = dict[TopicPartition, OffsetCommitValue | ErrorCode | None]
Deleted = tuple[ErrorCode, dict[TopicPartition, ErrorCode]]


class OffsetFetch(NamedTuple):
    """An OffsetFetch; ``partitions`` None: all; ``require_stable`` refuses offsets with a pending transaction."""

    sender: Sender
    partitions: Sequence[TopicPartition] | None
    require_stable: bool = False


class OffsetMetadataManager:
    """Handles requests for the offsets of one partition's groups."""

    log = Logger()

    def __init__(self, store: GroupStore, environment: GroupEnvironment, effects: Effects, rebalancer: Rebalancer) -> None:
        self._store = store
        self._environment = environment
        self._effects = effects
        self._rebalancer = rebalancer

    # committing

    def commit(self, sender: Sender, offsets: Offsets, version: int) -> ErrorCode | Write:
        """Answer an OffsetCommit with valid partitions and metadata; one error for all of them."""
        group = self._store.groups.get(sender.group_id)
        if group is None:
            error = ErrorCode.ILLEGAL_GENERATION if sender.generation >= 0 else _NONE
        elif isinstance(group, ConsumerGroup):
            error = _check_member(group, sender, version)
        else:
            error = self._check_classic(group, sender)
        if error:
            return error
        written = [offset_commit(sender.group_id, each.topic, each.partition, value) for each, value in offsets.items()]
        return Write(written, self._committed(len(written)))

    def commit_in_transaction(
        self, sender: Sender, producer: Producer, guard: VerificationGuard | None, offsets: Offsets
    ) -> ErrorCode | Write:
        """Answer a TxnOffsetCommit: the offsets stay pending until the transaction's marker is written."""
        error = self._check_transactional(sender)
        if error:
            return error
        written = [offset_commit(sender.group_id, each.topic, each.partition, value) for each, value in offsets.items()]
        return Write(written, self._committed(len(written)), producer, guard)

    def _check_transactional(self, sender: Sender) -> ErrorCode:
        group = self._store.groups.get(sender.group_id)
        if group is not None and _is_dead(group):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        _, member_id, instance_id, generation = sender
        if generation < 0 and not member_id and instance_id is None:
            return _NONE  # producers older than KIP-447 do not send the member
        if group is None:
            return _NONE if generation < 0 else ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, ConsumerGroup):
            error = _check_member(group, sender, MEMBER_EPOCHS_SINCE)
            return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error
        if generation < 0 and group.state is EMPTY:
            return _NONE
        error = group.check_member(member_id, instance_id)
        if not error and generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return error  # a member may finish its transaction during a rebalance

    def _committed(self, count: int) -> Callable[[ErrorCode], ErrorCode]:
        metrics = self._environment.metrics

        def completed(error: ErrorCode) -> ErrorCode:
            if error:
                return offset_commit_error(error)
            metrics.offsets_committed(count)
            return error

        return completed

    def _check_classic(self, group: ClassicGroup, sender: Sender) -> ErrorCode:
        if group.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        _, member_id, instance_id, generation = sender
        if generation < 0 and group.state is EMPTY:
            return _NONE  # an administrator, or a consumer with manual assignment
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(member_id, instance_id)
        if error:
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._rebalancer.touch(group, group.members[member_id])
        return _NONE

    # fetching

    def fetch(self, request: OffsetFetch) -> tuple[ErrorCode, Fetched]:
        """Return the committed offsets (None: not committed), or UNSTABLE_OFFSET_COMMIT where a transaction is pending."""
        sender, partitions, require_stable = request
        group = self._store.groups.get(sender.group_id)
        if isinstance(group, ConsumerGroup) and (sender.member_id or sender.generation >= 0):
            error = _check_member(group, sender, MEMBER_EPOCHS_SINCE)
            if error:
                return error, {}
        store = self._store.offsets
        offsets = store.of(sender.group_id)
        if not require_stable:
            if partitions is None:
                return _NONE, dict(offsets)
            return _NONE, {partition: offsets.get(partition) for partition in partitions}
        wanted = offsets if partitions is None else partitions
        return _NONE, {
            partition: ErrorCode.UNSTABLE_OFFSET_COMMIT if store.has_pending(sender.group_id, partition) else offsets.get(partition)
            for partition in wanted
        }

    # deleting

    def delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> Deleted | Write:
        """Answer an OffsetDelete with the group's error and one for each partition."""
        group = self._store.groups.get(group_id)
        if group is None or _is_dead(group):
            return ErrorCode.GROUP_ID_NOT_FOUND, {}
        results = dict.fromkeys(partitions, _NONE)
        if isinstance(group, ConsumerGroup) or group.state is not EMPTY:
            if isinstance(group, ClassicGroup) and not group.is_consumer_group():
                return ErrorCode.NON_EMPTY_GROUP, {}
            for partition in partitions:
                if group.is_subscribed(partition.topic):
                    results[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        stored = frozenset(self._store.offsets.partitions_of(group_id))
        going = [partition for partition, error in results.items() if error is _NONE and partition in stored]
        if not going:
            return _NONE, results

        def deleted(error: ErrorCode) -> Deleted:
            if error:
                return offset_commit_error(error), {}
            self._environment.metrics.offsets_deleted(len(going))
            return _NONE, results

        return self._removal(group, going, deleted)

    def delete_group(self, group_id: str) -> ErrorCode | Write:
        """Delete an empty group and its offsets."""
        group = self._store.groups.get(group_id)
        if group is None or _is_dead(group):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not _is_empty(group):
            return ErrorCode.NON_EMPTY_GROUP
        partitions = self._store.offsets.partitions_of(group_id)

        def deleted(error: ErrorCode) -> ErrorCode:
            if not error:
                self._environment.metrics.offsets_deleted(len(partitions))
            return group_store_error(error)

        return self._removal(group, partitions, deleted, is_over=True)

    def forget_partitions(self, is_gone: Callable[[TopicPartition], bool]) -> int:
        """Delete the offsets of deleted partitions; return their number."""
        metrics = self._environment.metrics
        count = 0
        for group in list(self._store.groups.values()):
            gone = [partition for partition in self._store.offsets.partitions_of(group.group_id) if is_gone(partition)]
            if gone:
                count += len(gone)
                self._effects.writes.append(self._removal(group, gone, self._counting(len(gone), metrics.offsets_deleted)))
        return count

    def expire(self) -> int:
        """Delete expired offsets, and groups with neither members nor offsets; return the number of offsets."""
        now_ms = self._environment.clock.wall_ms()
        retention_ms = self._environment.config.offsets_retention_ms
        metrics = self._environment.metrics
        count = 0
        for group in list(self._store.groups.values()):
            expired = expired_offsets(group, self._store.offsets, now_ms, retention_ms)
            count += len(expired)
            if expired or self._is_over(group, 0):
                self._effects.writes.append(self._removal(group, expired, self._counting(len(expired), metrics.offsets_expired)))
        return count

    # tombstones

    def _removal(
        self, group: Group, partitions: list[TopicPartition], answer: Callable[[ErrorCode], T], is_over: bool = False
    ) -> Writes:
        """Return the write that deletes offsets, and then the group if nothing is left of it or it ``is_over`` anyway."""
        group_id = group.group_id
        written = [offset_tombstone(group_id, *partition) for partition in partitions]
        if not is_over and not self._is_over(group, len(partitions)):
            return Writes(written, answer)
        if isinstance(group, ConsumerGroup):
            written.extend(consumer_records.group_removed(group))
        elif group.generation:
            written.append(group_tombstone(group_id))

        def removed(error: ErrorCode) -> T:
            if not error and isinstance(group, ClassicGroup):
                self._forget(group, is_over)
            return answer(error)

        return Writes(written, removed)

    def _forget(self, group: ClassicGroup, is_over: bool) -> None:
        """Remove a group that was never written and has no offsets: no record's replay removes it."""
        if self._store.groups.get(group.group_id) is not group:
            return
        if self._is_over(group, 0) or (is_over and group.state is EMPTY and not self._store.offsets.has_any(group.group_id)):
            group.close()
            del self._store.groups[group.group_id]

    def _is_over(self, group: Group, going: int) -> bool:
        """Return whether the group can be deleted together with ``going`` of its offsets."""
        if not _is_empty(group) or (isinstance(group, ClassicGroup) and group.pending_members):
            return False
        return len(self._store.offsets.partitions_of(group.group_id)) == going

    def _counting(self, count: int, counted: Callable[[int], None]) -> Callable[[ErrorCode], None]:
        def removed(error: ErrorCode) -> None:
            if error:
                self.log.warn("Failed to write tombstones of offsets: {error}", error=error.name)
            else:
                counted(count)

        return removed


def _is_dead(group: Group) -> bool:
    return isinstance(group, ClassicGroup) and group.state is DEAD


def _is_empty(group: Group) -> bool:
    return not group.members if isinstance(group, ConsumerGroup) else group.state is EMPTY


def _check_member(group: ConsumerGroup, sender: Sender, version: int) -> ErrorCode:
    """Return NONE if the sender may commit or fetch in its epoch; an administrator may while the group has no members."""
    if sender.generation < 0 and not group.members:
        return _NONE
    member = group.members.get(sender.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and version < MEMBER_EPOCHS_SINCE:
        return ErrorCode.UNSUPPORTED_VERSION
    if sender.generation == member.current.epoch:
        return _NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
