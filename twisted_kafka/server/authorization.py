"""The authorization of the API families, with an authorizer or without (Kafka: AuthHelper)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ClusterAuthorizationError, ErrorCode, KafkaError
from twisted_kafka.security.authorizer.acl_types import CLUSTER_NAME, SUPPORTED_OPERATIONS, AclOperation, ResourceType
from twisted_kafka.security.authorizer.interfaces import Action

OPERATIONS_NOT_ASKED: Final = -(2**31)
"""The mask of operations in responses to requests that did not ask for it."""

GROUP_CONFIGS_SINCE: Final[Mapping[int, int]] = {
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.SHARE_GROUP_DESCRIBE: 1,
    ApiKey.STREAMS_GROUP_DESCRIBE: 0,
}
"""The versions from which on answers have the rights to the configs of groups: clients of Kafka 3.9 do not know these rights."""

REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error of a client that may not use a resource of this type."""

KINDS: Final = {
    ResourceType.TOPIC: ResourceKind.TOPIC,
    ResourceType.GROUP: ResourceKind.GROUP,
    ResourceType.CLUSTER: ResourceKind.CLUSTER,
    ResourceType.TRANSACTIONAL_ID: ResourceKind.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN: ResourceKind.DELEGATION_TOKEN,
    ResourceType.USER: ResourceKind.USER,
}
"""The access log's names of the types that an authorizer is asked about."""


class IAuthorization(Protocol):
    """Answers for the principal and the host of a request's connection."""

    enforces: bool
    """Whether there is an authorizer. Without one, the methods allow everything, and hot code may skip them."""

    def remembers(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether the operation is known to be allowed; False means that it is not known. For hot code."""

    def is_allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denied: bool = True,
    ) -> bool:
        """Whether an operation on a resource is allowed. Without ``logs_denied``, the audit log does not get a denial."""

    def allowed_of(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        logs_denied: bool = True,
    ) -> set[str]:
        """Return the names of those resources on which the operation is allowed."""

    def is_allowed_on_some(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the operation is allowed on some resource of the type, existing or not."""

    def require(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Raise the KafkaError of the resource type, unless the operation is allowed."""

    def require_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Raise ClusterAuthorizationError, unless the operation on the cluster is allowed."""

    def is_allowed_on_cluster(self, context: RequestContext, operation: AclOperation, *, logs_denied: bool = True) -> bool:
        """Whether the operation on the cluster is allowed."""

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """Return the codes of the allowed operations on a resource as bits."""


class NoAuthorization:
    """Allows everything."""

    enforces = False

    def remembers(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether it is known that the operation is allowed."""
        return True

    def is_allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denied: bool = True,
    ) -> bool:
        """Whether an operation on a resource is allowed."""
        return True

    def allowed_of(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        logs_denied: bool = True,
    ) -> set[str]:
        """Return the names."""
        return set(names)

    def is_allowed_on_some(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the operation is allowed on some resource of the type."""
        return True

    def require(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Allow the operation."""

    def require_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Allow the operation."""

    def is_allowed_on_cluster(self, context: RequestContext, operation: AclOperation, *, logs_denied: bool = True) -> bool:
        """Whether the operation on the cluster is allowed."""
        return True

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """Return all operations."""
        return sum(1 << each for each in _operations(context, resource_type))


def _operations(context: RequestContext, resource_type: ResourceType) -> tuple[AclOperation, ...]:
    """Return the operations that the answer to a request may name."""
    operations = SUPPORTED_OPERATIONS[resource_type]
    since = GROUP_CONFIGS_SINCE.get(context.api_key)
    if resource_type is ResourceType.GROUP and since is not None and context.api_version >= since:
        return *operations, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
    return operations


def _remembers_nothing(context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
    return False


ALLOW_ALL: Final = NoAuthorization()
"""The answers of a broker without an authorizer."""


class Authorization:
    """Asks an authorizer."""

    enforces = True

    def __init__(self, authorizer: Any) -> None:
        """``authorizer`` provides ``IAuthorizer``."""
        self._authorize = authorizer.authorize
        self.remembers = getattr(authorizer, "remembers", _remembers_nothing)
        self._authorize_by_resource_type = authorizer.authorize_by_resource_type

    def is_allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denied: bool = True,
    ) -> bool:
        """Whether an operation on a resource is allowed."""
        if self.remembers(context, operation, resource_type, name):
            return True
        allowed = bool(self._authorize(context, (Action(operation, resource_type, name, logs_denied),))[0])
        if logs_denied:
            context.note_decision(KINDS[resource_type], name, operation.title, allowed)
        return allowed

    def allowed_of(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        logs_denied: bool = True,
    ) -> set[str]:
        """Return the names of those resources on which the operation is allowed."""
        asked = list(dict.fromkeys(names))
        remembers = self.remembers
        if all(remembers(context, operation, resource_type, name) for name in asked):
            return set(asked)
        answers = self._authorize(context, [Action(operation, resource_type, name, logs_denied) for name in asked])
        if logs_denied:
            for name, allowed in zip(asked, answers, strict=True):
                context.note_decision(KINDS[resource_type], name, operation.title, bool(allowed))
        return {name for name, allowed in zip(asked, answers, strict=True) if allowed}

    def is_allowed_on_some(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the operation is allowed on some resource of the type."""
        return bool(self._authorize_by_resource_type(context, operation, resource_type))

    def require(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Raise the KafkaError of the resource type, unless the operation is allowed."""
        if not self.is_allowed(context, operation, resource_type, name):
            raise KafkaError.by_code[REFUSALS[resource_type]]

    def require_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Raise ClusterAuthorizationError, unless the operation on the cluster is allowed."""
        if not self.is_allowed(context, operation, ResourceType.CLUSTER, CLUSTER_NAME):
            raise ClusterAuthorizationError

    def is_allowed_on_cluster(self, context: RequestContext, operation: AclOperation, *, logs_denied: bool = True) -> bool:
        """Whether the operation on the cluster is allowed."""
        return self.is_allowed(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=logs_denied)

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, name: str) -> int:
        """Return the codes of the allowed operations on a resource as bits."""
        operations = _operations(context, resource_type)
        answers = self._authorize(context, [Action(each, resource_type, name, logs_denied=False) for each in operations])
        return sum(1 << each for each, allowed in zip(operations, answers, strict=True) if allowed)


class TrustingAuthorizer:
    """Allows everything to one client id, the testing kit's own, and leaves all else to an authorizer."""

    def __init__(self, authorizer: Any, client_id: str) -> None:
        """``client_id`` is secret: nobody else can use it."""
        self._authorizer = authorizer
        self._client_id = client_id

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        """Decide on each action (``IAuthorizer.authorize``)."""
        if context.client_id == self._client_id:
            return [True] * len(actions)
        allowed: list[bool] = self._authorizer.authorize(context, actions)
        return allowed

    def authorize_by_resource_type(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Decide on some resource of the type (``IAuthorizer.authorize_by_resource_type``)."""
        return context.client_id == self._client_id or bool(
            self._authorizer.authorize_by_resource_type(context, operation, resource_type)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._authorizer, name)


def authorization_of(authorizer: Any) -> IAuthorization:
    """Return the ``Authorization`` of an authorizer, or ``ALLOW_ALL`` if it is None."""
    return ALLOW_ALL if authorizer is None else Authorization(authorizer)
