"""An AclAuthorizer over a metadata store without threads, and requests that ask it."""

from collections.abc import Sequence
from pathlib import Path

from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.security.authorizer.acl_authorizer import AclAuthorizer
from twisted_kafka.security.authorizer.acl_binding import AccessControlEntry, AclBinding, ResourcePattern
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, PermissionType, ResourceType
from twisted_kafka.security.authorizer.audit_log import AuditLog
from twisted_kafka.security.authorizer.interfaces import Action
from twisted_kafka.timing.clock import ManualClock


def acl(
    name: str,
    principal: str = "User:alice",
    operation: AclOperation = AclOperation.READ,
    *,
    denies: bool = False,
    host: str = "*",
    resource_type: ResourceType = ResourceType.TOPIC,
    prefixed: bool = False,
) -> AclBinding:
    pattern = ResourcePattern(resource_type, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    permission = PermissionType.DENY if denies else PermissionType.ALLOW
    return AclBinding(pattern, AccessControlEntry(principal, host, operation, permission))


def context_of(principal: str = "User:alice", host: str = "10.0.0.1", api_key: int = 1) -> RequestContext:
    connection = ConnectionInfo("c", "L", "SSL", host)
    connection.principal = KafkaPrincipal.parse(principal)
    return RequestContext(api_key, 0, 1, "client", connection)


class Brokers:
    """The authorizers of some brokers of one cluster."""

    def __init__(self, path: Path, number: int = 1, **settings: str) -> None:
        self.clock = ManualClock()
        self.store = SqliteStore(path / "metadata.sqlite", self.clock, threaded=False)
        self.audits = [AuditLog() for _ in range(number)]
        self.authorizers = [AclAuthorizer(self.store, self.clock, audit) for audit in self.audits]
        self.settings = {key.replace("_", "."): value for key, value in settings.items()}
        for each in self.authorizers:
            each.configure(self.settings)

    @property
    def authorizer(self) -> AclAuthorizer:
        return self.authorizers[0]

    def create(self, *bindings: AclBinding) -> None:
        assert self.authorizer.create_acls(context_of(), bindings) == [None] * len(bindings)

    def allows(
        self,
        name: str,
        operation: AclOperation = AclOperation.READ,
        principal: str = "User:alice",
        host: str = "10.0.0.1",
        resource_type: ResourceType = ResourceType.TOPIC,
        broker: int = 0,
    ) -> bool:
        actions = [Action(operation, resource_type, name)]
        return self.authorizers[broker].authorize(context_of(principal, host), actions) == [True]

    def all_of(self, names: Sequence[str], operation: AclOperation = AclOperation.READ) -> list[bool]:
        return self.authorizer.authorize(context_of(), [Action(operation, ResourceType.TOPIC, name) for name in names])
