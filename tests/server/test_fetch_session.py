"""KIP-227 without logs: reads are made up."""

from typing import Any

import pytest

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import PartitionFetch, PartitionRead
from twisted_kafka.server import fetch_session
from twisted_kafka.server.fetch_context import (
    ErrorFetchContext,
    FetchContext,
    FetchManager,
    FullFetchContext,
    IncrementalFetchContext,
)
from twisted_kafka.server.fetch_session import EVICTION_MS, LEAST_WATCHED, FetchSessionCache, next_epoch
from twisted_kafka.timing.clock import ManualClock

NO_ID = bytes(16)


class Sessions:
    def __init__(self, slots: int = 10) -> None:
        self.clock = ManualClock()
        self.metrics = MetricsRegistry(self.clock)
        self.cache = FetchSessionCache(slots, self.clock, self.metrics)
        self.names = {b"a" * 16: "a", b"b" * 16: "b"}
        self.manager = FetchManager(self.cache, self.names.get)

    def context(
        self,
        session_id: int,
        epoch: int,
        fetches: Any = (),
        forgotten: list[tuple[str, int]] | tuple[()] = (),
        *,
        follower: bool = False,
        ids: bool = False,
    ) -> IncrementalFetchContext | FetchContext | FullFetchContext | ErrorFetchContext:
        return self.manager.new_context(
            session_id, epoch, list(fetches), list(forgotten), is_from_follower=follower, uses_topic_ids=ids
        )

    def begin(self, *fetches: Any, session_id: int = 0, reads: Any = None, **how: Any) -> int:
        """Begin a session; return its id."""
        context = self.context(session_id, 0, fetches, **how)
        context.answer(reads or [read() for _ in fetches])
        return context.session_id

    def go_on(
        self,
        session_id: int,
        epoch: int,
        reads: dict[str, PartitionRead] | None,
        fetches: tuple[()] = (),
        forgotten: tuple[()] = (),
        **how: Any,
    ) -> Any:
        """Send the next request of a session; return the names of the partitions answered, or the error."""
        context = self.context(session_id, epoch, fetches, forgotten, **how)
        news = context.answer([reads[name(fetch)] for fetch in context.fetches] if reads is not None else [])
        return context.error or [name(fetch) for fetch, _ in news]


def name(fetch: Any) -> str:
    return str(fetch.topic_partition)


def ask(topic: str = "a", partition: int = 0, offset: int = 0) -> PartitionFetch:
    return PartitionFetch(TopicPartition(topic, partition), NO_ID, partition, offset, 1000)


def by_id(topic_id: bytes, topic: str | None = None) -> PartitionFetch:
    return PartitionFetch(None if topic is None else TopicPartition(topic, 0), topic_id, 0, 0, 1000)


def read(high_watermark: int = 10, *, size: int = 0, error: int = 0, start: int = 0, diverging: Any = None) -> PartitionRead:
    result = PartitionRead(error, high_watermark, high_watermark, start)
    result.size_bytes = size
    result.diverging_epoch = diverging
    return result


@pytest.fixture
def s() -> Sessions:
    return Sessions()


def test_epochs_go_round_without_zero() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, 2**31 - 1, -1)] == [1, 2, 1, -1]


def test_a_full_fetch_answers_all_and_begins_a_session(s: Sessions) -> None:
    context = s.context(0, 0, [ask("a"), ask("b")])
    assert len(context.answer([read(), read()])) == 2
    assert context.session_id > 0
    assert len(s.cache) == 1
    assert s.cache.partition_count() == 2


def test_without_session(s: Sessions) -> None:
    context = s.context(0, -1, [ask()])
    assert len(context.answer([read()])) == 1
    assert context.session_id == 0
    assert len(s.cache) == 0


def test_unchanged_partitions_are_left_out(s: Sessions) -> None:
    session = s.begin(ask("a"), ask("b"))
    same = {"a-0": read(), "b-0": read()}
    assert s.go_on(session, 1, same) == []
    assert s.go_on(session, 2, {**same, "b-0": read(11)}) == ["b-0"]
    assert s.go_on(session, 3, {"a-0": read(), "b-0": read(11, size=5)}) == ["b-0"]
    assert s.go_on(session, 4, {"a-0": read(start=1), "b-0": read(11)}) == ["a-0"]
    assert s.go_on(session, 5, {"a-0": read(start=1), "b-0": read(11, diverging=(1, 2))}) == ["b-0"]


def test_an_error_is_told_each_time_and_its_end_once(s: Sessions) -> None:
    session = s.begin(ask("a"))
    failed = {"a-0": read(-1, error=6)}
    assert s.go_on(session, 1, failed) == ["a-0"]
    assert s.go_on(session, 2, failed) == ["a-0"]
    assert s.go_on(session, 3, {"a-0": read()}) == ["a-0"]
    assert s.go_on(session, 4, {"a-0": read()}) == []


def test_partitions_that_gave_records_go_to_the_end(s: Sessions) -> None:
    session = s.begin(ask("a"), ask("b"))
    reads = {"a-0": read(size=9), "b-0": read()}
    s.go_on(session, 1, reads)
    assert [name(fetch) for fetch in s.context(session, 2).fetches] == ["b-0", "a-0"]


def test_partitions_are_added_changed_and_forgotten(s: Sessions) -> None:
    session = s.begin(ask("a"), ask("b"))
    context = s.context(session, 1, [ask("a", offset=7), ask("c")], [("b", 0)])
    assert [(name(fetch), fetch.fetch_offset) for fetch in context.fetches] == [("a-0", 7), ("c-0", 0)]
    assert s.cache.partition_count() == 2


