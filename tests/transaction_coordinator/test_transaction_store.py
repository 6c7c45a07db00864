"""Which state of an id is committed while the outcome of an append is unknown."""

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.transaction_coordinator.transaction_metadata import NO_PARTITIONS, TransactionMetadata
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState
from twisted_kafka.transaction_coordinator.transaction_store import TransactionStore

EMPTY = TransactionMetadata("tx", Producer(7, 0), 1000, TransactionState.EMPTY, NO_PARTITIONS, 5, 6)


def write(store: TransactionStore, after: TransactionMetadata, error: ErrorCode, is_appended: bool) -> None:
    written = store.transition(after, lambda outcome: outcome)
    assert store.is_pending("tx")
    if is_appended:
        for record in written.records:
            store.replay(record)
    written.completed(error)
    assert not store.is_pending("tx")


def test_a_state_that_was_not_appended_leaves_no_doubt() -> None:
    store = TransactionStore(lambda: 0)
    write(store, EMPTY, ErrorCode.NOT_ENOUGH_REPLICAS, is_appended=False)
    assert not store.is_in_doubt("tx")
    assert store.committed("tx") is None


def test_a_doubt_ends_with_a_committed_record_only() -> None:
    store = TransactionStore(lambda: 0)
    write(store, EMPTY, ErrorCode.NONE, is_appended=True)
    write(store, EMPTY._replace(last_update_ms=7), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, is_appended=True)
    write(store, EMPTY._replace(last_update_ms=8), ErrorCode.NOT_ENOUGH_REPLICAS, is_appended=False)
    assert store.is_in_doubt("tx")
    assert store.committed("tx") == EMPTY
    write(store, EMPTY._replace(last_update_ms=9), ErrorCode.NONE, is_appended=True)
    assert not store.is_in_doubt("tx")
    assert store.all_committed() == [EMPTY._replace(last_update_ms=9)]
