"""Share sessions: what a member may do, and what the broker keeps of it."""

import pytest

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import (
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)
from twisted_kafka.share import share_sessions
from twisted_kafka.share.share_sessions import FINAL_EPOCH, PartitionId, ShareSessionCache
from twisted_kafka.timing.clock import ManualClock

KEY = "group", "member"
MAX_INT = 2**31 - 1


def ids(*partitions: int) -> list[PartitionId]:
    return [(b"topic", partition) for partition in partitions]


@pytest.fixture
def registry() -> MetricsRegistry:
    return MetricsRegistry(ManualClock())


@pytest.fixture
def cache(registry: MetricsRegistry) -> ShareSessionCache:
    return ShareSessionCache(2, registry)


def counts(registry: MetricsRegistry) -> tuple[object, object]:
    return registry.value("ShareSessionCache", "ShareSessionsCount"), registry.value("ShareSessionCache", "SharePartitionsCount")


def test_partitions_are_added_and_forgotten(cache: ShareSessionCache, registry: MetricsRegistry) -> None:
    cache.fetch(KEY, 0, "connection", ids(0, 1, 1), ())
    session = cache.fetch(KEY, 1, "connection", ids(2), ids(0, 9))
    assert (list(session.partitions), counts(registry)) == (ids(1, 2), (1, 2))
    assert cache.acknowledge(KEY, 2) is session
    assert cache.end(session)
    assert not cache.end(session)
    assert counts(registry) == (0, 0)


def test_a_partition_that_is_added_and_forgotten_is_forgotten(cache: ShareSessionCache, registry: MetricsRegistry) -> None:
    cache.fetch(KEY, 0, "connection", ids(0, 1), ())
    session = cache.fetch(KEY, 1, "connection", ids(1, 2, 3), ids(1, 2))
    assert (list(session.partitions), counts(registry)) == (ids(0, 3), (1, 2))


def test_each_request_begins_with_another_partition(cache: ShareSessionCache) -> None:
    session = cache.fetch(KEY, 0, "connection", ids(0, 1, 2), ())
    firsts = []
    for epoch in (1, 2, 3):
        firsts.append(session.rotated()[0][1])
        cache.fetch(KEY, epoch, "connection", (), ())
    assert firsts == [0, 1, 2]


def test_a_member_that_begins_again_takes_no_more_room(cache: ShareSessionCache, registry: MetricsRegistry) -> None:
    sessions = {id(cache.fetch(KEY, 0, f"connection-{index}", ids(index), ())) for index in range(100)}
    assert (len(sessions), counts(registry)) == (1, (1, 1))


def test_epochs_begin_again_after_the_greatest(cache: ShareSessionCache) -> None:
    session = cache.fetch(KEY, 0, "connection", ids(0), ())
    session.epoch = MAX_INT
    cache.fetch(KEY, MAX_INT, "connection", (), ())
    assert session.epoch == 1


def test_wrong_epochs_and_unknown_members(cache: ShareSessionCache) -> None:
    with pytest.raises(ShareSessionNotFoundError):
        cache.fetch(KEY, 1, "connection", (), ())
    with pytest.raises(InvalidShareSessionEpochError):
        cache.acknowledge(KEY, 0)
    session = cache.fetch(KEY, 0, "connection", ids(0), ())
    for epoch in (2, -7):
        with pytest.raises(InvalidShareSessionEpochError):
            cache.fetch(KEY, epoch, "connection", ids(1), ())
    assert cache.fetch(KEY, FINAL_EPOCH, "connection", (), ()) is session


def test_sessions_and_partitions_are_limited(
    cache: ShareSessionCache, registry: MetricsRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_sessions, "MOST_PARTITIONS", 3)
    cache.fetch(KEY, 0, "connection", ids(0, 1), ())
    cache.fetch(("group", "other"), 0, "connection", ids(0), ())
    with pytest.raises(ShareSessionLimitReachedError):
        cache.fetch(("group", "third"), 0, "connection", (), ())
    with pytest.raises(ShareSessionLimitReachedError):
        cache.fetch(KEY, 1, "connection", ids(2, 3), ids(0))
    assert counts(registry) == (2, 2)


def test_the_ids_of_sessions_are_limited_in_characters(cache: ShareSessionCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "MOST_KEY_CHARACTERS", 100)
    long = "g" * 50, "m" * 50
    session = cache.fetch(long, 0, "connection", (), ())
    assert cache.fetch(long, 0, "connection", (), ()) is session
    with pytest.raises(ShareSessionLimitReachedError):
        cache.fetch(KEY, 0, "connection", (), ())
    assert cache.end(session)
    cache.fetch(KEY, 0, "connection", (), ())
