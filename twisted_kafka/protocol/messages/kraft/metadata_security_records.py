"""KRaft metadata records about access control and credentials."""

from twisted_kafka.protocol.compiler.message import Message, field
from twisted_kafka.protocol.compiler.types import NO_UUID, Bytes, Int8, Int32, Int64, String, Uuid


class DelegationTokenRecord(Message, key=10, versions=(0, 0), flexible=0):
    """A delegation token was created or renewed."""

    owner: String = ""
    requester: String = ""
    renewers: list[String] = field(factory=list)
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: String = ""


class UserScramCredentialRecord(Message, key=11, versions=(0, 0), flexible=0):
    """A SCRAM credential was set."""

    name: String = ""
    mechanism: Int8 = 0
    salt: Bytes = field(default=b"", secret=True)
    stored_key: Bytes = field(default=b"", secret=True)
    server_key: Bytes = field(default=b"", secret=True)
    iterations: Int32 = 0


class AccessControlEntryRecord(Message, key=18, versions=(0, 0), flexible=0):
    """An access control entry was added."""

    id: Uuid = NO_UUID
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 0
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class RemoveAccessControlEntryRecord(Message, key=19, versions=(0, 0), flexible=0):
    """An access control entry was deleted."""

    id: Uuid = NO_UUID


class RemoveUserScramCredentialRecord(Message, key=22, versions=(0, 0), flexible=0):
    """A SCRAM credential was deleted."""

    name: String = ""
    mechanism: Int8 = 0


class RemoveDelegationTokenRecord(Message, key=26, versions=(0, 0), flexible=0):
    """A delegation token was deleted."""

    token_id: String = ""
