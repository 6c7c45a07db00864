"""Fetch sessions (KIP-227): a consumer sends its partitions once, and responses include only changed ones.

How a request's session id and epoch are handled:

    epoch 0            close the session with the id, start a new one   -> all partitions, and a session id if there is room
    epoch -1           close the session with the id, start none        -> all partitions, session id 0
    id, its epoch      add, change and remove partitions                -> changed partitions
    id, other epoch    INVALID_FETCH_SESSION_EPOCH
    unknown id         FETCH_SESSION_ID_NOT_FOUND

Epochs are 1, 2, ..., 2^31-1, then 1 again.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.replication.partition.fetch_data import PartitionFetch, PartitionRead
from twisted_kafka.replication.partition.fetch_watch import FetchWatch
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
"""Any session may evict one that was not used for this time, and a larger session one that has existed for this time."""

MOST_PARTITIONS: Final = 200_000
"""Most partitions of all sessions together: each takes some 400 bytes, a kilobyte if it is watched. A fetch beyond them gets no
session, and works without."""

LEAST_WATCHED: Final = 16
"""A consumer's session with fewer partitions reads all of them for each fetch, which costs less than watching them."""

_MAX_INT: Final = 2**31 - 1

PartitionKey = tuple[str | bytes, int]
"""Topic (id if the session uses topic ids, otherwise name) and partition."""

FetchedPartitions = Sequence[tuple[PartitionFetch, PartitionRead]]
"""Partitions of a fetch, each with the result of reading it."""


def next_epoch(epoch: int) -> int:
    """Return the epoch after ``epoch``."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_INT else epoch + 1


class CachedPartition(PartitionFetch):
    """A partition of a session: the last request for it, and the offsets last sent to the client."""

    __slots__ = ("sent_high_watermark", "sent_log_start_offset")

    def __init__(self, fetch: PartitionFetch) -> None:
        super().__init__(fetch.topic_partition, fetch.topic_id, fetch.partition, fetch.fetch_offset, fetch.max_bytes)
        self.update(fetch)
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def update(self, fetch: PartitionFetch) -> None:
        """Take over the parameters of a newer fetch."""
        self.fetch_offset = fetch.fetch_offset
        self.max_bytes = fetch.max_bytes
        self.log_start_offset = fetch.log_start_offset
        self.current_leader_epoch = fetch.current_leader_epoch
        self.last_fetched_epoch = fetch.last_fetched_epoch

    def is_news(self, read: PartitionRead) -> bool:
        """Return the result of ``update_sent``, but remember nothing."""
        return (
            bool(read.size_bytes)
            or read.diverging_epoch is not None
            or read.preferred_read_replica >= 0
            or read.high_watermark != self.sent_high_watermark
            or read.log_start_offset != self.sent_log_start_offset
            or bool(read.error)
        )

    def update_sent(self, read: PartitionRead) -> bool:
        """Return whether the response has to include this read, and remember the offsets sent."""
        changed = bool(read.size_bytes) or read.diverging_epoch is not None or read.preferred_read_replica >= 0
        if read.high_watermark != self.sent_high_watermark:
            self.sent_high_watermark = read.high_watermark
            changed = True
        if read.log_start_offset != self.sent_log_start_offset:
            self.sent_log_start_offset = read.log_start_offset
            changed = True
        if read.error:
            # So that the first read without error is included, too.
            self.sent_high_watermark = -1
            changed = True
        return changed


class FetchSession:
    """The partitions of one session, in the order in which they are read; ``lock`` guards all attributes."""

    __slots__ = (
        "_watch",
        "cached_size",
        "created_ms",
        "epoch",
        "id",
        "is_privileged",
        "last_used_ms",
        "lock",
        "partitions",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
        partitions: dict[PartitionKey, CachedPartition],
        watch: FetchWatch | None = None,
    ) -> None:
        """``watch`` chooses the partitions to read; without it, each fetch reads all."""
        self.id = session_id
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.cached_size = len(partitions)
        self.lock = machine.Lock()
        self._watch: FetchWatch | None = None
        if watch is not None:
            self.watch_with(watch)

    @property
    def watch(self) -> FetchWatch | None:
        """The watch, if the session has one."""
        return self._watch

    def watch_with(self, watch: FetchWatch) -> None:
        """Read only partitions that the watch chooses from now on; call it with the lock held."""
        self._watch = watch
        for cached in self.partitions.values():
            watch.add(cached)

    def to_read(self) -> list[PartitionFetch]:
        """Return the partitions to read for a fetch: all, or the possibly changed ones."""
        if self._watch is None:
            return list(self.partitions.values())
        taken = self._watch.take()
        return taken + self._watch.take_in_turn(taken)

    def close(self) -> None:
        """Forget the partitions, as the session is over."""
        if self._watch is not None:
            self._watch.close()

    def key(self, fetch: PartitionFetch) -> PartitionKey:
        """Return the key of the fetch's partition."""
        return _key(fetch, self.uses_topic_ids)

    def update(self, fetches: Iterable[PartitionFetch], forgotten: Iterable[PartitionKey]) -> None:
        """Add or change partitions, and remove the forgotten ones; call it with the lock held."""
        partitions, watch = self.partitions, self._watch
        known: list[PartitionFetch] = []
        for fetch in fetches:
            key = _key(fetch, self.uses_topic_ids)
            cached = partitions.get(key)
            if cached is not None:
                cached.update(fetch)
                known.append(cached)
                continue
            cached = partitions[key] = CachedPartition(fetch)
            if watch is not None:
                watch.add(cached)
        if watch is not None:
            watch.unsettle_all(known)
        for key in forgotten:
            cached = self.partitions.pop(key, None)
            if cached is not None and self._watch is not None:
                self._watch.remove(cached)

    def changed(
        self, fetches: Sequence[PartitionFetch], reads: Sequence[PartitionRead]
    ) -> list[tuple[PartitionFetch, PartitionRead]]:
        """Return the partitions to include in the response; call it with the lock held.

        Partitions that returned records move to the end: the next fetch reads others first, as its bytes are limited.
        """
        changed: list[tuple[PartitionFetch, PartitionRead]] = []
        moving: list[PartitionFetch] = []
        for fetch, read in zip(fetches, reads, strict=True):
            assert isinstance(fetch, CachedPartition)
            if fetch.update_sent(read):
                changed.append((fetch, read))
                if read.size_bytes:
                    moving.append(fetch)
        if self._watch is not None:
            self._watch.postpone(moving)
        elif len(moving) < len(self.partitions):
            self._move_to_end(moving)
        return changed

    def _move_to_end(self, fetches: Iterable[PartitionFetch]) -> None:
        for fetch in fetches:
            key = self.key(fetch)
            cached = self.partitions.pop(key, None)
            if cached is not None:
                self.partitions[key] = cached


