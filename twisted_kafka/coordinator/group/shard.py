"""The group coordinator's state in one partition of ``__consumer_offsets``, and the operations on it.

``replay`` alone changes what is stored: committed offsets, a group's assignment. What is volatile by nature, who has joined
an ongoing rebalance and whose session runs until when, lives in the groups and is changed by the operations; it's not
stored and is rebuilt by the members when another broker takes over.
"""

from collections.abc import Callable, Sequence
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.coordinator.effects import Effects, Write
from twisted_kafka.coordinator.group.append_errors import group_store_error, offset_commit_error
from twisted_kafka.coordinator.group.classic_group import ClassicGroup
from twisted_kafka.coordinator.group.expiration import expired_offsets
from twisted_kafka.coordinator.group.group_config import GroupConfig
from twisted_kafka.coordinator.group.group_records import group_tombstone, offset_commit, offset_tombstone
from twisted_kafka.coordinator.group.joining import JoinAnswer, Joining, JoinRequest
from twisted_kafka.coordinator.group.membership import Membership
from twisted_kafka.coordinator.group.offset_store import Offsets, OffsetStore
from twisted_kafka.coordinator.group.rebalance import Rebalancer
from twisted_kafka.coordinator.group.results import (
    GroupDescription,
    GroupListing,
    JoinResult,
    LeavingMember,
    LeftMember,
    SyncResult,
)
from twisted_kafka.coordinator.group.states import COMPLETING_REBALANCE, DEAD, EMPTY
from twisted_kafka.coordinator.interfaces import ICoordinatorShard
from twisted_kafka.coordinator.records import CoordinatorRecord
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock

_NONE = ErrorCode.NONE
CLASSIC_TYPE = "classic"
MAX_TOMBSTONES = 2000
"""More records than that are not put into one batch, which would outgrow ``max.message.bytes``."""


