from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.apis.group_handlers import ask
from twisted_kafka.coordinator.transaction.producer_id_manager import ProducerIdManager
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.transactions import InitProducerIdRequest
from twisted_kafka.server.apis.transactions.init_producer_id import ProducerIdApis


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    store = SqliteStore(tmp_path / "metadata.sqlite", threaded=False)
    yield store
    store.close()


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
