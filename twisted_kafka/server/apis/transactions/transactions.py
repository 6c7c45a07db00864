"""AddPartitionsToTxn v0-5, AddOffsetsToTxn v0-4, EndTxn v0-5: what a producer does in a transaction (KIP-98).

v2 of each PRODUCER_FENCED (KIP-588). AddPartitionsToTxn v4 and v5 are for brokers: several transactions, which may be verified
instead of changed (KIP-890). EndTxn v5 gives the producer the epoch of its next transaction (KIP-890).
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.log.producer_state.producer_state_manager import BUMPED_SINCE
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.network.requests.request_context import RequestContext, TransactionNote
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
)
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, INTERNAL_TOPICS, TopicPartition
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.transactions.init_producer_id import fenced_error
from twisted_kafka.server.apis.transactions.transaction_notes import end_note, note_topics
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator
from twisted_kafka.transaction_coordinator.transaction_shard import Ended
from twisted_kafka.waiting.futures import gather, when_done

SEVERAL_SINCE: Final = 4
FENCED_SINCE: Final = 2
"""The version since which producers know PRODUCER_FENCED."""

EPOCHS_SINCE: Final = 5
"""The version of EndTxn since which each transaction has an epoch of its own."""

Errors = Mapping[TopicPartition, ErrorCode]


class TransactionApis:
    """Adds partitions to transactions, and ends them."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        groups: GroupCoordinator,
        metadata: MetadataCache,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._transactions = transactions
        self._groups = groups
        self._metadata = metadata

    @api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, versions=(0, 5))
    def add_partitions_to_txn(
        self, context: RequestContext, request: AddPartitionsToTxnRequest
    ) -> "AddPartitionsToTxnResponse | Future[AddPartitionsToTxnResponse]":
        """Add partitions to transactions, or verify that they belong to them; respond when all are written."""
        version = context.api_version
        if version >= SEVERAL_SINCE:
            self._authorization.require_cluster(context, AclOperation.CLUSTER_ACTION)
        transactions = request.transactions if version >= SEVERAL_SINCE else [_only_transaction(request)]
        if len(transactions) == 1 and not transactions[0].verify_only:
            context.transaction = TransactionNote(transactions[0].transactional_id)
        errors = [self._add(context, transaction) for transaction in transactions]
        return gather(errors, lambda each: _added(context, transactions, each))

    def _add(self, context: RequestContext, transaction: AddPartitionsToTxnTransaction) -> "Errors | Future[Errors]":
        partitions = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
        version = context.api_version
        if version < SEVERAL_SINCE and not self._may_use(context, transaction.transactional_id):
            return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        refused = self._refused(context, partitions)
        if refused:  # all or nothing
            return {each: refused.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        if transaction.verify_only:
            return self._transactions.verify_partitions(transaction.transactional_id, producer, partitions)
        client_version = BUMPED_SINCE if version >= SEVERAL_SINCE else 0
        added = self._transactions.add_partitions(transaction.transactional_id, producer, partitions, client_version)
        return when_done(added, lambda error: dict.fromkeys(partitions, fenced_error(error, version, FENCED_SINCE)))

    def _may_use(self, context: RequestContext, transactional_id: str) -> bool:
        return self._authorization.is_allowed(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)

    def _refused(self, context: RequestContext, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Return the errors of partitions that do not exist, or that a producer may not write to; brokers may write to all."""
        allowed = {each.topic for each in partitions}
        if context.api_version < SEVERAL_SINCE:
            names = allowed - set(INTERNAL_TOPICS)
            allowed = self._authorization.allowed_of(context, AclOperation.WRITE, ResourceType.TOPIC, names)
        refused = {}
        for each in partitions:
            if each.topic not in allowed:
                refused[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif self._metadata.partition(each) is None:
                refused[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refused

    @api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, versions=(0, 4))
    def add_offsets_to_txn(
        self, context: RequestContext, request: AddOffsetsToTxnRequest
    ) -> "AddOffsetsToTxnResponse | Future[AddOffsetsToTxnResponse]":
        """Add the partition of ``__consumer_offsets`` with the group's offsets to the transaction."""
        context.transaction = TransactionNote(request.transactional_id)
        context.group = request.group_id, "", -1
        self._authorization.require(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        self._authorization.require(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
        partition = TopicPartition(GROUP_METADATA_TOPIC, self._groups.partition_for(request.group_id))
        producer = Producer(request.producer_id, request.producer_epoch)
        added = self._transactions.add_partitions(request.transactional_id, producer, (partition,))

        def respond(error: ErrorCode) -> AddOffsetsToTxnResponse:
            error = fenced_error(error, context.api_version, FENCED_SINCE)
            context.note_topic(GROUP_METADATA_TOPIC, (partition.partition,), 0, 0, error)
            return AddOffsetsToTxnResponse(error_code=error)

        return when_done(added, respond)

    @api(EndTxnRequest, EndTxnResponse, versions=(0, 5))
    def end_txn(self, context: RequestContext, request: EndTxnRequest) -> "EndTxnResponse | Future[EndTxnResponse]":
        """Commit or abort a transaction; respond when the outcome is certain."""
        context.transaction = TransactionNote(request.transactional_id)
        self._authorization.require(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        producer = Producer(request.producer_id, request.producer_epoch)
        has_epochs = context.api_version >= EPOCHS_SINCE
        end = self._transactions.end_transaction_with_bump if has_epochs else self._transactions.end_transaction
        ended = end(request.transactional_id, producer, request.committed)

        def respond(ended: Ended) -> EndTxnResponse:
            error = fenced_error(ended.error, context.api_version, FENCED_SINCE)
            note_topics(context, ended.end, error)
            context.note_error(error)
            if ended.end is not None and not error:
                context.transaction = end_note(ended.end)
            return EndTxnResponse(error_code=error, producer_id=ended.producer.producer_id, producer_epoch=ended.producer.epoch)

        return when_done(ended, respond)


def _only_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _added(
    context: RequestContext, transactions: Sequence[AddPartitionsToTxnTransaction], each: Sequence[Errors]
) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id, topic_results=_topic_results(context, transaction, errors)
        )
        for transaction, errors in zip(transactions, each, strict=True)
    ]
    if context.api_version >= SEVERAL_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def _topic_results(
    context: RequestContext, transaction: AddPartitionsToTxnTransaction, errors: Errors
) -> list[AddPartitionsToTxnTopicResult]:
    results = []
    for topic in transaction.topics:
        partitions = [
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=errors[TopicPartition(topic.name, index)])
            for index in topic.partitions
        ]
        first_error = next((each.partition_error_code for each in partitions if each.partition_error_code), 0)
        context.note_topic(topic.name, tuple(topic.partitions), 0, 0, first_error)
        results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=partitions))
    return results
