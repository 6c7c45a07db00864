from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.apis.group_handlers import ask
from twisted_kafka.coordinator.transaction.producer_id_manager import BLOCK_PATH, BLOCK_SIZE, MAX_PRODUCER_ID, ProducerIdManager
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.metadata.store import BadVersionError
from twisted_kafka.metadata.znodes import ProducerIdBlockNode
from twisted_kafka.protocol.errors import CoordinatorLoadInProgressError, ErrorCode, UnknownServerError
from twisted_kafka.protocol.messages.transactions import InitProducerIdRequest
from twisted_kafka.server.apis.transactions.init_producer_id import ProducerIdApis


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


def test_ids_are_used_up_some_day(store: Any) -> None:
    store.create(BLOCK_PATH, ProducerIdBlockNode(broker_id=1, first=0, last=MAX_PRODUCER_ID - 10).encode())
    with pytest.raises(UnknownServerError):
        ProducerIdManager(1, store).next_producer_id()


def test_a_lost_race_is_run_again_but_not_for_ever(store: Any) -> None:
    class Racing:
        losses = 3

        def get(self, path: Any) -> Any:
            return store.get(path)

        def create(self, path: Any, data: Any) -> Any:
            if self.losses:
                self.losses -= 1
                raise BadVersionError("somebody was faster")
            return store.create(path, data)

    racing = Racing()
    assert ProducerIdManager(1, racing).next_producer_id() == 0  # type: ignore[arg-type]
    store.delete(BLOCK_PATH)
    racing.losses = 1000
    with pytest.raises(CoordinatorLoadInProgressError):
        ProducerIdManager(1, racing).next_producer_id()  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(6))
def test_init_in_every_version(store: Any, version: Any) -> None:
    family = ProducerIdApis(ProducerIdManager(1, store))
    for expected in range(2):
        response, _ = ask(family, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version)
        assert (response.error_code, response.producer_id, response.producer_epoch) == (0, expected, 0)


def test_init_refusals(store: Any) -> None:
    family = ProducerIdApis(ProducerIdManager(1, store))

    def error(version: int = 5, **fields: Any) -> Any:
        response, context = ask(family, InitProducerIdRequest(**fields), version)
        assert response.producer_id == -1
        assert context.error == response.error_code
        return response.error_code

    assert error(transactional_id="") == ErrorCode.INVALID_REQUEST
    assert error(transactional_id="t") == ErrorCode.UNSUPPORTED_VERSION
    assert error(transactional_id=None, producer_id=5) == ErrorCode.INVALID_REQUEST
    assert error(transactional_id=None, producer_epoch=5) == ErrorCode.INVALID_REQUEST
    response, _ = ask(family, InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=3), 5)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 0, 0)
