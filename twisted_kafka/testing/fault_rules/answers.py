"""Changes that rules make to answers: errors for some of a request's partitions, and claims of another leader."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import FetchableTopicResponse, PartitionData
from twisted_kafka.testing.recorded.subjects import IsAbout, Partition

LEADER_APIS: Final = (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS)
"""The APIs that a rule with ``leader`` affects."""

DISK_ERRORS: Final = MappingProxyType(
    {
        ApiKey.PRODUCE: ErrorCode.KAFKA_STORAGE_ERROR,
        ApiKey.OFFSET_COMMIT: ErrorCode.NOT_COORDINATOR,
        ApiKey.SYNC_GROUP: ErrorCode.NOT_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID: ErrorCode.NOT_COORDINATOR,
        ApiKey.ADD_PARTITIONS_TO_TXN: ErrorCode.NOT_COORDINATOR,
        ApiKey.ADD_OFFSETS_TO_TXN: ErrorCode.NOT_COORDINATOR,
        ApiKey.END_TXN: ErrorCode.NOT_COORDINATOR,
        ApiKey.TXN_OFFSET_COMMIT: ErrorCode.NOT_COORDINATOR,
        ApiKey.CREATE_TOPICS: ErrorCode.KAFKA_STORAGE_ERROR,
        ApiKey.CREATE_PARTITIONS: ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The APIs that append, with their error after the log directory failed. A coordinator's clients do not know its topic."""


def spoil_fetch(response: Any, wanted: Collection[Partition], ids: Mapping[str, bytes], code: ErrorCode) -> None:
    """Replace these partitions' records in a Fetch response by an error; add partitions that had nothing new."""
    names = {topic_id: name for name, topic_id in ids.items()}
    there = {topic.topic or names.get(topic.topic_id, ""): topic for topic in response.responses}
    for name, index in wanted:
        topic = there.get(name)
        if topic is None:
            topic = there[name] = FetchableTopicResponse(topic=name, topic_id=ids.get(name, bytes(16)))
            response.responses.append(topic)
        # No records, but a list of them, as in Kafka: librdkafka takes null for a malformed response.
        failed = PartitionData(partition_index=index or 0, error_code=code, high_watermark=-1, records=b"")
        topic.partitions = [*(each for each in topic.partitions if each.partition_index != index), failed]


def spoil_offsets(response: Any, is_about: IsAbout, names_by_id: Callable[[bytes], str | None], code: ErrorCode) -> None:
    """Replace the committed offsets by an error where ``is_about`` is true, in an OffsetFetch response."""
    for topic in [*response.topics, *(topic for group in response.groups for topic in group.topics)]:
        name = topic.name or names_by_id(topic.topic_id) or ""
        for partition in topic.partitions:
            if is_about((name, partition.partition_index)):
                partition.error_code, partition.committed_offset, partition.metadata = code, -1, ""


def claim_leader(metadata: Any, is_about: IsAbout, leader: int) -> None:
    """Name this broker as the partitions' leader in a Metadata response."""
    for topic in metadata.topics:
        for partition in topic.partitions:
            if is_about((topic.name, partition.partition_index)):
                partition.leader_id = leader
