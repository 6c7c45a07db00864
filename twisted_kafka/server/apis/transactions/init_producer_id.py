"""InitProducerId v0-5: idempotent and transactional producers (KIP-98).

v3 producers that continue after an error (KIP-360), v4 PRODUCER_FENCED (KIP-588).
"""

from concurrent.futures import Future
from typing import Final

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.network.requests.request_context import RequestContext, TransactionNote
from twisted_kafka.protocol.errors import ClusterAuthorizationError, ErrorCode
from twisted_kafka.protocol.messages.coordinators.transactions import InitProducerIdRequest, InitProducerIdResponse
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.transactions.transaction_notes import end_note, note_topics
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator
from twisted_kafka.transaction_coordinator.transaction_shard import Initialized
from twisted_kafka.waiting.futures import when_done

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
FENCED_SINCE: Final = 4
"""The version since which producers know PRODUCER_FENCED."""


def fenced_error(error: ErrorCode, version: int, since: int) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED for requests older than version ``since`` (KIP-588)."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED and version < since else error


class ProducerIdApis:
    """Gives ids and epochs to producers."""

    def __init__(self, transactions: TransactionCoordinator, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._transactions = transactions

    @api(InitProducerIdRequest, InitProducerIdResponse, versions=(0, 5))
    def init_producer_id(
        self, context: RequestContext, request: InitProducerIdRequest
    ) -> "InitProducerIdResponse | Future[InitProducerIdResponse]":
        """Return a producer id and epoch, for a transactional id once its last transaction has ended."""
        self._ensure_allowed(context, request.transactional_id)
        producer = Producer(request.producer_id, request.producer_epoch)
        if (producer.producer_id == NO_PRODUCER_ID) != (producer.epoch == NO_PRODUCER_EPOCH):
            return _response(context, Initialized(ErrorCode.INVALID_REQUEST))
        expected = None if producer.producer_id == NO_PRODUCER_ID else producer
        result = self._transactions.init_producer_id(request.transactional_id, request.transaction_timeout_ms, expected)
        if request.transactional_id is not None:
            context.transaction = TransactionNote(request.transactional_id, timeout_ms=request.transaction_timeout_ms)
        return when_done(result, lambda initialized: _response(context, initialized))

    def _ensure_allowed(self, context: RequestContext, transactional_id: str | None) -> None:
        """Raise a KafkaError unless the principal may use the transactional id; without one, unless it may write to some topic."""
        authorization = self._authorization
        if transactional_id is not None:
            context.transaction = TransactionNote(transactional_id)
            authorization.require(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        elif not authorization.is_allowed_on_cluster(
            context, AclOperation.IDEMPOTENT_WRITE, logs_denied=False
        ) and not authorization.is_allowed_on_some(context, AclOperation.WRITE, ResourceType.TOPIC):
            raise ClusterAuthorizationError


def _response(context: RequestContext, initialized: Initialized) -> InitProducerIdResponse:
    error, producer, end = initialized
    if end is not None and context.transaction is not None:
        note_topics(context, end, ErrorCode.NONE)
        context.transaction = end_note(end)._replace(timeout_ms=context.transaction.timeout_ms)
    error = fenced_error(error, context.api_version, FENCED_SINCE)
    context.note_error(error)
    return InitProducerIdResponse(error_code=error, producer_id=producer.producer_id, producer_epoch=producer.epoch)
