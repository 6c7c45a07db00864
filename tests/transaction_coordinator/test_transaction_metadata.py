"""The functions from one state of a transactional id to the next: epochs up to the last, start times, and what is no transition."""

import pytest

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.transaction_coordinator.transaction_metadata import (
    LAST_EPOCH,
    MAX_EPOCH,
    NO_PRODUCER_ID,
    NO_START_MS,
    IllegalTransitionError,
    TransactionMetadata,
    completed,
    fenced,
    initialized,
    prepared,
    prepared_with_bump,
    with_partitions,
)
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def ongoing(epoch: int = 3, client_version: int = 0) -> TransactionMetadata:
    new = initialized("tx", None, Producer(7, epoch), 1000, 5)
    return with_partitions(new, [PARTITION], client_version, 10)


def test_a_transaction_begins_with_its_first_partition() -> None:
    new = initialized("tx", None, Producer(7, 3), 1000, 5)
    assert (new.state, new.start_ms, new.last_update_ms) == (TransactionState.EMPTY, NO_START_MS, 5)
    more = with_partitions(ongoing(), [OTHER], 0, 20)
    assert (more.start_ms, more.last_update_ms, more.partitions) == (10, 20, frozenset({PARTITION, OTHER}))
    again = with_partitions(completed(prepared(more, True, 30), 40), [OTHER], 0, 50)
    assert (again.start_ms, again.partitions) == (50, frozenset({OTHER}))


def test_a_transaction_times_out_after_its_timeout() -> None:
    assert [ongoing().is_timed_out(now_ms) for now_ms in (1010, 1011)] == [False, True]
    assert not prepared(ongoing(), True, 20).is_timed_out(100_000)


def test_a_transaction_lasts_until_it_is_decided() -> None:
    assert prepared(ongoing(), True, 25).lasted_ms == 15
    assert prepared(ongoing(), True, 9).lasted_ms == 0


def test_the_end_of_a_transaction_may_bump_the_epoch() -> None:
    end = prepared_with_bump(ongoing(), True, NO_PRODUCER_ID, 30)
    assert (end.state, end.producer, end.start_ms, end.last_update_ms) == (TransactionState.PREPARE_COMMIT, (7, 4), 10, 30)
    assert end.next_producer == completed(end, 40).producer == Producer(7, 4)


def test_an_abort_without_a_transaction_starts_when_it_ends() -> None:
    none = completed(prepared(ongoing(), False, 20), 30)
    assert prepared_with_bump(none, False, NO_PRODUCER_ID, 50).start_ms == 50


def test_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    with pytest.raises(IllegalTransitionError):
        prepared_with_bump(ongoing(LAST_EPOCH), True, NO_PRODUCER_ID, 20)
    end = prepared_with_bump(ongoing(LAST_EPOCH), True, 8, 20)
    assert (end.producer, end.next_producer) == (Producer(7, MAX_EPOCH), Producer(8, 0))
    after = completed(end, 30)
    assert (after.producer, after.previous_producer_id, after.next_producer_id) == (Producer(8, 0), 7, NO_PRODUCER_ID)
    assert prepared_with_bump(ongoing(LAST_EPOCH - 1), True, NO_PRODUCER_ID, 20).producer.epoch == LAST_EPOCH


def test_nothing_follows_the_epoch_that_only_fences() -> None:
    assert fenced(ongoing(LAST_EPOCH)).producer == Producer(7, MAX_EPOCH)
    with pytest.raises(IllegalTransitionError):
        fenced(ongoing(MAX_EPOCH))
    with pytest.raises(IllegalTransitionError):
        prepared_with_bump(ongoing(MAX_EPOCH), True, 8, 20)


@pytest.mark.parametrize("version", [0, 2])
def test_the_end_of_a_fenced_producers_transaction_has_its_version_as_the_epoch_is_bumped(version: int) -> None:
    assert prepared(fenced(ongoing(client_version=version)), False, 20).client_version == version
    assert prepared(ongoing(client_version=version), False, 20).client_version == 0


def test_only_what_is_decided_may_be_completed() -> None:
    with pytest.raises(IllegalTransitionError):
        completed(ongoing(), 20)
    with pytest.raises(IllegalTransitionError):
        prepared(completed(prepared(ongoing(), True, 20), 30), True, 40)
    with pytest.raises(IllegalTransitionError):
        prepared_with_bump(prepared(ongoing(), True, 20), True, NO_PRODUCER_ID, 30)
