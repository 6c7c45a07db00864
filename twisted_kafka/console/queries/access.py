"""Users, ACLs and quotas, and why a user may or may not do something."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.paging import Asked, Page, paged
from twisted_kafka.console.queries.settings import settings
from twisted_kafka.protocol.messages.administration.acls import DescribeAclsRequest
from twisted_kafka.protocol.messages.administration.quotas import DescribeClientQuotasRequest
from twisted_kafka.protocol.messages.administration.scram import DescribeUserScramCredentialsRequest
from twisted_kafka.security.authorizer.acl_hosts import is_in_network, is_network, normal_host
from twisted_kafka.security.authorizer.acl_types import (
    CLUSTER_NAME,
    IMPLYING,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS

MOST_ACLS: Final = 10_000
"""Most entries that one query looks at."""

_MECHANISMS: Final = {mechanism.number: mechanism.name for mechanism in SCRAM_MECHANISMS}
_AUTHORIZER: Final = "authorizer.class.name"
_SUPER_USERS: Final = "super.users"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


@dataclass(frozen=True, slots=True)
class User:
    """A user with SCRAM credentials."""

    name: str
    mechanisms: tuple[tuple[str, int], ...]
    """Each with its number of iterations."""


@dataclass(frozen=True, slots=True)
class Acl:
    """An access control entry, by Kafka's names."""

    resource_type: str
    name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str

    @property
    def sentence(self) -> str:
        """The entry in words."""
        return f"an entry {'denies' if self.is_denial else 'allows'} {self.content}"

    @property
    def content(self) -> str:
        """What it allows or denies, in words."""
        where = "" if self.host == WILDCARD else f" from {self.host}"
        names = (
            f"{self.resource_type} {self.name}"
            if self.pattern_type != PatternType.PREFIXED.title
            else (f"each {self.resource_type} that begins with {self.name}")
        )
        return f"{self.principal}{where} {self.operation} on {names}"

    @property
    def is_denial(self) -> bool:
        """Whether it denies instead of allowing."""
        return self.permission == PermissionType.DENY.title


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota. An entity is a name, ``(default)``, or None where it does not count."""

    user: str | None
    client_id: str | None
    ip: str | None
    key: str
    value: float


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a user may do something."""

    is_allowed: bool
    why: str
    acls: tuple[Acl, ...]
    """The entries that decide, or that concern this user and resource if none decides."""
    remedy: str
    """A command that would allow it, empty if it is allowed or if only the removal of an entry helps."""


def users(session: Session, asked: Asked) -> Page[User]:
    """Return a page of users. Raises CommandError."""
    response = session.retrying(lambda: session.ask(DescribeUserScramCredentialsRequest(users=None)))
    if response.error_code:
        raise problem("users", response.error_code, response.error_message)
    found = [
        User(
            each.user, tuple((_MECHANISMS.get(one.mechanism, str(one.mechanism)), one.iterations) for one in each.credential_infos)
        )
        for each in response.results
        if not each.error_code and asked.finds(each.user)
    ]
    return paged(found, asked, {"name": lambda each: each.name})


def acls(
    session: Session,
    asked: Asked,
    *,
    resource: tuple[ResourceType, str] | None = None,
    principal: str | None = None,
) -> Page[Acl]:
    """Return a page of entries; with a resource or a principal, only its entries. Raises CommandError."""
    found = [
        each
        for each in entries(session, resource, principal)
        if asked.finds(f"{each.resource_type} {each.name} {each.principal} {each.operation}")
    ]
    return paged(
        found,
        asked,
        {
            "name": lambda each: (each.resource_type, each.name, each.principal, each.operation),
            "principal": lambda each: (each.principal, each.resource_type, each.name, each.operation),
        },
        f"after {MOST_ACLS:,} entries" if len(found) == MOST_ACLS else "",
    )


def entries(session: Session, resource: tuple[ResourceType, str] | None, principal: str | None = None) -> list[Acl]:
    """Return at most ``MOST_ACLS`` entries; with a resource, only entries that apply to it. Raises CommandError."""
    kind, name = (ResourceType.ANY, None) if resource is None else resource
    request = DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=PatternType.ANY if resource is None else PatternType.MATCH,
        principal_filter=principal,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=PermissionType.ANY,
    )
    response = session.retrying(lambda: session.ask(request))
    if response.error_code:
        raise problem("ACLs", response.error_code, response.error_message)
    found: list[Acl] = []
    for each in response.resources:
        for acl in each.acls:
            if len(found) == MOST_ACLS:
                return found
            found.append(
                Acl(
                    ResourceType(each.resource_type).title,
                    each.resource_name,
                    PatternType(each.pattern_type).title,
                    acl.principal,
                    acl.host,
                    AclOperation(acl.operation).title,
                    PermissionType(acl.permission_type).title,
                )
            )
    return found


