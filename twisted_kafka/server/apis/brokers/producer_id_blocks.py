"""AllocateProducerIds v0: the controller gives a broker a block of producer ids (KIP-730).

Brokers of Apache Kafka since 3.0 ask for them; this one takes its own from the metadata store, where the controller does.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.controller import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.transaction_coordinator.producer_id_manager import BLOCK_SIZE


class ProducerIdBlockApis:
    """Requires CLUSTER_ACTION on the cluster."""

    def __init__(
        self, controller: KafkaController, take_block: Callable[[int], int], authorization: IAuthorization = ALLOW_ALL
    ) -> None:
        """``take_block`` takes a block for a broker's id, and returns the first id of it."""
        self._controller = controller
        self._take_block = take_block
        self._authorization = authorization

    @api(AllocateProducerIdsRequest, AllocateProducerIdsResponse, versions=(0, 0))
    def allocate_producer_ids(
        self, context: RequestContext, request: AllocateProducerIdsRequest
    ) -> "Future[AllocateProducerIdsResponse]":
        """As the controller, give a broker that is alive a block of ids."""
        context.note_resource(ResourceKind.BROKER, str(request.broker_id))
        self._authorization.require_cluster(context, AclOperation.CLUSTER_ACTION)
        work = partial(self._allocate, request.broker_id, request.broker_epoch)
        return self._controller.run(work, ControllerState.IDLE)

    def _allocate(self, broker_id: int, broker_epoch: int) -> AllocateProducerIdsResponse:
        broker = self._controller.context.brokers.get(broker_id)
        if broker is None:
            return AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        if broker.epoch != broker_epoch:
            return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return AllocateProducerIdsResponse(producer_id_start=self._take_block(broker_id), producer_id_len=BLOCK_SIZE)
