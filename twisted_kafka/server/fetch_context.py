"""The context of a fetch request in its session: the partitions to read, and those to include in the response (KIP-227)."""

from collections.abc import Callable, Sequence
from typing import Final

from typing_extensions import override

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import PartitionFetch, PartitionRead
from twisted_kafka.replication.partition.fetch_watch import FetchWatch, FetchWatches
from twisted_kafka.server.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    LEAST_WATCHED,
    CachedPartition,
    FetchedPartitions,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
    next_epoch,
)

NO_FETCHES: Final[tuple[PartitionFetch, ...]] = ()


class FetchContext:
    """A fetch without a session; the response includes all partitions (Kafka: ``SessionlessFetchContext``)."""

    __slots__ = ("error", "fetches", "session_id")

    has_session = False
    """Whether ``answer`` does more than ``peek``."""
    watch: FetchWatch | None = None
    """The watch that adds to ``fetches`` while the fetch waits."""

    def __init__(self, fetches: Sequence[PartitionFetch]) -> None:
        self.fetches = fetches
        self.session_id = INVALID_SESSION_ID
        self.error = 0

    def answer(self, reads: Sequence[PartitionRead]) -> FetchedPartitions:
        """Return the partitions to include in the response, and set its ``session_id`` and ``error``."""
        return list(zip(self.fetches, reads, strict=True))

    def peek(self, reads: Sequence[PartitionRead]) -> FetchedPartitions:
        """Return the partitions that ``answer`` would, without changing anything."""
        if len(reads) == 1:
            return [(self.fetches[0], reads[0])]  # in half the time
        return list(zip(self.fetches, reads, strict=True))

    def answer_nothing(self) -> None:
        """Set ``session_id`` and ``error`` for an empty response: the client is throttled, and its next fetch gets the records."""


class ErrorFetchContext(FetchContext):
    """A fetch with an invalid session id or epoch; nothing is read (Kafka: ``SessionErrorContext``)."""

    __slots__ = ()

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(NO_FETCHES)
        self.error = error


class FullFetchContext(FetchContext):
    """A fetch that starts a session if the cache has room (Kafka: ``FullFetchContext``)."""

    __slots__ = ("_cache", "_is_from_follower", "_is_watched", "_uses_topic_ids", "_watches")

    has_session = True

    def __init__(
        self,
        fetches: Sequence[PartitionFetch],
        cache: FetchSessionCache,
        watches: FetchWatches,
        is_from_follower: bool,
        uses_topic_ids: bool,
        is_watched: bool,
    ) -> None:
        super().__init__(fetches)
        self._watches = watches
        self._is_watched = is_watched
        self._cache = cache
        self._is_from_follower = is_from_follower
        self._uses_topic_ids = uses_topic_ids

    @override
    def answer(self, reads: Sequence[PartitionRead]) -> FetchedPartitions:
        """Return all partitions, and start the session."""
        watch = FetchWatch(self._watches) if self._is_watched else None
        session = self._cache.maybe_create(self.fetches, self._is_from_follower, self._uses_topic_ids, watch)
        if session is not None:
            self.session_id = session.id
            for cached, read in zip(session.partitions.values(), reads, strict=False):
                cached.update_sent(read)
        return list(zip(self.fetches, reads, strict=True))


