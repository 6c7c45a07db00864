"""The share coordinator's shard: the share partitions of one partition of ``__share_group_state``.

An operation reads the state and returns its result, or the Write of a snapshot or an update. Every method is called with the
partition's lock held. Two epochs fence: the state epoch is the group coordinator's, and grows when it initializes a share
partition again; the leader epoch is that of the partition's leader, who reads the state before it writes.
"""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final, NamedTuple

from twisted_kafka.coordinator.append_errors import share_state_error
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.coordinator.effects import Effects, Write, Writes
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.share.record_state import RecordState
from twisted_kafka.share.share_partition_key import SharePartitionKey
from twisted_kafka.share_coordinator.environment import ShareEnvironment
from twisted_kafka.share_coordinator.share_state import (
    NO_START_OFFSET,
    SHARE_RECORD_KINDS,
    SNAPSHOT,
    UNCHANGED,
    UNKNOWN_COUNT,
    ShareChange,
    ShareState,
    key_of,
    replayed,
    snapshot_record,
    tombstone,
    update_record,
)

MAX_TOMBSTONES: Final = 1_000
"""Share partitions of deleted topics that are removed in one batch."""
MAX_COLD_SNAPSHOTS: Final = 1_000
"""Cold share partitions that get a snapshot in one round: the others come with the next one."""
MAX_BATCHES: Final = 50_000
"""Most runs of offsets in a share partition's state: a snapshot of them has some 20 bytes for each, and must be less than 1 MB.

Kafka allows 10,000 records in flight, so that a leader that writes more is wrong.
"""

_STATES: Final = frozenset(RecordState)
_NO_STATE: Final = ShareState(-1, 0, 0, NO_START_OFFSET, UNKNOWN_COUNT, 0, 0, ())


class Failure(NamedTuple):
    """Why an operation did nothing, with the message for the response; NONE if it was done."""

    error: ErrorCode
    message: str | None = None


DONE: Final = Failure(ErrorCode.NONE)
_NEGATIVE_LEADER_EPOCH: Final = Failure(ErrorCode.INVALID_REQUEST, "The leader epoch cannot be a negative number.")
_NEGATIVE_STATE_EPOCH: Final = Failure(ErrorCode.INVALID_REQUEST, "The state epoch cannot be a negative number.")


class Found(NamedTuple):
    """The answer to a read: a failure, or the state."""

    failure: Failure
    state: ShareState = _NO_STATE


