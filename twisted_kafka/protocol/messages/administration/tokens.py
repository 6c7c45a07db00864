"""Delegation tokens."""

from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Bytes, Int16, Int32, Int64, String


class CreatableRenewers(Struct):
    principal_type: String = ""
    principal_name: String = ""


class CreateDelegationTokenRequest(Message, key=38, versions=(0, 3), flexible=2):
    """Create a delegation token."""

    owner_principal_type: String | None = field(default="", since=3)
    owner_principal_name: String | None = field(default="", since=3)
    renewers: list[CreatableRenewers] = field(factory=list)
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(Message, key=38, versions=(0, 3), flexible=2):
    """The token and its secret."""

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field(default="", since=3)
    token_requester_principal_name: String = field(default="", since=3)
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = field(default=b"", secret=True)
    throttle_time_ms: Int32 = 0


class RenewDelegationTokenRequest(Message, key=39, versions=(0, 2), flexible=2):
    """Extend the expiry of a delegation token."""

    hmac: Bytes = field(default=b"", secret=True)
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(Message, key=39, versions=(0, 2), flexible=2):
    """The new expiry."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class ExpireDelegationTokenRequest(Message, key=40, versions=(0, 2), flexible=2):
    """Expire a delegation token."""

    hmac: Bytes = field(default=b"", secret=True)
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Message, key=40, versions=(0, 2), flexible=2):
    """The new expiry."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


class DescribeDelegationTokenOwner(Struct):
    principal_type: String = ""
    principal_name: String = ""


class DescribeDelegationTokenRequest(Message, key=41, versions=(0, 3), flexible=2):
    """Ask for the delegation tokens of the given owners."""

    owners: list[DescribeDelegationTokenOwner] | None = field(factory=list)


class DescribedDelegationTokenRenewer(Struct):
    principal_type: String = ""
    principal_name: String = ""


class DescribedDelegationToken(Struct):
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field(default="", since=3)
    token_requester_principal_name: String = field(default="", since=3)
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = field(default=b"", secret=True)
    renewers: list[DescribedDelegationTokenRenewer] = field(factory=list)


class DescribeDelegationTokenResponse(Message, key=41, versions=(0, 3), flexible=2):
    """The tokens with their secrets."""

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = field(factory=list)
    throttle_time_ms: Int32 = 0
