"""Producers and transactions, for administrators."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Int16, Int32, Int64, String


class TopicRequest(Struct):
    name: String = ""
    partition_indexes: list[Int32] = field(factory=list)


class DescribeProducersRequest(Message, key=61, versions=(0, 0), flexible=0):
    """Ask for the producers that are active on partitions."""

    topics: list[TopicRequest] = field(factory=list)


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState] = field(factory=list)


class TopicResponse(Struct):
    name: String = ""
    partitions: list[PartitionResponse] = field(factory=list)


class DescribeProducersResponse(Message, key=61, versions=(0, 0), flexible=0):
    """The producers with their sequences and open transactions."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = field(factory=list)


class DescribeTransactionsRequest(Message, key=65, versions=(0, 0), flexible=0):
    """Ask for the state of transactions."""

    transactional_ids: list[String] = field(factory=list)


class TopicData(Struct):
    topic: String = ""
    partitions: list[Int32] = field(factory=list)


class DescribeTransactionsResponseTransactionState(Struct):
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = field(factory=list)


class DescribeTransactionsResponse(Message, key=65, versions=(0, 0), flexible=0):
    """The transactions with their partitions."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribeTransactionsResponseTransactionState] = field(factory=list)


class ListTransactionsRequest(Message, key=66, versions=(0, 2), flexible=0):
    """Ask for the transactions that this broker coordinates."""

    state_filters: list[String] = field(factory=list)
    producer_id_filters: list[Int64] = field(factory=list)
    duration_filter: Int64 = field(default=-1, since=1)
    transactional_id_pattern: String | None = field(default=None, since=2)


class ListTransactionsResponseTransactionState(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(Message, key=66, versions=(0, 2), flexible=0):
    """The transactions with their states."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = field(factory=list)
    transaction_states: list[ListTransactionsResponseTransactionState] = field(factory=list)
