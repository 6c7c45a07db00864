"""``twisted-kafka acls``: list, create and delete access control entries."""

import argparse
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from twisted_kafka.console.cluster.problems import problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.messages.administration.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from twisted_kafka.security.authorizer.acl_types import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from twisted_kafka.tools.admin.arguments import action, with_preview
from twisted_kafka.tools.admin.output import Output

_COLUMNS: Final = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
_RESOURCES: Final = (
    ("topic", ResourceType.TOPIC),
    ("group", ResourceType.GROUP),
    ("transactional_id", ResourceType.TRANSACTIONAL_ID),
    ("delegation_token", ResourceType.DELEGATION_TOKEN),
    ("user", ResourceType.USER),
)
_OPERATIONS: Final = (
    "read, write, create, delete, alter, describe, describe-configs, alter-configs, idempotent-write, cluster-action, all"
)

_Named = TypeVar("_Named", AclOperation, PermissionType)


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    one = action(commands, "list", "list entries; with a topic, group, ...: all that apply to it", _list)
    _add_filters(one)
    one = action(commands, "create", "allow or deny operations", _create)
    _add_filters(one, is_filter=False)
    one.add_argument("--deny", action="store_true", help="deny the operations, whatever other entries allow")
    one.add_argument("--producer", action="store_true", help="the rights of a producer to the topics: write, describe, create")
    one.add_argument("--consumer", action="store_true", help="the rights of a consumer of the topics in the groups: read, describe")
    one = action(commands, "delete", "delete entries", _delete)
    _add_filters(one)
    one.add_argument("--all", action="store_true", help="delete all entries, if nothing else selects some")
    with_preview(one)


def _add_filters(parser: argparse.ArgumentParser, *, is_filter: bool = True) -> None:
    """Add the options that name entries."""
    parser.add_argument("--principal", action="append", metavar="TYPE:NAME", help="User:alice; User:* for all; may be repeated")
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        help="the client's IP address, or a network such as 10.0.0.0/8" + ("" if is_filter else " [default: all]"),
    )
    parser.add_argument("--operation", metavar="NAMES", help=f"by comma: {_OPERATIONS}")
    for name, _ in _RESOURCES:
        parser.add_argument(
            f"--{name.replace('_', '-')}", action="append", default=[], metavar="NAME", help="* for all; may be repeated"
        )
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument("--prefixed", action="store_true", help="the names are prefixes of the resources' names")
    if is_filter:
        parser.add_argument("--permission", choices=("allow", "deny"))


def _operations(options: argparse.Namespace) -> list[AclOperation]:
    return [_parsed(AclOperation, text, _OPERATIONS) for text in (options.operation or "").split(",") if text]


def _parsed(kind: type[_Named], text: str, expected: str) -> _Named:
    wanted = text.strip().replace("-", "").replace("_", "").lower()
    for each in kind:
        if each.title.lower() == wanted:
            return each
    raise ValueError(f"unknown operation {text!r}: expected {expected}")


def _resources(options: argparse.Namespace) -> list[tuple[ResourceType, str]]:
    named = [(kind, name) for field, kind in _RESOURCES for name in getattr(options, field)]
    return [*named, *([(ResourceType.CLUSTER, CLUSTER_NAME)] if options.cluster else [])]


def _row(resource: Any, acl: Any) -> dict[str, Any]:
    return {
        "resource": ResourceType(resource.resource_type).title,
        "name": resource.resource_name,
        "pattern": PatternType(resource.pattern_type).title,
        "principal": acl.principal,
        "host": acl.host,
        "operation": AclOperation(acl.operation).title,
        "permission": PermissionType(acl.permission_type).title,
    }


Filter = tuple[ResourceType, str | None, PatternType, str | None, str | None, AclOperation, PermissionType]
"""Resource type, name, pattern type, principal, host, operation, permission."""


def _filters(options: argparse.Namespace, pattern: PatternType) -> list[Filter]:
    permission = PermissionType[options.permission.upper()] if options.permission else PermissionType.ANY
    named: Sequence[tuple[ResourceType, str | None]] = _resources(options) or [(ResourceType.ANY, None)]
    return [
        (kind, name, pattern, principal, options.host, operation, permission)
        for kind, name in named
        for principal in options.principal or [None]
        for operation in _operations(options) or [AclOperation.ANY]
    ]


