"""Fetching: reads of many partitions within one budget of bytes, at once or when there is enough."""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Final

from twisted.logger import Logger

from twisted_kafka.protocol.errors import (
    ErrorCode,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    ReplicaNotAvailableError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from twisted_kafka.replication.interfaces import FixedReplicas, IInSyncReplicas
from twisted_kafka.replication.operations.delayed_fetch import DelayedFetch, FetchAnswer
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.operations.waiting_fetches import WaitingFetches
from twisted_kafka.replication.partition.fetch_data import (
    ClientMetadata,
    FetchParams,
    PartitionFetch,
    PartitionRead,
    RedirectedRead,
)
from twisted_kafka.replication.partition.fetch_watch import FetchWatch
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.replication.partition.topic_stats import (
    FAILED_FETCHES,
    FETCH_REQUESTS,
    REASSIGNMENT_BYTES_OUT,
    BrokerTopicStats,
    TopicStats,
)
from twisted_kafka.replication.replica_selector import PreferredReplicas
from twisted_kafka.replication.replication_quota_manager import ReplicationQuotaManager
from twisted_kafka.timing.clock import IClock

# Errors that clients recover from by themselves are no failures of the broker: Kafka neither counts nor logs them.
_EXPECTED = (
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
    FencedLeaderEpochError,
    ReplicaNotAvailableError,
    KafkaStorageError,
    InconsistentTopicIdError,
    OffsetOutOfRangeError,
)

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

MOST_UNKNOWN: Final = 1_000
"""The most unknown partitions of a waiting fetch: each takes memory, and clients can name any number."""

_log = Logger(__name__)


class LogReader:
    """Answers fetches from the logs of the hosted partitions (Kafka: ``ReplicaManager.fetchMessages`` and ``readFromLog``)."""

    __slots__ = ("_clock", "_in_sync", "_partitions", "_preferred", "_purgatories", "_quota", "_stats", "_waiting")

    def __init__(
        self, partitions: PartitionTable, purgatories: Purgatories, stats: BrokerTopicStats, quota: ReplicationQuotaManager
    ) -> None:
        """``quota`` is that of this broker's replicas as leaders."""
        self._partitions = partitions
        self._quota = quota
        self._purgatories = purgatories
        self._stats = stats
        self._waiting = WaitingFetches()
        self._in_sync: IInSyncReplicas = FixedReplicas()
        self._preferred: PreferredReplicas | None = None
        self._clock: IClock | None = None

    def set_preferred_replicas(self, preferred: PreferredReplicas, clock: IClock) -> None:
        """Send consumers to other replicas that are nearer to them."""
        self._preferred = preferred
        self._clock = clock

    @property
    def prefers_replicas(self) -> bool:
        """Whether consumers may be sent to other replicas."""
        return self._preferred is not None

    def set_in_sync_replicas(self, in_sync: IInSyncReplicas) -> None:
        """Set the part that adds followers to the in-sync replicas once they have caught up."""
        self._in_sync = in_sync

    def fetch(
        self, params: FetchParams, fetches: Sequence[PartitionFetch], watch: FetchWatch | None = None
    ) -> list[PartitionRead] | FetchAnswer:
        """Read each partition, in the order of ``fetches``; return a future if there is something to wait for.

        ``watch`` has all partitions of the session: what changes of the others while this waits is added to ``fetches``, which is a
        list then.

        It does not wait when ``max_wait_ms`` is 0 or less, no partition was asked for, ``min_bytes`` bytes are there, or a
        partition has an error or a diverging epoch. A consumer's unknown partitions do wait, as with Kafka: a client that keeps
        asking for a deleted topic would otherwise spin. Only more than ``MOST_UNKNOWN`` of them are answered at once. A follower
        may know of a partition before this broker does, which is about to lead it: it asks again.
        """
        reads = self.read(params, fetches, watch)
        self._stats.all_topics.mark(FETCH_REQUESTS, len(reads))
        if params.max_wait_ms <= 0 or not (reads or watch is not None):
            return reads
        if params.client is not None and any(read.preferred_read_replica >= 0 for read in reads):
            return reads
        available = 0
        waiting = []
        unknown: dict[int, PartitionRead] = {}
        for position, (fetch, read) in enumerate(zip(fetches, reads, strict=True)):
            if not read.error and read.diverging_epoch is None:
                available += read.size_bytes
                waiting.append((fetch, read.start))
            elif read.error in _UNKNOWN and not params.is_from_follower:
                unknown[position] = read
            else:
                return reads
        if available >= params.min_bytes or not (waiting or watch is not None) or len(unknown) > MOST_UNKNOWN:
            return reads
        is_withheld = self._is_withheld if params.is_from_follower else None
        number = 0 if watch is None else watch.begin()
        read_again = partial(self._read_again, params, fetches, unknown, watch, number)
        ignored = [fetches[position] for position in unknown]
        operation = DelayedFetch(self._partitions, params, waiting, is_withheld, read_again, watch, ignored)
        keys: list[Hashable]
        if watch is None:
            keys = [fetch.topic_partition for fetch, _ in waiting]
        else:
            keys = [watch]
            watch.wait(operation.check)
        self._waiting.add(operation, len(fetches))
        self._purgatories.fetch.try_complete_else_watch(operation, keys)
        return operation.future

    def _read_again(
        self,
        params: FetchParams,
        fetches: Sequence[PartitionFetch],
        unknown: Mapping[int, PartitionRead],
        watch: FetchWatch | None,
        number: int,
    ) -> list[PartitionRead]:
        """Read the partitions of a fetch that has waited. Unknown partitions stay unknown in its answer, as in Kafka.

        What has changed meanwhile of the session's other partitions is read, too, unless another fetch of the session does.
        """
        if watch is not None and watch.is_last(number):
            asked = set(fetches)
            assert isinstance(fetches, list)
            fetches += [fetch for fetch in watch.take() if fetch not in asked]
        if not unknown:
            return self.read(params, fetches, watch, from_purgatory=True)
        if watch is not None:
            watch.unsettle_all(fetches[position] for position in unknown)
        known = [fetch for position, fetch in enumerate(fetches) if position not in unknown]
        again = iter(self.read(params, known, watch, from_purgatory=True))
        return [unknown.get(position) or next(again) for position in range(len(fetches))]

    def read(
        self,
        params: FetchParams,
        fetches: Sequence[PartitionFetch],
        watch: FetchWatch | None = None,
        *,
        from_purgatory: bool = False,
    ) -> list[PartitionRead]:
        """Read each partition, all within ``params.max_bytes``; errors are values in the results.

        The first batch of the first partition that has any is read whole, whatever its size (KIP-74), except for versions up to 2.
        """
        left = params.max_bytes
        min_one_message = not params.hard_max_bytes
        reads: list[PartitionRead] = []
        unsettled: list[PartitionFetch] = []
        asked: dict[TopicStats, int] = {}
        for fetch in fetches:
            partition = self._partitions.online.get(fetch.topic_partition)  # type: ignore[arg-type]  # None is never a key
            max_bytes = fetch.max_bytes
            if max_bytes > left:
                max_bytes = left
            try:
                if partition is None:
                    absence = self._absence(fetch)
                    if absence:  # not an exception: a client may ask for many that do not exist
                        reads.append(PartitionRead(absence))
                        unsettled.append(fetch)
                        continue
                    partition = self._partitions.get_or_raise(fetch.topic_partition)  # type: ignore[arg-type]
                asked[partition.stats] = asked.get(partition.stats, 0) + 1
                if params.client is not None and (redirected := self._redirected(partition, params.client, fetch)) is not None:
                    reads.append(redirected)
                    continue
                read = partition.read(fetch, params, max_bytes, min_one_message)
                if params.is_from_follower:
                    if not from_purgatory:
                        self._follower_fetched(partition, params, fetch, read, watch)
                    if watch is not None and not _is_settled(partition, params.replica_id, fetch, read):
                        unsettled.append(fetch)
                    if self._is_withheld(partition, params.replica_id):
                        read.withhold()
                elif watch is not None and (read.log_end_offset != fetch.fetch_offset or not _has_all(fetch, read)):
                    unsettled.append(fetch)
            except Exception as error:  # noqa: BLE001 one partition's failure is its own
                read = self._failed(fetch, error)
                unsettled.append(fetch)
            size_bytes = read.size_bytes
            if size_bytes:
                min_one_message = False
                left = left - size_bytes if left > size_bytes else 0
            reads.append(read)
        if watch is not None:
            watch.unsettle_all(unsettled)
        if not from_purgatory:
            for stats, count in asked.items():
                stats.mark(FETCH_REQUESTS, count)
        return reads

    def _redirected(self, partition: Partition, client: ClientMetadata, fetch: PartitionFetch) -> RedirectedRead | None:
        """Return the result that redirects the consumer to another replica; None if it reads here."""
        if self._preferred is None or self._clock is None:
            return None
        log = partition.log_for(fetch.current_leader_epoch, leader_only=False)
        replica_id = self._preferred.find(partition, client, fetch.fetch_offset, self._clock.wall_ms())
        if replica_id is None:
            return None
        _, mark, stable, start, _, _ = log.limits
        return RedirectedRead(replica_id, mark.message_offset, stable.message_offset, start)

    def _is_withheld(self, partition: Partition, replica_id: int) -> bool:
        """Whether a follower gets nothing: it is not in sync, and the quota of throttled replicas is exceeded."""
        quota = self._quota
        return (
            quota.has_throttled
            and quota.is_throttled(partition.topic_partition)
            and replica_id not in partition.isr
            and quota.is_exceeded
        )

    def sent_to_follower(self, fetch: PartitionFetch, replica_id: int, size_bytes: int) -> None:
        """Count the bytes of a partition that a follower gets, if the quota applies, or if a reassignment adds the follower."""
        topic_partition = fetch.topic_partition
        if topic_partition is None:
            return
        quota = self._quota
        if quota.has_throttled and quota.is_throttled(topic_partition):
            quota.record(size_bytes)
        partition = self._partitions.online.get(topic_partition)
        if partition is not None and replica_id in partition.adding:
            self._stats.all_topics.mark(REASSIGNMENT_BYTES_OUT, size_bytes)

    def _absence(self, fetch: PartitionFetch) -> ErrorCode:
        """Return why there is nothing to read, NONE if the partition is hosted by now."""
        if fetch.topic_partition is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self._partitions.absence(fetch.topic_partition)

    def _follower_fetched(
        self, partition: Partition, params: FetchParams, fetch: PartitionFetch, read: PartitionRead, watch: FetchWatch | None
    ) -> None:
        if read.diverging_epoch is not None:
            return
        moved = partition.follower_fetched(params, fetch, read.log_end_offset, watch)
        if moved:
            self._purgatories.check_all(partition.topic_partition)
        elif moved is None and watch is not None:
            watch.unsettle(fetch)
        if params.replica_id not in partition.isr:
            self._in_sync.maybe_expand(partition, params.replica_id)

    def _failed(self, fetch: PartitionFetch, error: Exception) -> PartitionRead:
        if isinstance(error, _EXPECTED):
            return PartitionRead(error.code)
        topic = fetch.topic_partition.topic if fetch.topic_partition is not None else ""
        self._stats.mark(topic, FAILED_FETCHES, 1)
        if isinstance(error, OSError):
            _log.error("Cannot read {partition}: {error}", partition=fetch.topic_partition, error=error)
            return PartitionRead(ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(error, KafkaError):  # as CorruptRecordError for a damaged file
            _log.error("Cannot read {partition}: {error}", partition=fetch.topic_partition, error=error)
            return PartitionRead(error.code)
        _log.failure("Cannot read {partition} at {offset}", partition=fetch.topic_partition, offset=fetch.fetch_offset)
        return PartitionRead(ErrorCode.UNKNOWN_SERVER_ERROR)


def _has_all(fetch: PartitionFetch, read: PartitionRead) -> bool:
    """Return whether a consumer has all records of a partition, at any isolation level: its next fetch may have another one."""
    has_all = fetch.fetch_offset == read.log_end_offset == read.high_watermark == read.last_stable_offset
    return has_all and read.diverging_epoch is None


def _is_settled(partition: Partition, replica_id: int, fetch: PartitionFetch, read: PartitionRead) -> bool:
    """Return whether a follower needs nothing of a partition until it changes, nor the partition anything of the follower.

    A high watermark that is behind may wait for a replica that stops to count with time.
    """
    has_all = read.high_watermark == read.log_end_offset == fetch.fetch_offset
    return has_all and read.diverging_epoch is None and replica_id in partition.isr
