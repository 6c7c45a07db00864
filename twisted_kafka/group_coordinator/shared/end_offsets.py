"""The end offsets of partitions, wherever their leaders are: a share group's lag depends on them (KIP-1226)."""

from collections.abc import Collection
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from twisted_kafka.coordinator.interfaces import IBrokerClient
from twisted_kafka.metadata.cache import MetadataCache, Node
from twisted_kafka.protocol.errors import ErrorCode, KafkaError, error_code_of, error_of
from twisted_kafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.operations.offset_queries import LATEST_TIMESTAMP
from twisted_kafka.replication.partition.fetch_data import CONSUMER_REPLICA_ID
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.waiting.futures import completed, gather, recover, then


class EndOffset(NamedTuple):
    """The offset after a partition's last committed record, or an error."""

    offset: int
    error: ErrorCode = ErrorCode.NONE


Found = dict[TopicPartition, EndOffset]
_READ_UNCOMMITTED = 0
_ANY_EPOCH = -1


class EndOffsets:
    """Looks up end offsets in this broker's logs, and asks other leaders. Methods may be called on any thread."""

    def __init__(self, replicas: ReplicaManager, brokers: IBrokerClient, listener_name: str) -> None:
        """``listener_name`` is that of the other brokers to send to."""
        self._replicas = replicas
        self._metadata: MetadataCache = replicas.metadata
        self._brokers = brokers
        self._listener_name = listener_name

    def find(self, partitions: Collection[TopicPartition]) -> "Future[Found]":
        """Return the end offset of each partition; the future never fails."""
        own: Found = {}
        others: dict[Node, list[TopicPartition]] = {}
        for partition in partitions:
            state = self._metadata.partition(partition)
            leader = -1 if state is None else state.leader
            if leader == self._metadata.broker_id:
                own[partition] = self._own(partition)
            elif (node := self._metadata.node(leader, self._listener_name)) is None:
                own[partition] = EndOffset(-1, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                others.setdefault(node, []).append(partition)
        parts: list[Found | Future[Found]] = [own, *(self._ask(node, wanted) for node, wanted in others.items())]
        found = gather(parts, lambda parts: {partition: end for part in parts for partition, end in part.items()})
        return found if isinstance(found, Future) else completed(found)

    def _own(self, partition: TopicPartition) -> EndOffset:
        try:
            found = self._replicas.offsets.list_offset(
                partition, LATEST_TIMESTAMP, CONSUMER_REPLICA_ID, _READ_UNCOMMITTED, _ANY_EPOCH
            )
        except KafkaError as error:
            return EndOffset(-1, error.code)
        return EndOffset(-1, ErrorCode.UNKNOWN_SERVER_ERROR) if found is None else EndOffset(found.offset)

    def _ask(self, node: Node, partitions: Collection[TopicPartition]) -> "Future[Found]":
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in partitions:
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=LATEST_TIMESTAMP))
        request = ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID, isolation_level=_READ_UNCOMMITTED, topics=list(topics.values())
        )
        answer = then(self._brokers.send(node, request), partial(_found, partitions))
        return recover(answer, Exception, lambda error: dict.fromkeys(partitions, EndOffset(-1, error_of(error))))


def _found(partitions: Collection[TopicPartition], response: ListOffsetsResponse) -> Found:
    found = dict.fromkeys(partitions, EndOffset(-1, ErrorCode.UNKNOWN_SERVER_ERROR))
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if partition in found:
                found[partition] = EndOffset(each.offset, error_code_of(each.error_code))
    return found
