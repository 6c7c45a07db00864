"""Records of share partitions in ``__share_group_state``; ``KEY`` is the version number before the key."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int8, Int16, Int32, Int64, String, Uuid


class ShareSnapshotKey(Message, key=0, versions=(0, 0)):
    """The key of a snapshot of a share partition in ``__share_group_state``."""

    group_id: String = ""
    topic_id: Uuid = NO_UUID
    partition: Int32 = 0


class StateBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class ShareSnapshotValue(Message, key=0, versions=(0, 0), flexible=0):
    """The whole state of a share partition."""

    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: list[StateBatch] = field(factory=list)


class ShareUpdateKey(Message, key=1, versions=(0, 0)):
    """The key of an update of a share partition in ``__share_group_state``."""

    group_id: String = ""
    topic_id: Uuid = NO_UUID
    partition: Int32 = 0


class ShareUpdateValue(Message, key=1, versions=(0, 0), flexible=0):
    """A change of a share partition since its last snapshot."""

    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    state_batches: list[StateBatch] = field(factory=list)
