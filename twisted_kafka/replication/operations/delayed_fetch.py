"""A fetch that waits until there is enough to read (Kafka: ``DelayedFetch``)."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from twisted_kafka.log.results import LogOffsetMetadata
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.replication.partition.fetch_data import NO_EPOCH, FetchParams, PartitionFetch, PartitionRead
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.waiting.purgatory import DelayedOperation


class FetchAnswer(Future[list[PartitionRead]]):
    """What a fetch that waits will have read. ``give_up`` ends the wait: the client has gone. None: it has ended."""

    def __init__(self, give_up: Callable[[], object]) -> None:
        super().__init__()
        self.give_up: Callable[[], object] | None = give_up


class DelayedFetch(DelayedOperation):
    """Waits for ``min_bytes`` bytes in all, or for a change of a partition: another leader, a truncation, a new segment."""

    __slots__ = ("_has_just_read", "_is_withheld", "_params", "_partitions", "_read", "_waiting", "future", "on_end")

    def __init__(
        self,
        partitions: PartitionTable,
        params: FetchParams,
        waiting: Sequence[tuple[PartitionFetch, LogOffsetMetadata | None]],
        is_withheld: Callable[[Partition, int], bool] | None,
        read: Callable[[], list[PartitionRead]],
    ) -> None:
        """``waiting`` are the partitions worth waiting for, and the positions of their offsets where known; ``read`` reads all.

        ``is_withheld`` says whether a follower gets nothing of a partition because of a quota, so that its bytes do not count.
        """
        super().__init__(params.max_wait_ms)
        self._partitions = partitions
        self._params = params
        self._is_withheld = is_withheld
        self._read = read
        self._waiting = list(waiting)
        self._has_just_read = True
        self.future = FetchAnswer(self.force_complete)
        self.on_end: Callable[[DelayedFetch], object] = _do_nothing
        """Called when the wait ends."""

    def try_complete(self) -> bool:
        """Complete when there is enough to answer."""
        if self._has_just_read:
            # The purgatory asks once before it watches and once after: the first answer is known.
            self._has_just_read = False
            return False
        available = 0
        min_bytes = self._params.min_bytes
        for index, (fetch, start) in enumerate(self._waiting):
            available += self._available(index, fetch, start)
            if available >= min_bytes:
                return self.force_complete()
        return False

    def _available(self, index: int, fetch: PartitionFetch, start: LogOffsetMetadata | None) -> int:
        """Return how many bytes there are for one partition, or ``min_bytes`` when it changed otherwise."""
        enough = self._params.min_bytes
        try:
            # Partitions with an unknown topic id are not waited for.
            partition = self._partitions.get_or_raise(fetch.topic_partition)  # type: ignore[arg-type]
            snapshot = partition.offsets(fetch.current_leader_epoch, leader_only=self._params.fetch_only_leader)
            end_offset = snapshot[self._params.isolation]
            if fetch.last_fetched_epoch != NO_EPOCH and self._diverges(partition, fetch):
                return enough
            if end_offset == fetch.fetch_offset:
                return 0
            if end_offset < fetch.fetch_offset:
                return enough
            if self._is_withheld is not None and self._is_withheld(partition, self._params.replica_id):
                return 0
            if enough <= 1:
                return enough
            if start is None:
                start = partition.log.offset_metadata(fetch.fetch_offset)
                self._waiting[index] = (fetch, start)
            return self._bytes_between(start, fetch, partition, end_offset)
        except (KafkaError, OSError):
            # Another leader, fenced, deleted or offline: reading again says which.
            return enough

    def _bytes_between(self, start: LogOffsetMetadata, fetch: PartitionFetch, partition: Partition, end_offset: int) -> int:
        end = partition.log.offset_metadata(end_offset)
        if start.segment_base_offset != end.segment_base_offset:
            return self._params.min_bytes
        return min(end.relative_position - start.relative_position, fetch.max_bytes)

    @staticmethod
    def _diverges(partition: Partition, fetch: PartitionFetch) -> bool:
        epoch, end_offset = partition.log.end_offset_for_epoch(fetch.last_fetched_epoch)
        return epoch < fetch.last_fetched_epoch or end_offset < fetch.fetch_offset

    def on_complete(self) -> None:
        """Read again, and resolve the future."""
        self.on_end(self)
        self.future.give_up = None  # a reference to this
        try:
            reads = self._read()
        except Exception as error:  # noqa: BLE001 the future carries it to the handler, which answers and logs it
            self.future.set_exception(error)
        else:
            self.future.set_result(reads)


def _do_nothing(fetch: DelayedFetch) -> None:
    pass
