"""The permissions for a resource's configs, as some types are protected as another; and the resource's kind in the access log."""

from typing import Final

from twisted_kafka.admin.config_resource_types import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.security.authorizer.acl_types import CLUSTER_NAME, AclOperation, ResourceType
from twisted_kafka.server.authorization import IAuthorization

_PROTECTED_AS: Final = {
    TOPIC: ResourceType.TOPIC,
    BROKER: ResourceType.CLUSTER,
    BROKER_LOGGER: ResourceType.CLUSTER,
    CLIENT_METRICS: ResourceType.CLUSTER,
    GROUP: ResourceType.GROUP,
}

_KINDS: Final = {
    TOPIC: ResourceKind.TOPIC,
    BROKER: ResourceKind.BROKER,
    BROKER_LOGGER: ResourceKind.BROKER_LOGGER,
    CLIENT_METRICS: ResourceKind.CLIENT_METRICS,
    GROUP: ResourceKind.GROUP,
}


def note_config_resource(context: RequestContext, config_resource_type: int, name: str) -> None:
    """Record for the access log that the request is about a config resource. An unknown type is not recorded."""
    kind = _KINDS.get(config_resource_type)
    if kind is not None:
        context.note_resource(kind, name or None)


def require_config_access(
    authorization: IAuthorization, context: RequestContext, operation: AclOperation, config_resource_type: int, name: str
) -> None:
    """Raise the KafkaError of a config resource unless the operation on its configs is allowed. An unknown type raises nothing."""
    resource_type = _PROTECTED_AS.get(config_resource_type)
    if resource_type is not None:
        authorization.require(context, operation, resource_type, CLUSTER_NAME if resource_type is ResourceType.CLUSTER else name)
