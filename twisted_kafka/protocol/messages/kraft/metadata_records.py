"""KRaft metadata records about topics, configurations, quotas and the log itself."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Float64, Int8, Int32, Int64, String, Uuid


class TopicRecord(Message, key=2, versions=(0, 0), flexible=0):
    """A topic was created."""

    name: String = ""
    topic_id: Uuid = NO_UUID


class PartitionRecord(Message, key=3, versions=(0, 2), flexible=0):
    """A partition with its replicas and leader."""

    partition_id: Int32 = -1
    topic_id: Uuid = NO_UUID
    replicas: list[Int32] = field(factory=list)
    isr: list[Int32] = field(factory=list)
    removing_replicas: list[Int32] = field(factory=list)
    adding_replicas: list[Int32] = field(factory=list)
    leader: Int32 = -1
    leader_recovery_state: Int8 = field(default=0, tag=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: list[Uuid] = field(factory=list, since=1)
    eligible_leader_replicas: list[Int32] | None = field(default=None, since=2, tag=1)
    last_known_elr: list[Int32] | None = field(default=None, since=2, tag=2)


class ConfigRecord(Message, key=4, versions=(0, 0), flexible=0):
    """A configuration entry was set, or deleted when it has no value."""

    resource_type: Int8 = 0
    resource_name: String = ""
    name: String = ""
    value: String | None = field(default="", secret=True)


class PartitionChangeRecord(Message, key=5, versions=(0, 2), flexible=0):
    """A partition's state changed in part."""

    partition_id: Int32 = -1
    topic_id: Uuid = NO_UUID
    isr: list[Int32] | None = field(default=None, tag=0)
    leader: Int32 = field(default=-2, tag=1)
    replicas: list[Int32] | None = field(default=None, tag=2)
    removing_replicas: list[Int32] | None = field(default=None, tag=3)
    adding_replicas: list[Int32] | None = field(default=None, tag=4)
    leader_recovery_state: Int8 = field(default=-1, tag=5)
    directories: list[Uuid] | None = field(default=None, since=1, tag=8)
    eligible_leader_replicas: list[Int32] | None = field(default=None, since=2, tag=6)
    last_known_elr: list[Int32] | None = field(default=None, since=2, tag=7)


class RemoveTopicRecord(Message, key=9, versions=(0, 0), flexible=0):
    """A topic was deleted."""

    topic_id: Uuid = NO_UUID


class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


class ClientQuotaRecord(Message, key=14, versions=(0, 0), flexible=0):
    """A quota was set or deleted."""

    entity: list[EntityData] = field(factory=list)
    key: String = ""
    value: Float64 = 0.0
    remove: bool = False


class ProducerIdsRecord(Message, key=15, versions=(0, 0), flexible=0):
    """A block of producer ids was allocated to a broker."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


class NoOpRecord(Message, key=20, versions=(0, 0), flexible=0):
    """No change: it only advances the offset."""


class BeginTransactionRecord(Message, key=23, versions=(0, 0), flexible=0):
    """The following records belong to one transaction."""

    name: String | None = field(default=None, tag=0)


class EndTransactionRecord(Message, key=24, versions=(0, 0), flexible=0):
    """The transaction is committed: its records take effect."""


class AbortTransactionRecord(Message, key=25, versions=(0, 0), flexible=0):
    """The transaction is aborted: its records have no effect."""

    reason: String | None = field(default=None, tag=0)


class ClearElrRecord(Message, key=28, versions=(0, 0), flexible=0):
    """The eligible leader replicas of a topic, or of all topics, are cleared."""

    topic_name: String = ""
