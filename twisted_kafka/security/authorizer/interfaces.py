"""The interface of authorizers; ``authorizer.class.name`` names a class that provides it (Kafka: Authorizer, KIP-504)."""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from zope.interface import Interface

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.security.authorizer.acl_binding import AclBinding, AclBindingFilter
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType


class Action(NamedTuple):
    """An operation on one resource."""

    operation: AclOperation
    resource_type: ResourceType
    name: str
    logs_denied: bool = True
    """Whether to log a denial. False when the caller only filters a list."""


class DeletedAcls(NamedTuple):
    """The result of one filter: the bindings, each with the error that kept it from being deleted, or None."""

    bindings: Sequence[tuple[AclBinding, KafkaError | None]] = ()


class IAuthorizer(Interface):
    """Allows or denies operations. Its methods are called on many threads at once, and ``authorize`` for every request."""

    def configure(configs: Mapping[str, str]) -> None:
        """Called first, with the broker's settings as text. An exception stops the broker from starting."""

    def authorize(context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        """Return for each action whether the request's principal is allowed to do it from its host."""

    def authorize_by_resource_type(context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the principal is allowed the operation on some resource of the type."""

    def create_acls(context: RequestContext, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        """Create each binding, as the context's principal asks; return its error, or None if it exists now."""

    def delete_acls(context: RequestContext, filters: Sequence[AclBindingFilter]) -> list[DeletedAcls]:
        """Delete what each filter selects. A binding that several select is in the first one's result."""

    def acls(filter: AclBindingFilter) -> Iterable[AclBinding]:  # noqa: A002 the field's word
        """Return the bindings that the filter selects."""

    def close() -> None:
        """Release resources, as the broker stops."""
