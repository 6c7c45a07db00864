"""Up to where a partition is committed, as its leader sees the followers' fetches."""

from pathlib import Path

import pytest

from tests.support.logs import batch
from tests.support.replication_harness import BROKER, OTHER, Harness, follower_fetch, follower_fetches
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import NotLeaderOrFollowerError
from twisted_kafka.replication.partition.fetch_data import FetchParams
from twisted_kafka.replication.partition.replica import UNKNOWN_OFFSET, Replica

BOTH = (BROKER, OTHER)
MAX_LAG_MS = 30_000


@pytest.fixture
def h(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path, replica_lag_time_max_ms=MAX_LAG_MS)
    harness.advance_ms(10 * MAX_LAG_MS)  # the clock begins at 0, when everybody seems to have caught up
    return harness


def test_fewer_in_sync_replicas_than_the_minimum_commit_nothing(h: Harness) -> None:
    partition = h.lead(config={"min.insync.replicas": "2"}, replicas=BOTH)
    h.append(b"a")
    follower_fetches(h, 1)
    assert partition.log.high_watermark == 1
    h.order(replicas=BOTH, isr=(BROKER,), version=1)
    h.advance_ms(2 * MAX_LAG_MS)
    _, has_moved = partition.append_as_leader(batch(b"b"), AppendOrigin.CLIENT, 1)
    assert (has_moved, partition.log.high_watermark) == (False, 1)
    h.order(replicas=BOTH, version=2)
    follower_fetches(h, 2)
    assert partition.log.high_watermark == 2


def test_a_follower_that_has_nearly_caught_up_is_waited_for(h: Harness) -> None:
    partition = h.lead(replicas=BOTH, isr=(BROKER,))
    h.append(b"a")
    assert partition.log.high_watermark == 1
    follower_fetches(h, 1)
    h.append(b"b")
    assert partition.log.high_watermark == 1
    h.advance_ms(MAX_LAG_MS)
    h.append(b"c")
    assert partition.log.high_watermark == 1
    h.advance_ms(1)
    h.append(b"d")
    assert partition.log.high_watermark == 4


def test_a_follower_that_has_not_everything_has_not_caught_up(h: Harness) -> None:
    partition = h.lead(replicas=BOTH, isr=(BROKER,))
    h.append(b"a")
    h.append(b"b")
    follower_fetches(h, 1)
    assert partition.remote_replicas[OTHER].last_caught_up_ms == 0
    h.advance_ms(5)
    follower_fetches(h, 2)
    assert partition.remote_replicas[OTHER].last_caught_up_ms == h.clock.wall_ms()


def test_a_fetch_says_whether_it_moved_a_watermark(h: Harness) -> None:
    partition = h.lead(replicas=BOTH)
    h.append(b"a", b"b")
    params = FetchParams(OTHER, 0, 1, 1 << 20, FetchIsolation.LOG_END, 12)

    def fetched(offset: int, start: int) -> bool:
        return partition.follower_fetched(params, follower_fetch(offset, log_start_offset=start), 2)

    assert fetched(0, 0), "the low watermark was not known before"
    assert not fetched(0, 0)
    assert fetched(2, 0), "the high watermark"
    assert not fetched(2, 0)
    partition.delete_records(1)
    assert fetched(2, 1), "the low watermark"
    assert not fetched(2, 1)


def test_a_fetch_that_was_read_before_two_changes_of_the_leader_commits_nothing(h: Harness) -> None:
    partition = h.lead(replicas=BOTH, epoch=1)
    h.append(b"a", b"b")
    params = FetchParams(OTHER, 0, 1, 1 << 20, FetchIsolation.LOG_END, 12)
    fetch = follower_fetch(2, epoch=1)
    read = partition.read(fetch, params, 1 << 20, min_one_message=True)
    # The handler stands still here. The other broker leads meanwhile, and has other records than these two.
    h.order(leader=OTHER, replicas=BOTH, epoch=2, version=1)
    partition.truncate_to(0, 2)
    h.order(replicas=BOTH, epoch=3, version=2)
    h.append(b"c", b"d")
    with pytest.raises(NotLeaderOrFollowerError):
        partition.follower_fetched(params, fetch, read.log_end_offset)
    assert partition.log.high_watermark == 0


class TestReplica:
    @pytest.fixture
    def replica(self) -> Replica:
        return Replica(OTHER)

    def test_it_has_caught_up_when_it_asks_for_the_end(self, replica: Replica) -> None:
        replica.fetched(5, 0, 100, 5)
        assert (replica.last_caught_up_ms, replica.log_end_offset) == (100, 5)
        assert replica.is_caught_up(5, 10**9, 1)
        assert replica.is_caught_up(9, 101, 1)
        assert not replica.is_caught_up(9, 102, 1)

    def test_it_had_caught_up_at_the_last_fetch_when_it_has_what_there_was_then(self, replica: Replica) -> None:
        replica.fetched(3, 0, 100, 5)
        assert replica.last_caught_up_ms == 0
        replica.fetched(5, 0, 200, 9)
        assert replica.last_caught_up_ms == 100
        replica.fetched(8, 0, 300, 12)
        assert replica.last_caught_up_ms == 100
        replica.fetched(12, 0, 400, 15)
        assert replica.last_caught_up_ms == 300

    def test_a_new_leader_knows_nothing_of_it(self, replica: Replica) -> None:
        replica.fetched(5, 2, 100, 5, broker_epoch=7)
        replica.reset(500, 9, in_sync=True, is_new_leader=True)
        assert (replica.log_end_offset, replica.log_start_offset, replica.broker_epoch) == (UNKNOWN_OFFSET, UNKNOWN_OFFSET, -1)
        assert (replica.last_caught_up_ms, replica.last_fetch_ms) == (500, 0)
        assert replica.last_fetch_leader_end_offset == UNKNOWN_OFFSET
        replica.reset(600, 9, in_sync=False, is_new_leader=True)
        assert replica.last_caught_up_ms == 0

    @pytest.mark.parametrize(("in_sync", "since_ms"), [(True, 500), (False, 0)])
    def test_the_same_leader_in_a_new_epoch_begins_from_its_end(self, replica: Replica, in_sync: bool, since_ms: int) -> None:
        replica.fetched(5, 2, 100, 5)
        replica.reset(500, 9, in_sync=in_sync, is_new_leader=False)
        assert (replica.log_end_offset, replica.last_fetch_leader_end_offset) == (5, 9)
        assert (replica.last_fetch_ms, replica.last_caught_up_ms) == (since_ms, since_ms)


def test_a_new_epoch_gives_followers_in_sync_time_to_fetch(h: Harness) -> None:
    partition = h.lead(replicas=BOTH)
    h.append(b"a")
    follower_fetches(h, 1)
    h.advance_ms(10 * MAX_LAG_MS)
    h.order(epoch=1, replicas=BOTH, version=1)
    replica = partition.remote_replicas[OTHER]
    assert replica.last_caught_up_ms == h.clock.wall_ms()
    assert replica.last_fetch_leader_end_offset == 1
