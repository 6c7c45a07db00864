"""Changes of the KRaft voters (KIP-853)."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Int16, Int32, String, Uint16, Uuid


class AddRaftVoterRequestListener(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0


class AddRaftVoterRequest(Message, key=80, versions=(0, 1), flexible=0):
    """Add a voter to the KRaft quorum."""

    cluster_id: String | None = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = NO_UUID
    listeners: list[AddRaftVoterRequestListener] = field(factory=list)
    ack_when_committed: bool = field(default=True, since=1)


class AddRaftVoterResponse(Message, key=80, versions=(0, 1), flexible=0):
    """Whether it was added."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class RemoveRaftVoterRequest(Message, key=81, versions=(0, 0), flexible=0):
    """Remove a voter from the KRaft quorum."""

    cluster_id: String | None = ""
    voter_id: Int32 = 0
    voter_directory_id: Uuid = NO_UUID


class RemoveRaftVoterResponse(Message, key=81, versions=(0, 0), flexible=0):
    """Whether it was removed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class UpdateRaftVoterRequestListener(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class UpdateRaftVoterRequest(Message, key=82, versions=(0, 0), flexible=0):
    """A KRaft voter reports its endpoints and versions."""

    cluster_id: String | None = ""
    current_leader_epoch: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = NO_UUID
    listeners: list[UpdateRaftVoterRequestListener] = field(factory=list)
    kraft_version_feature: KRaftVersionFeature = field(factory=KRaftVersionFeature)


class CurrentLeader(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: String = ""
    port: Int32 = 0


class UpdateRaftVoterResponse(Message, key=82, versions=(0, 0), flexible=0):
    """Whether the update was applied, and the current leader."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    current_leader: CurrentLeader | None = field(default=None, tag=0)
