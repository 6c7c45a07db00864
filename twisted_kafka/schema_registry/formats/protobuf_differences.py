"""The differences between two Protobuf schemas that break readers, by the rules of Confluent's registry.

Fields are compared by their numbers, messages by their names. The wire decides which types can replace each other.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from twisted_kafka.schema_registry.formats.differences import Difference

_F: Final = FieldDescriptorProto
_GENERAL: Final = "GENERAL_NUMBER"
_WIRE: Final[Mapping[int, str]] = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM), _GENERAL),
    **dict.fromkeys((_F.TYPE_SINT32, _F.TYPE_SINT64), "SIGNED_NUMBER"),
    **dict.fromkeys((_F.TYPE_STRING, _F.TYPE_BYTES), "STRING_OR_BYTES"),
    **dict.fromkeys((_F.TYPE_FIXED32, _F.TYPE_SFIXED32), "FIXED32"),
    **dict.fromkeys((_F.TYPE_FIXED64, _F.TYPE_SFIXED64), "FIXED64"),
    _F.TYPE_FLOAT: "FLOAT",
    _F.TYPE_DOUBLE: "DOUBLE",
}
"""Scalar types with the same word replace each other."""
_TEXT: Final = "STRING_OR_BYTES"

Found = Iterator[Difference]


class Side:
    """One of the two schemas: its file and the imported files."""

    def __init__(self, file: FileDescriptorProto, imported: Iterable[FileDescriptorProto]) -> None:
        self.file = file
        self._messages: dict[str, tuple[str, DescriptorProto]] = {}
        self._own: set[str] = set()
        for each in imported:
            self._add(each.package, each.package, each.message_type)
        known = set(self._messages)
        self._add(file.package, file.package, file.message_type)
        self._own = set(self._messages) - known

    def _add(self, package: str, scope: str, messages: Iterable[DescriptorProto]) -> None:
        for message in messages:
            full = f"{scope}.{message.name}" if scope else message.name
            self._messages[full] = package, message
            self._add(package, full, message.nested_type)

    def message(self, type_name: str) -> DescriptorProto | None:
        """Return a message by its full name."""
        found = self._messages.get(type_name.removeprefix("."))
        return None if found is None else found[1]

    def local_name(self, type_name: str) -> str:
        """Return a message's name within its package, so that a package may change its name."""
        full = type_name.removeprefix(".")
        package = self._messages[full][0] if full in self._messages else ""
        return full.removeprefix(f"{package}.") if package else full

    def is_own(self, type_name: str) -> bool:
        """Whether the schema itself has the message, not one of the imported files."""
        return type_name.removeprefix(".") in self._own


def differences(old: Side, new: Side) -> Found:
    """Yield the differences that prevent a reader with ``new`` from reading data of ``old``."""
    if old.file.package != new.file.package:
        yield Difference("PACKAGE_CHANGED", "#/")
    comparison = _Comparison(old, new)
    yield from comparison.messages(old.file.message_type, new.file.message_type, "#/")


class _Comparison:
    def __init__(self, old: Side, new: Side) -> None:
        self._old = old
        self._new = new
        self._under_way: set[str] = set()

    def messages(self, old: Iterable[DescriptorProto], new: Iterable[DescriptorProto], path: str) -> Found:
        after = {each.name: each for each in new}
        for message in old:
            where = f"{path}{message.name}"
            if message.options.map_entry:
                continue
            if message.name not in after:
                yield Difference("MESSAGE_REMOVED", where)
            else:
                yield from self.message(message, after[message.name], where)

    def message(self, old: DescriptorProto, new: DescriptorProto, path: str) -> Found:
        before, after = ({field.number: field for field in each.field} for each in (old, new))
        ones_before, ones_after = _oneofs(old), _oneofs(new)
        yield from _moved_into_oneofs(before, ones_before, ones_after, path)
        names_after = set(ones_after.values())
        deleted = {
            name
            for name in set(ones_before.values()) - names_after
            if not any(number in after for number, oneof in ones_before.items() if oneof == name)
        }
        for number in sorted(before.keys() | after.keys()):
            was, now = before.get(number), after.get(number)
            if was is not None and now is not None:
                inside = f"{ones_after[number]}/" if number in ones_after else ""
                yield from self._field(was, now, f"{path}/{inside}{number}")
            elif was is not None and number in ones_before:
                if ones_before[number] not in deleted:
                    yield Difference("ONEOF_FIELD_REMOVED", f"{path}/{ones_before[number]}/{number}")
            elif was is not None and was.label == _F.LABEL_REQUIRED:
                yield Difference("REQUIRED_FIELD_REMOVED", f"{path}/{number}")
            elif now is not None and now.label == _F.LABEL_REQUIRED:
                yield Difference("REQUIRED_FIELD_ADDED", f"{path}/{number}")
        yield from self.messages(old.nested_type, new.nested_type, f"{path}/")

    def _field(self, old: FieldDescriptorProto, new: FieldDescriptorProto, path: str) -> Found:
        entry_before, entry_after = _entry(self._old, old), _entry(self._new, new)
        if (entry_before is None) != (entry_after is None) or (old.type in _WIRE) != (new.type in _WIRE):
            yield Difference("FIELD_KIND_CHANGED", path)
        elif entry_before is not None and entry_after is not None:
            for was, now in zip(entry_before.field, entry_after.field, strict=True):
                yield from self._field(was, now, path)
        elif old.type in _WIRE:
            wire = _WIRE[old.type]
            if wire != _WIRE[new.type]:
                yield Difference("FIELD_SCALAR_KIND_CHANGED", path)
            elif (
                wire != _TEXT
                and _label(self._old, old) != _label(self._new, new)
                and None
                not in (
                    _label(self._old, old),
                    _label(self._new, new),
                )
            ):
                yield Difference("FIELD_NUMERIC_LABEL_CHANGED", path)
        else:
            yield from self._named(old.type_name, new.type_name, path)

    def _named(self, old: str, new: str, path: str) -> Found:
        if self._old.local_name(old) != self._new.local_name(new):
            yield Difference("FIELD_NAMED_TYPE_CHANGED", path)
            return
        if (self._old.is_own(old) and self._new.is_own(new)) or old in self._under_way:
            return  # compared with the other messages of the file
        before, after = self._old.message(old), self._new.message(new)
        if before is None or after is None:
            return
        self._under_way.add(old)
        found = list(self.message(before, after, f"#/{self._old.local_name(old).replace('.', '/')}"))
        self._under_way.discard(old)
        yield from found
        if found:
            yield Difference("FIELD_NAMED_TYPE_CHANGED", path)


def _oneofs(message: DescriptorProto) -> dict[int, str]:
    """Return the name of the oneof of each field that is in one, by the field's number."""
    return {
        field.number: message.oneof_decl[field.oneof_index].name
        for field in message.field
        if field.HasField("oneof_index") and not field.proto3_optional
    }


def _moved_into_oneofs(
    before: Mapping[int, FieldDescriptorProto], ones_before: Mapping[int, str], ones_after: Mapping[int, str], path: str
) -> Found:
    """Yield the oneofs that make fields exclude each other which did not before."""
    for oneof in dict.fromkeys(ones_after.values()):
        members = [number for number, name in ones_after.items() if name == oneof and number in before]
        origins = {ones_before.get(number, number) for number in members}
        if len(origins) > 1:
            several = sum(number not in ones_before for number in members) > 1
            yield Difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF" if several else "FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{oneof}")


def _entry(side: Side, field: FieldDescriptorProto) -> DescriptorProto | None:
    """Return the entry of a map field; None for other fields."""
    if field.type != _F.TYPE_MESSAGE:
        return None
    message = side.message(field.type_name)
    return message if message is not None and message.options.map_entry else None


def _label(side: Side, field: FieldDescriptorProto) -> int | None:
    """Return the label that is written in the schema; None if none is."""
    is_silent = field.HasField("oneof_index") and not field.proto3_optional
    if side.file.syntax == "proto3" and field.label != _F.LABEL_REPEATED and not field.proto3_optional:
        is_silent = True
    return None if is_silent else field.label