def quotas(session: Session, asked: Asked) -> Page[Quota]:
    """Return a page of quotas. Raises CommandError."""
    response = session.retrying(lambda: session.ask(DescribeClientQuotasRequest(components=[], strict=False)))
    if response.error_code:
        raise problem("quotas", response.error_code, response.error_message)
    found = []
    for entry in response.entries or ():
        names = {each.entity_type: "(default)" if each.entity_name is None else each.entity_name for each in entry.entity}
        for each in entry.values:
            quota = Quota(names.get("user"), names.get("client-id"), names.get("ip"), each.key, each.value)
            if asked.finds(" ".join(filter(None, (quota.user, quota.client_id, quota.ip, quota.key)))):
                found.append(quota)
    return paged(
        found,
        asked,
        {"name": lambda each: (each.user or "", each.client_id or "", each.ip or "", each.key), "value": lambda each: each.value},
    )


def may(
    session: Session,
    principal: str,
    operation: AclOperation,
    resource: tuple[ResourceType, str],
    host: str = "",
    known: Mapping[str, str] | None = None,
) -> Decision:
    """Decide as Kafka's authorizer does, and say why. Without ``host``, entries of all hosts count, and only these.

    ``known`` has ``super.users`` and ``allow.everyone.if.no.acl.found``, which brokers do not show, if the caller has them.
    Raises CommandError if the user of the session may not see ACLs; ValueError for a resource without this operation.
    """
    kind, name = resource
    if operation not in SUPPORTED_OPERATIONS.get(kind, ()):
        choice = ", ".join(each.title for each in SUPPORTED_OPERATIONS.get(kind, ()))
        raise ValueError(f"a {kind.title} has no operation {operation.title}: choose one of {choice}")
    name = CLUSTER_NAME if kind == ResourceType.CLUSTER else name
    rules = {**_rules(session), **(known or {})}
    if _AUTHORIZER in rules and not rules[_AUTHORIZER]:
        return Decision(True, "the broker has no authorizer: everybody may do everything", (), "")
    if principal in [each.strip() for each in (rules.get(_SUPER_USERS) or "").split(";")]:
        return Decision(True, f"{principal} is one of {_SUPER_USERS}", (), "")
    found = entries(session, (kind, name))
    mine = [each for each in found if each.principal in (principal, WILDCARD_PRINCIPAL) and _is_from(each, host)]
    denying = _with(mine, PermissionType.DENY, {operation, AclOperation.ALL})
    if denying:
        return Decision(False, denying[0].sentence, tuple(denying), "")
    allowing = _with(mine, PermissionType.ALLOW, IMPLYING[operation])
    if allowing:
        return Decision(True, allowing[0].sentence, tuple(allowing), "")
    option = "--cluster" if kind == ResourceType.CLUSTER else f"--{_OPTIONS[kind]} {name}"
    remedy = f"twisted-kafka acls create --principal {principal} {option} --operation {_option(operation)}"
    what = f"{operation.title} on {kind.title} {name}"
    if not found and rules.get(_ALLOW_EVERYONE) == "true":
        return Decision(True, f"no entry is about {kind.title} {name}, and {_ALLOW_EVERYONE}=true", (), "")
    others = len(found) - len(mine)
    why = f"no entry allows {principal} {what}" + (f"; {others} are about other users or hosts" if others else "")
    if known is None:
        why += f"; whether {principal} is a super user is not known, as brokers do not show {_SUPER_USERS}"
    return Decision(False, why, tuple(mine), remedy)


_OPTIONS: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional-id",
    ResourceType.DELEGATION_TOKEN: "delegation-token",
    ResourceType.USER: "user",
}


def _option(operation: AclOperation) -> str:
    return operation.name.lower().replace("_", "-")


def _rules(session: Session) -> dict[str, str | None]:
    """Return the settings of a broker that decide where entries do not; nothing if the user may not see them."""
    with suppress(CommandError):
        session.retrying(lambda: session.metadata([]))
        wanted = (_AUTHORIZER, _SUPER_USERS, _ALLOW_EVERYONE)
        found = {each.key: each.value for each in settings(session, "broker", str(min(session.brokers)))}
        return {key: found[key] for key in wanted if key in found}
    return {}


def _with(
    entries: Sequence[Acl], permission: PermissionType, operations: "set[AclOperation] | frozenset[AclOperation]"
) -> list[Acl]:
    titles = {each.title for each in operations}
    return [each for each in entries if each.permission == permission.title and each.operation in titles]


def _is_from(entry: Acl, host: str) -> bool:
    if entry.host == WILDCARD or not host:
        return entry.host == WILDCARD
    wanted = normal_host(host)
    return normal_host(entry.host) == wanted or (is_network(entry.host) and is_in_network(wanted, entry.host))
