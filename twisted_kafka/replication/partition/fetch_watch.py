"""The changed partitions of a session of fetches: its fetches read only these.

A follower, or a consumer of many partitions, fetches all of them many times a second, and few of them change. A ``FetchWatch``
has the partitions to read for the next fetch. A partition is settled, and needs no reading, once it was read without an error and
its reader has all of its records, all of them committed; a follower must be in sync, too. Appends, moves of the high watermark and
changes of roles are announced to ``FetchWatches``, and unsettle it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from twisted.logger import Logger

from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import PartitionFetch
from twisted_kafka.system import machine

READ_IN_TURN: Final = 8
"""How many settled partitions each fetch reads nevertheless, in turn: retention moves beginnings of logs and announces nothing."""

_log = Logger()


OnChange = Callable[[TopicPartition], object]


class FetchWatches:
    """The watches of all sessions that have one, by partition. Thread-safe."""

    __slots__ = ("_by_partition", "_lock")

    def __init__(self) -> None:
        self._lock = machine.Lock()
        self._by_partition: dict[TopicPartition, dict[FetchWatch, None]] = {}

    def changed(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Let the next fetch of each session read the partitions; complete fetches that wait for them."""
        if self._by_partition:  # otherwise there are no watches, and no need to hash
            for topic_partition in topic_partitions:
                for watch in tuple(self._by_partition.get(topic_partition, ())):  # one step, so that others may add meanwhile
                    watch.changed(topic_partition)

    def add(self, topic_partition: TopicPartition, watch: "FetchWatch") -> None:
        """Report changes of a partition to the watch."""
        with self._lock:
            self._by_partition.setdefault(topic_partition, {})[watch] = None

    def remove(self, topic_partition: TopicPartition, watch: "FetchWatch") -> None:
        """Do so no more."""
        with self._lock:
            watches = self._by_partition.get(topic_partition)
            if watches is not None:
                watches.pop(watch, None)
                if not watches:
                    del self._by_partition[topic_partition]

    def __len__(self) -> int:
        return len(self._by_partition)


class FetchWatch:
    """The partitions of one session.

    The session adds, removes and takes partitions with its lock held. Any thread announces changes.
    """

    __slots__ = (
        "_fetches",
        "_in_turn",
        "_is_closed",
        "_lock",
        "_members",
        "_number",
        "_on_change",
        "_unsettled",
        "_watches",
        "last_fetch_ms",
    )

    def __init__(self, watches: FetchWatches) -> None:
        self._watches = watches
        self._fetches: dict[TopicPartition, PartitionFetch] = {}
        self._members: set[PartitionFetch] = set()
        self._unsettled: dict[PartitionFetch, None] = {}
        self._in_turn: OrderedDict[TopicPartition, None] = OrderedDict()
        self._is_closed = False
        self._number = 0
        self._lock = machine.Lock()
        self._on_change: OnChange | None = None
        self.last_fetch_ms = 0
        """When the last fetch arrived, by the wall clock. The follower had all of the settled partitions then."""

    def add(self, fetch: PartitionFetch) -> None:
        """Watch a partition, if it is known, and let the next fetch read it."""
        self._members.add(fetch)
        topic_partition = fetch.topic_partition
        if topic_partition is not None and self._fetches.get(topic_partition) is not fetch:
            # It may take the place of one with another topic id, which is removed next.
            if topic_partition not in self._fetches:
                self._watches.add(topic_partition, self)
            self._fetches[topic_partition] = fetch
            self._in_turn[topic_partition] = None
            if self._is_closed:  # the session ended while a request of it was under way
                self._fetches.pop(topic_partition, None)
                self._watches.remove(topic_partition, self)
        self.unsettle(fetch)

    def remove(self, fetch: PartitionFetch) -> None:
        """Watch a partition no more."""
        topic_partition = fetch.topic_partition
        if topic_partition is not None and self._fetches.get(topic_partition) is fetch:
            del self._fetches[topic_partition]
            self._watches.remove(topic_partition, self)
        self._members.discard(fetch)
        self._unsettled.pop(fetch, None)

    def close(self) -> None:
        """Stop watching all partitions, for good."""
        self._is_closed = True
        for fetch in list(self._fetches.values()):
            self.remove(fetch)

    def begin(self) -> int:
        """Return the number of a fetch that begins to wait."""
        self._number += 1
        return self._number

    def wait(self, on_change: OnChange) -> None:
        """Call ``on_change`` with each partition that changes; it replaces the function of an earlier fetch."""
        with self._lock:
            self._on_change = on_change

    def wait_no_more(self, on_change: OnChange) -> None:
        """Call ``on_change`` no more: its fetch is answered. A later fetch's function stays."""
        with self._lock:
            if self._on_change == on_change:
                self._on_change = None

    def is_last(self, number: int) -> bool:
        """Return whether no later fetch has begun to wait. A later fetch takes the changes of an earlier one."""
        return self._number == number

    def unsettle(self, fetch: PartitionFetch) -> None:
        """Let the next fetch read a partition."""
        self._unsettled[fetch] = None

    def postpone(self, fetches: Sequence[PartitionFetch]) -> None:
        """Let the next fetch read unsettled partitions after the others, because the bytes of a response are limited."""
        unsettled = self._unsettled
        if len(fetches) == len(unsettled):
            return  # there are no others
        for fetch in fetches:
            if fetch in unsettled:
                unsettled.pop(fetch, None)
                unsettled[fetch] = None

    def unsettle_all(self, fetches: Iterable[PartitionFetch]) -> None:
        """Let the next fetch read these partitions again."""
        self._unsettled.update(dict.fromkeys(fetches))

    def changed(self, topic_partition: TopicPartition) -> None:
        """Let the next fetch read a changed partition, and complete a waiting fetch if that is enough. Any thread may call this."""
        fetch = self._fetches.get(topic_partition)
        if fetch is None:
            return
        self._unsettled[fetch] = None
        on_change = self._on_change
        if on_change is not None:
            try:
                on_change(topic_partition)
            except Exception:  # noqa: BLE001 one follower's fetch must not fail the append
                _log.failure("Uncaught exception while completing a follower's fetch")

    def fetch_of(self, topic_partition: TopicPartition) -> PartitionFetch | None:
        """Return the session's fetch of a partition."""
        return self._fetches.get(topic_partition)

    @property
    def unsettled(self) -> list[PartitionFetch]:
        """The partitions that have to be read."""
        return list(self._unsettled)

    def take(self) -> list[PartitionFetch]:
        """Return the partitions to read now. What changes from now on is read for the next fetch, or when this one has waited.

        An earlier fetch of the session may unsettle what the session has removed since. It must not be read: the partition may be
        there again in another leader epoch, and the answer for the old one would end its copying.
        """
        unsettled = list(self._unsettled)
        for fetch in unsettled:
            self._unsettled.pop(fetch, None)
        return [fetch for fetch in unsettled if fetch in self._members]

    def take_in_turn(self, taken: Iterable[PartitionFetch]) -> list[PartitionFetch]:
        """Return the settled partitions whose turn to be read has come, without partitions in ``taken``."""
        chosen = set(taken)
        found: list[PartitionFetch] = []
        for _ in range(min(READ_IN_TURN, len(self._in_turn))):
            topic_partition, _ = self._in_turn.popitem(last=False)
            fetch = self._fetches.get(topic_partition)
            if fetch is not None:
                self._in_turn[topic_partition] = None
                if fetch not in chosen:
                    found.append(fetch)
        return found
