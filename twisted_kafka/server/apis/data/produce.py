"""Produce v0-13: v0-v2 old message formats, v3 record batches and transactions, v5 log start offset, v7 zstd, v8 record errors,
v9 flexible, v10 current leader, v11 idempotent retries across transactions, v12 adds partitions to transactions (KIP-890),
v13 topic ids (KIP-516)."""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.log.results import Conversion
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.log.validation.produced import base_sequence, is_transactional, the_batch, transactional_producer
from twisted_kafka.network.requests.request_context import RequestContext, TransactionNote
from twisted_kafka.protocol.compiler.schema import maker
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition, topic_partition_of
from twisted_kafka.replication.operations.append_result import PartitionResult
from twisted_kafka.replication.operations.appender import NO_GUARDS, NO_TOPIC_IDS, Guards, TopicIds
from twisted_kafka.replication.operations.delayed_produce import PendingResults
from twisted_kafka.replication.partition.topic_stats import PRODUCE_CONVERSIONS
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.data.flat_forms import AppendedResponse, OneBatch
from twisted_kafka.server.apis.data.leader_hints import LeaderHints
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import CLOSE_CONNECTION, NO_RESPONSE, Later, Outcome, api
from twisted_kafka.server.topic_ids import UNKNOWN_NAME, name_topics, names_of, text_of
from twisted_kafka.transaction_coordinator.verification import UNVERIFIABLE, TransactionVerification, Verified
from twisted_kafka.waiting.futures import and_then, then, when_done

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may write to internal topics (Kafka: ``AdminUtils.ADMIN_CLIENT_ID``)."""

_CLIENT: Final = AppendOrigin.CLIENT

_WRITE: Final = AclOperation.WRITE
_TOPIC: Final = ResourceType.TOPIC
_NOTHING_DENIED: Final[frozenset[str]] = frozenset()

_FIRST_VERSION_OF_BATCHES: Final = 3
_FIRST_VERSION_WITH_LEADERS: Final = 10
_FIRST_VERSION_WITH_ABORTABLE: Final = 11
_FIRST_VERSION_THAT_ADDS: Final = 12
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

_NO_TRANSACTIONAL_ID: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_SAID_FIRST: Final = (_NO_TRANSACTIONAL_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)
_partition_response: Final = maker(PartitionProduceResponse)
_topic_response: Final = maker(TopicProduceResponse)
_response: Final = maker(ProduceResponse)

Results = dict[TopicPartition, PartitionResult]
Destination = tuple[TopicPartition, int, bytes]
"""The partition, the acks, and the id of the topic if the client named it so."""
Answer = ProduceResponse | Outcome


class ProduceApis:
    """Handles produce requests."""

    def __init__(
        self, replicas: ReplicaManager, verification: TransactionVerification, authorization: IAuthorization = ALLOW_ALL
    ) -> None:
        self._replicas = replicas
        self._topic_name = replicas.metadata.topic_name
        self._verification = verification
        self._authorization = authorization

    @api(ProduceRequest, ProduceResponse, versions=(0, 13))
    def produce(self, context: RequestContext, request: ProduceRequest) -> "Answer | Future[Answer]":
        """Append each partition's records; respond immediately, when they are replicated, or not at all, depending on acks."""
        version = context.api_version
        transactional_id = request.transactional_id
        if transactional_id is not None:
            context.transaction = TransactionNote(transactional_id)
        if version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            name_topics(request.topic_data, self._topic_name)
        entries: dict[TopicPartition, Buffer] = {}
        refused: Results | None = None
        denied = self._denied_topics(context, request) if self._authorization.enforces else _NOTHING_DENIED
        for topic in request.topic_data:
            for data in topic.partition_data:
                topic_partition = topic_partition_of((topic.name, data.index))
                records = data.records
                error: int = 0
                if version >= _FIRST_VERSION_OF_BATCHES:
                    records, error = the_batch(records, version, transactional_id)
                if topic.name == UNKNOWN_NAME and version >= _FIRST_VERSION_WITH_TOPIC_IDS:
                    error = error if error == _NO_TRANSACTIONAL_ID else ErrorCode.UNKNOWN_TOPIC_ID
                elif topic.name in denied and error != _NO_TRANSACTIONAL_ID:
                    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                if records is None or error:
                    if refused is None:
                        refused = {}
                    refused[topic_partition] = self._refuse(topic_partition, error or ErrorCode.INVALID_RECORD)
                else:
                    entries[topic_partition] = records
        lacks_id = refused is not None and any(result.error == _NO_TRANSACTIONAL_ID for result in refused.values())
        if lacks_id or (self._authorization.enforces and not self._may_use_transactional_id(context, request)):
            entries, refused = {}, _all_refused(request, _NO_TRANSACTIONAL_ID)
        if transactional_id is None or not entries:
            return self._append(context, request, entries, refused, NO_GUARDS)
        return self._append_in_transaction(context, request, entries, refused)

    def _denied_topics(self, context: RequestContext, request: ProduceRequest) -> set[str]:
        names = names_of(request.topic_data, by_id=context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS)
        return names - self._authorization.allowed_of(context, AclOperation.WRITE, ResourceType.TOPIC, names)

    def _may_use_transactional_id(self, context: RequestContext, request: ProduceRequest) -> bool:
        """Whether none of the batches is transactional, or the principal may write with their transactional id."""
        transactional_id = request.transactional_id
        batches = (data.records for topic in request.topic_data for data in topic.partition_data)
        if transactional_id is None or not any(map(is_transactional, batches)):
            return True
        return self._authorization.is_allowed(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)

    def _append(
        self,
        context: RequestContext,
        request: ProduceRequest,
        entries: dict[TopicPartition, Buffer],
        refused: Results | None,
        guards: Guards,
    ) -> "Answer | Future[Answer]":
        respond = partial(self._respond, context, request, refused)
        if not entries:
            return respond({})
        results = self._replicas.appender.append(
            request.timeout_ms,
            request.acks,
            entries,
            internal_topics_allowed=context.client_id == ADMIN_CLIENT_ID,
            guards=guards,
            topic_ids=_topic_ids(request) if context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS else NO_TOPIC_IDS,
        )
        context.is_frame_free = True  # the records are in the log
        if isinstance(results, Future):
            _drop_records(request)
        return when_done(results, respond)

    @produce.undecoded
    def produce_one(self, context: RequestContext, frame: Buffer, offset: int) -> Answer | AppendedResponse | Later | None:
        """Handle the request if it has one valid batch for one partition, with acks 1 or -1; otherwise return None.

        It does the same as ``produce``, without decoding and encoding messages.
        """
        read = self.read_batch(context, frame, offset)
        if read is None:
            return None
        (topic_partition, acks, topic_id), one = read
        topic_ids = NO_TOPIC_IDS if topic_id == NO_UUID else {one.name: topic_id}
        results = self._replicas.appender.append(one.timeout_ms, acks, {topic_partition: one.records}, topic_ids=topic_ids)
        return self.answer_one(context, one, results if isinstance(results, Future) else results[topic_partition])

    @produce.read_together
    def read_batch(self, context: RequestContext, frame: Buffer, offset: int) -> tuple[Destination, OneBatch] | None:
        """Return the destination and the batch of a request with a single batch; None for other requests."""
        version = context.api_version
        one = OneBatch.read(frame, version, offset) if version >= _FIRST_VERSION_OF_BATCHES else None
        if one is None or not one.acks or context.client_id == ADMIN_CLIENT_ID:
            return None
        records, error = the_batch(one.records, version, None)
        if error or records is None:
            return None
        if version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            name = self._topic_name(one.topic_id)
            if name is None:
                return None
            one.name = name
        authorization = self._authorization
        if (
            authorization.enforces
            and not authorization.remembers(context, _WRITE, _TOPIC, one.name)
            and not authorization.is_allowed(context, _WRITE, _TOPIC, one.name, logs_denied=False)
        ):
            return None  # `produce` asks again, and responds
        one.records = records
        return (topic_partition_of((one.name, one.index)), one.acks, one.topic_id), one

    @produce.handle_together
    def append_together(self, common: Destination, each: Sequence[OneBatch]) -> list[PartitionResult | PendingResults]:
        """Append the batches of such requests with the same destination."""
        topic_partition, acks, topic_id = common
        batches = [(one.records, one.timeout_ms) for one in each]
        return self._replicas.appender.append_each(topic_partition, acks, batches, topic_id)

    @produce.answer_together
    def answer_one(
        self, context: RequestContext, one: OneBatch, result: PartitionResult | PendingResults
    ) -> Answer | AppendedResponse | Later:
        """Return the answer to such a request, which was appended or refused."""
        context.is_frame_free = True
        if isinstance(result, Future):
            request = _without_records(one)
            return Later(then(result, partial(self._respond, context, request, None)), request)
        if result.error:
            return self._respond(context, _without_records(one), None, {topic_partition_of((one.name, one.index)): result})
        context.acks = one.acks
        context.note_topic(one.name, (one.index,), result.record_count, result.size_bytes)
        if result.conversion is not None:
            self._note_conversion(context, one.name, result.conversion)
        return AppendedResponse(
            one.name, one.index, result.base_offset, result.log_append_time_ms, result.log_start_offset, one.topic_id
        )

    def _append_in_transaction(
        self, context: RequestContext, request: ProduceRequest, entries: dict[TopicPartition, Buffer], refused: Results | None
    ) -> "Answer | Future[Answer]":
        """Verify the partitions in their producer's transaction, or add them, then append to the valid ones."""
        found = {partition: transactional_producer(records) for partition, records in entries.items()}
        producers = {partition: Producer(*producer) for partition, producer in found.items() if producer is not None}
        if len(set(producers.values())) > 1:
            return self._append(context, request, {}, {**(refused or {}), **_several_producers(entries)}, NO_GUARDS)
        if not producers:
            return self._append(context, request, entries, refused, NO_GUARDS)
        sequences: dict[TopicPartition, int] = {each: base_sequence(entries[each]) for each in producers}
        producer = next(iter(producers.values()))
        transactional_id = request.transactional_id or ""
        version = context.api_version
        is_adding = version >= _FIRST_VERSION_THAT_ADDS

        def append(verified: Verified) -> "Answer | Future[Answer]":
            errors, guards = verified
            if not errors:
                return self._append(context, request, entries, refused, guards)
            failed = {each: _not_in_transaction(error, is_adding) for each, error in errors.items()}
            left = {each: records for each, records in entries.items() if each not in failed}
            return self._append(context, request, left, {**(refused or {}), **failed}, guards)

        if not is_adding:
            knows_abortable = version >= _FIRST_VERSION_WITH_ABORTABLE
            verified = self._verification.verify(sequences, transactional_id, producer, knows_abortable=knows_abortable)
            return and_then(verified, append)
        return and_then(self._verification.add(sequences, transactional_id, producer), append)

    def _refuse(self, topic_partition: TopicPartition, error: int) -> PartitionResult:
        """Return the result of records refused before the append; an unknown topic takes precedence, as in Kafka."""
        if error in _SAID_FIRST:
            return PartitionResult(error)
        known = self._replicas.get_partition(topic_partition) or self._replicas.metadata.partition(topic_partition)
        if known is None:
            return PartitionResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        result = PartitionResult(error)
        if error == ErrorCode.CORRUPT_MESSAGE:
            result.error_message = "The records do not start with a valid batch: its length or its magic is invalid"
        return result

    def _note_conversion(self, context: RequestContext, topic: str, conversion: Conversion) -> None:
        context.note_conversion(conversion.time_ns, conversion.temporary_bytes)
        if conversion.records:
            self._replicas.stats.mark(topic, PRODUCE_CONVERSIONS, conversion.records)

    def _respond(self, context: RequestContext, request: ProduceRequest, refused: Results | None, results: Results) -> Answer:
        if refused is not None:
            results.update(refused)
        context.acks = request.acks
        hints: LeaderHints | None = None
        has_error = False
        responses = []
        for topic in request.topic_data:
            name = topic.name
            answers = []
            records = size_bytes = first_error = 0
            for data in topic.partition_data:
                index = data.index
                result = results[name, index]  # type: ignore[index]  # a plain tuple has the same hash
                error = result.error
                answer = _partition_response(
                    index=index,
                    error_code=error,
                    base_offset=result.base_offset,
                    log_append_time_ms=result.log_append_time_ms,
                    log_start_offset=result.log_start_offset,
                )
                if error:
                    first_error = first_error or error
                    if hints is None:
                        hints = LeaderHints(self._replicas, context.listener_name)
                    _explain(answer, result, context.api_version, hints, TopicPartition(name, index))
                else:
                    records += result.record_count
                    if result.conversion is not None:
                        self._note_conversion(context, name, result.conversion)
                    size_bytes += result.size_bytes
                answers.append(answer)
            context.note_topic(text_of(topic), tuple([each.index for each in answers]), records, size_bytes, first_error)
            has_error = has_error or first_error != 0
            responses.append(_topic_response(name=name, topic_id=topic.topic_id, partition_responses=answers))
        if request.acks == 0:
            # There is no response: a closed connection makes the producer refresh its metadata.
            return CLOSE_CONNECTION if has_error else NO_RESPONSE
        response = _response(responses=responses)
        if hints is not None and hints.nodes:
            response.node_endpoints = [
                NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in hints.nodes.values()
            ]
        return response


