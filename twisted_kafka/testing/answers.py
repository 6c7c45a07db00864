"""What the rules make of answers: errors for some of a request's partitions, and claims of another leader."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import FetchableTopicResponse, PartitionData
from twisted_kafka.testing.subjects import IsAbout, Partition

LEADER_APIS: Final = (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS)
"""What a claim that another broker leads is about."""

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
"""What appends, and what it is answered when its log directory has failed: a coordinator's clients do not know its topic."""


def spoil_fetch(response: Any, wanted: Collection[Partition], ids: Mapping[str, bytes], code: ErrorCode) -> None:
    """Answer an error for these partitions of a Fetch instead of what was read, also for those with nothing new."""
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
    """Answer an error for the partitions of an OffsetFetch that ``is_about`` is true of instead of what was committed."""
    for topic in [*response.topics, *(topic for group in response.groups for topic in group.topics)]:
        name = topic.name or names_by_id(topic.topic_id) or ""
        for partition in topic.partitions:
            if is_about((name, partition.partition_index)):
                partition.error_code, partition.committed_offset, partition.metadata = code, -1, ""


def claim_leader(metadata: Any, is_about: IsAbout, leader: int) -> None:
    """Tell in a response to Metadata that this broker leads the partitions."""
    for topic in metadata.topics:
        for partition in topic.partitions:
            if is_about((topic.name, partition.partition_index)):
                partition.leader_id = leader
