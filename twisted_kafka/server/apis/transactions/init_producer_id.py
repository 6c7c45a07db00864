"""InitProducerId v0-5, for idempotent producers only (KIP-98, KIP-360)."""

from typing import Final

from twisted_kafka.coordinator.transaction.producer_id_manager import ProducerIdManager
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from twisted_kafka.server.dispatch import api

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1


class ProducerIdApis:
    """Gives producer ids to idempotent producers; transactional ones are refused until there is a transaction coordinator."""

    def __init__(self, producer_ids: ProducerIdManager) -> None:
        self._producer_ids = producer_ids

    @api(InitProducerIdRequest, InitProducerIdResponse, versions=(0, 5))
    def init_producer_id(self, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Return a new producer id with epoch 0, regardless of the producer's previous id."""
        error = _refusal(request)
        if not error:
            try:
                return InitProducerIdResponse(producer_id=self._producer_ids.next_producer_id(), producer_epoch=0)
            except KafkaError as failure:
                error = failure.code
        context.note_error(error)
        return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


def _refusal(request: InitProducerIdRequest) -> ErrorCode:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.UNSUPPORTED_VERSION  # not retriable: the producer fails immediately, not after max.block.ms
