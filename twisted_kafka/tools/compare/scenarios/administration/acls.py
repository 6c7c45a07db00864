"""CreateAcls, DescribeAcls and DeleteAcls: good input and bad."""

from typing import Any

from twisted_kafka.protocol.messages.administration.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from twisted_kafka.tools.compare.talk import Talk, scenario

LITERAL, PREFIXED, MATCH, ANY = 3, 4, 2, 1
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 2, 3, 4, 5, 6, 7
READ, WRITE, ALL, DENY, ALLOW = 3, 4, 2, 2, 3

EVERY: dict[str, Any] = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


def creation(name: str, **values: Any) -> AclCreation:
    fields: dict[str, Any] = {"resource_type": TOPIC, "resource_pattern_type": LITERAL, "principal": "User:alice", "host": "*"}
    return AclCreation(**{**fields, "operation": READ, "permission_type": ALLOW, "resource_name": name, **values})


def create(talk: Talk, version: int, *creations: AclCreation, note: bool = True) -> None:
    talk.ask(CreateAclsRequest(creations=list(creations)), version, note=note)


def filters(version: int, **values: Any) -> dict[str, Any]:
    """Return a filter's fields: before version 1 there are only literal patterns."""
    fields = {**EVERY, **values}
    return fields if version else {**fields, "pattern_type_filter": LITERAL}


def described(talk: Talk, version: int, **values: Any) -> None:
    talk.ask(DescribeAclsRequest(**filters(version, **values)), version)


def deleted(talk: Talk, version: int, *each: dict[str, Any]) -> None:
    talk.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**filters(version, **values)) for values in each]), version)


def guarded_acls(talk: Talk, version: int) -> None:
    """With an authorizer: ACLs are created, found by each field, and deleted."""
    orders, prefix = talk.topic("orders"), talk.topic("ord")
    create(talk, version, creation(orders), creation(orders), creation(orders, principal="User:CN=b:c,O=d", permission_type=DENY))
    create(talk, version, creation("*", principal="User:*", host="10.0.0.1", operation=ALL))
    create(talk, version, creation("kafka-cluster", resource_type=CLUSTER, operation=8))
    for kind in (GROUP, TRANSACTIONAL_ID, TOKEN, *((USER,) if version >= 3 else ())):
        create(talk, version, creation(talk.topic("x"), resource_type=kind, operation=8))
    if version:
        create(talk, version, creation(prefix, resource_pattern_type=PREFIXED, operation=WRITE))
    described(talk, version)
    for values in (
        {"resource_type_filter": TOPIC},
        {"resource_name_filter": orders},
        {"resource_name_filter": "*"},
        {"resource_name_filter": ""},
        {"principal_filter": "User:alice"},
        {"principal_filter": "User:*"},
        {"principal_filter": ""},
        {"host_filter": "10.0.0.1"},
        {"host_filter": "*"},
        {"operation": READ},
        {"operation": ALL},
        {"permission_type": DENY},
        {"resource_type_filter": GROUP, "operation": READ},
    ):
        described(talk, version, **values)
    if version:
        for pattern_type in (MATCH, LITERAL, PREFIXED):
            for name in (orders, prefix, None):
                described(talk, version, pattern_type_filter=pattern_type, resource_name_filter=name)
    deleted(talk, version, {"resource_name_filter": orders, "permission_type": DENY}, {"resource_name_filter": orders})
    deleted(talk, version, {"resource_name_filter": orders}, {"operation": 8})
    if version:
        deleted(talk, version, {"resource_name_filter": orders, "pattern_type_filter": MATCH, "resource_type_filter": TOPIC})
    deleted(talk, version, {})
    described(talk, version)


def guarded_acls_bad(talk: Talk, version: int) -> None:
    """With an authorizer: ACLs that cannot be."""
    name = talk.topic("t")
    create(talk, version)
    create(talk, version, creation(""), creation("other", resource_type=CLUSTER), creation(name))
    for values in (
        {"resource_type": 0},
        {"resource_type": 77},
        {"operation": 0},
        {"operation": 99},
        {"permission_type": 0},
        {"permission_type": 9},
        {"resource_type": ANY},
        {"operation": ANY},
        {"permission_type": ANY},
        {"principal": "alice"},
        {"principal": ""},
        {"host": ""},
        {"operation": 9},
        {"resource_type": GROUP, "operation": 12},
    ):
        create(talk, version, creation(name, **values))
    create(talk, version, creation("a/b", resource_type=GROUP), creation("a/", resource_type=GROUP))
    create(talk, version, creation(".", resource_type=GROUP), creation("..", resource_type=GROUP))
    if version:
        for pattern_type in (0, ANY, MATCH, 55):
            create(talk, version, creation(name, resource_pattern_type=pattern_type))
    for wrong in (
        {"resource_type_filter": 0},
        {"resource_type_filter": 77},
        {"operation": 0},
        {"permission_type": 0},
        {"permission_type": 44},
        {"principal_filter": "alice"},
    ):
        described(talk, version, **wrong)
        deleted(talk, version, wrong)
    if version:
        described(talk, version, pattern_type_filter=0)
        described(talk, version, pattern_type_filter=9)
    deleted(talk, version)
    deleted(talk, version, {})


@scenario(CreateAclsRequest)
def create_acls_without_an_authorizer(talk: Talk, version: int) -> None:
    create(talk, version, creation(talk.topic("t")), creation(""))
    create(talk, version, creation("", operation=0))


@scenario(DescribeAclsRequest)
def describe_acls_without_an_authorizer(talk: Talk, version: int) -> None:
    described(talk, version)
    described(talk, version, operation=0)


@scenario(DeleteAclsRequest)
def delete_acls_without_an_authorizer(talk: Talk, version: int) -> None:
    deleted(talk, version, {}, {"resource_type_filter": TOPIC})
    deleted(talk, version, {"operation": 0})
