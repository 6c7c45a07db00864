"""WriteTxnMarkers v0-2: a transaction coordinator or an administrator ends transactions in partitions that this broker leads.

v2 says which ``transaction.version`` a marker belongs to (KIP-1228).

It is accepted on every listener, as ``kafka-transactions.sh abort`` sends it to the leader of a partition with a hanging
transaction (KIP-664). It requires ALTER or CLUSTER_ACTION on the cluster.
"""

from concurrent.futures import Future

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.messages.coordinators.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.transaction_coordinator.markers.marker_writer import MarkerAppender
from twisted_kafka.transaction_coordinator.markers.transaction_marker import MarkerErrors, TransactionMarker
from twisted_kafka.waiting.futures import gather


class TransactionMarkerApis:
    """Writes the markers that commit or abort transactions."""

    def __init__(self, appender: MarkerAppender, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._appender = appender

    @api(WriteTxnMarkersRequest, WriteTxnMarkersResponse, versions=(0, 2))
    def write_txn_markers(
        self, context: RequestContext, request: WriteTxnMarkersRequest
    ) -> "WriteTxnMarkersResponse | Future[WriteTxnMarkersResponse]":
        """Append each marker to its partitions; respond when all are replicated."""
        if not self._authorization.is_allowed_on_cluster(context, AclOperation.ALTER, logs_denied=False):
            self._authorization.require_cluster(context, AclOperation.CLUSTER_ACTION)
        written = [self._appender.append(_marker(each)) for each in request.markers]
        return gather(written, lambda results: _response(context, request, results))


def _marker(marker: WritableTxnMarker) -> TransactionMarker:
    partitions = frozenset(TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
    producer = Producer(marker.producer_id, marker.producer_epoch)
    return TransactionMarker(producer, marker.coordinator_epoch, marker.transaction_result, partitions, marker.transaction_version)


def _response(context: RequestContext, request: WriteTxnMarkersRequest, results: list[MarkerErrors]) -> WriteTxnMarkersResponse:
    """Build the response with one entry per producer; several markers of a producer are merged."""
    producers: dict[int, MarkerErrors] = {}
    for marker, errors in zip(request.markers, results, strict=True):
        producers.setdefault(marker.producer_id, {}).update(errors)
    markers = []
    for producer_id, errors in producers.items():
        if not errors:
            continue
        topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
        for (topic, index), error in errors.items():
            topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
        for topic, partitions in topics.items():
            first_error = next((each.error_code for each in partitions if each.error_code), 0)
            context.note_topic(topic, tuple(sorted([each.partition_index for each in partitions])), 0, 0, first_error)
        answered = [WritableTxnMarkerTopicResult(name=name, partitions=partitions) for name, partitions in topics.items()]
        markers.append(WritableTxnMarkerResult(producer_id=producer_id, topics=answered))
    return WriteTxnMarkersResponse(markers=markers)
