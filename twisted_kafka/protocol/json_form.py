"""Messages as JSON, in the form that Kafka's JSON converters and request log use.

Names are camelCase, UUIDs are in Kafka's text form, bytes and records in base64. Tagged fields with default values are omitted.
"""

import base64
from typing import Any

from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.layout import tagged, untagged
from twisted_kafka.protocol.schema import Field, ListOf, Struct
from twisted_kafka.protocol.types import Wire, uuid_from_text, uuid_text
from twisted_kafka.protocol.wire import join


def json_name(name: str) -> str:
    """Return Kafka's name of a field: ``is_kraft_controller`` is ``isKRaftController``."""
    first, *rest = name.replace("kraft", "k_raft").split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def to_json(message: Message, version: int) -> dict[str, Any]:
    """Return the fields of this version of the message."""
    return _struct_to_json(message, version)


def _struct_to_json(struct: Struct, version: int) -> dict[str, Any]:
    cls = type(struct)
    out = {json_name(each.name): _to_json(each.type, getattr(struct, each.name), version) for each in untagged(cls, version)}
    for each in tagged(cls, version):
        value = getattr(struct, each.name)
        if not is_default(each, value):
            out[json_name(each.name)] = _to_json(each.type, value, version)
    return out


def is_default(each: Field, value: Any) -> bool:
    """Whether this value is the tagged field's default, with which it is omitted."""
    if value is not None and not isinstance(each.type, Wire | ListOf) and not each.nullable_at(each.since):
        return bool(value == each.type())
    return bool(value == each.make_default())


def _to_json(kind: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, ListOf):
        return [_to_json(kind.element, item, version) for item in value]
    if not isinstance(kind, Wire):
        return _struct_to_json(value, version)
    if kind.code == "16s":
        return uuid_text(value)
    if kind.kind == "bytes":
        return base64.b64encode(value).decode()
    if kind.kind == "records":
        return base64.b64encode(records_bytes(value)).decode()
    return value


def records_bytes(records: Any) -> bytes:
    """Return the value of a records field as bytes; file regions are read."""
    return join(records if isinstance(records, list) else [records])


def from_json(cls: type[Message], form: dict[str, Any], version: int) -> Message:
    """Build a message from what ``to_json`` returned for the same version; raises ValueError for unknown names."""
    made: Message = _struct_from_json(cls, form, version)
    return made


def _struct_from_json(cls: Any, form: dict[str, Any], version: int) -> Any:
    fields = {json_name(each.name): each for each in untagged(cls, version) + tagged(cls, version)}
    unknown = form.keys() - fields.keys()
    if unknown:
        raise ValueError(f"{cls.__name__} v{version} has no field {', '.join(sorted(unknown))}")
    return cls(**{fields[name].name: _from_json(fields[name].type, value, version) for name, value in form.items()})


def _from_json(kind: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, ListOf):
        return [_from_json(kind.element, item, version) for item in value]
    if not isinstance(kind, Wire):
        return _struct_from_json(kind, value, version)
    if kind.code == "16s":
        return uuid_from_text(value)
    if kind.kind in ("bytes", "records"):
        return base64.b64decode(value)
    return value