def test_forgetting_all_ends_the_session(s: Sessions) -> None:
    session = s.begin(ask("a"))
    context = s.context(session, 1, [], [("a", 0)])
    assert (context.fetches, context.error, context.session_id) == ([], 0, 0)
    assert len(s.cache) == 0


def test_errors_of_sessions(s: Sessions) -> None:
    session = s.begin(ask())
    assert s.go_on(session + 1, 1, None) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert s.go_on(session, 2, None) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert s.go_on(session, 1, None, ids=True) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert s.go_on(session, 1, {"a-0": read()}) == []
    assert s.go_on(session, 1, None) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_parked_fetch_whose_session_went_on_is_told_so(s: Sessions) -> None:
    session = s.begin(ask())
    parked = s.context(session, 1)
    s.go_on(session, 2, {"a-0": read()})
    assert parked.answer([read(11)]) == ()
    assert parked.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_closes_the_session_that_it_names(s: Sessions, epoch: int) -> None:
    session = s.begin(ask())
    s.context(session, epoch, [ask()])
    assert s.go_on(session, 1, None) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_partition_twice_in_a_request_counts_once(s: Sessions) -> None:
    context = s.context(0, 0, [ask(offset=1), ask(offset=2)])
    assert [fetch.fetch_offset for fetch in context.fetches] == [2]


def test_topic_ids_are_resolved_when_the_topic_appears(s: Sessions) -> None:
    unknown = b"c" * 16
    session = s.begin(by_id(b"a" * 16, "a"), by_id(unknown), ids=True)
    assert [fetch.topic_partition for fetch in s.context(session, 1, ids=True).fetches][1] is None
    s.names[unknown] = "c"
    assert [name(fetch) for fetch in s.context(session, 2, ids=True).fetches] == ["a-0", "c-0"]


class TestEviction:
    def test_no_room_no_session(self) -> None:
        s = Sessions(slots=0)
        assert s.begin(ask()) == 0

    def test_a_full_cache_keeps_what_is_in_use(self) -> None:
        s = Sessions(slots=1)
        first = s.begin(ask())
        assert s.begin(ask("b"), ask("c")) == 0
        assert s.cache.get(first) is not None

    def test_one_that_was_not_used_for_long_goes(self) -> None:
        s = Sessions(slots=2)
        first, second = s.begin(ask()), s.begin(ask())
        s.clock.advance_ms(EVICTION_MS)
        s.go_on(first, 1, {"a-0": read()})
        s.clock.advance_ms(1)
        third = s.begin(ask())
        assert third
        assert [s.cache.get(session) is not None for session in (first, second, third)] == [True, False, True]
        assert s.metrics.value("FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec") == 1

    def test_an_old_one_that_is_in_use_gives_way_to_a_larger_only(self) -> None:
        s = Sessions(slots=1)
        old = s.begin(ask("a"), ask("b"))
        s.clock.advance_ms(EVICTION_MS + 1)
        s.go_on(old, 1, {"a-0": read(), "b-0": read()})
        assert s.begin(ask("x")) == 0
        assert s.begin(ask("x"), ask("y"), ask("z"))
        assert s.cache.get(old) is None

    def test_a_follower_evicts_consumers_of_any_age_and_not_the_other_way_round(self) -> None:
        s = Sessions(slots=1)
        s.begin(ask("a"), ask("b"), ask("c"))
        follower = s.begin(ask("a"), follower=True)
        assert follower
        s.clock.advance_ms(EVICTION_MS + 1)
        s.go_on(follower, 1, {"a-0": read()}, follower=True)
        assert s.begin(*[ask(str(number)) for number in range(9)]) == 0

    def test_the_gauges(self, s: Sessions) -> None:
        s.begin(ask("a"), ask("b"))
        s.begin(ask("a"))
        names = ("NumIncrementalFetchSessions", "NumIncrementalFetchPartitionsCached")
        assert [s.metrics.value("FetchSessionCache", name) for name in names] == [2, 3]


def test_partitions_of_all_sessions_are_limited(s: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MOST_PARTITIONS", 5)
    first = s.begin(ask("a"), ask("a", 1), ask("a", 2))
    assert first
    assert s.begin(ask("b"), ask("b", 1), ask("b", 2)) == 0, "it works without a session"
    second = s.begin(ask("b"), ask("b", 1))
    assert second
    assert s.cache.partition_count() == 5
    changed = s.context(second, 1, [ask("b"), ask("b", 1)])
    assert changed.error == 0, "nothing is added"
    changed.answer([read(), read()])
    assert s.context(second, 2, [ask("b", 2)]).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert s.cache.partition_count() == 3
    s.clock.advance_ms(EVICTION_MS + 1)
    assert s.begin(ask("b"), ask("b", 1), ask("b", 2)), "the unused one makes room"
    assert s.cache.partition_count() == 3
    assert s.context(first, 1).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_watched_session_reads_again_what_was_not_sent() -> None:
    sessions = Sessions()
    sessions.manager = FetchManager(sessions.cache, sessions.names.get, watches_consumers=True)
    asked = [ask(partition=partition) for partition in range(LEAST_WATCHED)]
    session_id = sessions.begin(*asked)
    context = sessions.context(session_id, 1)
    assert len(context.fetches) == LEAST_WATCHED
    context.answer_nothing()
    assert len(sessions.context(session_id, 2).fetches) == LEAST_WATCHED
