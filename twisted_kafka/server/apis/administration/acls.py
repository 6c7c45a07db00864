"""DescribeAcls, CreateAcls and DeleteAcls v0-3: v1 prefixed patterns (KIP-290), v2 flexible, v3 ACLs on users (KIP-373).

The host of an ACL may be a network (KIP-1276)."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError, KafkaError, SecurityDisabledError, error_of
from twisted_kafka.protocol.messages.administration.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from twisted_kafka.security.authorizer.acl_binding import AccessControlEntry, AclBinding, AclBindingFilter, ResourcePattern
from twisted_kafka.security.authorizer.acl_hosts import is_network, network_of
from twisted_kafka.security.authorizer.acl_types import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from twisted_kafka.security.authorizer.interfaces import DeletedAcls
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import CLOSE_CONNECTION, Outcome, api

_E = TypeVar("_E", AclOperation, ResourceType, PatternType, PermissionType)

_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_PERMISSIONS: Final = (PermissionType.DENY, PermissionType.ALLOW)
_KINDS: Final[dict[ResourceType, ResourceKind]] = {
    each: ResourceKind(each.name.lower().replace("_", "-")) for each in ResourceType if each is not ResourceType.UNKNOWN
}
_NO_OPERATIONS: Final = (AclOperation.UNKNOWN, AclOperation.ANY)


class _UnknownCodeError(ValueError):
    """The code for "unknown". As in Kafka, the request counts as unreadable, and its connection is closed."""


class AclApis:
    """Describes and changes ACLs. ``authorizer`` provides ``IAuthorizer``; if it is None, all requests fail."""

    def __init__(self, authorizer: Any, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorizer = authorizer
        self._authorization = authorization

    @api(DescribeAclsRequest, DescribeAclsResponse, versions=(0, 3))
    def describe_acls(self, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse | Outcome:
        """Return the entries that the filter selects, by pattern."""
        try:
            wanted = _filter(context, request)
        except _UnknownCodeError:
            return _close(context)
        self._authorization.require_cluster(context, AclOperation.DESCRIBE)
        found: dict[ResourcePattern, DescribeAclsResource] = {}
        for pattern, entry in self._enabled().acls(wanted):
            resource = found.get(pattern)
            if resource is None:
                resource = found[pattern] = DescribeAclsResource(
                    resource_type=pattern.resource_type, resource_name=pattern.name, pattern_type=pattern.pattern_type
                )
            resource.acls.append(
                AclDescription(
                    principal=entry.principal, host=entry.host, operation=entry.operation, permission_type=entry.permission_type
                )
            )
        return DescribeAclsResponse(error_code=0, error_message=None, resources=list(found.values()))

    @api(CreateAclsRequest, CreateAclsResponse, versions=(0, 3))
    def create_acls(self, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse | Outcome:
        """Create each entry; an error of one does not affect the others."""
        try:
            made = [_binding(context, each) for each in request.creations]
        except _UnknownCodeError:
            return _close(context)
        self._authorization.require_cluster(context, AclOperation.ALTER)
        authorizer = self._enabled()
        bindings = [each for each in made if isinstance(each, AclBinding)]
        errors = iter(authorizer.create_acls(context, bindings) if bindings else ())
        results = []
        for each in made:
            error = next(errors) if isinstance(each, AclBinding) else each
            code, message = _result(context, error)
            results.append(AclCreationResult(error_code=code, error_message=message))
        return CreateAclsResponse(results=results)

    @api(DeleteAclsRequest, DeleteAclsResponse, versions=(0, 3))
    def delete_acls(self, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse | Outcome:
        """Delete what each filter selects; an entry that several select is in the first one's result."""
        try:
            filters = [_filter(context, each) for each in request.filters]
        except _UnknownCodeError:
            return _close(context)
        self._authorization.require_cluster(context, AclOperation.ALTER)
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=list(_deleted(context, each)))
                for each in self._enabled().delete_acls(context, filters)
            ]
        )

    def _enabled(self) -> Any:
        if self._authorizer is None:
            raise SecurityDisabledError("No authorizer is configured.")
        return self._authorizer


def _close(context: RequestContext) -> Outcome:
    context.note_error(ErrorCode.INVALID_REQUEST)
    return CLOSE_CONNECTION


def _of_code(kind: type[_E], code: int) -> _E:
    """Return the member of a code; UNKNOWN, which selects nothing, for codes of later versions. Raises _UnknownCodeError."""
    if not code:
        raise _UnknownCodeError
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def _note(context: RequestContext, resource_type: ResourceType, name: str | None) -> None:
    kind = _KINDS.get(resource_type)
    if kind is not None:
        context.note_resource(kind, name)


def _filter(context: RequestContext, wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclBindingFilter:
    resource_type = _of_code(ResourceType, wanted.resource_type_filter)
    _note(context, resource_type, wanted.resource_name_filter)
    return AclBindingFilter(
        resource_type,
        wanted.resource_name_filter,
        _of_code(PatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        _of_code(AclOperation, wanted.operation),
        _of_code(PermissionType, wanted.permission_type),
    )


def _binding(context: RequestContext, creation: AclCreation) -> AclBinding | KafkaError:
    """Return the binding to create, or the error that prevents it. Raises _UnknownCodeError."""
    resource_type = _of_code(ResourceType, creation.resource_type)
    _note(context, resource_type, creation.resource_name)
    pattern_type = _of_code(PatternType, creation.resource_pattern_type)
    operation = _of_code(AclOperation, creation.operation)
    permission_type = _of_code(PermissionType, creation.permission_type)
    if resource_type not in SUPPORTED_OPERATIONS or pattern_type not in _PATTERNS:
        return InvalidRequestError("Invalid ACL: its resource type and its pattern type must be known, and not those of filters")
    if operation in _NO_OPERATIONS or permission_type not in _PERMISSIONS:
        return InvalidRequestError("Invalid ACL: its operation and its permission must be known, and not those of filters")
    if resource_type is ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return InvalidRequestError(f"The only valid name for the cluster is {CLUSTER_NAME}")
    if not creation.resource_name:
        return InvalidRequestError("Invalid empty resource name")
    if is_network(creation.host):
        try:
            network_of(creation.host)
        except ValueError as error:
            return InvalidRequestError(str(error))
    entry = AccessControlEntry(creation.principal, creation.host, operation, permission_type)
    return AclBinding(ResourcePattern(resource_type, creation.resource_name, pattern_type), entry)


def _deleted(context: RequestContext, deleted: DeletedAcls) -> Iterable[DeleteAclsMatchingAcl]:
    for (pattern, entry), error in deleted.bindings:
        code, message = _result(context, error)
        yield DeleteAclsMatchingAcl(
            error_code=code,
            error_message=message,
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            pattern_type=pattern.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission_type,
        )


def _result(context: RequestContext, error: KafkaError | None) -> tuple[int, str | None]:
    if error is None:
        return ErrorCode.NONE, None
    code = error_of(error)
    context.note_error(code)
    return code, str(error)
