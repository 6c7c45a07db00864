"""Blocks of producer ids from the controller."""

from typing import Any

import pytest

from tests.support.controller_cluster import Cluster, cluster
from twisted_kafka.metadata import znodes
from twisted_kafka.protocol.errors import ErrorCode, NotControllerError
from twisted_kafka.protocol.messages.controller import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from twisted_kafka.server.apis.brokers.producer_id_blocks import ProducerIdBlockApis
from twisted_kafka.transaction_coordinator.producer_id_manager import BLOCK_SIZE, ProducerIdBlocks, ProducerIdManager

__all__ = ["cluster"]


class Context:
    def note_resource(self, *_: object) -> None: ...


def ask(cluster: Cluster, broker_id: int, epoch: int) -> Any:
    apis = ProducerIdBlockApis(cluster.controller, ProducerIdBlocks(cluster.store).take)
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
    answer = apis.allocate_producer_ids(Context(), request)  # type: ignore[arg-type]
    cluster.pump()
    return answer.result(0)


def test_each_block_is_given_once(cluster: Cluster) -> None:
    cluster.start(1, 2)
    epoch = cluster.store.exists(znodes.broker_path(2)).czxid
    blocks = [ask(cluster, 2, epoch) for _ in range(2)]
    assert blocks == [AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE) for first in (0, BLOCK_SIZE)]
    assert ProducerIdManager(1, cluster.store).next_producer_id() == 2 * BLOCK_SIZE


def test_brokers_that_are_not_there_get_none(cluster: Cluster) -> None:
    cluster.start(1, 2)
    epoch = cluster.store.exists(znodes.broker_path(2)).czxid
    assert ask(cluster, 9, epoch).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert ask(cluster, 2, epoch - 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert ProducerIdManager(1, cluster.store).next_producer_id() == 0


def test_only_the_controller_gives_them(cluster: Cluster) -> None:
    with pytest.raises(NotControllerError):
        ask(cluster, 1, 0)
