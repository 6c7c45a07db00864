"""ApiVersions v0-4: v1 throttle time, v3 client software and features, v4 minimum feature versions of 0."""

import re
from collections.abc import Callable, Mapping

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from twisted_kafka.server.dispatch import FrozenResponse, api

FINALIZED_FEATURES_EPOCH = 0
"""The epoch of a broker in ZooKeeper mode, which has no finalized features."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class VersionsApis:
    """Returns the supported APIs. ``supported`` is called once, at the first request."""

    def __init__(self, supported: Callable[[], Mapping[int, tuple[int, int]]]) -> None:
        self._supported = supported
        self._answer: FrozenResponse | None = None

    @api(ApiVersionsRequest, ApiVersionsResponse, versions=(0, 4))
    def api_versions(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse | FrozenResponse:
        """Return all APIs, and record the client's software (KIP-511)."""
        if context.api_version >= 3:
            name, version = request.client_software_name, request.client_software_version
            if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
            context.connection.software_name = name
            context.connection.software_version = version
        if self._answer is None:
            self._answer = FrozenResponse(versions_response(self._supported()))
        return self._answer


def versions_response(supported: Mapping[int, tuple[int, int]]) -> ApiVersionsResponse:
    """Return the response that lists these APIs."""
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in supported.items()],
        finalized_features_epoch=FINALIZED_FEATURES_EPOCH,
    )


def unsupported_version_response(min_version: int, max_version: int) -> ApiVersionsResponse:
    """Return the response to an ApiVersions request of an unsupported version; it has to be encoded as v0."""
    this = ApiVersion(api_key=int(ApiKey.API_VERSIONS), min_version=min_version, max_version=max_version)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[this])
