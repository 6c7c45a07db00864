"""DescribeProducers v0 (KIP-664)."""

from twisted_kafka.admin.topic_names import ensure_valid_name
from twisted_kafka.log.producer_state.producer_state_manager import ProducerEntry
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError, error_of
from twisted_kafka.protocol.messages.coordinators.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api


class ProducerApis:
    """The active idempotent and transactional producers of partitions."""

    def __init__(self, replicas: ReplicaManager, metadata: MetadataCache, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._replicas = replicas
        self._metadata = metadata

    @api(DescribeProducersRequest, DescribeProducersResponse, versions=(0, 0))
    def describe_producers(self, context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
        """List each partition's producers with their sequences and open transactions."""
        topics = []
        asked: dict[str, dict[int, None]] = {}  # each partition once: it may have many producers
        for topic in request.topics:
            asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        for name, indexes in asked.items():
            partitions = [self._described(context, name, index) for index in indexes]
            error = next((each.error_code for each in partitions if each.error_code), 0)
            context.note_topic(name, tuple(indexes), 0, 0, error)
            topics.append(TopicResponse(name=name, partitions=partitions))
        return DescribeProducersResponse(topics=topics)

    def _described(self, context: RequestContext, topic: str, index: int) -> PartitionResponse:
        answer = PartitionResponse(partition_index=index)
        try:
            ensure_valid_name(topic)
            self._authorization.require(context, AclOperation.READ, ResourceType.TOPIC, topic)
            if not self._metadata.contains(topic):
                raise UnknownTopicOrPartitionError(f"This broker does not host topic {topic!r}: it does not exist")
            partition = self._replicas.get_partition_or_error(TopicPartition(topic, index))
            answer.active_producers = [_producer(entry) for entry in partition.log.active_producers()]
        except KafkaError as error:
            answer.error_code, answer.error_message = error_of(error), str(error) or None
        return answer


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )
