"""One partition of this broker: its role, its leader epoch, its in-sync replicas and its log.

Appends and role changes exclude each other by the partition's lock. Reads take no lock: what is below the high watermark is
never taken back, and a follower that reads past it finds a truncation out by the leader epochs (KIP-595).
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.log.results import EpochEndOffset, FetchIsolation, LogAppendInfo
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import (
    ErrorCode,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownLeaderEpochError,
)
from twisted_kafka.protocol.regions import Buffer, FileRegion
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.protocol.types import NO_UUID
from twisted_kafka.replication.partition.fetch_data import NO_EPOCH, UNKNOWN_OFFSET, FetchParams, PartitionFetch, PartitionRead
from twisted_kafka.replication.partition.replica import Replica
from twisted_kafka.replication.partition.topic_stats import ProduceMeters, TopicStats
from twisted_kafka.timing.clock import IClock

ACKS_ALL: Final = -1
DELETE_TO_HIGH_WATERMARK: Final = -1
NO_LEADER: Final = -1

_HIGH_WATERMARK: Final = int(FetchIsolation.HIGH_WATERMARK)
_TXN_COMMITTED: Final = int(FetchIsolation.TXN_COMMITTED)


class LeaderState(NamedTuple):
    """The controller's state of a partition (Kafka: ``LeaderAndIsrPartitionState``)."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    is_new: bool = False
    """Whether the partition is new. The log of one that is not may lie in an offline directory."""


class OffsetSnapshot(NamedTuple):
    """The offsets up to which each kind of reader may read, of one moment."""

    log_end_offset: int
    high_watermark: int
    last_stable_offset: int


