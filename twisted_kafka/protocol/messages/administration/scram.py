"""SCRAM credentials."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Bytes, Int8, Int16, Int32, String


class UserName(Struct):
    name: String = ""


class DescribeUserScramCredentialsRequest(Message, key=50, versions=(0, 0), flexible=0):
    """Ask which SCRAM credentials users have."""

    users: list[UserName] | None = field(factory=list)


class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: list[CredentialInfo] = field(factory=list)


class DescribeUserScramCredentialsResponse(Message, key=50, versions=(0, 0), flexible=0):
    """The mechanisms and iterations of each user, never secrets."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(factory=list)


class ScramCredentialDeletion(Struct):
    name: String = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Struct):
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = field(default=b"", secret=True)
    salted_password: Bytes = field(default=b"", secret=True)


class AlterUserScramCredentialsRequest(Message, key=51, versions=(0, 0), flexible=0):
    """Set or delete SCRAM credentials of users."""

    deletions: list[ScramCredentialDeletion] = field(factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(factory=list)


class AlterUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class AlterUserScramCredentialsResponse(Message, key=51, versions=(0, 0), flexible=0):
    """The result for each user."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(factory=list)