def _found(session: Session, filters: Sequence[Filter]) -> list[dict[str, Any]]:
    """Return the entries that match one of the filters, sorted."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for kind, name, pattern, principal, host, operation, permission in filters:
        request = DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        )
        response = session.retrying(lambda request=request: session.ask(request))  # type: ignore[misc]
        if response.error_code:
            raise problem("ACLs", response.error_code, response.error_message)
        for resource in response.resources:
            for acl in resource.acls:
                row = _row(resource, acl)
                rows[tuple(row.values())] = row
    return [rows[key] for key in sorted(rows)]


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    pattern = PatternType.PREFIXED if options.prefixed else PatternType.MATCH if _resources(options) else PatternType.ANY
    output.rows(_COLUMNS, _found(session, _filters(options, pattern)))


def _create(options: argparse.Namespace, session: Session, output: Output) -> None:
    if not options.principal:
        raise ValueError("name a principal, as in --principal User:alice")
    for principal in options.principal:
        if ":" not in principal:
            raise ValueError(f"--principal {principal}: expected TYPE:NAME, as in User:{principal}")
    entries = _entries(options)
    if not entries:
        raise ValueError("name a resource and operations, as in --topic orders --operation read")
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.PREFIXED
            if options.prefixed and kind != ResourceType.CLUSTER
            else PatternType.LITERAL,
            principal=principal,
            host=options.host or WILDCARD,
            operation=operation,
            permission_type=PermissionType.DENY if options.deny else PermissionType.ALLOW,
        )
        for kind, name, operation in entries
        for principal in options.principal
    ]

    def step() -> list[Any]:
        results: list[Any] = session.ask_controller(CreateAclsRequest(creations=creations)).results
        return results

    created = []
    for creation, result in zip(creations, session.retrying(step), strict=True):
        row = _row(_Created(creation), creation)
        if result.error_code:
            output.problem(problem(f"ACL of {row['resource']} {row['name']}", result.error_code, result.error_message))
        else:
            created.append(row)
    output.rows(_COLUMNS, created)


class _Created:
    """The resource of a creation, with the field names of other messages."""

    def __init__(self, creation: AclCreation) -> None:
        self.resource_type = creation.resource_type
        self.resource_name = creation.resource_name
        self.pattern_type = creation.resource_pattern_type


def _entries(options: argparse.Namespace) -> list[tuple[ResourceType, str, AclOperation]]:
    """Return resources and operations, also of the roles."""
    if (options.producer or options.consumer) and not options.topic:
        raise ValueError("--producer and --consumer need a --topic")
    if options.consumer and not options.group:
        raise ValueError("--consumer needs a --group")
    entries = [(kind, name, operation) for kind, name in _resources(options) for operation in _operations(options)]
    own = AclOperation
    if options.producer:
        entries += [(ResourceType.TOPIC, name, each) for name in options.topic for each in (own.WRITE, own.DESCRIBE, own.CREATE)]
        names = options.transactional_id
        entries += [(ResourceType.TRANSACTIONAL_ID, name, each) for name in names for each in (own.WRITE, own.DESCRIBE)]
    if options.consumer:
        entries += [(ResourceType.TOPIC, name, each) for name in options.topic for each in (own.READ, own.DESCRIBE)]
        entries += [(ResourceType.GROUP, name, own.READ) for name in options.group]
    return list(dict.fromkeys(entries))


def _delete(options: argparse.Namespace, session: Session, output: Output) -> None:
    selects = options.principal or options.host or options.operation or options.permission or _resources(options)
    if not selects and not options.all:
        raise ValueError("select entries, by --principal or --topic for example, or use --all")
    filters = _filters(
        options, PatternType.PREFIXED if options.prefixed else PatternType.LITERAL if _resources(options) else PatternType.ANY
    )
    rows = _found(session, filters)
    if not rows:
        output.done("no entry matches", action="none", entries=0)
        return
    if not output.confirm(f"delete {counted(len(rows), 'ACL')}", _COLUMNS, rows, only_shows=options.dry_run):
        return
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=kind,
                resource_name_filter=name,
                pattern_type_filter=pattern,
                principal_filter=principal,
                host_filter=host,
                operation=operation,
                permission_type=permission,
            )
            for kind, name, pattern, principal, host, operation, permission in filters
        ]
    )
    count = 0
    for result in session.retrying(lambda: session.ask_controller(request)).filter_results:
        if result.error_code:
            output.problem(problem("ACLs", result.error_code, result.error_message))
        for each in result.matching_acls:
            if each.error_code:
                output.problem(problem(f"ACL of {each.resource_name}", each.error_code, each.error_message))
            else:
                count += 1
    output.done(f"deleted {counted(count, 'ACL')}", action="deleted", entries=count)
