"""One partition of this broker: its role, its leader epoch, its in-sync replicas and its log.

Appends and role changes exclude each other by the partition's lock. Reads take no lock: records below the high watermark
are never taken back, and a follower that reads past it detects a truncation by the leader epochs (KIP-595).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from twisted_kafka.log.batch_headers import batches_in
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.producer_state.producer_state_manager import VerificationGuard
from twisted_kafka.log.results import EpochEndOffset, FetchIsolation, LogAppendInfo
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.compiler.types import NO_UUID
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
from twisted_kafka.replication.partition.fetch_data import NO_EPOCH, UNKNOWN_OFFSET, FetchParams, PartitionFetch, PartitionRead
from twisted_kafka.replication.partition.fetch_watch import FetchWatch
from twisted_kafka.replication.partition.isr_proposal import APPLIED_ELSEWHERE, NOT_APPLIED, CommittedIsr, IsrProposal
from twisted_kafka.replication.partition.replica import UNKNOWN_BROKER_EPOCH, Replica
from twisted_kafka.replication.partition.topic_stats import TopicStats
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

ACKS_ALL: Final = -1
STALL_S: Final = 0.02
"""How long an operation on several partitions waits for the lock of one of them."""
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
    """Whether the partition is new. If it is not, its log may lie in an offline directory."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """The replicas that a reassignment adds and removes (KIP-455)."""


class PartitionHost(NamedTuple):
    """The parts that all partitions of a broker share."""

    broker_id: int
    clock: IClock
    max_lag_ms: int
    """``replica.lag.time.max.ms``."""
    logs: LogManager
    is_alive: Callable[[int], bool]
    """Whether a broker is alive. The replica of a dead broker may not join the ISR, and does not hold back the low watermark."""


class OffsetSnapshot(NamedTuple):
    """The offsets up to which each kind of reader may read, at one moment."""

    log_end_offset: int
    high_watermark: int
    last_stable_offset: int


class Partition:
    """A partition that this broker hosts (Kafka: ``Partition``)."""

    __slots__ = (
        "_clock",
        "_host",
        "_lock",
        "_pending",
        "adding",
        "controller_epoch",
        "future_log",
        "is_alone",
        "is_leader",
        "is_reassigning",
        "isr",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "leader_since",
        "local_broker_id",
        "log",
        "partition_epoch",
        "remote_replicas",
        "replicas",
        "stats",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, log: UnifiedLog, topic_id: bytes, stats: TopicStats, host: PartitionHost) -> None:
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.future_log: UnifiedLog | None = None
        """The copy in another directory that will replace ``log`` (KIP-113)."""
        self.local_broker_id = host.broker_id
        self.stats = stats
        self.is_leader = False
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        self.leader_since = NO_EPOCH
        """The leader epoch in which this broker began to lead: its earlier appends may have been truncated since."""
        self.controller_epoch = 0
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        """The replicas that a reassignment adds."""
        self.is_reassigning = False
        self.isr: frozenset[int] = frozenset()
        """The in-sync replicas that the controller has confirmed."""
        self._pending: IsrProposal | None = None
        """The change that this leader has proposed and the controller has not answered."""
        self.remote_replicas: dict[int, Replica] = {}
        # The usual case is decided once: without other replicas the high watermark is the log end offset.
        self.is_alone = False
        self._clock = host.clock
        self._host = host
        self._lock = machine.RLock()

    # Role

    def make_leader(self, state: LeaderState) -> bool:
        """Become leader, or take the new replicas and ISR; return True if this broker was not the leader. Raises OSError."""
        with self._lock:
            self.controller_epoch = state.controller_epoch
            if self.is_leader and state.leader_epoch == self.leader_epoch and state.partition_epoch <= self.partition_epoch:
                return False
            log = self.log
            is_new_epoch = state.leader_epoch > self.leader_epoch
            is_new_leader = not self.is_leader
            if is_new_leader:
                self.leader_since = state.leader_epoch
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
        """Become follower of ``state.leader``; return whether the leader epoch, and so the leader, is new."""
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
        """Replace the log by the future log with ``replace``, if ``is_complete`` says that the future log has all records.

        Both run under the partition's lock, which excludes appends. Returns whether the move has ended.
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
        self.adding = state.adding
        self.is_reassigning = bool(state.adding or state.removing)
        self.isr = frozenset(state.isr)
        self._pending = None
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

    @property
    def is_joining(self) -> bool:
        """Whether a reassignment adds this broker's replica."""
        return self.local_broker_id in self.adding

    def append_as_leader(
        self, records: Buffer, origin: AppendOrigin, required_acks: int, guard: VerificationGuard | None = None
    ) -> tuple[LogAppendInfo, bool]:
        """Append; return the log's append info, and whether the high watermark moved.

        Raises NotLeaderOrFollowerError, NotEnoughReplicasError, and the errors of ``UnifiedLog.append_as_leader``.
        """
        with self._lock:
            if not self.is_leader or (required_acks == ACKS_ALL and not self.is_alone):
                self._check_appendable(required_acks)
            if self.is_alone:
                info = self.log.append_as_leader(records, self.leader_epoch, origin, guard, is_alone=True)
                return info, info.size_bytes > 0
            self._note_who_is_caught_up()
            info = self.log.append_as_leader(records, self.leader_epoch, origin, guard)
            return info, self._advance_high_watermark()

    def append_each_as_leader(self, each: Sequence[Buffer], required_acks: int) -> tuple[list[LogAppendInfo | Exception], bool]:
        """Append the records of several clients; return the log's result for each, and whether the high watermark moved.

        Raises NotLeaderOrFollowerError or NotEnoughReplicasError for all of them.
        """
        with self._lock:
            self._check_appendable(required_acks)
            before = self.log.high_watermark
            self._note_who_is_caught_up()
            results = self.log.append_each_as_leader(each, self.leader_epoch, is_alone=self.is_alone)
            if not self.is_alone:
                return results, self._advance_high_watermark()
            return results, self.log.high_watermark > before

    def _note_who_is_caught_up(self) -> None:
        """Before an append: followers that have everything have had it until their last fetch, even if that did not ask for it."""
        end_offset = self.log.log_end_offset
        for replica in self.remote_replicas.values():
            watch = replica.watch
            if watch is not None and replica.log_end_offset == end_offset and watch.last_fetch_ms > replica.last_caught_up_ms:
                replica.last_caught_up_ms = watch.last_fetch_ms

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

    def has_committed(self, offset: int, leader_since: int) -> bool:
        """Return whether a record is committed that was appended when ``leader_since`` was that of this partition."""
        return self.log.high_watermark > offset and self._still_leads(leader_since)

    def _still_leads(self, leader_since: int) -> bool:
        """Return whether this broker has led all the time. Ask after the high watermark is read: a follower's moves, too."""
        return self.is_leader and self.leader_since == leader_since

    def replicated(self, required_offset: int, leader_since: int) -> ErrorCode | None:
        """Return the state of a produce with acks=all that ends at ``required_offset``.

        ``leader_since`` is that of this partition when the records were appended. None: it waits for replicas. NONE: all in-sync
        replicas have it. Otherwise the error to answer.
        """
        high_watermark = self.log.high_watermark
        if not self._still_leads(leader_since):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if high_watermark < required_offset:
            return None
        if not self.is_alone and len(self.maximal_isr) < self.effective_min_isr():
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
            maximal = self.maximal_isr
            for replica in self.remote_replicas.values():
                if replica.log_end_offset < new and (replica.broker_id in maximal or self._may_join(replica, now_ms)):
                    new = replica.log_end_offset
        if new <= log.high_watermark:
            return False
        log.update_high_watermark(new)
        return True

    def _may_join(self, replica: Replica, now_ms: int) -> bool:
        """Return whether a follower has nearly caught up: it is waited for, so that it can join the in-sync replicas."""
        end_offset = self.log.log_end_offset
        return replica.is_caught_up(end_offset, now_ms, self._host.max_lag_ms) and self._host.is_alive(replica.broker_id)

    # In-sync replicas

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The replicas that may be in sync, as far as this leader knows: also those of a change that is not confirmed yet.

        The high watermark waits for all of them, so that it holds whether the controller has made the change or not (KIP-497).
        """
        pending = self._pending
        return self.isr if pending is None else pending.maximal_isr

    def propose_expansion(self, replica_id: int, broker_epoch: int) -> IsrProposal | None:
        """Return the change that lets a follower join, if it has all that is committed; nothing else may be proposed then.

        ``broker_epoch`` is this broker's. Returns None while the disk stalls.
        """
        with self._unless_stalled() as is_free:
            if not is_free:
                return None
            replica = self.remote_replicas.get(replica_id)
            if replica is None or not self.is_leader or self._pending is not None or replica_id in self.isr:
                return None
            end_offset = replica.log_end_offset
            if end_offset < self.log.high_watermark or end_offset < self.leader_epoch_start_offset:
                return None
            if not self._host.is_alive(replica_id):
                return None
            return self._propose(self.isr | {replica_id}, broker_epoch)

    def propose_shrinking(self, broker_epoch: int) -> IsrProposal | None:
        """Return the change that takes out the followers that lag for longer than ``replica.lag.time.max.ms``, if there are any.

        Returns None while the disk stalls.
        """
        with self._unless_stalled() as is_free:
            if not is_free or not self.is_leader or self._pending is not None or self.is_alone:
                return None
            lagging = self._lagging()
            return self._propose(self.isr - lagging, broker_epoch) if lagging else None

    def _lagging(self) -> frozenset[int]:
        now_ms, end_offset, max_lag_ms = self._clock.wall_ms(), self.log.log_end_offset, self._host.max_lag_ms
        replicas = self.remote_replicas
        return frozenset(
            broker_id
            for broker_id in self.isr
            if broker_id != self.local_broker_id
            and not (broker_id in replicas and replicas[broker_id].is_caught_up(end_offset, now_ms, max_lag_ms))
        )

    def _propose(self, isr: frozenset[int], broker_epoch: int) -> IsrProposal:
        replicas = self.remote_replicas
        epochs = {each: replicas[each].broker_epoch if each in replicas else UNKNOWN_BROKER_EPOCH for each in sorted(isr)}
        epochs[self.local_broker_id] = broker_epoch
        self._pending = IsrProposal(self.isr, isr, epochs, self.leader_epoch, self.partition_epoch)
        return self._pending

    def isr_committed(self, proposal: IsrProposal, committed: CommittedIsr) -> tuple[bool, bool]:
        """Take the controller's answer; return whether it still counts, and whether the high watermark moved."""
        with self._lock:
            if self._pending is not proposal or not self.is_leader:
                return False, False
            if committed.leader_epoch != self.leader_epoch or committed.partition_epoch < self.partition_epoch:
                return False, False
            self.isr = committed.isr
            self.partition_epoch = committed.partition_epoch
            self._pending = None
            return True, self._advance_high_watermark()

    def isr_refused(self, proposal: IsrProposal, error: ErrorCode) -> tuple[bool, bool]:
        """Take the controller's refusal; return whether to ask again, and whether the high watermark moved.

        Unless it says that nothing was changed, the proposal stays pending until it is answered or the controller says more.
        """
        with self._lock:
            if self._pending is not proposal or not self.is_leader:
                return False, False
            if error in NOT_APPLIED:
                self._pending = None
                return False, self._advance_high_watermark()  # it does not wait for the refused replica any more
            return error not in APPLIED_ELSEWHERE, False

    # As follower

    def append_as_follower(self, records: Buffer, fetch_offset: int, leader_epoch: int) -> LogAppendInfo:
        """Append records fetched from the leader of this epoch at the log's end, with its offsets and epochs.

        Raises FencedLeaderEpochError (the leader has changed), OffsetOutOfRangeError (the log does not end at ``fetch_offset``),
        and the errors of ``UnifiedLog.append_as_follower``.
        """
        with self._lock:
            self._check_follows(leader_epoch)
            log = self.log
            if fetch_offset != log.log_end_offset:
                raise OffsetOutOfRangeError(
                    f"{self.topic_partition} was fetched at {fetch_offset}, and its log ends at {log.log_end_offset}"
                )
            if fetch_offset == log.log_start_offset:
                first = next(batches_in(memoryview(records)), None)
                if first is not None and first.base_offset < fetch_offset <= first.last_offset:
                    # The leader's log begins inside this batch: records before were deleted.
                    self._host.logs.truncate_fully_and_start_at(self.topic_partition, first.base_offset)
            return log.append_as_follower(records)

    def truncate_to(self, offset: int, leader_epoch: int) -> None:
        """Remove the records that the leader of this epoch does not have. Raises FencedLeaderEpochError, KafkaStorageError."""
        with self._lock:
            self._check_follows(leader_epoch)
            self._host.logs.truncate_to(self.topic_partition, offset)

    def truncate_fully_and_start_at(self, offset: int, leader_epoch: int) -> None:
        """Remove everything: the leader of this epoch has nothing before ``offset``. Raises like ``truncate_to``."""
        with self._lock:
            self._check_follows(leader_epoch)
            self._host.logs.truncate_fully_and_start_at(self.topic_partition, offset)

    def leader_said(self, high_watermark: int, log_start_offset: int) -> bool:
        """Take over the leader's high watermark and log start, as far as this log goes; return whether the former moved.

        The high watermark falls only when the log is truncated.
        """
        with self._lock:
            if self.is_leader:
                return False
            log = self.log
            before = log.high_watermark
            moved = high_watermark > before and log.update_high_watermark(high_watermark) > before
            if log_start_offset > log.log_start_offset:
                log.increment_log_start_offset(min(log_start_offset, log.high_watermark), "the leader's log starts there")
            return moved

    def _check_follows(self, leader_epoch: int) -> None:
        if self.is_leader or self.leader_epoch != leader_epoch:
            raise FencedLeaderEpochError(f"{self.topic_partition} does not follow the leader of epoch {leader_epoch} any more")

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

        Raises InconsistentTopicIdError, OffsetOutOfRangeError, OSError, and the errors of ``log_for``.
        """
        if fetch.topic_id != self.topic_id and fetch.topic_id != NO_UUID and self.topic_id != NO_UUID:
            raise InconsistentTopicIdError(f"the topic id of the fetch is not that of {self.topic_partition}")
        log = self.log_for(fetch.current_leader_epoch, leader_only=params.fetch_only_leader)
        # Read once: with the end offset after a later append, the follower would appear to lag.
        limits = log.limits
        end, mark, stable, start, _, _ = limits
        result = PartitionRead(0, mark.message_offset, stable.message_offset, start)
        result.log_end_offset = end.message_offset
        isolation = params.isolation
        if fetch.last_fetched_epoch != NO_EPOCH and self._diverges(fetch, result):
            return result
        offset = fetch.fetch_offset
        limit = stable if isolation == _TXN_COMMITTED else mark if isolation == _HIGH_WATERMARK else end
        if offset == limit.message_offset:
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
        """Return the offsets up to which it can be read; raises the errors of ``log_for``."""
        log = self.log_for(current_leader_epoch, leader_only=leader_only)
        end, mark, stable, _, _, _ = log.limits
        return OffsetSnapshot(end.message_offset, mark.message_offset, stable.message_offset)

    def end_offset_for_epoch(self, current_leader_epoch: int, epoch: int) -> EpochEndOffset:
        """Return the end offset of ``epoch``; leader only. Raises the errors of ``log_for``."""
        return self.log_for(current_leader_epoch, leader_only=True).end_offset_for_epoch(epoch)

    @contextmanager
    def _unless_stalled(self) -> Iterator[bool]:
        """Hold the lock, if it is free soon: an append holds it while the disk stalls, and others must not wait for that."""
        is_free = self._lock.acquire(timeout=STALL_S)
        try:
            yield is_free
        finally:
            if is_free:
                self._lock.release()

    def follower_fetched(
        self, params: FetchParams, fetch: PartitionFetch, leader_end_offset: int, watch: FetchWatch | None = None
    ) -> bool | None:
        """Note a follower's fetch; return whether the high watermark or the low watermark moved.

        None: it is not noted, as the disk stalls. ``watch`` is that of the follower's session. A fetch that says nothing new does
        not take the lock.

        Raises NotLeaderOrFollowerError when that broker has no replica, and when the leader epoch is another one since the read:
        the follower's log was compared with this one as it was then, and this one may have been truncated.
        """
        replica = self._follower(params.replica_id, fetch)
        is_committed = self.log.high_watermark == fetch.fetch_offset
        if is_committed and replica.says_nothing_new(fetch.fetch_offset, fetch.log_start_offset, params.replica_epoch, watch):
            replica.fetched_again(self._clock.wall_ms(), leader_end_offset)
            return False
        with self._unless_stalled() as is_free:
            if not is_free:
                return None
            replica = self._follower(params.replica_id, fetch)
            low_watermark = self.low_watermark()
            replica.fetched(
                fetch.fetch_offset, fetch.log_start_offset, self._clock.wall_ms(), leader_end_offset, params.replica_epoch
            )
            replica.watch = watch
            moved = self._advance_high_watermark()
            return moved or self.low_watermark() > low_watermark

    def _follower(self, replica_id: int, fetch: PartitionFetch) -> Replica:
        if fetch.current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            raise NotLeaderOrFollowerError(f"{self.topic_partition} has another leader epoch than the fetch")
        replica = self.remote_replicas.get(replica_id)
        if replica is None or not self.is_leader:
            raise NotLeaderOrFollowerError(f"broker {replica_id} has no replica of {self.topic_partition} here")
        return replica

    # Deleting records

    def low_watermark(self) -> int:
        """Return the least log start offset among the replicas on brokers that are alive."""
        is_alive = self._host.is_alive
        others = [replica.log_start_offset for replica in self.remote_replicas.values() if is_alive(replica.broker_id)]
        return min([self.log.log_start_offset, *others])

    def delete_records(self, offset: int) -> tuple[int, int]:
        """Delete the records before ``offset`` (-1: all that are committed); return the offset and the low watermark.

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
