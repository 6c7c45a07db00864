"""The headers of requests and responses as messages; ``protocol.headers`` reads and writes them faster."""

from twisted_kafka.protocol.compiler.message import Message, field
from twisted_kafka.protocol.compiler.types import Int16, Int32, String


class RequestHeader(Message, versions=(0, 2), flexible=2):
    """The header of every request."""

    request_api_key: Int16 = 0
    request_api_version: Int16 = 0
    correlation_id: Int32 = 0
    client_id: String | None = field(default="", since=1, ignorable=True, compact=False)


class ResponseHeader(Message, versions=(0, 1), flexible=1):
    """The header of every response."""

    correlation_id: Int32 = 0
