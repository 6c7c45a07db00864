"""Access control entries of resource patterns, and filters that select them (Kafka: AclBinding, AclBindingFilter)."""

from typing import NamedTuple

from twisted_kafka.security.authorizer.acl_types import WILDCARD, AclOperation, PatternType, PermissionType, ResourceType


class AccessControlEntry(NamedTuple):
    """Allows or denies a principal an operation from a host."""

    principal: str
    """``type:name``."""
    host: str
    operation: AclOperation
    permission_type: PermissionType


class ResourcePattern(NamedTuple):
    """The resources that an entry is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType


class AclBinding(NamedTuple):
    """An entry of a pattern."""

    pattern: ResourcePattern
    entry: AccessControlEntry


class AclBindingFilter(NamedTuple):
    """Selects bindings. None and ANY match everything; MATCH selects the patterns that match a resource with this name."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: PermissionType = PermissionType.ANY

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Whether the pattern is selected."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.LITERAL:
            return pattern.name in (self.name, WILDCARD)
        return self.name.startswith(pattern.name)

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        """Whether the entry is selected."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (PermissionType.ANY, entry.permission_type)
        )
