"""ACL entries and SCRAM credentials as requests, from the words of a test."""

import difflib
from typing import Final

from twisted_kafka.protocol.messages.administration.acls import AclCreation
from twisted_kafka.protocol.messages.administration.scram import ScramCredentialDeletion, ScramCredentialUpsertion
from twisted_kafka.security.authorizer.acl_types import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from twisted_kafka.security.scram.formulas import MIN_ITERATIONS, SCRAM_MECHANISMS, salted_password
from twisted_kafka.system import machine
from twisted_kafka.testing.arguments import check_text

__tracebackhide__ = True

_SALT_BYTES: Final = 16
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}


def acl_entry(
    principal: str, operation: str, permission: PermissionType, resource: dict[str, str | None], host: str
) -> AclCreation:
    """Return an entry about the resource that is not None, or about the cluster. A name that ends in ``*`` is a prefix.

    Raises ValueError, one line, for an unknown operation, one that the resource does not have, and more than one resource.
    """
    check_text("principal", principal)
    check_text("operation", operation)
    named = [(kind, name) for kind, name in resource.items() if name is not None]
    for kind, name in named:
        check_text(kind.replace("_", " "), name)
    if len(named) > 1:
        raise ValueError(f"an ACL is about one resource, not about {' and '.join(kind for kind, _ in named)}: make two")
    kind, name = named[0] if named else ("cluster", CLUSTER_NAME)
    resource_type = _RESOURCES.get(kind, ResourceType.CLUSTER)
    is_prefix = name.endswith("*") and name != "*"
    if kind == "topic" and "*" in name.removesuffix("*"):
        raise ValueError(f"no topic matches {name!r}: only a '*' at the end makes a prefix")
    return AclCreation(
        resource_type=resource_type,
        resource_name=name.removesuffix("*") if is_prefix else name,
        resource_pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        principal=principal if ":" in principal else f"User:{principal}",
        host=host,
        operation=_operation(operation, resource_type, kind),
        permission_type=permission,
    )


def _operation(name: str, resource_type: ResourceType, kind: str) -> AclOperation:
    possible = {each.title: each for each in (*SUPPORTED_OPERATIONS[resource_type], AclOperation.ALL)}
    found = {title.lower(): each for title, each in possible.items()}.get(name.replace("_", "").lower())
    if found is None:
        near = difflib.get_close_matches(name.title(), possible, 1)
        advice = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(possible)}"
        raise ValueError(f"there is no operation {name!r} on a {kind.replace('_', ' ')}: {advice}")
    return found


def credentials(user: str, password: str) -> list[ScramCredentialUpsertion]:
    """Return a user's credentials for each SCRAM mechanism."""
    found = []
    for mechanism in SCRAM_MECHANISMS:
        salt = machine.random_bytes(_SALT_BYTES)
        salted = salted_password(mechanism, password.encode(), salt, MIN_ITERATIONS)
        upsertion = ScramCredentialUpsertion(
            name=user, mechanism=mechanism.number, iterations=MIN_ITERATIONS, salt=salt, salted_password=salted
        )
        found.append(upsertion)
    return found


def no_credentials(user: str) -> list[ScramCredentialDeletion]:
    """Return the removal of a user's credentials for each SCRAM mechanism."""
    return [ScramCredentialDeletion(name=user, mechanism=mechanism.number) for mechanism in SCRAM_MECHANISMS]