class IncrementalFetchContext(FetchContext):
    """A fetch that continues its session (Kafka: ``IncrementalFetchContext``)."""

    __slots__ = ("_expected_epoch", "_session", "watch")

    has_session = True

    def __init__(self, session: FetchSession) -> None:
        """Create it with the session's lock held, after advancing the session's epoch."""
        super().__init__(session.to_read())
        self.watch = session.watch
        self.session_id = session.id
        self._session = session
        self._expected_epoch = session.epoch

    @override
    def answer(self, reads: Sequence[PartitionRead]) -> FetchedPartitions:
        """Return the changed partitions; none, and set an error, if another request has used the session in the meantime."""
        with self._session.lock:
            if self._session.epoch != self._expected_epoch:
                self.error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
                if self.watch is not None:  # the read data is not sent
                    self.watch.unsettle_all(self.fetches)
                return ()
            return self._session.changed(self.fetches, reads)

    @override
    def peek(self, reads: Sequence[PartitionRead]) -> FetchedPartitions:
        """Return the changed partitions."""
        with self._session.lock:
            pairs = zip(self.fetches, reads, strict=True)
            return [(fetch, read) for fetch, read in pairs if isinstance(fetch, CachedPartition) and fetch.is_news(read)]

    @override
    def answer_nothing(self) -> None:
        """Set an error if another request has used the session in the meantime."""
        with self._session.lock:
            if self.watch is not None:  # the read data is not sent
                self.watch.unsettle_all(self.fetches)
            if self._session.epoch != self._expected_epoch:
                self.error = ErrorCode.INVALID_FETCH_SESSION_EPOCH


class FetchManager:
    """Creates the context of each fetch (Kafka: ``FetchManager``)."""

    def __init__(
        self,
        cache: FetchSessionCache,
        topic_name: Callable[[bytes], str | None],
        watches: FetchWatches | None = None,
        *,
        watches_consumers: bool = False,
    ) -> None:
        """``topic_name`` returns the name of the topic with an id. Every changed partition is reported to ``watches``.

        ``watches_consumers``: whether an answer to a consumer can change only with its partitions. Then its sessions of
        ``LEAST_WATCHED`` partitions or more read only changed partitions, as followers' sessions do.
        """
        self._watches_consumers = watches_consumers
        self._cache = cache
        self._watches = FetchWatches() if watches is None else watches
        self._topic_name = topic_name

    def new_context(
        self,
        session_id: int,
        epoch: int,
        fetches: Sequence[PartitionFetch],
        forgotten: Sequence[PartitionKey],
        *,
        is_from_follower: bool,
        uses_topic_ids: bool,
    ) -> FetchContext:
        """Return the context of a request, after applying the request to its session."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                self._cache.remove(session_id)
            if epoch == FINAL_EPOCH:
                return FetchContext(_distinct(fetches, uses_topic_ids))
            distinct = _distinct(fetches, uses_topic_ids)
            is_watched = is_from_follower or self._is_worth_watching(len(distinct))
            return FullFetchContext(distinct, self._cache, self._watches, is_from_follower, uses_topic_ids, is_watched)
        session = self._cache.get(session_id)
        if session is None:
            return ErrorFetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        with session.lock:
            if session.epoch != epoch:
                return ErrorFetchContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            if session.uses_topic_ids != uses_topic_ids:
                return ErrorFetchContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
            if fetches and not self._cache.has_room(session, fetches):
                self._cache.remove(session_id)
                return ErrorFetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if fetches or forgotten:
                session.update(fetches, forgotten)
            if not session.partitions:
                self._cache.remove(session_id)
                return FetchContext(_distinct(fetches, uses_topic_ids))
            if session.watch is None and self._is_worth_watching(len(session.partitions)):
                session.watch_with(FetchWatch(self._watches))
            self._cache.touch(session)
            session.epoch = next_epoch(epoch)
            context = IncrementalFetchContext(session)
            for fetch in context.fetches:
                if fetch.topic_partition is None:
                    self._resolve(fetch)
                    if context.watch is not None:
                        context.watch.add(fetch)
        return context

    def _is_worth_watching(self, partitions: int) -> bool:
        return self._watches_consumers and partitions >= LEAST_WATCHED

    def _resolve(self, fetch: PartitionFetch) -> None:
        name = self._topic_name(fetch.topic_id)
        if name is not None:
            fetch.topic_partition = TopicPartition(name, fetch.partition)


def _distinct(fetches: Sequence[PartitionFetch], uses_topic_ids: bool) -> Sequence[PartitionFetch]:
    """Return the fetches without duplicates; of several for one partition, the last one counts."""
    if len(fetches) < 2:
        return fetches
    if uses_topic_ids:
        return list({(fetch.topic_id, fetch.partition): fetch for fetch in fetches}.values())
    return list({fetch.topic_partition: fetch for fetch in fetches}.values())
