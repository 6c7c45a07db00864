"""The log of decisions, ``kafka.authorizer.logger``: denials at INFO, permissions at DEBUG."""

from typing import Final

from constantly import NamedConstant  # type: ignore[import-untyped]
from twisted.logger import Logger, LogLevel

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, ResourceType

NAMESPACE: Final = "kafka.authorizer.logger"

_DENIED: Final = "Denied {operation} on {resource} to {principal} at {host}, asked by {api}"
_ALLOWED: Final = "Allowed {operation} on {resource} to {principal} at {host}, asked by {api}"


class AuditLog:
    """Writes decisions. Making an event costs more than a decision, so the level is asked for beforehand."""

    def __init__(self) -> None:
        self.logs_allowed = False
        """Whether permissions are logged, too."""
        self._log = Logger(NAMESPACE)

    def set_level(self, level: NamedConstant) -> None:
        """Take the level that the logger has from now on."""
        self.logs_allowed = level <= LogLevel.debug

    def allowed(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Write a permission."""
        self._log.debug(_ALLOWED, **_fields(context, operation, resource_type, name))

    def denied(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Write a denial."""
        self._log.info(_DENIED, **_fields(context, operation, resource_type, name))


def _fields(context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> dict[str, str]:
    return {
        "operation": operation.title,
        "resource": f"{resource_type.title}:{PatternType.LITERAL.name}:{name}",
        "principal": str(context.principal),
        "host": context.client_address,
        "api": ApiKey(context.api_key).title,
    }
