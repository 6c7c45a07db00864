"""ApiVersions v0-5: v1 throttle time, v3 client software and features, v4 minimum feature versions of 0, v5 the broker that the
client expects (KIP-1242)."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.features import SUPPORTED, FeatureCache, FinalizedFeatures, SupportedLevels
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from twisted_kafka.server.dispatch import FrozenResponse, api
from twisted_kafka.system.client_text import bounded_text

EXPECTED_BROKER_SINCE: Final = 5
LEVEL_0_SINCE: Final = 4
"""Older clients take a feature with the minimum 0 for an error, so their response omits it (KAFKA-17011)."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

SOFTWARE_CHARACTERS: Final = 64
"""Each connection keeps this much of its client's software name and version. Real ones have 20."""


class VersionsApis:
    """Returns the supported APIs and the features. ``supported`` is called at the first request, and when a feature changes.

    ``metadata`` has the ids of this cluster and broker. ``tells_features``: whether the response lists the supported features.
    """

    def __init__(
        self,
        supported: Callable[[], Mapping[int, tuple[int, int]]],
        features: FeatureCache,
        metadata: MetadataCache,
        *,
        tells_features: bool = True,
    ) -> None:
        self._itself = metadata.cluster_id, metadata.broker_id
        self._supported = supported
        self._features = features
        self._told: Mapping[str, SupportedLevels] = SUPPORTED if tells_features else {}
        self._answers: tuple[FinalizedFeatures, FrozenResponse, FrozenResponse] | None = None
        """The finalized features, their response to old versions, and the response that includes features with level 0."""

    @api(ApiVersionsRequest, ApiVersionsResponse, versions=(0, 5))
    def api_versions(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse | FrozenResponse:
        """Return all APIs, and record the client's software (KIP-511).

        A client that has connected to another broker than it expects has to ask its bootstrap servers again (KIP-1242).
        """
        # The connection keeps it, and a client need not log in for that.
        context.connection.client_id = None if context.client_id is None else bounded_text(context.client_id)
        if context.api_version >= 3:
            name, version = request.client_software_name, request.client_software_version
            if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
            connection = context.connection
            if connection.software_name != name or connection.software_version != version:
                connection.software_name = bounded_text(name, SOFTWARE_CHARACTERS)
                connection.software_version = bounded_text(version, SOFTWARE_CHARACTERS)
        if context.api_version >= EXPECTED_BROKER_SINCE:
            error = self._mistaken(request.cluster_id, request.node_id)
            if error:
                context.note_error(error)
                return ApiVersionsResponse(error_code=error)
        authenticator = context.connection.authenticator
        if authenticator is not None:
            authenticator.versions_told()
        answers = self._answers
        features = self._features.current
        if answers is None or answers[0] is not features:
            old, new = (FrozenResponse(_response(self._supported(), self._told_from(lowest), features)) for lowest in (1, 0))
            self._answers = answers = (features, old, new)
        return answers[1] if context.api_version < LEVEL_0_SINCE else answers[2]

    def _mistaken(self, cluster_id: str | None, node_id: int) -> ErrorCode:
        """Return the error for a client that expects this broker; it names both ids or none."""
        if (cluster_id is None) != (node_id == -1):
            return ErrorCode.INVALID_REQUEST
        if cluster_id is None or (cluster_id, node_id) == self._itself:
            return ErrorCode.NONE
        return ErrorCode.REBOOTSTRAP_REQUIRED

    def _told_from(self, lowest: int) -> dict[str, SupportedLevels]:
        return {name: levels for name, levels in self._told.items() if levels[0] >= lowest}


def _response(
    supported: Mapping[int, tuple[int, int]], told: Mapping[str, SupportedLevels], features: FinalizedFeatures
) -> ApiVersionsResponse:
    """Return the response that lists these APIs and supported features."""
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in supported.items()],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high) for name, (low, high) in told.items()
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(features.levels.items())
        ],
    )


def unsupported_version_response(versions: tuple[int, int] | None) -> ApiVersionsResponse:
    """Return the response to an ApiVersions request of an unsupported version; it has to be encoded as v0.

    It lists the ``versions`` of ApiVersions, unless they are None, as before KIP-511.
    """
    this = int(ApiKey.API_VERSIONS)
    told = [] if versions is None else [ApiVersion(api_key=this, min_version=versions[0], max_version=versions[1])]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=told)
