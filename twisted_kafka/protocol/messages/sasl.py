"""SASL authentication."""

from twisted_kafka.protocol.compiler.message import Message, field
from twisted_kafka.protocol.compiler.types import Bytes, Int16, Int64, String


class SaslHandshakeRequest(Message, key=17, versions=(0, 1)):
    """Choose a SASL mechanism."""

    mechanism: String = ""


class SaslHandshakeResponse(Message, key=17, versions=(0, 1)):
    """Whether the mechanism is enabled, and all that are."""

    error_code: Int16 = 0
    mechanisms: list[String] = field(factory=list)


class SaslAuthenticateRequest(Message, key=36, versions=(0, 2), flexible=2):
    """One step of the client in a SASL exchange."""

    auth_bytes: Bytes = field(default=b"", secret=True)


class SaslAuthenticateResponse(Message, key=36, versions=(0, 2), flexible=2):
    """The broker's answer to that step."""

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = field(default=b"", secret=True)
    session_lifetime_ms: Int64 = field(default=0, since=1, ignorable=True)
