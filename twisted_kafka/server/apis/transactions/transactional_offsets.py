"""TxnOffsetCommit v0-6: offsets of a group that become visible when the producer's transaction is committed.

v2 leader epochs, v3 the group member that commits (KIP-447), v4 further errors, v5 adds the group's partition of
``__consumer_offsets`` to the transaction (KIP-890), v6 topic ids.
"""

from concurrent.futures import Future
from typing import Final

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.group_coordinator.state.offset_store import Offsets
from twisted_kafka.log.producer_state.producer_state_manager import NO_SEQUENCE
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.network.requests.request_context import RequestContext, TransactionNote
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.messages.coordinators.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.server.topic_ids import UNKNOWN_NAME, name_topics, names_of, text_of
from twisted_kafka.timing.clock import IClock
from twisted_kafka.transaction_coordinator.verification import UNVERIFIABLE, TransactionVerification, Verified
from twisted_kafka.waiting.futures import and_then, when_done

LOADING_SINCE: Final = 2
"""Older producers fail with COORDINATOR_LOAD_IN_PROGRESS, so they get another retriable error (KAFKA-7296)."""

ABORTABLE_SINCE: Final = 4
"""The version since which producers know TRANSACTION_ABORTABLE."""

BY_ID_SINCE: Final = 6
ADDS_SINCE: Final = 5
"""The version since which producers send no AddOffsetsToTxn."""

Refused = dict[TopicPartition, ErrorCode]

_NOT_FOR_GROUP: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""The errors of partitions that the group does not get to see."""


class TransactionalOffsetApis:
    """Commits a group's offsets in a transaction."""

    def __init__(
        self,
        groups: GroupCoordinator,
        verification: TransactionVerification,
        metadata: MetadataCache,
        clock: IClock,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._groups = groups
        self._verification = verification
        self._metadata = metadata
        self._clock = clock

    @api(TxnOffsetCommitRequest, TxnOffsetCommitResponse, versions=(0, 6))
    def txn_offset_commit(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> "TxnOffsetCommitResponse | Future[TxnOffsetCommitResponse]":
        """Write offsets, which stay pending until the transaction's marker is written; respond when they are replicated."""
        context.transaction = TransactionNote(request.transactional_id)
        context.group = request.group_id, request.member_id, request.generation_id_or_member_epoch
        self._authorization.require(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        self._authorization.require(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
        offsets: Offsets = {}
        refused: Refused = {}
        self._sort(context, request, offsets, refused)
        if not offsets and all(error in _NOT_FOR_GROUP for error in refused.values()):
            return _response(context, request, refused, ErrorCode.NONE)
        return when_done(
            self._commit(request, offsets, context.api_version), lambda error: _response(context, request, refused, error)
        )

    def _sort(self, context: RequestContext, request: TxnOffsetCommitRequest, offsets: Offsets, refused: Refused) -> None:
        """Add each partition of the request to ``offsets``, or with its error to ``refused``."""
        now_ms = self._clock.wall_ms()
        limit = self._groups.config.offset_metadata_max_bytes
        by_id = context.api_version >= BY_ID_SINCE
        if by_id:
            name_topics(request.topics, self._metadata.topic_name)
        names = names_of(request.topics, by_id=by_id)
        allowed = self._authorization.allowed_of(context, AclOperation.READ, ResourceType.TOPIC, names)
        for topic in request.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                metadata = partition.committed_metadata or ""
                if by_id and topic.name == UNKNOWN_NAME:
                    refused[key] = ErrorCode.UNKNOWN_TOPIC_ID
                elif topic.name not in allowed:
                    refused[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif self._metadata.partition(key) is None:
                    refused[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif len(metadata) > limit:
                    refused[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    offsets[key] = OffsetCommitValue(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now_ms,
                    )

    def _commit(self, request: TxnOffsetCommitRequest, offsets: Offsets, version: int) -> "ErrorCode | Future[ErrorCode]":
        producer = Producer(request.producer_id, request.producer_epoch)
        try:
            partition = self._groups.transactional_partition(request.group_id)
        except KafkaError as failure:
            return failure.code
        sender = Sender(request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
        is_adding = version >= ADDS_SINCE

        def commit(verified: Verified) -> "ErrorCode | Future[ErrorCode]":
            error = verified.errors.get(partition, ErrorCode.NONE)
            if error:
                return error if is_adding and error is ErrorCode.CONCURRENT_TRANSACTIONS else _for_producer(error)
            return self._groups.commit_transactional_offsets(sender, producer, verified.guards.get(partition), offsets)

        sequences = {partition: NO_SEQUENCE}
        if not is_adding:
            knows_abortable = version >= ABORTABLE_SINCE
            verified = self._verification.verify(sequences, request.transactional_id, producer, knows_abortable=knows_abortable)
            return and_then(verified, commit)
        return and_then(self._verification.add(sequences, request.transactional_id, producer), commit)


def _for_producer(error: ErrorCode) -> ErrorCode:
    """Return the error: another coordinator's one would make the producer look for this group's coordinator again."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if error in UNVERIFIABLE else error


def _response(
    context: RequestContext, request: TxnOffsetCommitRequest, refused: Refused, error: ErrorCode
) -> TxnOffsetCommitResponse:
    """Build the response. Errors of unknown or denied topics precede the group's error, which precedes too large metadata."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.api_version < LOADING_SINCE:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    topics = []
    for topic in request.topics:
        partitions = []
        first_error = ErrorCode.NONE
        for partition in topic.partitions:
            own = refused.get(TopicPartition(topic.name, partition.partition_index), ErrorCode.NONE)
            code = own if own in _NOT_FOR_GROUP or not error else error
            first_error = first_error or code
            partitions.append(TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code))
        context.note_topic(text_of(topic), tuple([each.partition_index for each in partitions]), 0, 0, first_error)
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return TxnOffsetCommitResponse(topics=topics)
