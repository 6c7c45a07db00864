"""The API versions that a node supports. (Kafka: NodeApiVersions.)"""

from collections.abc import Iterable
from typing import Final

from twisted_kafka.client.outgoing_request import IOutgoingRequest
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import ErrorCode, UnsupportedVersionError
from twisted_kafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from twisted_kafka.protocol.regions import Buffer

FIRST_VERSION: Final = 4
"""The version of the first ApiVersions request. A node that does not support it answers with the versions that it does."""

_ERROR_BYTES: Final = 2


class NodeApiVersions:
    """Lowest and highest version of each API that a node supports."""

    __slots__ = ("_ranges",)

    def __init__(self, versions: Iterable[ApiVersion]) -> None:
        self._ranges = {version.api_key: (version.min_version, version.max_version) for version in versions}

    def usable(self, request: IOutgoingRequest | type[Message], latest: int | None = None) -> int:
        """Return the newest version that both sides support, at most ``latest``; raises UnsupportedVersionError."""
        key = request.KEY
        first, last = request.VERSIONS
        if latest is not None:
            last = min(last, latest)
        served = self._ranges.get(key)
        if served is None:
            raise UnsupportedVersionError(f"the node does not support {ApiKey(key).title}")
        low, high = max(first, served[0]), min(last, served[1])
        if low > high:
            raise UnsupportedVersionError(
                f"the node supports {ApiKey(key).title} versions {served[0]} to {served[1]}, this broker {first} to {last}"
            )
        return high


def parse_response(frame: Buffer, offset: int, version: int) -> ApiVersionsResponse | int:
    """Return the ApiVersions response, or the version to retry with; raises MalformedMessageError.

    A node that does not support the version answers in version 0 with an error. Newer nodes include their versions of this API.
    """
    error = int.from_bytes(frame[offset : offset + _ERROR_BYTES], "big", signed=True)
    if error == ErrorCode.UNSUPPORTED_VERSION and version > 0:
        known = ApiVersionsResponse.decode(frame, 0, offset).api_keys
        return min(
            (one.max_version for one in known if one.api_key == ApiKey.API_VERSIONS and one.max_version < version), default=0
        )
    if error:
        raise MalformedMessageError(f"ApiVersions failed with error code {error}")
    return ApiVersionsResponse.decode(frame, version, offset)
