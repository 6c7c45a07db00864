"""A fetch that waits until there is enough to read (Kafka: ``DelayedFetch``)."""

from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import Future

from typing_extensions import override

from twisted_kafka.log.results import LogOffsetMetadata
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.replication.partition.fetch_data import NO_EPOCH, FetchParams, PartitionFetch, PartitionRead
from twisted_kafka.replication.partition.fetch_watch import FetchWatch
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.waiting.purgatory import DelayedOperation


class FetchAnswer(Future[list[PartitionRead]]):
    """The future result of a waiting fetch.

    ``give_up`` ends the wait after the client has gone; it is None once the wait has ended.
    """

    def __init__(self, give_up: Callable[[], object]) -> None:
        super().__init__()
        self.give_up: Callable[[], object] | None = give_up


class _Waiting:
    """A partition that is waited for; ``start`` is the position of its offset, where it is known."""

    __slots__ = ("available_bytes", "fetch", "start")

    def __init__(self, fetch: PartitionFetch, start: LogOffsetMetadata | None) -> None:
        self.fetch = fetch
        self.start = start
        self.available_bytes = 0


class DelayedFetch(DelayedOperation):
    """Waits for ``min_bytes`` bytes in all, or for a change of a partition: another leader, a truncation, a new segment.

    When a partition changes, only that partition is read again.
    """

    __slots__ = (
        "_available_bytes",
        "_has_just_read",
        "_is_withheld",
        "_params",
        "_partitions",
        "_read",
        "_unknown",
        "_waiting",
        "_watch",
        "future",
        "on_end",
    )

    def __init__(
        self,
        partitions: PartitionTable,
        params: FetchParams,
        waiting: Sequence[tuple[PartitionFetch, LogOffsetMetadata | None]],
        is_withheld: Callable[[Partition, int], bool] | None,
        read: Callable[[], list[PartitionRead]],
        watch: FetchWatch | None = None,
        unknown: Collection[PartitionFetch] = (),
    ) -> None:
        """``waiting`` are the partitions worth waiting for, and the positions of their offsets where known; ``read`` reads all.

        ``is_withheld`` says whether a follower gets nothing of a partition because of a quota, so that its bytes do not count.
        With a ``watch``, all of its partitions are waited for, except for those in ``unknown``.
        """
        super().__init__(params.max_wait_ms)
        self._partitions = partitions
        self._params = params
        self._is_withheld = is_withheld
        self._read = read
        self._watch = watch
        self._unknown = frozenset(unknown)
        self._waiting: dict[Hashable, _Waiting] = {fetch.topic_partition: _Waiting(fetch, start) for fetch, start in waiting}
        self._available_bytes = 0
        self._has_just_read = True
        self.future = FetchAnswer(self.force_complete)
        self.on_end: Callable[[DelayedFetch], object] = _do_nothing
        """Called when the wait ends."""

    @override
    def try_complete(self) -> bool:
        """Complete when there is enough to answer."""
        if self._has_just_read:
            # The purgatory asks once before it watches and once after: the first answer is known.
            self._has_just_read = False
            return False
        watch = self._watch
        if watch is None:
            return any(self._has_enough(each) for each in list(self._waiting.values())) and self.force_complete()
        # What was read since its last change has not changed: it would be unsettled.
        changed = [fetch.topic_partition for fetch in watch.unsettled if fetch.topic_partition is not None]
        return any(self._has_enough(each) for each in map(self._waiting_for, changed) if each is not None) and self.force_complete()

    @override
    def check(self, key: Hashable) -> bool:
        """Complete when there is enough after a change of the partition ``key``."""
        with self._lock:
            waiting = self._waiting_for(key)
            return bool(self._pending) and waiting is not None and self._has_enough(waiting) and self.force_complete()

    def _waiting_for(self, key: Hashable) -> _Waiting | None:
        waiting = self._waiting.get(key)
        if waiting is None and self._watch is not None:
            fetch = self._watch.fetch_of(key)  # type: ignore[arg-type]  # a watch announces partitions
            if fetch is not None and fetch not in self._unknown:
                waiting = self._waiting[key] = _Waiting(fetch, None)
        return waiting

    def _has_enough(self, waiting: _Waiting) -> bool:
        """Look at one partition; return whether there is enough in all now."""
        available_bytes = self._available(waiting)
        self._available_bytes += available_bytes - waiting.available_bytes
        waiting.available_bytes = available_bytes
        return self._available_bytes >= self._params.min_bytes

    def _available(self, waiting: _Waiting) -> int:
        """Return how many bytes there are for one partition, or ``min_bytes`` when it changed otherwise."""
        enough = self._params.min_bytes
        fetch = waiting.fetch
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
            if waiting.start is None:
                waiting.start = partition.log.offset_metadata(fetch.fetch_offset)
            return self._bytes_between(waiting.start, fetch, partition, end_offset)
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

    @override
    def on_complete(self) -> None:
        """Read again, and resolve the future."""
        if self._watch is not None:
            self._watch.wait_no_more(self.check)
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
