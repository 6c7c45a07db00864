"""Adding and deleting access control entries."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.console.actions.preview import Preview
from twisted_kafka.console.actions.rights import need_alter
from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.access import Acl, entries
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from twisted_kafka.security.authorizer.acl_types import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)

RESOURCES: Final[Mapping[str, ResourceType]] = {each.title: each for each in SUPPORTED_OPERATIONS}
OPERATIONS: Final[Mapping[str, AclOperation]] = {
    each.title: each for each in AclOperation if any(each in some for some in SUPPORTED_OPERATIONS.values())
} | {AclOperation.ALL.title: AclOperation.ALL}
"""The last one is the widest, so that no form proposes it."""
PATTERNS: Final[Mapping[str, PatternType]] = {each.title: each for each in (PatternType.LITERAL, PatternType.PREFIXED)}
PERMISSIONS: Final[Mapping[str, PermissionType]] = {each.title: each for each in (PermissionType.ALLOW, PermissionType.DENY)}

_EVERYBODY: Final = "if the brokers have allow.everyone.if.no.acl.found=true,"


def entry(
    resource_type: str, name: str, principal: str, operation: str, *, host: str = "", pattern_type: str = "", permission: str = ""
) -> Acl:
    """Return an entry; ``alice`` is ``User:alice``. Empty: every host, a literal name, allow. Raises ValueError."""
    choices = (
        ("resource", resource_type, RESOURCES),
        ("operation", operation, OPERATIONS),
        ("pattern", pattern_type or PatternType.LITERAL.title, PATTERNS),
        ("permission", permission or PermissionType.ALLOW.title, PERMISSIONS),
    )
    for what, text, known in choices:
        if text not in known:
            raise ValueError(f"there is no {what} {text!r}: choose one of {', '.join(known)}")
    kind = RESOURCES[resource_type]
    if OPERATIONS[operation] not in (*SUPPORTED_OPERATIONS[kind], AclOperation.ALL):
        own = ", ".join(each.title for each in SUPPORTED_OPERATIONS[kind])
        raise ValueError(f"a {kind.title} has no operation {operation}: choose one of {own}, or {AclOperation.ALL.title}")
    is_cluster = kind == ResourceType.CLUSTER
    if not principal or not (name or is_cluster):
        raise ValueError(f"name a {'principal' if not principal else kind.title}")
    return Acl(
        resource_type,
        CLUSTER_NAME if is_cluster else name,
        PatternType.LITERAL.title if is_cluster else choices[2][1],
        principal if ":" in principal else f"User:{principal}",
        host or WILDCARD,
        operation,
        choices[3][1],
    )


@dataclass(frozen=True, slots=True)
class AddAcl:
    """Adds an entry."""

    acl: Acl

    def preview(self, session: Session) -> Preview:
        """Return the entry with its consequences. Raises CommandError without an authorizer or the right."""
        now = _about(session, self.acl)
        need_alter(session)
        verb = "deny" if self.acl.is_denial else "allow"
        return Preview(f"{verb} {self.acl.content}", warnings=tuple(self._warnings(now)))

    def _warnings(self, now: list[Acl]) -> Iterator[str]:
        kind = self.acl.resource_type
        if self.acl in now:
            yield "this entry exists already: nothing will change"
        if self.acl.principal == WILDCARD_PRINCIPAL:
            yield "it is about all users"
        if self.acl.name == WILDCARD:
            yield f"it is about every {kind}"
        if self.acl.is_denial:
            yield "it counts before all entries that allow the same, except for super users"
        if not now:
            yield f"it is the first entry about this {kind}: {_EVERYBODY} users without an entry may not use it any more"

    def do(self, session: Session) -> str:
        """Add it; return a sentence. Raises CommandError."""
        acl = self.acl
        creation = AclCreation(
            resource_type=RESOURCES[acl.resource_type],
            resource_name=acl.name,
            resource_pattern_type=PATTERNS[acl.pattern_type],
            principal=acl.principal,
            host=acl.host,
            operation=OPERATIONS[acl.operation],
            permission_type=PERMISSIONS[acl.permission],
        )

        def step() -> None:
            (result,) = session.ask_controller(CreateAclsRequest(creations=[creation])).results
            if result.error_code:
                raise problem(f"entry of {acl.resource_type} {acl.name}", result.error_code, result.error_message)

        session.retrying(step)
        return f"{acl.sentence} now"


@dataclass(frozen=True, slots=True)
class DeleteAcl:
    """Deletes one entry."""

    acl: Acl

    def preview(self, session: Session) -> Preview:
        """Return the entry. Raises CommandError if it does not exist."""
        now = _about(session, self.acl)
        need_alter(session)
        if self.acl not in now:
            raise self._missing()
        verb = "denies" if self.acl.is_denial else "allows"
        kind = self.acl.resource_type
        last = f"it is the last entry about this {kind}: {_EVERYBODY} everybody may use it then"
        return Preview(f"delete the entry that {verb} {self.acl.content}", warnings=(last,) if now == [self.acl] else ())

    def do(self, session: Session) -> str:
        """Delete it; return a sentence. Raises CommandError."""
        acl = self.acl
        chosen = DeleteAclsFilter(
            resource_type_filter=RESOURCES[acl.resource_type],
            resource_name_filter=acl.name,
            pattern_type_filter=PATTERNS[acl.pattern_type],
            principal_filter=acl.principal,
            host_filter=acl.host,
            operation=OPERATIONS[acl.operation],
            permission_type=PERMISSIONS[acl.permission],
        )

        def step() -> Any:
            (result,) = session.ask_controller(DeleteAclsRequest(filters=[chosen])).filter_results
            for each in (result, *result.matching_acls):
                if each.error_code:
                    raise problem("ACLs", each.error_code, each.error_message)
            return result.matching_acls

        if not session.retrying(step):
            raise self._missing()
        return f"the entry was deleted that {'denied' if acl.is_denial else 'allowed'} {acl.content}"

    def _missing(self) -> CommandError:
        return CommandError(f"there is no entry that {'denies' if self.acl.is_denial else 'allows'} {self.acl.content}")


def _about(session: Session, acl: Acl) -> list[Acl]:
    """Return the entries that apply to the same resource."""
    return entries(session, (RESOURCES[acl.resource_type], acl.name))