@implementer(ICoordinatorShard)
class GroupShard:
    """Groups and offsets of one partition; every method is called with the partition's lock held."""

    log = Logger()

    def __init__(self, effects: Effects, clock: IClock, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self._effects = effects
        self._clock = clock
        self._config = config
        self._rebalancer = Rebalancer(effects, clock, config)
        self._joining = Joining(self._rebalancer, effects, config, new_id)
        self._membership = Membership(self._rebalancer)
        self._offsets = OffsetStore()
        self._groups: dict[str, ClassicGroup] = {}
        self._loading: dict[str, GroupMetadataValue] | None = {}

    # the stored state

    def replay(self, record: CoordinatorRecord, producer_id: int = -1) -> None:
        """Apply a record that is in the log; see ICoordinatorShard."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            partition = TopicPartition(key.topic, key.partition)
            if producer_id != -1:
                self._offsets.put_pending(producer_id, key.group, partition, value)
                return
            self._offsets.put(key.group, partition, value)
            if value is not None and self._loading is None and key.group not in self._groups:
                self._groups[key.group] = ClassicGroup(key.group)
        elif isinstance(key, GroupMetadataKey):
            self._replay_group(key.group, value)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if self._loading is not None:
            if value is None:
                self._loading.pop(group_id, None)
            else:
                self._loading[group_id] = value
            return
        group = self._groups.get(group_id)
        if value is not None and group is not None and group.generation == value.generation:
            for described in value.members:
                member = group.members.get(described.member_id)
                if member is not None:
                    member.assignment = described.assignment

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit or drop the offsets of a transaction; see ICoordinatorShard."""
        self._offsets.end_transaction(producer_id, committed)

    def loaded(self) -> None:
        """Build the groups from the latest record of each, and begin their members' sessions."""
        values, self._loading = self._loading or {}, None
        for group_id, value in values.items():
            self._groups[group_id] = ClassicGroup.from_value(group_id, value)
        for group_id in self._offsets.group_ids():
            if group_id not in self._groups:
                self._groups[group_id] = ClassicGroup(group_id)
        for group in list(self._groups.values()):
            if len(group.members) > self._config.max_size:
                self._rebalancer.prepare(group, "the loaded group is larger than group.max.size")
            for member in list(group.members.values()):
                self._rebalancer.start_session(group, member)

    def unloaded(self) -> None:
        """Answer all that is parked with NOT_COORDINATOR and stop the timers."""
        for group in self._groups.values():
            for member in group.close():
                self._rebalancer.answer_join(group, member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
                self._rebalancer.answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))
        self._groups.clear()

    # the group's protocol

    def join(self, request: JoinRequest) -> JoinAnswer:
        """Answer a JoinGroup; a group comes to be with its first member that has no id yet."""
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                return JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            group = ClassicGroup(request.group_id, EMPTY, self._clock.wall_ms())
            answer = self._joining.join(group, request)
            if group.members or group.pending_members:  # a refused join leaves no group behind
                self._groups[request.group_id] = group
            return answer
        return self._joining.join(group, request)

    def sync(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol: tuple[str | None, str | None],
        assignments: dict[str, bytes],
    ) -> Any:
        """Answer a SyncGroup with a SyncResult, or a future of one."""
        group = self._groups.get(group_id)
        if group is None:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._membership.sync(group, member_id, instance_id, generation, protocol, assignments)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Answer a Heartbeat."""
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._membership.heartbeat(group, member_id, instance_id, generation)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> tuple[ErrorCode, list[LeftMember]]:
        """Answer a LeaveGroup: its error, and that of each member."""
        group = self._groups.get(group_id)
        if group is None:
            return _NONE, [LeftMember(one.member_id, one.instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for one in leaving]
        if group.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        return _NONE, self._membership.leave(group, leaving)

    # offsets

    def commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, offsets: Offsets
    ) -> ErrorCode | Write:
        """Answer an OffsetCommit whose partitions and metadata were found good, with one error for all."""
        group = self._groups.get(group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
        else:
            error = self._check_commit(group, member_id, instance_id, generation)
            if error:
                return error
        return Write(
            [offset_commit(group_id, partition.topic, partition.partition, value) for partition, value in offsets.items()],
            offset_commit_error,
        )

    def _check_commit(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        if group.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and group.state is EMPTY:
            return _NONE  # an administrator, or a consumer that assigns its partitions itself
        if generation >= 0 or member_id or instance_id is not None:
            error = group.check_member(member_id, instance_id)
            if error:
                return error
            if generation != group.generation:
                return ErrorCode.ILLEGAL_GENERATION
        else:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._rebalancer.touch(group, group.members[member_id])
        return _NONE

    def fetch(
        self, group_id: str, partitions: Sequence[TopicPartition] | None, require_stable: bool
    ) -> dict[TopicPartition, OffsetCommitValue | ErrorCode | None]:
        """Return the committed offsets (None: no such), or UNSTABLE_OFFSET_COMMIT for one that a transaction may change.

        ``partitions`` None means all that have an offset.
        """
        offsets = self._offsets.of(group_id)
        if not require_stable:
            if partitions is None:
                return dict(offsets)
            return {partition: offsets.get(partition) for partition in partitions}
        return {
            partition: ErrorCode.UNSTABLE_OFFSET_COMMIT
            if self._offsets.has_pending(group_id, partition)
            else offsets.get(partition)
            for partition in (offsets if partitions is None else partitions)
        }

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]] | Write:
        """Answer an OffsetDelete: the group's error, and that of each partition."""
        group = self._groups.get(group_id)
        if group is None or group.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND, {}
        results = dict.fromkeys(partitions, _NONE)
        if group.state is not EMPTY:
            if not group.is_consumer_group():
                return ErrorCode.NON_EMPTY_GROUP, {}
            for partition in partitions:
                if group.is_subscribed(partition.topic):
                    results[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        stored = self._offsets.of(group_id)
        records = [
            offset_tombstone(group_id, *partition) for partition, error in results.items() if error is _NONE and partition in stored
        ]
        if not records:
            return _NONE, results
        answer: Callable[[ErrorCode], tuple[ErrorCode, dict[TopicPartition, ErrorCode]]]
        if self._is_over(group, len(records)):
            bury = self._bury(group, records)
            answer = lambda error: (bury.completed(error), results if not error else {})  # noqa: E731 the type is above
            return Write(bury.records, answer)
        return Write(records, lambda error: (offset_commit_error(error), results if not error else {}))

    # administration

    def list_groups(self) -> list[GroupListing]:
        """Return all groups."""
        return [
            GroupListing(group.group_id, group.protocol_type or "", group.state.value, CLASSIC_TYPE)
            for group in self._groups.values()
        ]

    def describe(self, group_id: str) -> GroupDescription:
        """Describe a group; one that isn't there is Dead, not an error (as up to DescribeGroups v5)."""
        group = self._groups.get(group_id)
        if group is None:
            return GroupDescription(_NONE, group_id, DEAD.value)
        return group.describe()

    def delete_group(self, group_id: str) -> ErrorCode | Write:
        """Delete an empty group and its offsets."""
        group = self._groups.get(group_id)
        if group is None or group.state is DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        records = [offset_tombstone(group_id, *partition) for partition in self._offsets.of(group_id)]
        return self._bury(group, records)

    def _bury(self, group: ClassicGroup, records: list[CoordinatorRecord]) -> Write:
        """Make an empty group Dead and write its tombstones; it's gone once the last of them are committed."""
        group.close()
        while len(records) > MAX_TOMBSTONES:
            self._effects.write(records[:MAX_TOMBSTONES], self._tombstones_written)
            records = records[MAX_TOMBSTONES:]
        if group.generation > 0:  # else no record of it was ever written
            records.append(group_tombstone(group.group_id))

        def buried(error: ErrorCode) -> ErrorCode:
            if self._groups.get(group.group_id) is group:
                if error:
                    group.state = EMPTY
                else:
                    del self._groups[group.group_id]
            return group_store_error(error)

        return Write(records, buried)

    # expiration

    def expire_offsets(self) -> int:
        """Remove the offsets that have had their time, and groups with neither members nor offsets; returns how many offsets."""
        now_ms = self._clock.wall_ms()
        count = 0
        for group in list(self._groups.values()):
            expired = expired_offsets(group, self._offsets, now_ms, self._config.offsets_retention_ms)
            count += len(expired)
            self._forget(group, expired)
        return count

    def delete_partitions(self, partitions: Callable[[TopicPartition], bool]) -> int:
        """Remove the offsets of partitions that are gone; returns how many."""
        count = 0
        for group in list(self._groups.values()):
            gone = [partition for partition in self._offsets.of(group.group_id) if partitions(partition)]
            count += len(gone)
            if gone:
                self._forget(group, gone)
        return count

    def _forget(self, group: ClassicGroup, partitions: list[TopicPartition]) -> None:
        records = [offset_tombstone(group.group_id, *partition) for partition in partitions]
        if self._is_over(group, len(partitions)):
            self._effects.writes.append(self._bury(group, records))
            return
        for start in range(0, len(records), MAX_TOMBSTONES):
            self._effects.write(records[start : start + MAX_TOMBSTONES], self._tombstones_written)

    def _is_over(self, group: ClassicGroup, going: int) -> bool:
        """Return whether nothing keeps the group when ``going`` of its offsets are gone."""
        if group.state is not EMPTY or group.pending_members or self._offsets.has_pending(group.group_id):
            return False
        return len(self._offsets.of(group.group_id)) == going

    def _tombstones_written(self, error: ErrorCode) -> None:
        if error:
            self.log.warn("tombstones of offsets could not be written: {error}", error=error.name)