def _topic_ids(request: ProduceRequest) -> TopicIds:
    return {topic.name: topic.topic_id for topic in request.topic_data}


def _drop_records(request: ProduceRequest) -> None:
    """Free the records of a request that waits for replicas: they are in the log (Kafka: ``clearPartitionRecords``)."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            data.records = None


def _without_records(one: OneBatch) -> ProduceRequest:
    topic = TopicProduceData(name=one.name, topic_id=one.topic_id, partition_data=[PartitionProduceData(index=one.index)])
    return ProduceRequest(acks=one.acks, timeout_ms=one.timeout_ms, topic_data=[topic])


def _explain(
    answer: PartitionProduceResponse, result: PartitionResult, version: int, hints: LeaderHints, topic_partition: TopicPartition
) -> None:
    answer.error_message = result.error_message
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message) for index, message in result.record_errors
    ]
    if result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _FIRST_VERSION_WITH_LEADERS:
        leader_id, leader_epoch = hints.leader(topic_partition)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)


def _several_producers(entries: dict[TopicPartition, Buffer]) -> Results:
    return {partition: PartitionResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING) for partition in entries}


def _not_in_transaction(error: ErrorCode, is_adding: bool) -> PartitionResult:
    """Return the result of a batch whose partition is not in the transaction; for an error that passes, one that producers retry.

    A producer whose batches add partitions knows CONCURRENT_TRANSACTIONS: its last transaction is not complete.
    """
    if error not in UNVERIFIABLE or (is_adding and error is ErrorCode.CONCURRENT_TRANSACTIONS):
        result = PartitionResult(error)
        if error is ErrorCode.INVALID_TXN_STATE:
            result.error_message = "The partition was not added to the transaction"
        return result
    result = PartitionResult(ErrorCode.NOT_ENOUGH_REPLICAS)
    result.error_message = f"Cannot verify that the partition was added to the transaction: {error.name}"
    return result


def _all_refused(request: ProduceRequest, error: int) -> Results:
    return {
        TopicPartition(topic.name, data.index): PartitionResult(error)
        for topic in request.topic_data
        for data in topic.partition_data
    }
