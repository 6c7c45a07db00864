"""Records of classic groups, committed offsets and transactions; ``KEY`` is the version number before the key."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Bytes, Int8, Int16, Int32, Int64, String, Uuid


class GroupMetadataKey(Message, key=2, versions=(0, 0)):
    """The key of a classic group in ``__consumer_offsets``."""

    group: String = ""


class MemberMetadata(Struct):
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=3, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Int32 = field(default=-1, since=1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


class GroupMetadataValue(Message, key=2, versions=(0, 4), flexible=4):
    """A classic group with its members; a record without a value deletes the group."""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = ""
    leader: String | None = ""
    current_state_timestamp: Int64 = field(default=-1, since=2, ignorable=True)
    members: list[MemberMetadata] = field(factory=list)


class LegacyOffsetCommitKey(Message, key=0, versions=(0, 0)):
    """The key of a committed offset in its oldest format."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


class LegacyOffsetCommitValue(Message, key=0, versions=(0, 0)):
    """A committed offset in its oldest format."""

    offset: Int64 = 0
    metadata: String = ""
    commit_timestamp: Int64 = 0


class OffsetCommitKey(Message, key=1, versions=(0, 0)):
    """The key of a committed offset in ``__consumer_offsets``."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


class OffsetCommitValue(Message, key=1, versions=(0, 4), flexible=4):
    """A committed offset; a record without a value deletes it."""

    offset: Int64 = 0
    leader_epoch: Int32 = field(default=-1, since=3, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = field(default=-1, since=1, until=1, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=4, tag=0, ignorable=True)


class TransactionLogKey(Message, key=0, versions=(0, 0)):
    """The key of a transaction in ``__transaction_state``."""

    transactional_id: String = ""


class PartitionsSchema(Struct):
    topic: String = ""
    partition_ids: list[Int32] = field(factory=list)


class TransactionLogValue(Message, key=0, versions=(0, 1), flexible=1):
    """The state of a transactional id and of its transaction."""

    producer_id: Int64 = 0
    previous_producer_id: Int64 = field(default=-1, since=1, tag=0)
    next_producer_id: Int64 = field(default=-1, since=1, tag=1)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = field(default=-1, since=1, tag=3)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = field(factory=list)
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = field(default=0, since=1, tag=2)