class FetchSessionCache:
    """All sessions of the broker, at most ``max_entries`` (``max.incremental.fetch.session.cache.slots``) and ``MOST_PARTITIONS``.

    If the cache is full, a new session evicts one that was not used for ``eviction_ms``, otherwise a smaller one that has existed
    that long. Followers have priority: their sessions may evict consumers' sessions of any age.
    """

    def __init__(self, max_entries: int, clock: IClock, metrics: MetricsRegistry, eviction_ms: int = EVICTION_MS) -> None:
        self._max_entries = max_entries
        self._eviction_ms = eviction_ms
        self._clock = clock
        self._lock = machine.Lock()
        # Least recently used first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partitions = 0
        self._random = machine.chance
        self._evictions = metrics.meter("FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec")
        metrics.gauge("FetchSessionCache", "NumIncrementalFetchSessions", lambda: len(self._sessions))
        metrics.gauge("FetchSessionCache", "NumIncrementalFetchPartitionsCached", self.partition_count)

    def __len__(self) -> int:
        return len(self._sessions)

    def partition_count(self) -> int:
        """Return the number of partitions in all sessions."""
        return self._partitions

    def get(self, session_id: int) -> FetchSession | None:
        """Return the session with the id."""
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> FetchSession | None:
        """Remove and return the session with the id."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is not None:
                self._drop(session)
        return session

    def _drop(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self._partitions -= session.cached_size
        session.close()

    def has_room(self, session: FetchSession, fetches: Sequence[PartitionFetch]) -> bool:
        """Whether the cache has room for the fetches that are new to the session. Call it with the session's lock held."""
        if self._partitions + len(fetches) <= MOST_PARTITIONS:
            return True
        return self._partitions + sum(session.key(fetch) not in session.partitions for fetch in fetches) <= MOST_PARTITIONS

    def touch(self, session: FetchSession) -> None:
        """Mark the session as just used."""
        now_ms = self._clock.wall_ms()
        with self._lock:
            session.last_used_ms = now_ms
            if session.watch is not None:
                session.watch.last_fetch_ms = now_ms
            if session.id in self._sessions:
                self._partitions += len(session.partitions) - session.cached_size
                session.cached_size = len(session.partitions)
                self._sessions.move_to_end(session.id)

    def maybe_create(
        self, fetches: Sequence[PartitionFetch], is_privileged: bool, uses_topic_ids: bool, watch: FetchWatch | None = None
    ) -> FetchSession | None:
        """Create a session for these partitions; None if there is no room."""
        now_ms = self._clock.wall_ms()
        with self._lock:
            while len(self._sessions) >= self._max_entries or self._partitions + len(fetches) > MOST_PARTITIONS:
                if not self._evict(is_privileged, len(fetches), now_ms):
                    return None
            session_id = self._random.randrange(1, _MAX_INT)
            while session_id in self._sessions:
                session_id = self._random.randrange(1, _MAX_INT)
            partitions = {_key(fetch, uses_topic_ids): CachedPartition(fetch) for fetch in fetches}
            session = FetchSession(session_id, is_privileged, uses_topic_ids, now_ms, partitions, watch)
            self._sessions[session_id] = session
            self._partitions += session.cached_size
            return session

    def _evict(self, is_privileged: bool, size: int, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            victim = oldest
        else:
            evictable = [session for session in self._sessions.values() if self._is_evictable(session, is_privileged, now_ms)]
            if not evictable:
                return False
            victim = min(evictable, key=_rank)
            if (is_privileged, size, 0) < _rank(victim):
                return False
        self._drop(victim)
        self._evictions.mark(1)
        return True

    def _is_evictable(self, session: FetchSession, by_privileged: bool, now_ms: int) -> bool:
        if now_ms - session.created_ms > self._eviction_ms:
            return True
        return by_privileged and not session.is_privileged


def _key(fetch: PartitionFetch, uses_topic_ids: bool) -> PartitionKey:
    if uses_topic_ids:
        return fetch.topic_id, fetch.partition
    assert fetch.topic_partition is not None, "a fetch without topic ids names its topics"
    return fetch.topic_partition


def _rank(session: FetchSession) -> tuple[bool, int, int]:
    return session.is_privileged, session.cached_size, session.id
