"""DescribeTransactions v0 and ListTransactions v0-2, for administrators (KIP-664); v1 filters by duration (KIP-994), v2 by a
regular expression for the transactional id (KIP-1152)."""

from twisted_kafka.group_coordinator.consumer.regexes import compile_regex
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import ErrorCode, InvalidRegularExpressionError
from twisted_kafka.protocol.messages.coordinators.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
    TopicData,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator


class TransactionAdminApis:
    """Shows the transactions that this broker coordinates."""

    def __init__(self, transactions: TransactionCoordinator, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._transactions = transactions

    @api(DescribeTransactionsRequest, DescribeTransactionsResponse, versions=(0, 0))
    def describe_transactions(self, context: RequestContext, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        """Describe each transactional id's producer and transaction."""
        return DescribeTransactionsResponse(
            # Each once: a transaction may have many partitions.
            transaction_states=[self._described(context, each) for each in dict.fromkeys(request.transactional_ids)]
        )

    def _described(self, context: RequestContext, transactional_id: str) -> DescribeTransactionsResponseTransactionState:
        context.note_resource(ResourceKind.TRANSACTIONAL_ID, transactional_id)
        error, found = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None
        if self._authorization.is_allowed(context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            error, found = self._transactions.describe(transactional_id)
        if found is None:
            context.note_error(error)
            return DescribeTransactionsResponseTransactionState(transactional_id=transactional_id, error_code=error)
        topics = found.partitions_by_topic()
        allowed = self._authorization.allowed_of(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topics)
        topics = {topic: indexes for topic, indexes in topics.items() if topic in allowed}
        for topic, indexes in topics.items():
            context.note_topic(topic, tuple(indexes), 0, 0)
        return DescribeTransactionsResponseTransactionState(
            transactional_id=transactional_id,
            transaction_state=found.state.label,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.start_ms,
            producer_id=found.producer.producer_id,
            producer_epoch=found.producer.epoch,
            topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
        )

    @api(ListTransactionsRequest, ListTransactionsResponse, versions=(0, 2))
    def list_transactions(self, context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """List the transactions that match all filters."""
        pattern = request.transactional_id_pattern
        try:
            matches = compile_regex(pattern, "TransactionalIdPattern").fullmatch if pattern else None
        except InvalidRegularExpressionError as refusal:
            context.note_error(refusal.code)
            return ListTransactionsResponse(error_code=refusal.code)
        error, unknown_states, found = self._transactions.list_transactions(
            request.state_filters, frozenset(request.producer_id_filters), request.duration_filter
        )
        context.note_error(error)
        if matches is not None:
            found = [each for each in found if matches(each.transactional_id)]
        allowed = self._authorization.allowed_of(
            context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, (each.transactional_id for each in found)
        )
        return ListTransactionsResponse(
            error_code=error,
            unknown_state_filters=unknown_states,
            transaction_states=[
                ListTransactionsResponseTransactionState(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer.producer_id,
                    transaction_state=each.state.label,
                )
                for each in found
                if each.transactional_id in allowed
            ],
        )
