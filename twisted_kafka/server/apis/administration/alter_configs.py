"""AlterConfigs v0-2 replaces all configs of a resource, IncrementalAlterConfigs v0-1 changes single ones (KIP-339).

Both support topics and brokers, the latter also groups, loggers (KIP-412) and client metrics subscriptions (KIP-714).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from twisted.logger import Logger

from twisted_kafka.admin.config_resource_types import BROKER, BROKER_LOGGER, TOPIC, ensure_own_broker
from twisted_kafka.admin.configs import ConfigAdmin, ConfigChange, ConfigOperation, IConfigResource, ensure_changes, ensure_settings
from twisted_kafka.admin.loggers import LoggerLevels
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError, KafkaError, error_of
from twisted_kafka.protocol.messages.administration.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.apis.administration.config_access import note_config_resource, require_config_access
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.system.client_text import bounded_text

_log = Logger()


_Resource = AlterConfigsRequestAlterConfigsResource | IncrementalAlterConfigsRequestAlterConfigsResource
_R = TypeVar("_R", bound=_Resource)


class AlterConfigApis:
    """Changes configs. ``resources`` are the resource types whose configs are stored in the metadata store, by type code."""

    def __init__(
        self,
        admin: ConfigAdmin,
        resources: Mapping[int, IConfigResource],
        loggers: LoggerLevels,
        broker_id: int,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._admin = admin
        self._resources = resources
        self._loggers = loggers
        self._broker_id = broker_id

    @api(AlterConfigsRequest, AlterConfigsResponse, versions=(0, 2))
    def alter_configs(self, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Replace the configs of topics and brokers; those not in the request are reset to their defaults."""

        def alter(resource: AlterConfigsRequestAlterConfigsResource) -> None:
            settings = [(each.name, each.value) for each in resource.configs]
            ensure_settings(settings)
            self._require(context, resource)
            if resource.resource_type not in (TOPIC, BROKER):
                raise InvalidRequestError(
                    f"Unknown resource type {resource.resource_type}: AlterConfigs supports topics and brokers"
                )
            kind = self._resources[resource.resource_type]
            self._admin.replace(kind, resource.resource_name, settings, validate_only=request.validate_only)

        return AlterConfigsResponse(
            responses=[
                AlterConfigsResponseAlterConfigsResourceResponse(
                    error_code=code,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource, code, message in _each(context, request.resources, alter)
            ]
        )

    @api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, versions=(0, 1))
    def incremental_alter_configs(
        self, context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        """Set or delete single configs, or append to and subtract from lists."""

        def alter(resource: IncrementalAlterConfigsRequestAlterConfigsResource) -> None:
            changes = [ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs]
            ensure_changes(changes)
            self._require(context, resource)
            if resource.resource_type == BROKER_LOGGER:
                ensure_own_broker(resource.resource_name, self._broker_id)
                self._alter_loggers(changes, request.validate_only)
                return
            kind = self._resources.get(resource.resource_type)
            if kind is None:
                raise InvalidRequestError(f"Unknown resource type {resource.resource_type}")
            self._admin.change(kind, resource.resource_name, changes, validate_only=request.validate_only)

        return IncrementalAlterConfigsResponse(
            responses=[
                IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                    error_code=code,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource, code, message in _each(context, request.resources, alter)
            ]
        )

    def _require(self, context: RequestContext, resource: _Resource) -> None:
        kind, name = resource.resource_type, resource.resource_name
        require_config_access(self._authorization, context, AclOperation.ALTER_CONFIGS, kind, name)

    def _alter_loggers(self, changes: list[ConfigChange], validate_only: bool) -> None:
        levels: dict[str, str | None] = {}
        for each in changes:
            if each.operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
                raise InvalidRequestError("This operation is not allowed for a logger: its level can only be set or deleted")
            level = each.value if each.operation == ConfigOperation.SET else None
            self._loggers.validate(each.name, level)
            levels[each.name] = level
        if not validate_only:
            for logger, level in levels.items():
                self._loggers.set(logger, level)


def _each(
    context: RequestContext, resources: Iterable[_R], alter: Callable[[_R], None]
) -> Iterable[tuple[_R, ErrorCode, str | None]]:
    """Yield each resource with its error code and message; duplicate resources are all refused."""
    resources = list(resources)
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    failures: list[tuple[_R, KafkaError]] = []
    for resource in resources:
        note_config_resource(context, resource.resource_type, resource.resource_name)
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequestError("Duplicate resource: it must appear at most once in the request")
            alter(resource)
        except KafkaError as error:
            failures.append((resource, error))
            code = error_of(error)
            context.note_error(code)
            yield resource, code, str(error) or None
        else:
            yield resource, ErrorCode.NONE, None
    if failures:
        _log_failed(failures)


def _log_failed(failures: Sequence[tuple[_Resource, KafkaError]]) -> None:
    """Write one line for a request, which may have very many resources."""
    resource, error = failures[0]
    _log.info(
        "Failed to alter the configs of resource type {kind}, name {name!r}: {error}{more}",
        kind=resource.resource_type,
        name=bounded_text(resource.resource_name),
        error=bounded_text(str(error)),
        more=f"; and of {len(failures) - 1} other resources" if len(failures) > 1 else "",
    )
