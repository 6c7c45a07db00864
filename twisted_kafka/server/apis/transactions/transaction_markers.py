"""WriteTxnMarkers v0-1: a transaction coordinator or an administrator ends transactions in partitions that this broker leads.

It is accepted on every listener, as ``kafka-transactions.sh abort`` sends it to the leader of a partition with a hanging
transaction (KIP-664). In Kafka it requires ALTER or CLUSTER_ACTION on the cluster.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.group.group_coordinator import GroupCoordinator
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from twisted_kafka.protocol.records.builder import end_transaction_marker
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.replication.operations.append_result import PartitionResult
from twisted_kafka.replication.partition.partition import ACKS_ALL
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.server.dispatch import api
from twisted_kafka.timing.clock import IClock
from twisted_kafka.waiting.futures import gather, when_done

Errors = dict[TopicPartition, ErrorCode]


class TransactionMarkerApis:
    """Writes the markers that commit or abort transactions."""

    def __init__(self, replicas: ReplicaManager, groups: GroupCoordinator, clock: IClock, timeout_ms: int) -> None:
        """``timeout_ms`` is the time that replicas have to confirm a marker (``request.timeout.ms``)."""
        self._replicas = replicas
        self._groups = groups
        self._clock = clock
        self._timeout_ms = timeout_ms

    @api(WriteTxnMarkersRequest, WriteTxnMarkersResponse, versions=(0, 1))
    def write_txn_markers(
        self, context: RequestContext, request: WriteTxnMarkersRequest
    ) -> "WriteTxnMarkersResponse | Future[WriteTxnMarkersResponse]":
        """Append each marker to its partitions; respond when all are replicated."""
        written = [gather(list(self._written(marker)), _merged) for marker in request.markers]
        return gather(written, lambda results: _response(context, request, results))

    def _written(self, marker: WritableTxnMarker) -> "Iterable[Errors | Future[Errors]]":
        """Append one marker; yield the result of each append."""
        producer = Producer(marker.producer_id, marker.producer_epoch)
        batches: dict[TopicPartition, Buffer] = {}
        for topic in marker.topics:
            for index in topic.partition_indexes:
                partition = TopicPartition(topic.name, index)
                if self._replicas.get_partition(partition) is None:
                    yield {partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
                elif topic.name == GROUP_METADATA_TOPIC:
                    yield self._in_group_coordinator(partition, producer, marker)
                else:
                    batches[partition] = end_transaction_marker(
                        commit=marker.transaction_result,
                        coordinator_epoch=marker.coordinator_epoch,
                        timestamp_ms=self._clock.wall_ms(),
                        producer_id=producer.producer_id,
                        producer_epoch=producer.epoch,
                    )
        if batches:
            results = self._replicas.appender.append(
                self._timeout_ms, ACKS_ALL, batches, AppendOrigin.COORDINATOR, internal_topics_allowed=True
            )
            yield when_done(results, _errors)

    def _in_group_coordinator(
        self, partition: TopicPartition, producer: Producer, marker: WritableTxnMarker
    ) -> "Errors | Future[Errors]":
        """Let the group coordinator write the marker and commit or discard the transaction's offsets."""
        result = self._groups.end_transaction(partition.partition, producer, marker.coordinator_epoch, marker.transaction_result)
        return when_done(result, lambda error: {partition: error})


def _errors(results: Mapping[TopicPartition, PartitionResult]) -> Errors:
    return {partition: ErrorCode(result.error) for partition, result in results.items()}


def _merged(each: Iterable[Errors]) -> Errors:
    return {partition: error for errors in each for partition, error in errors.items()}


def _response(context: RequestContext, request: WriteTxnMarkersRequest, results: list[Errors]) -> WriteTxnMarkersResponse:
    """Build the response with one entry per producer; several markers of a producer are merged."""
    producers: dict[int, Errors] = {}
    for marker, errors in zip(request.markers, results, strict=True):
        producers.setdefault(marker.producer_id, {}).update(errors)
    markers = []
    for producer_id, errors in producers.items():
        if not errors:
            continue
        topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
        for (topic, index), error in errors.items():
            context.note_topic(topic, 1, 0, 0, error)
            topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
        answered = [WritableTxnMarkerTopicResult(name=name, partitions=partitions) for name, partitions in topics.items()]
        markers.append(WritableTxnMarkerResult(producer_id=producer_id, topics=answered))
    return WriteTxnMarkersResponse(markers=markers)
