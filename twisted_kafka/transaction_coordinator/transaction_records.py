"""Records of ``__transaction_state`` (Kafka: TransactionLog).

Version 0 is what Kafka 3.9 writes in ZooKeeper mode, version 1 what any Kafka writes with ``transaction.version`` 1 or above.
"""

from typing import Final

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, Producer, RecordKinds
from twisted_kafka.protocol.messages.coordinators.coordinator_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.transaction_coordinator.transaction_metadata import NO_PARTITIONS, NO_PRODUCER_ID, TransactionMetadata
from twisted_kafka.transaction_coordinator.transaction_state import TransactionState

_KIND: Final = 0
_FIRST_LEVEL_OF_VERSION_1: Final = 1

TRANSACTION_RECORD_KINDS: Final[RecordKinds] = {_KIND: (TransactionLogKey, TransactionLogValue)}


def transaction_record(metadata: TransactionMetadata, transaction_version: int) -> CoordinatorRecord:
    """Return the record of a transactional id's state, for a cluster with this ``transaction.version``.

    A state that version 0 cannot express is written in version 1 at every level: it may be left from before a downgrade.
    """
    version = 1 if transaction_version >= _FIRST_LEVEL_OF_VERSION_1 or _needs_version_1(metadata) else 0
    is_empty = metadata.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=metadata.producer.producer_id,
        producer_epoch=metadata.producer.epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.value,
        transaction_partitions=None
        if is_empty
        else [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in metadata.partitions_by_topic().items()],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
    )
    if version:
        previous = metadata.previous_producer_id
        value.previous_producer_id = metadata.producer.producer_id if previous == NO_PRODUCER_ID else previous
        value.next_producer_id = metadata.next_producer_id
        value.client_transaction_version = metadata.client_version
    return CoordinatorRecord(TransactionLogKey(transactional_id=metadata.transactional_id), _KIND, value, version)


def _needs_version_1(metadata: TransactionMetadata) -> bool:
    return metadata.client_version > 0 or metadata.previous_producer_id >= 0 or metadata.next_producer_id >= 0


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    """Return the tombstone of an expired transactional id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), _KIND, None)


def transaction_metadata(record: CoordinatorRecord) -> TransactionMetadata | None:
    """Return the state that the record says, None for a tombstone. Raises ValueError for an unknown state."""
    value = record.value
    if value is None:
        return None
    partitions = NO_PARTITIONS
    if value.transaction_partitions:
        partitions = frozenset(
            TopicPartition(topic.topic, index) for topic in value.transaction_partitions for index in topic.partition_ids
        )
    return TransactionMetadata(
        record.key.transactional_id,
        Producer(value.producer_id, value.producer_epoch),
        value.transaction_timeout_ms,
        TransactionState(value.transaction_status),
        partitions,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        NO_PRODUCER_ID if value.previous_producer_id == value.producer_id else value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )
