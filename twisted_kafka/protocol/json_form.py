"""Messages as JSON, in the form that Kafka's JSON converters and request log use.

Names are camelCase, UUIDs are in Kafka's text form, bytes and records in base64. Tagged fields with default values are omitted.
"""

import base64
from typing import Any, Final

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.layout import tagged, untagged
from twisted_kafka.protocol.compiler.schema import Field, ListOf, Struct
from twisted_kafka.protocol.compiler.types import Wire, uuid_from_text, uuid_text
from twisted_kafka.protocol.compiler.wire import join


def json_name(name: str) -> str:
    """Return Kafka's name of a field: ``is_kraft_controller`` is ``isKRaftController``."""
    first, *rest = name.replace("kraft", "k_raft").split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


class Form:
    """How values are written that JSON lacks, and read again: Kafka's way. Others override it."""

    def write_field(self, struct: Struct, field: Field, version: int) -> Any:
        """Return a field's value for JSON."""
        return _to_json(field.type, getattr(struct, field.name), version, self)

    def write_bytes(self, value: Any) -> Any:
        """Return bytes for JSON."""
        return base64.b64encode(value).decode()

    def write_records(self, value: bytes) -> Any:
        """Return record batches for JSON."""
        return base64.b64encode(value).decode()

    def read_bytes(self, form: Any) -> bytes:
        """Return the bytes that were written so. Raises ValueError."""
        return base64.b64decode(form)

    def read_records(self, form: Any) -> bytes:
        """Return the record batches that were written so. Raises ValueError."""
        return base64.b64decode(form)


KAFKAS_FORM: Final = Form()


def to_json(message: Message, version: int, form: Form = KAFKAS_FORM) -> dict[str, Any]:
    """Return the fields of this version of the message."""
    return _struct_to_json(message, version, form)


def _struct_to_json(struct: Struct, version: int, form: Form) -> dict[str, Any]:
    cls = type(struct)
    out = {json_name(each.name): form.write_field(struct, each, version) for each in untagged(cls, version)}
    for each in tagged(cls, version):
        if not is_default(each, getattr(struct, each.name)):
            out[json_name(each.name)] = form.write_field(struct, each, version)
    return out


def is_default(each: Field, value: Any) -> bool:
    """Whether this value is the tagged field's default, with which it is omitted."""
    if value is not None and not isinstance(each.type, Wire | ListOf) and not each.nullable_at(each.since):
        return bool(value == each.type())
    return bool(value == each.make_default())


def _to_json(kind: Any, value: Any, version: int, form: Form) -> Any:
    if value is None:
        return None
    if isinstance(kind, ListOf):
        return [_to_json(kind.element, item, version, form) for item in value]
    if not isinstance(kind, Wire):
        return _struct_to_json(value, version, form)
    if kind.code == "16s":
        return uuid_text(value)
    if kind.kind == "bytes":
        return form.write_bytes(value)
    if kind.kind == "records":
        return form.write_records(records_bytes(value))
    return value


def records_bytes(records: Any) -> bytes:
    """Return the value of a records field as bytes; file regions are read."""
    return join(records if isinstance(records, list) else [records])


def from_json(cls: type[Message], fields: dict[str, Any], version: int, form: Form = KAFKAS_FORM) -> Message:
    """Build a message from what ``to_json`` returned for the same version; raises ValueError for unknown names."""
    made: Message = _struct_from_json(cls, fields, version, form)
    return made


def _struct_from_json(cls: Any, values: dict[str, Any], version: int, form: Form) -> Any:
    fields = {json_name(each.name): each for each in untagged(cls, version) + tagged(cls, version)}
    unknown = values.keys() - fields.keys()
    if unknown:
        raise ValueError(f"{cls.__name__} v{version} has no field {', '.join(sorted(unknown))}")
    return cls(**{fields[name].name: _from_json(fields[name].type, value, version, form) for name, value in values.items()})


def _from_json(kind: Any, value: Any, version: int, form: Form) -> Any:
    if value is None:
        return None
    if isinstance(kind, ListOf):
        return [_from_json(kind.element, item, version, form) for item in value]
    if not isinstance(kind, Wire):
        return _struct_from_json(kind, value, version, form)
    if kind.code == "16s":
        return uuid_from_text(value)
    if kind.kind == "bytes":
        return form.read_bytes(value)
    if kind.kind == "records":
        return form.read_records(value)
    return value