class ShareCoordinatorShard:
    """Share partitions of one partition of the topic (Kafka: ShareCoordinatorShard)."""

    def __init__(self, effects: Effects, environment: ShareEnvironment) -> None:
        self._effects = effects
        self._clock = environment.clock
        self._config = environment.config
        self._metadata = environment.metadata
        self._states: dict[str, ShareState] = {}
        self._keys: dict[str, SharePartitionKey] = {}
        self._by_topic: dict[bytes, set[str]] = {}
        self._needed = NeededOffsets()
        self._end_offset = 0
        """After the last record that was replayed."""
        self._deleted_before = 0
        self._end_of_cold = -1
        """The end of the log after the last round of snapshots of cold share partitions."""
        self._has_deleted = False
        """Whether the log may still have share partitions of deleted topics."""

    # the runtime's side

    def replay(self, record: CoordinatorRecord, producer_id: int, offset: int) -> None:
        """Apply a record that is in the log."""
        share_partition = key_of(record)
        key = share_partition.coordinator_key
        state = replayed(self._states.get(key), record)
        self._end_offset = offset + 1
        if state is None:
            self._remove(key)
            return
        self._states[key] = state
        if key not in self._keys:
            self._keys[key] = share_partition
            self._by_topic.setdefault(share_partition.topic_id, set()).add(key)
        if record.kind == SNAPSHOT:
            self._needed.snapshot_written(key, offset)

    def _remove(self, key: str) -> None:
        self._needed.removed(key)
        self._states.pop(key, None)
        share_partition = self._keys.pop(key, None)
        if share_partition is not None:
            keys = self._by_topic[share_partition.topic_id]
            keys.discard(key)
            if not keys:
                del self._by_topic[share_partition.topic_id]

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        pass  # no transaction writes to this topic

    def key_of(self, record: CoordinatorRecord) -> str:
        """Return the key of the record's share partition."""
        return key_of(record).coordinator_key

    def keys_of_transaction(self, producer_id: int) -> Collection[str]:
        """Return nothing: no transaction writes to this topic."""
        return ()

    def stored(self, key: str) -> ShareState | None:
        """Return the share partition's state."""
        return self._states.get(key)

    def loaded(self) -> None:
        pass  # nothing was under way

    def unloaded(self) -> None:
        pass  # nothing waits here

    # requests

    def initialize_state(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Failure | Write[Failure]:
        """Replace the state of a share partition, in a state epoch that is not older than its last one."""
        before = self._states.get(key.coordinator_key)
        failure = _malformed(key)
        if failure is None and state_epoch < 0:
            failure = _NEGATIVE_STATE_EPOCH
        if failure is None and start_offset < NO_START_OFFSET:
            failure = Failure(ErrorCode.INVALID_REQUEST, "The start offset cannot be less than -1.")
        if failure is None and before is not None and before.state_epoch > state_epoch:
            failure = Failure(ErrorCode.FENCED_STATE_EPOCH)
        failure = failure or self._unknown(key)
        if failure is not None:
            return failure
        now_ms = self._clock.wall_ms()
        count = UNKNOWN_COUNT if start_offset == NO_START_OFFSET else 0
        snapshot_epoch = 0 if before is None else before.snapshot_epoch + 1
        return self._write(
            [snapshot_record(key, ShareState(snapshot_epoch, state_epoch, 0, start_offset, count, now_ms, now_ms, ()))]
        )

    def write_state(self, key: SharePartitionKey, change: ShareChange) -> Failure | Write[Failure]:
        """Apply a change by the partition's leader."""
        before = self._states.get(key.coordinator_key)
        failure = _malformed(key) or _malformed_change(change)
        if failure is None and before is None:
            failure = Failure(ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed.")
        if failure is not None or before is None:
            return failure or DONE
        if change.leader_epoch < before.leader_epoch:
            return Failure(ErrorCode.FENCED_LEADER_EPOCH)
        if change.state_epoch < before.state_epoch:
            return Failure(ErrorCode.FENCED_STATE_EPOCH)
        failure = self._unknown(key)
        if failure is not None:
            return failure
        change = before.in_order(change)
        if len(before.batches) + len(change.batches) > MAX_BATCHES and len(before.changed(change).batches) > MAX_BATCHES:
            return Failure(ErrorCode.INVALID_REQUEST, f"More than {MAX_BATCHES} state batches.")
        return self._write([self._change_record(key, before, change)])

    def read_state(self, key: SharePartitionKey, leader_epoch: int) -> Found | Write[Found]:
        """Return the state to the partition's leader; writes with an older leader epoch are refused from now on."""
        state = self._states.get(key.coordinator_key)
        failure = _malformed(key)
        if failure is None and leader_epoch < 0:
            failure = _NEGATIVE_LEADER_EPOCH
        if failure is None and state is None:
            failure = Failure(ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed.")
        if failure is None and state is not None and leader_epoch < state.leader_epoch:
            failure = Failure(ErrorCode.FENCED_LEADER_EPOCH)
        failure = failure or self._unknown(key)
        if failure is not None or state is None:
            return Found(failure or DONE)
        if leader_epoch <= state.leader_epoch:
            return Found(DONE, state)
        change = ShareChange(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ())

        def written(error: ErrorCode) -> Found:
            return Found(_outcome(error), state)

        return Write([self._change_record(key, state, change)], written)

    def read_state_summary(self, key: SharePartitionKey) -> Found:
        """Return the epochs and the start offset; those of a share partition without state are Kafka's defaults."""
        failure = _malformed(key) or self._unknown(key)
        if failure is not None:
            return Found(failure)
        return Found(DONE, self._states.get(key.coordinator_key, _NO_STATE))

    def delete_state(self, key: SharePartitionKey) -> Failure | Write[Failure]:
        """Remove the state; one that does not exist needs no record."""
        failure = _malformed(key) or self._unknown(key)
        if failure is not None:
            return failure
        return self._write([tombstone(key)]) if key.coordinator_key in self._states else DONE

    def _unknown(self, key: SharePartitionKey) -> Failure | None:
        name = self._metadata.topic_name(key.topic_id)
        count = None if name is None else self._metadata.partition_count(name)
        if count is None or key.partition >= count:
            return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def _write(self, records: list[CoordinatorRecord]) -> Write[Failure]:
        return Write(records, _outcome)

    def _change_record(self, key: SharePartitionKey, before: ShareState, change: ShareChange) -> CoordinatorRecord:
        """Return an update, or a snapshot where there were enough updates or an update cannot say the change.

        An update has no state epoch.
        """
        has_new_epoch = change.state_epoch not in (UNCHANGED, before.state_epoch)
        if before.updates < self._config.updates_per_snapshot and not has_new_epoch:
            return update_record(key, before.snapshot_epoch, change)
        now_ms = self._clock.wall_ms()
        return snapshot_record(key, before.changed(change).next_snapshot(now_ms, now_ms))

    # time, and changes of the cluster

    def remove_deleted(self) -> None:
        """Remove the share partitions of topics that do not exist any more; called when a topic was deleted.

        Not called after loading: this broker may not have the cluster's metadata yet. What cannot be written now is when the log is
        pruned.
        """
        self._has_deleted = False
        gone = [topic_id for topic_id in self._by_topic if self._metadata.topic_name(topic_id) is None]
        keys = [self._keys[each] for topic_id in gone for each in self._by_topic[topic_id]]
        for start in range(0, len(keys), MAX_TOMBSTONES):
            some = [tombstone(key) for key in keys[start : start + MAX_TOMBSTONES]]
            self._effects.writes.append(Writes(some, self._removed))

    def _removed(self, error: ErrorCode) -> None:
        if error:
            self._has_deleted = True

    def snapshot_cold(self) -> None:
        """Write a new snapshot of the share partitions that hold back pruning, as their last one is old.

        Nothing is written while nobody else writes either.
        """
        if self._end_offset == self._end_of_cold:
            return
        now_ms = self._clock.wall_ms()
        latest_ms = now_ms - self._config.cold_snapshot_interval_ms
        records = []
        for key in islice(self._needed.oldest(), MAX_COLD_SNAPSHOTS):
            state = self._states[key]
            if latest_ms < state.write_ms <= now_ms:
                break
            records.append(snapshot_record(self._keys[key], state.next_snapshot(state.create_ms, now_ms)))
        if records:
            self._effects.writes.append(Writes(records, _ignore))
        self._end_of_cold = self._end_offset + len(records)

    def prune(self) -> None:
        """Delete the records that no share partition needs."""
        if self._has_deleted:
            self.remove_deleted()
        first = self._needed.first(self._end_offset)
        if first > self._deleted_before:
            self._effects.delete_records(first, lambda error: self._pruned(first, error))

    def _pruned(self, before: int, error: ErrorCode) -> None:
        if not error:
            self._deleted_before = max(self._deleted_before, before)

    def __len__(self) -> int:
        return len(self._states)


class ShareShardFactory:
    """Creates the shards of the partitions that this broker leads."""

    def __init__(self, environment: ShareEnvironment) -> None:
        self._environment = environment

    def kinds(self) -> RecordKinds:
        """Return the record types of ``__share_group_state``."""
        return SHARE_RECORD_KINDS

    def shard(self, partition: int, leader_epoch: int, effects: Effects) -> ShareCoordinatorShard:
        """Return a new, empty shard."""
        return ShareCoordinatorShard(effects, self._environment)


def _malformed(key: SharePartitionKey) -> Failure | None:
    if key.partition < 0:
        return Failure(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
    return None


def _malformed_change(change: ShareChange) -> Failure | None:
    """Refuse what a leader of a share partition never writes: applied, it would make the state useless."""
    if change.leader_epoch < 0:
        return _NEGATIVE_LEADER_EPOCH
    if change.state_epoch < 0:
        return _NEGATIVE_STATE_EPOCH
    if len(change.batches) > MAX_BATCHES:
        return Failure(ErrorCode.INVALID_REQUEST, f"More than {MAX_BATCHES} state batches.")
    for batch in change.batches:
        if not 0 <= batch.first_offset <= batch.last_offset or batch.delivery_state not in _STATES:
            return Failure(ErrorCode.INVALID_REQUEST, "A state batch has an invalid range or delivery state.")
    return None


def _outcome(error: ErrorCode) -> Failure:
    return Failure(share_state_error(error)) if error else DONE


def _ignore(error: ErrorCode) -> None:
    """The next round writes what this one could not."""


class NeededOffsets:
    """The offset of each share partition's last snapshot, in the order of the offsets (Kafka: ShareCoordinatorOffsetsManager).

    A snapshot replaces the older records of its share partition. So the records before the first of these offsets may be deleted.
    """

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}

    def snapshot_written(self, key: str, offset: int) -> None:
        """Take note of a key's snapshot: the last in the log, so the key moves to the end."""
        self._offsets.pop(key, None)
        self._offsets[key] = offset

    def removed(self, key: str) -> None:
        """Forget a key: nothing of it is needed."""
        self._offsets.pop(key, None)

    def first(self, end_offset: int) -> int:
        """Return the first offset that is needed; ``end_offset`` without share partitions."""
        return next(iter(self._offsets.values()), end_offset)

    def oldest(self) -> Mapping[str, int]:
        """Return the snapshots' offsets by key, the oldest first."""
        return self._offsets
