"""Fetch sessions (KIP-227): a consumer names its partitions once and hears only of those with news.

What may follow what, by the session id and epoch of a request:

    epoch 0            begins a new session; one that is named is closed       -> all partitions, and a session id if there is room
    epoch -1           no session; one that is named is closed                 -> all partitions, session id 0
    id, its epoch      the next of a session: changes to the partitions        -> partitions with news
    id, other epoch    INVALID_FETCH_SESSION_EPOCH
    unknown id         FETCH_SESSION_ID_NOT_FOUND

Epochs go 1, 2, ... and after 2^31-1 again to 1.
"""

import random
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.replication.fetch_data import PartitionFetch, PartitionRead
from twisted_kafka.timing.clock import IClock

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
"""A session that was not used for so long may be evicted by any other, and one that lives so long by a larger one."""

_MAX_INT: Final = 2**31 - 1

PartitionKey = tuple[str | bytes, int]
"""Topic (id where the session uses ids, else name) and partition."""

FetchedPartitions = Sequence[tuple[PartitionFetch, PartitionRead]]
"""Partitions of a fetch, each with what was read from it."""


def next_epoch(epoch: int) -> int:
    """Return the epoch that follows in a session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_INT else epoch + 1


class CachedPartition(PartitionFetch):
    """A partition of a session: what is asked of it, and what the client was last told."""

    __slots__ = ("sent_high_watermark", "sent_log_start_offset")

    def __init__(self, fetch: PartitionFetch) -> None:
        super().__init__(fetch.topic_partition, fetch.topic_id, fetch.partition, fetch.fetch_offset, fetch.max_bytes)
        self.update(fetch)
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def update(self, fetch: PartitionFetch) -> None:
        """Ask as ``fetch`` does from now on."""
        self.fetch_offset = fetch.fetch_offset
        self.max_bytes = fetch.max_bytes
        self.log_start_offset = fetch.log_start_offset
        self.current_leader_epoch = fetch.current_leader_epoch
        self.last_fetched_epoch = fetch.last_fetched_epoch

    def update_sent(self, read: PartitionRead) -> bool:
        """Tell whether the client has to hear of this read, and note what it will have heard."""
        news = bool(read.size_bytes) or read.diverging_epoch is not None
        if read.high_watermark != self.sent_high_watermark:
            self.sent_high_watermark = read.high_watermark
            news = True
        if read.log_start_offset != self.sent_log_start_offset:
            self.sent_log_start_offset = read.log_start_offset
            news = True
        if read.error:
            # When the error is gone, that is news again.
            self.sent_high_watermark = -1
            news = True
        return news


class FetchSession:
    """The partitions of one session, in the order in which they are read; its lock guards everything in it."""

    __slots__ = (
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
    ) -> None:
        self.id = session_id
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.cached_size = len(partitions)
        self.lock = threading.Lock()

    def key(self, fetch: PartitionFetch) -> PartitionKey:
        """Return what the partition is found by."""
        return _key(fetch, self.uses_topic_ids)

    def update(self, fetches: Iterable[PartitionFetch], forgotten: Iterable[PartitionKey]) -> None:
        """Add or change partitions, and forget some; under the lock."""
        for fetch in fetches:
            key = self.key(fetch)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(fetch)
            else:
                cached.update(fetch)
        for key in forgotten:
            self.partitions.pop(key, None)

    def changed(
        self, fetches: Sequence[PartitionFetch], reads: Sequence[PartitionRead]
    ) -> list[tuple[PartitionFetch, PartitionRead]]:
        """Return what the client has to hear; under the lock.

        Partitions that gave records go to the end, so that next time others are read first within the same budget of bytes.
        """
        changed: list[tuple[PartitionFetch, PartitionRead]] = []
        for fetch, read in zip(fetches, reads, strict=True):
            assert isinstance(fetch, CachedPartition)
            if fetch.update_sent(read):
                changed.append((fetch, read))
                if read.size_bytes and len(self.partitions) > 1:
                    key = self.key(fetch)
                    if self.partitions.pop(key, None) is not None:
                        self.partitions[key] = fetch
        return changed


class FetchSessionCache:
    """All sessions of the broker, at most ``max_entries`` (``max.incremental.fetch.session.cache.slots``).

    When it is full a new session takes the place of one that was not used for ``eviction_ms``; else of a smaller one that is at
    least that old. Followers' sessions go before consumers': they may evict consumers' sessions of any age.
    """

    def __init__(self, max_entries: int, clock: IClock, metrics: MetricsRegistry, eviction_ms: int = EVICTION_MS) -> None:
        self._max_entries = max_entries
        self._eviction_ms = eviction_ms
        self._clock = clock
        self._lock = threading.Lock()
        # In order of use: the first is the one that was not used for longest.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._random = random.Random()
        self._evictions = metrics.meter("FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec")
        metrics.gauge("FetchSessionCache", "NumIncrementalFetchSessions", lambda: len(self._sessions))
        metrics.gauge("FetchSessionCache", "NumIncrementalFetchPartitionsCached", self.partition_count)

    def __len__(self) -> int:
        return len(self._sessions)

    def partition_count(self) -> int:
        """Return how many partitions there are in all sessions."""
        with self._lock:
            return sum(session.cached_size for session in self._sessions.values())

    def get(self, session_id: int) -> FetchSession | None:
        """Return the session of that id."""
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> FetchSession | None:
        """Close the session of that id."""
        with self._lock:
            return self._sessions.pop(session_id, None)

    def touch(self, session: FetchSession) -> None:
        """Note that the session was used."""
        now_ms = self._clock.wall_ms()
        with self._lock:
            session.last_used_ms = now_ms
            session.cached_size = len(session.partitions)
            if session.id in self._sessions:
                self._sessions.move_to_end(session.id)

    def maybe_create(self, fetches: Sequence[PartitionFetch], is_privileged: bool, uses_topic_ids: bool) -> FetchSession | None:
        """Begin a session for these partitions; None when there is no room."""
        now_ms = self._clock.wall_ms()
        with self._lock:
            if len(self._sessions) >= self._max_entries and not self._evict(is_privileged, len(fetches), now_ms):
                return None
            session_id = self._random.randrange(1, _MAX_INT)
            while session_id in self._sessions:
                session_id = self._random.randrange(1, _MAX_INT)
            partitions = {_key(fetch, uses_topic_ids): CachedPartition(fetch) for fetch in fetches}
            session = FetchSession(session_id, is_privileged, uses_topic_ids, now_ms, partitions)
            self._sessions[session_id] = session
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
        del self._sessions[victim.id]
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
