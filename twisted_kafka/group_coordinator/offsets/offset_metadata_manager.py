"""Commits, fetches, deletes and expires offsets of groups (Kafka: OffsetMetadataManager)."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

from twisted.logger import Logger

from twisted_kafka.coordinator.append_errors import group_store_error, offset_commit_error
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.effects import Effects, Write, Writes
from twisted_kafka.group_coordinator.classic.rebalance import Rebalancer
from twisted_kafka.group_coordinator.group_records import offset_commit, offset_tombstone
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.group import Group
from twisted_kafka.group_coordinator.state.group_kinds import tombstones
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.group_coordinator.state.offset_store import Offsets
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()

MAX_CHECKED: Final = 500
"""Groups that are checked for expired offsets before others may use the shard."""

_NONE = ErrorCode.NONE
T = TypeVar("T")

Fetched = dict[TopicPartition, OffsetCommitValue | ErrorCode | None]
Deleted = tuple[ErrorCode, dict[TopicPartition, ErrorCode]]


class OffsetFetch(NamedTuple):
    """An OffsetFetch; ``partitions`` is None for all; ``require_stable`` refuses offsets with a pending transaction."""

    sender: Sender
    partitions: Sequence[TopicPartition] | None
    require_stable: bool = False


class Expired(NamedTuple):
    """How many offsets a part of a check has found expired, and whether the check has further groups to look at."""

    offsets: int
    has_more: bool


class OffsetMetadataManager:
    """Handles requests for the offsets of one partition's groups."""

    def __init__(self, store: GroupStore, environment: GroupEnvironment, effects: Effects, rebalancer: Rebalancer) -> None:
        self._store = store
        self._environment = environment
        self._effects = effects
        self._rebalancer = rebalancer
        self._to_check: deque[str] = deque()
        """The groups that the check for expired offsets in progress has not looked at yet."""

    # committing

    def commit(self, sender: Sender, offsets: Offsets, version: int) -> ErrorCode | Write[ErrorCode]:
        """Answer an OffsetCommit with valid partitions and metadata; one error for all of them."""
        group = self._store.groups.get(sender.group_id)
        if group is None:
            error = ErrorCode.ILLEGAL_GENERATION if sender.generation >= 0 else _NONE
        else:
            error = group.check_commit(sender.member_id, sender.instance_id, sender.generation, version, offsets)
        if error:
            return error
        if sender.generation >= 0:
            self._keep_session(sender)
        written = [offset_commit(sender.group_id, each.topic, each.partition, value) for each, value in offsets.items()]
        return Write(written, self._committed(len(written)))

    def commit_in_transaction(
        self, sender: Sender, producer: Producer, guard: VerificationGuard | None, offsets: Offsets
    ) -> ErrorCode | Write[ErrorCode]:
        """Answer a TxnOffsetCommit: the offsets stay pending until the transaction's marker is written."""
        error = self._check_transactional(sender, offsets)
        if error:
            return error
        written = [offset_commit(sender.group_id, each.topic, each.partition, value) for each, value in offsets.items()]
        return Write(written, self._committed(len(written)), producer, guard)

    def _check_transactional(self, sender: Sender, partitions: Collection[TopicPartition]) -> ErrorCode:
        group_id, member_id, instance_id, generation = sender
        if generation < 0 and not member_id and instance_id is None:
            return _NONE  # producers older than KIP-447 do not send the member
        group = self._store.groups.get(group_id)
        if group is None:
            return _NONE if generation < 0 else ErrorCode.UNKNOWN_MEMBER_ID
        return group.check_transactional_commit(member_id, instance_id, generation, partitions)

    def _keep_session(self, sender: Sender) -> None:
        """Extend the session of a classic group's member: its commit is a sign of life."""
        group = self._store.classic(sender.group_id)
        if group is not None:
            self._rebalancer.touch(group, group.members[sender.member_id])

    def _committed(self, count: int) -> Callable[[ErrorCode], ErrorCode]:
        metrics = self._environment.metrics

        def completed(error: ErrorCode) -> ErrorCode:
            if error:
                return offset_commit_error(error)
            metrics.offsets_committed(count)
            return error

        return completed

    # fetching

    def fetch(self, request: OffsetFetch) -> tuple[ErrorCode, Fetched]:
        """Return the committed offsets (None without a commit), or UNSTABLE_OFFSET_COMMIT where a transaction is pending."""
        sender, partitions, require_stable = request
        group = self._store.groups.get(sender.group_id)
        if group is not None and (error := group.check_fetch(sender.member_id, sender.generation)):
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

    def delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> Deleted | Write[Deleted]:
        """Answer an OffsetDelete with the group's error and one for each partition."""
        group = self._store.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND, {}
        refused = group.check_offset_deletion()
        if refused:
            return refused, {}
        results = {
            partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(partition.topic) else _NONE
            for partition in partitions
        }
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

    def delete_group(self, group_id: str) -> ErrorCode | Write[ErrorCode]:
        """Delete an empty group and its offsets."""
        group = self._store.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not group.is_empty():
            return ErrorCode.NON_EMPTY_GROUP
        partitions = self._store.offsets.partitions_of(group_id)

        def deleted(error: ErrorCode) -> ErrorCode:
            if not error:
                self._environment.metrics.offsets_deleted(len(partitions))
            return group_store_error(error)

        return self._removal(group, partitions, deleted, is_over=True)

    def forget_partitions(self, partitions: Iterable[TopicPartition], deleted_ms: int) -> None:
        """Delete the offsets of partitions that were deleted at ``deleted_ms``, but not the ones committed since."""
        offsets = self._store.offsets
        now_ms = self._environment.clock.wall_ms()

        def is_newer(group_id: str, partition: TopicPartition) -> bool:
            value = offsets.of(group_id).get(partition)
            return value is not None and deleted_ms < value.commit_timestamp <= now_ms  # OffsetCommit v1 may name a later time

        by_group: dict[str, list[TopicPartition]] = {}
        for topic, gone in groupby(sorted(partitions), key=attrgetter("topic")):
            indexes = list(gone)
            for group_id in offsets.groups_with(topic):
                found = [each for each in indexes if offsets.has(group_id, each) and not is_newer(group_id, each)]
                if found:
                    by_group.setdefault(group_id, []).extend(found)
        for group_id, found in by_group.items():
            counting = self._counting(len(found), self._environment.metrics.offsets_deleted)
            self._effects.writes.append(self._removal(self._store.groups[group_id], found, counting))

    def expire(self, is_first: bool) -> Expired:
        """Delete expired offsets, and groups with neither members nor offsets, of at most ``MAX_CHECKED`` groups.

        ``is_first`` begins a check, and further calls continue it. A group is looked at when its first offset may have expired, or
        something may have ended its life since the last check.
        """
        now_ms = self._environment.clock.wall_ms()
        if is_first:
            self._to_check.extend(self._store.groups.take_due(now_ms))
        count = 0
        for _ in range(min(MAX_CHECKED, len(self._to_check))):
            group = self._store.groups.get(self._to_check.popleft())
            if group is not None:
                count += self._expire_group(group, now_ms)
        return Expired(count, bool(self._to_check))

    def _expire_group(self, group: Group, now_ms: int) -> int:
        retention = group.offset_retention()
        expired: list[TopicPartition] = []
        next_ms: int | None = None
        if retention is not None:
            retention_ms = self._environment.config.offsets_retention_ms
            expired, next_ms = self._store.offsets.expired(group.group_id, now_ms, retention_ms, retention)
        if expired or self._is_over(group, 0):
            counting = self._counting(len(expired), self._environment.metrics.offsets_expired)
            self._effects.writes.append(self._removal(group, expired, counting))
        if expired or next_ms is None or next_ms <= now_ms:
            # Also after a failed write, for an offset that is in use, and if there is no offset to wait for.
            self._store.groups.check_next(group.group_id)
        else:
            self._store.groups.check_at(group.group_id, next_ms)
        return len(expired)

    # tombstones

    def _removal(
        self,
        group: Group,
        partitions: list[TopicPartition],
        answer: Callable[[ErrorCode], T],
        is_over: bool = False,
    ) -> Writes[T]:
        """Return the write that deletes offsets, and then the group if nothing is left of it or it ``is_over`` anyway."""
        group_id = group.group_id
        written = [offset_tombstone(group_id, *partition) for partition in partitions]
        if not is_over and not self._is_over(group, len(partitions)):
            return Writes(written, answer)
        written.extend(tombstones(group))

        def removed(error: ErrorCode) -> T:
            if not error:
                self._forget(group, is_over)
            return answer(error)

        return Writes(written, removed)

    def _forget(self, group: Group, is_over: bool) -> None:
        """Remove a group that was never written and has no offsets: no record's replay removes it."""
        if self._store.groups.get(group.group_id) is not group:
            return
        if self._is_over(group, 0) or (is_over and group.is_empty() and not self._store.offsets.has_any(group.group_id)):
            group.close()
            del self._store.groups[group.group_id]

    def _is_over(self, group: Group, going: int) -> bool:
        """Return whether the group can be deleted together with ``going`` of its offsets."""
        if len(self._store.offsets.partitions_of(group.group_id)) != going or not group.is_over():
            return False
        # The plug-in has to forget its topology first.
        return self._environment.descriptions is None or not group.is_described

    def _counting(self, count: int, counted: Callable[[int], None]) -> Callable[[ErrorCode], None]:
        def removed(error: ErrorCode) -> None:
            if error:
                _log.warn("Failed to write tombstones of offsets: {error}", error=error.name)
            else:
                counted(count)

        return removed
