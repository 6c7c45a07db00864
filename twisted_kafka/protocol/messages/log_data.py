"""Other data with schemas of its own: files of the log, and the principal in an Envelope."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, Int64, String, Uint32, Uuid


class DefaultPrincipalData(Message, versions=(0, 0), flexible=0):
    """A principal as it is sent in an Envelope."""

    type: String = ""
    name: String = ""
    token_authenticated: bool = False


class ProducerEntry(Struct):
    producer_id: Int64 = 0
    epoch: Int16 = 0
    last_sequence: Int32 = 0
    last_offset: Int64 = 0
    offset_delta: Int32 = 0
    timestamp: Int64 = 0
    coordinator_epoch: Int32 = 0
    current_txn_first_offset: Int64 = 0


class ProducerSnapshot(Message, versions=(1, 1)):
    """The contents of a producer snapshot file: the state of a partition's producers."""

    crc: Uint32 = 0
    producer_entries: list[ProducerEntry] = field(factory=list)


class AbortedTxn(Message, versions=(0, 0)):
    """An entry of the transaction index."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    last_stable_offset: Int64 = 0


class Voter(Struct):
    voter_id: Int32 = field(default=0, until=0)


class QuorumStateData(Message, versions=(0, 1), flexible=0):
    """The contents of the quorum-state file: the vote and the leader of a KRaft node."""

    cluster_id: String = field(default="", until=0)
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    voted_id: Int32 = -1
    voted_directory_id: Uuid = field(default=NO_UUID, since=1)
    applied_offset: Int64 = field(default=0, until=0)
    current_voters: list[Voter] | None = field(factory=list, until=0)
