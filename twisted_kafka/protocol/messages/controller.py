"""Requests of brokers to the controller."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Bytes, Int8, Int16, Int32, Int64, String, Uuid


class BrokerState(Struct):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AlterPartitionRequestPartitionData(Struct):
    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: list[Int32] = field(factory=list, until=2)
    new_isr_with_epochs: list[BrokerState] = field(factory=list, since=3)
    leader_recovery_state: Int8 = field(default=0, since=1)
    partition_epoch: Int32 = 0


class AlterPartitionRequestTopicData(Struct):
    topic_name: String = field(default="", until=1, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=2, ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = field(factory=list)


class AlterPartitionRequest(Message, key=56, versions=(0, 3), flexible=0):
    """A leader asks the controller to change the in-sync replicas."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[AlterPartitionRequestTopicData] = field(factory=list)


class AlterPartitionResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(factory=list)
    leader_recovery_state: Int8 = field(default=0, since=1, ignorable=True)
    partition_epoch: Int32 = 0


class AlterPartitionResponseTopicData(Struct):
    topic_name: String = field(default="", until=1, ignorable=True)
    topic_id: Uuid = field(default=NO_UUID, since=2, ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = field(factory=list)


class AlterPartitionResponse(Message, key=56, versions=(0, 3), flexible=0):
    """The new state of each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[AlterPartitionResponseTopicData] = field(factory=list)


class EnvelopeRequest(Message, key=58, versions=(0, 0), flexible=0):
    """A client's request that a broker forwards to the controller."""

    request_data: Bytes = field(default=b"", secret=True)
    request_principal: Bytes | None = b""
    client_host_address: Bytes = b""


class EnvelopeResponse(Message, key=58, versions=(0, 0), flexible=0):
    """The controller's answer to the forwarded request."""

    response_data: Bytes | None = None
    error_code: Int16 = 0


class AllocateProducerIdsRequest(Message, key=67, versions=(0, 0), flexible=0):
    """A broker asks the controller for a block of producer ids."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Message, key=67, versions=(0, 0), flexible=0):
    """The first id and the length of the block."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
