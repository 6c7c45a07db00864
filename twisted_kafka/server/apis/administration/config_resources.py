"""ListConfigResources v0-1: v0 subscriptions to client metrics (KIP-1000), v1 resources of all types (KIP-1142)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from twisted_kafka.admin.config_resource_types import CLIENT_METRICS
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.messages.administration.configs import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api

_TYPES_SINCE: Final = 1

Listings = Mapping[int, Callable[[], Iterable[str]]]
"""By type of resource: what returns the names of the present ones."""


class ConfigResourceApis:
    """Lists the resources that have, or may have, configs."""

    def __init__(self, listings: Listings, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._listings = listings
        self._authorization = authorization

    @api(ListConfigResourcesRequest, ListConfigResourcesResponse, versions=(0, 1))
    def list_resources(self, context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
        """List the resources of the requested types, of all types if it names none."""
        self._authorization.require_cluster(context, AclOperation.DESCRIBE_CONFIGS)
        types: Iterable[int] = (CLIENT_METRICS,)
        if context.api_version >= _TYPES_SINCE:
            types = dict.fromkeys(request.resource_types) or self._listings
        unknown = [each for each in types if each not in self._listings]
        if unknown:
            raise UnsupportedVersionError(f"Resources of type {unknown[0]} cannot be listed")
        return ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=each) for each in types for name in self._listings[each]()
            ]
        )
