"""Producer ids and transactions."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, Int64, String, Uuid


class InitProducerIdRequest(Message, key=22, versions=(0, 6), flexible=2):
    """Ask for a producer id and epoch; an open transaction of the transactional id is aborted."""

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field(default=-1, since=3)
    producer_epoch: Int16 = field(default=-1, since=3)
    enable2_pc: bool = field(default=False, since=6)
    keep_prepared_txn: bool = field(default=False, since=6)


class InitProducerIdResponse(Message, key=22, versions=(0, 6), flexible=2):
    """The producer id and epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = field(default=-1, since=6)
    ongoing_txn_producer_epoch: Int16 = field(default=-1, since=6)


class AddPartitionsToTxnTopic(Struct):
    name: String = ""
    partitions: list[Int32] = field(factory=list)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(factory=list)


class AddPartitionsToTxnRequest(Message, key=24, versions=(0, 5), flexible=3):
    """Add partitions to a transaction, or verify that they belong to it."""

    transactions: list[AddPartitionsToTxnTransaction] = field(factory=list, since=4)
    v3_and_below_transactional_id: String = field(default="", until=3)
    v3_and_below_producer_id: Int64 = field(default=0, until=3)
    v3_and_below_producer_epoch: Int16 = field(default=0, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(factory=list, until=3)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(factory=list)


class AddPartitionsToTxnResult(Struct):
    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(factory=list)


class AddPartitionsToTxnResponse(Message, key=24, versions=(0, 5), flexible=3):
    """Which partitions belong to the transaction now."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=4, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(factory=list, since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(factory=list, until=3)


class AddOffsetsToTxnRequest(Message, key=25, versions=(0, 4), flexible=3):
    """Add a group's offsets to a transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(Message, key=25, versions=(0, 4), flexible=3):
    """Whether they were added."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class EndTxnRequest(Message, key=26, versions=(0, 5), flexible=3):
    """Commit or abort a transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


class EndTxnResponse(Message, key=26, versions=(0, 5), flexible=3):
    """Whether the transaction is ending, and the producer's new epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field(default=-1, since=5, ignorable=True)
    producer_epoch: Int16 = field(default=-1, since=5, ignorable=True)


class WritableTxnMarkerTopic(Struct):
    name: String = ""
    partition_indexes: list[Int32] = field(factory=list)


class WritableTxnMarker(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(factory=list)
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = field(default=0, since=2, ignorable=True)


class WriteTxnMarkersRequest(Message, key=27, versions=(0, 2), flexible=1):
    """The transaction coordinator asks leaders to write the markers that end transactions."""

    markers: list[WritableTxnMarker] = field(factory=list)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(factory=list)


class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(factory=list)


class WriteTxnMarkersResponse(Message, key=27, versions=(0, 2), flexible=1):
    """Which markers were written."""

    markers: list[WritableTxnMarkerResult] = field(factory=list)


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(default=-1, since=2, ignorable=True)
    committed_metadata: String | None = ""


class TxnOffsetCommitRequestTopic(Struct):
    name: String = field(default="", until=5, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=6, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = field(factory=list)


class TxnOffsetCommitRequest(Message, key=28, versions=(0, 6), flexible=3):
    """Commit a group's offsets as part of a transaction."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Int32 = field(default=-1, since=3)
    member_id: String = field(default="", since=3)
    group_instance_id: String | None = field(default=None, since=3)
    topics: list[TxnOffsetCommitRequestTopic] = field(factory=list)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: String = field(default="", until=5, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=6, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = field(factory=list)


class TxnOffsetCommitResponse(Message, key=28, versions=(0, 6), flexible=3):
    """Which offsets were committed."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(factory=list)
