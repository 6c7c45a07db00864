"""Producer ids: unique in the cluster, taken in blocks that Apache Kafka's brokers can share."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.transaction_bench import TransactionBench
from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.store import BadVersionError, NodeExistsError, NoNodeError, SessionExpiredError, StoreDisconnectedError
from twisted_kafka.metadata.znodes import ProducerIdBlockNode
from twisted_kafka.protocol.errors import CoordinatorLoadInProgressError, UnknownServerError
from twisted_kafka.transaction_coordinator import producer_id_manager
from twisted_kafka.transaction_coordinator.producer_id_manager import (
    BLOCK_PATH,
    BLOCK_SIZE,
    MAX_ATTEMPTS,
    MAX_PRODUCER_ID,
    ProducerIdManager,
)

pytestmark = pytest.mark.medium


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    store = SqliteStore(tmp_path / "metadata.sqlite", threaded=False)
    yield store
    store.close()


def block(store: Any) -> Any:
    return ProducerIdBlockNode.decode(store.get(BLOCK_PATH)[0])


def test_blocks_are_taken_one_after_the_other(store: Any) -> None:
    first, second = ProducerIdManager(1, store), ProducerIdManager(2, store)
    assert [first.next_producer_id() for _ in range(3)] == [0, 1, 2]
    assert second.next_producer_id() == BLOCK_SIZE
    assert (block(store).broker_id, block(store).first, block(store).last) == (2, 1000, 1999)
    ids = [first.next_producer_id() for _ in range(BLOCK_SIZE)]
    assert ids == [*range(3, BLOCK_SIZE), 2000, 2001, 2002]


def test_the_empty_node_of_a_new_cluster(store: Any) -> None:
    store.create(BLOCK_PATH)
    assert ProducerIdManager(1, store).next_producer_id() == 0
    assert block(store).last == 999


def test_a_restart_wastes_the_rest_of_the_block(store: Any) -> None:
    assert ProducerIdManager(1, store).next_producer_id() == 0
    assert ProducerIdManager(1, store).next_producer_id() == BLOCK_SIZE


@pytest.mark.parametrize("error", [StoreDisconnectedError, SessionExpiredError])
def test_a_client_tries_again_that_the_store_keeps_waiting(store: Any, error: type[Exception]) -> None:
    class Silent:
        def get(self, path: str) -> Any:
            raise error("no answer within 6 s")

    ids = ProducerIdManager(1, Silent())  # type: ignore[arg-type]
    with pytest.raises(CoordinatorLoadInProgressError):
        ids.next_producer_id()


def test_the_last_block_ends_at_the_largest_id(store: Any) -> None:
    def last_given(last: int) -> None:
        store.delete(BLOCK_PATH)
        store.create(BLOCK_PATH, ProducerIdBlockNode(broker_id=1, first=0, last=last).encode())

    store.create(BLOCK_PATH)
    last_given(MAX_PRODUCER_ID - BLOCK_SIZE)
    ids = ProducerIdManager(1, store)
    assert [ids.next_producer_id() for _ in range(BLOCK_SIZE)][-1] == MAX_PRODUCER_ID
    with pytest.raises(UnknownServerError):
        ids.next_producer_id()
    last_given(MAX_PRODUCER_ID - BLOCK_SIZE + 1)
    with pytest.raises(UnknownServerError):
        ProducerIdManager(1, store).next_producer_id()


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("refusal", [BadVersionError, NodeExistsError, NoNodeError])
def test_a_lost_race_is_run_again_but_not_for_ever(store: Any, refusal: type[Exception], is_empty: bool) -> None:
    class Racing:
        """Another broker takes a block between this one's read and its write."""

        losses = MAX_ATTEMPTS - 1

        def get(self, path: str) -> Any:
            found = store.get(path)
            if self.losses:
                self.losses -= 1
                other.next_producer_id()
                self.is_late = True
            return found

        def create(self, path: str, data: bytes) -> Any:
            return self.write(store.create, path, data)

        def set(self, path: str, data: bytes, version: int) -> Any:
            return self.write(store.set, path, data, version)

        def write(self, method: Any, *args: Any) -> Any:
            if getattr(self, "is_late", False):
                self.is_late = False
                for _ in range(BLOCK_SIZE - 1):
                    other.next_producer_id()
                with pytest.raises((BadVersionError, NodeExistsError)):
                    method(*args)
                raise refusal("another broker was faster")
            return method(*args)

    if is_empty:
        store.create(BLOCK_PATH)
    other, racing = ProducerIdManager(2, store), Racing()
    assert ProducerIdManager(1, racing).next_producer_id() == (MAX_ATTEMPTS - 1) * BLOCK_SIZE  # type: ignore[arg-type]
    racing.losses = MAX_ATTEMPTS
    with pytest.raises(CoordinatorLoadInProgressError):
        ProducerIdManager(1, racing).next_producer_id()  # type: ignore[arg-type]


def test_producers_without_a_transactional_id_have_ids_of_their_own_and_epoch_0() -> None:
    transactions: Any = TransactionBench().transactions
    assert [transactions.init_producer_id(None, 0, None).producer for _ in range(2)] == [Producer(0, 0), Producer(1, 0)]


def test_one_request_waits_for_a_silent_store_and_the_others_are_refused(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_id_manager, "WAIT_S", 0.001)
    manager = ProducerIdManager(1, store)
    refused: list[Any] = []
    read = store.get

    def silent(path: str) -> Any:
        if not refused:
            with ThreadPoolExecutor(1) as other:
                refused.append(other.submit(manager.next_producer_id).exception())
        return read(path)

    monkeypatch.setattr(store, "get", silent)
    assert manager.next_producer_id() == 0
    assert isinstance(refused[0], CoordinatorLoadInProgressError)
    assert manager.next_producer_id() == 1
