"""The error responses that are compared with Kafka's."""

from typing import Any

from tests.support.error_examples import KEYS, example
from twisted_kafka.protocol.api import ApiKey, request_class

ACLS = {"operation": 3, "permission_type": 3, "resource_type": 2, "resource_pattern_type": 3}
FIELDS: dict[ApiKey, tuple[dict[str, Any], ...]] = {
    ApiKey.PRODUCE: ({"acks": 0}, {"acks": 1, "records": b""}),  # of no records at all Kafka's class makes no answer, but fails
    ApiKey.DESCRIBE_ACLS: (ACLS,),
    ApiKey.CREATE_ACLS: (ACLS,),
    ApiKey.DELETE_ACLS: (ACLS,),
}
"""What Kafka's classes want to see before they are content with a request."""


def asking(struct: Any, **fields: Any) -> Any:
    """Set fields of these names, wherever in the request they are."""
    for field in type(struct).FIELDS:
        value = getattr(struct, field.name)
        if field.name in fields:
            setattr(struct, field.name, fields[field.name])
        elif isinstance(value, list):
            for each in value:
                if hasattr(type(each), "FIELDS"):
                    asking(each, **fields)
    return struct


def cases() -> list[tuple[ApiKey, int, bytes]]:
    found = []
    for key in KEYS:
        cls = request_class(key)
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
            found += [(key, version, asking(example(cls, version), **fields).encode(version)) for fields in FIELDS.get(key, ({},))]
    return found