class Partition:
    """A partition that this broker hosts (Kafka: ``Partition``)."""

    __slots__ = (
        "_clock",
        "_lock",
        "_max_lag_ms",
        "controller_epoch",
        "future_log",
        "is_alone",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "local_broker_id",
        "log",
        "partition_epoch",
        "produce_meters",
        "remote_replicas",
        "replicas",
        "stats",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self, log: UnifiedLog, *, topic_id: bytes, local_broker_id: int, clock: IClock, stats: TopicStats, max_lag_ms: int
    ) -> None:
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.future_log: UnifiedLog | None = None
        """The copy in another directory that will replace ``log`` (KIP-113)."""
        self.local_broker_id = local_broker_id
        self.stats = stats
        self.produce_meters: ProduceMeters | None = None
        """The meters of appends, from the first append on."""
        self.is_leader = False
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        self.controller_epoch = 0
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: frozenset[int] = frozenset()
        self.remote_replicas: dict[int, Replica] = {}
        # The usual case is decided once: without other replicas the high watermark is the log end offset.
        self.is_alone = False
        self._clock = clock
        self._max_lag_ms = max_lag_ms
        self._lock = threading.RLock()

    # Role

    def make_leader(self, state: LeaderState) -> bool:
        """Become leader; return whether it was not (else only replicas and ISR change). Raises OSError."""
        with self._lock:
            self.controller_epoch = state.controller_epoch
            if self.is_leader and state.leader_epoch == self.leader_epoch and state.partition_epoch <= self.partition_epoch:
                return False
            log = self.log
            is_new_epoch = state.leader_epoch > self.leader_epoch
            is_new_leader = not self.is_leader
            if is_new_epoch:
                self.leader_epoch_start_offset = log.log_end_offset
                log.assign_epoch_start_offset(state.leader_epoch, log.log_end_offset)
            self._assign(state)
            if is_new_epoch:
                now_ms, end_offset = self._clock.wall_ms(), log.log_end_offset
                for replica in self.remote_replicas.values():
                    replica.reset(now_ms, end_offset, in_sync=replica.broker_id in self.isr, is_new_leader=is_new_leader)
            self.leader_id = self.local_broker_id
            self.leader_epoch = state.leader_epoch
            self.is_leader = True
            self._advance_high_watermark()
            return is_new_leader

    def make_follower(self, state: LeaderState) -> bool:
        """Become follower of ``state.leader``; return whether the leader epoch is new. Each leader has one of its own."""
        with self._lock:
            self.controller_epoch = state.controller_epoch
            is_new_epoch = state.leader_epoch != self.leader_epoch
            self.is_leader = False
            self._assign(state)
            self.isr = frozenset()  # only a leader knows it
            self.remote_replicas = {}
            self.leader_id = state.leader
            self.leader_epoch = state.leader_epoch
            self.leader_epoch_start_offset = UNKNOWN_OFFSET
            return is_new_epoch

    def resign(self) -> None:
        """Stop leading, as the partition leaves this broker."""
        with self._lock:
            self.is_leader = False
            self.leader_id = NO_LEADER

    def replace_log(self, is_complete: Callable[[], bool], replace: Callable[[], UnifiedLog]) -> bool:
        """Let ``replace`` replace the log by the future log, if ``is_complete`` returns that it has all records.

        Both run under the partition's lock, so nothing is appended meanwhile. Returns whether the move is over.
        """
        with self._lock:
            if self.future_log is None:
                return True
            if not is_complete():
                return False
            self.log = replace()
            self.future_log = None
            return True

    def _assign(self, state: LeaderState) -> None:
        self.replicas = state.replicas
        self.isr = frozenset(state.isr)
        self.partition_epoch = state.partition_epoch
        others = [broker_id for broker_id in state.replicas if broker_id != self.local_broker_id]
        self.remote_replicas = {broker_id: self.remote_replicas.get(broker_id) or Replica(broker_id) for broker_id in others}
        self.is_alone = not others

    # Appends

    def effective_min_isr(self) -> int:
        """Return ``min.insync.replicas``, but no more than the number of replicas."""
        return min(self.log.config.min_insync_replicas, len(self.remote_replicas) + 1)

    @property
    def is_under_replicated(self) -> bool:
        """Whether this broker leads the partition and a replica is out of sync."""
        return self.is_leader and len(self.isr) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether this broker leads the partition and fewer replicas are in sync than acks=all requires."""
        return self.is_leader and len(self.isr) < self.effective_min_isr()

    @property
    def is_at_min_isr(self) -> bool:
        """Whether this broker leads the partition and exactly as many replicas are in sync as acks=all requires."""
        return self.is_leader and len(self.isr) == self.effective_min_isr()

    def append_as_leader(
        self, records: Buffer, origin: AppendOrigin, required_acks: int, guard: VerificationGuard | None = None
    ) -> tuple[LogAppendInfo, bool]:
        """Append; return the log's append info, and whether the high watermark moved.

        Raises NotLeaderOrFollowerError, NotEnoughReplicasError, what ``UnifiedLog.append_as_leader`` raises.
        """
        with self._lock:
            if not self.is_leader or (required_acks == ACKS_ALL and not self.is_alone):
                self._check_appendable(required_acks)
            if self.is_alone:
                info = self.log.append_as_leader(records, self.leader_epoch, origin, guard, is_alone=True)
                return info, bool(info.size_bytes)
            info = self.log.append_as_leader(records, self.leader_epoch, origin, guard)
            return info, self._advance_high_watermark()

    def append_each_as_leader(self, each: Sequence[Buffer], required_acks: int) -> tuple[list[LogAppendInfo | Exception], bool]:
        """Append what several clients sent; return the log's result for each, and whether the high watermark moved.

        Raises NotLeaderOrFollowerError, NotEnoughReplicasError: for all of them.
        """
        with self._lock:
            self._check_appendable(required_acks)
            before = self.log.high_watermark
            results = self.log.append_each_as_leader(each, self.leader_epoch, is_alone=self.is_alone)
            if not self.is_alone:
                return results, self._advance_high_watermark()
            return results, self.log.high_watermark > before

    def _check_appendable(self, required_acks: int) -> None:
        if not self.is_leader:
            raise NotLeaderOrFollowerError(
                f"Leader not local for partition {self.topic_partition} on broker {self.local_broker_id}"
            )
        if required_acks == ACKS_ALL and not self.is_alone and len(self.isr) < self.effective_min_isr():
            raise NotEnoughReplicasError(
                f"The in-sync replicas of {self.topic_partition}, {sorted(self.isr)}, are fewer than the "
                f"{self.effective_min_isr()} that min.insync.replicas asks for"
            )

    def replicated(self, required_offset: int) -> ErrorCode | None:
        """Return the state of a produce with acks=all that ends at ``required_offset``.

        None: it waits for replicas. NONE: all in-sync replicas have it. Otherwise the error to answer.
        """
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        if not self.is_alone and len(self.isr) < self.effective_min_isr():
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def _advance_high_watermark(self) -> bool:
        """Move the high watermark to the lowest end offset of the in-sync replicas. Call under the lock, on the leader."""
        log = self.log
        new = log.log_end_offset
        if not self.is_alone:
            if len(self.isr) < self.effective_min_isr():
                return False  # KIP-966: records on fewer replicas than the minimum are not committed
            now_ms = self._clock.wall_ms()
            for replica in self.remote_replicas.values():
                # A follower that has nearly caught up counts too, so that it can join the in-sync replicas.
                counts = replica.broker_id in self.isr or replica.is_caught_up(log.log_end_offset, now_ms, self._max_lag_ms)
                if counts and replica.log_end_offset < new:
                    new = replica.log_end_offset
        if new <= log.high_watermark:
            return False
        log.update_high_watermark(new)
        return True

    # Reads

    def log_for(self, current_leader_epoch: int, *, leader_only: bool) -> UnifiedLog:
        """Return the log if the reader may read it.

        Raises FencedLeaderEpochError and UnknownLeaderEpochError (KIP-320), NotLeaderOrFollowerError.
        """
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            text = f"{self.topic_partition} has leader epoch {self.leader_epoch}, the request has {current_leader_epoch}"
            if current_leader_epoch < self.leader_epoch:
                raise FencedLeaderEpochError(text)
            raise UnknownLeaderEpochError(text)
        if leader_only and not self.is_leader:
            raise NotLeaderOrFollowerError(f"{self.topic_partition} is led by broker {self.leader_id}, not by this one")
        return self.log

    def read(self, fetch: PartitionFetch, params: FetchParams, max_bytes: int, min_one_message: bool) -> PartitionRead:
        """Read for a fetch, at most ``max_bytes`` bytes (the first batch whole whatever its size, if ``min_one_message``).

        Raises InconsistentTopicIdError, OffsetOutOfRangeError, what ``log_for`` raises, OSError.
        """
        if fetch.topic_id != self.topic_id and fetch.topic_id != NO_UUID and self.topic_id != NO_UUID:
            raise InconsistentTopicIdError(f"the topic id of the fetch is not that of {self.topic_partition}")
        log = self.log_for(fetch.current_leader_epoch, leader_only=params.fetch_only_leader)
        # Of one moment: an append meanwhile must not make a follower look as if it lagged.
        limits = log.limits
        end, mark, stable, start, _, _ = limits
        result = PartitionRead(0, mark[0], stable[0], start)
        result.log_end_offset = end[0]
        isolation = params.isolation
        if fetch.last_fetched_epoch != NO_EPOCH and self._diverges(fetch, result):
            return result
        offset = fetch.fetch_offset
        limit = stable if isolation == _TXN_COMMITTED else mark if isolation == _HIGH_WATERMARK else end
        if offset == limit[0]:
            if isolation == _TXN_COMMITTED:
                result.aborted_transactions = []
            return result
        info = log.read(offset, max_bytes, isolation, min_one_message, limits)
        result.start = info.fetch_offset
        result.aborted_transactions = info.aborted_transactions
        if params.hard_max_bytes or not info.first_entry_incomplete:
            result.records = records = info.records
            result.size_bytes = records.size_bytes if type(records) is FileRegion else len(records)
        return result

    def _diverges(self, fetch: PartitionFetch, result: PartitionRead) -> bool:
        """Compare the reader's last epoch with ours (KIP-595); sets ``result.diverging_epoch``. Raises OffsetOutOfRangeError."""
        epoch, end_offset = self.log.end_offset_for_epoch(fetch.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition} does not know where epoch {fetch.last_fetched_epoch} ended, from which the fetch at "
                f"{fetch.fetch_offset} comes"
            )
        if fetch.fetch_offset < result.log_start_offset:
            raise OffsetOutOfRangeError(f"offset {fetch.fetch_offset} is out of range: the log begins at {result.log_start_offset}")
        if epoch < fetch.last_fetched_epoch or end_offset < fetch.fetch_offset:
            result.diverging_epoch = (epoch, end_offset)
            return True
        return False

    def offsets(self, current_leader_epoch: int, *, leader_only: bool) -> OffsetSnapshot:
        """Return up to where it can be read; raises what ``log_for`` raises."""
        log = self.log_for(current_leader_epoch, leader_only=leader_only)
        end, mark, stable, _, _, _ = log.limits
        return OffsetSnapshot(end[0], mark[0], stable[0])

    def end_offset_for_epoch(self, current_leader_epoch: int, epoch: int) -> EpochEndOffset:
        """Return where ``epoch`` ended; leader only. Raises what ``log_for`` raises."""
        return self.log_for(current_leader_epoch, leader_only=True).end_offset_for_epoch(epoch)

    def follower_fetched(self, params: FetchParams, fetch: PartitionFetch, leader_end_offset: int) -> bool:
        """Note a follower's fetch; return whether the high watermark or the low watermark moved.

        Raises NotLeaderOrFollowerError when that broker has no replica.
        """
        with self._lock:
            replica = self.remote_replicas.get(params.replica_id)
            if replica is None or not self.is_leader:
                raise NotLeaderOrFollowerError(f"broker {params.replica_id} has no replica of {self.topic_partition} here")
            low_watermark = self.low_watermark()
            replica.fetched(
                fetch.fetch_offset, fetch.log_start_offset, self._clock.wall_ms(), leader_end_offset, params.replica_epoch
            )
            moved = self._advance_high_watermark()
            return moved or self.low_watermark() > low_watermark

    # Deleting records

    def low_watermark(self) -> int:
        """Return the least log start offset among the replicas."""
        return min([self.log.log_start_offset, *[replica.log_start_offset for replica in self.remote_replicas.values()]])

    def delete_records(self, offset: int) -> tuple[int, int]:
        """Delete the records before ``offset`` (-1: all that are committed); return the offset meant and the low watermark.

        Raises NotLeaderOrFollowerError, PolicyViolationError (not ``cleanup.policy=delete``), OffsetOutOfRangeError, OSError.
        """
        with self._lock:
            if not self.is_leader:
                raise NotLeaderOrFollowerError(f"{self.topic_partition} is led by broker {self.leader_id}, not by this one")
            log = self.log
            if "delete" not in log.config.cleanup_policy:
                raise PolicyViolationError(f"cleanup.policy of {self.topic_partition} does not let records be deleted")
            high_watermark = log.high_watermark
            wanted = high_watermark if offset == DELETE_TO_HIGH_WATERMARK else offset
            if wanted < 0 or wanted > high_watermark:
                raise OffsetOutOfRangeError(
                    f"offset {wanted} is out of range: it is not among the committed ones of {self.topic_partition}"
                )
            log.increment_log_start_offset(wanted, "a client deleted records")
            return wanted, self.low_watermark()
