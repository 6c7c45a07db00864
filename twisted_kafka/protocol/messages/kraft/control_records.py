"""Control records."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, Int64, String, Uint16, Uuid


class ControlRecordTypeSchema(Message, versions=(0, 0)):
    """The type in the key of a control record."""

    type: Int16 = 0


class EndTxnMarker(Message, versions=(0, 0)):
    """The value of the control record that ends a transaction."""

    coordinator_epoch: Int32 = 0


class KRaftVersionRecord(Message, versions=(0, 0), flexible=0):
    """The control record that sets the KRaft version from its offset on."""

    version: Int16 = 0
    kraft_version: Int16 = 0


class LeaderChangeMessageVoter(Struct):
    voter_id: Int32 = 0
    voter_directory_id: Uuid = field(default=NO_UUID, since=1)


class LeaderChangeMessage(Message, versions=(0, 1), flexible=0):
    """The control record that a new KRaft leader writes first."""

    version: Int16 = 0
    leader_id: Int32 = 0
    voters: list[LeaderChangeMessageVoter] = field(factory=list)
    granting_voters: list[LeaderChangeMessageVoter] = field(factory=list)


class SnapshotHeaderRecord(Message, versions=(0, 0), flexible=0):
    """The control record at the start of a snapshot."""

    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


class SnapshotFooterRecord(Message, versions=(0, 0), flexible=0):
    """The control record at the end of a snapshot."""

    version: Int16 = 0


class Endpoint(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class VotersRecordVoter(Struct):
    voter_id: Int32 = 0
    voter_directory_id: Uuid = NO_UUID
    endpoints: list[Endpoint] = field(factory=list)
    kraft_version_feature: KRaftVersionFeature = field(factory=KRaftVersionFeature)


class VotersRecord(Message, versions=(0, 0), flexible=0):
    """The control record that sets the voters from its offset on."""

    version: Int16 = 0
    voters: list[VotersRecordVoter] = field(factory=list)
