"""Protobuf schemas: ``.proto`` texts by proto-schema-parser, descriptors and their rules by Protobuf's own library."""

import base64
import binascii
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError
from typing_extensions import override

from twisted_kafka.schema_registry.formats.parsed import SERIALIZED, Dependencies, ParsedSchema, SchemaError
from twisted_kafka.schema_registry.formats.protobuf_differences import Side, differences
from twisted_kafka.schema_registry.formats.protobuf_source import describe, imports_of, parse
from twisted_kafka.schema_registry.formats.protobuf_text import proto_text

MAX_NUMBER: Final = 536_870_911
RESERVED_NUMBERS: Final = range(19_000, 20_000)
"""Numbers of fields that Protobuf keeps for itself."""
FILE_NAME: Final = "default.proto"
"""The name of a schema's own file."""
_WELL_KNOWN: Final = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type"),
    "wrappers",
)
_OF_GOOGLE: Final = (
    *("calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval", "latlng"),
    *("localized_text", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday"),
)
_MODULES: Final[Mapping[str, str]] = {
    **{f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2" for name in _WELL_KNOWN},
    **{f"google/type/{name}.proto": f"google.type.{name}_pb2" for name in _OF_GOOGLE},
}
"""The modules with the files that every schema may import. Those of google.type are in googleapis-common-protos."""
_OF_CONFLUENT: Final[Mapping[str, str]] = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
}
"""The files that Confluent's registry knows: a schema may import them without a reference."""


class ProtobufSchema(ParsedSchema):
    """A ``.proto`` file, or a FileDescriptorProto in base64. Its references are files that it imports."""

    schema_type: ClassVar[str] = "PROTOBUF"

    def __init__(self, text: str, dependencies: Dependencies) -> None:
        """Raises SchemaError, one line."""
        self._given = text
        self._dependencies = dependencies
        imported: dict[str, FileDescriptorProto] = {}
        for name, other in dependencies.items():
            imported[name] = _described(other, name, imported)
        self._file = _described(text, FILE_NAME, imported)
        self._imported = imported
        _check(self._file, imported)
        self.text = proto_text(self._file, imported.values())

    @override
    def normalized(self) -> Self:
        file = FileDescriptorProto()
        file.CopyFrom(self._file)
        if not file.public_dependency and not file.weak_dependency:
            file.dependency.sort()
        for message in file.message_type:
            _sort_fields(message)
        return type(self)(base64.b64encode(file.SerializeToString()).decode(), self._dependencies)

    @override
    def formatted(self, form: str) -> str:
        if form != SERIALIZED:
            return self.text
        return base64.b64encode(_without_unread_options(self._file).SerializeToString(deterministic=True)).decode()

    @override
    def resolved(self) -> str:
        return self.text

    @override
    def cannot_read(self, written: "ProtobufSchema") -> Sequence[str]:
        return [str(each) for each in differences(written.side(), self.side())]

    @property
    def imported(self) -> Sequence[FileDescriptorProto]:
        """The imported files, each after its own imports."""
        return tuple(self._imported.values())

    def side(self) -> Side:
        """Return the schema for comparisons."""
        return Side(self._file, self._imported.values())


def _described(text: str, name: str, imported: dict[str, FileDescriptorProto]) -> FileDescriptorProto:
    """Return a file's descriptor; add the files that every schema may import to ``imported``. Raises SchemaError."""
    file = _decoded(text)
    if file is not None:
        file.name = name
        file.ClearField("source_code_info")
        _import(file.dependency, imported)
        return file
    tree = parse(text)
    _import(imports_of(tree), imported)
    return describe(tree, name, imported.values())


def _decoded(text: str) -> FileDescriptorProto | None:
    """Return the descriptor that a text has in base64; None for other texts."""
    try:
        content = base64.b64decode(text, validate=True)
        file = FileDescriptorProto.FromString(content) if content else None
    except (binascii.Error, ValueError, DecodeError):
        return None
    return file


def _import(names: Sequence[str], imported: dict[str, FileDescriptorProto]) -> None:
    for name in names:
        if name in imported:
            continue
        file = _built_in(name, imported)
        if file is None:
            raise SchemaError(f'Import "{name}" was not found: add a reference with this name')
        imported[name] = file


def _built_in(name: str, imported: dict[str, FileDescriptorProto]) -> FileDescriptorProto | None:
    if name in _OF_CONFLUENT:
        return _described(_OF_CONFLUENT[name], name, imported)
    if name not in _MODULES:
        return None
    try:
        module: Any = importlib.import_module(_MODULES[name])
    except ImportError:
        return None
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    _import(file.dependency, imported)
    return file


def _check(file: FileDescriptorProto, imported: Mapping[str, FileDescriptorProto]) -> None:
    """Let Protobuf's library build the file: it knows all rules, as about numbers that are used twice."""
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(each: FileDescriptorProto) -> None:
        if each.name in added:
            return
        added.add(each.name)
        for name in each.dependency:
            if name in imported:
                add(imported[name])
        pool.AddSerializedFile(_without_unread_options(each).SerializeToString())

    try:
        add(file)
        pool.FindFileByName(file.name)
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"no valid .proto file: {' '.join(str(error).split())}") from None
    for message in file.message_type:
        _check_numbers(message)


def _check_numbers(message: Any) -> None:
    """Raise SchemaError for a number or a name that is invalid or used twice: Protobuf's library in pure Python accepts it."""
    for field in message.field:
        if not 1 <= field.number <= MAX_NUMBER or field.number in RESERVED_NUMBERS:
            what = f"Field number {field.number} of {message.name}.{field.name}"
            raise SchemaError(f"{what} is not 1 to {MAX_NUMBER}, or is Protobuf's own")
    for what, values in (("number", [field.number for field in message.field]), ("name", [field.name for field in message.field])):
        seen: set[object] = set()
        for value in values:
            if value in seen:
                raise SchemaError(f"Field {what} {value} has already been used in message {message.name}")
            seen.add(value)
    for nested in message.nested_type:
        _check_numbers(nested)


def _sort_fields(message: Any) -> None:
    message.field.sort(key=lambda field: field.number)
    for nested in message.nested_type:
        _sort_fields(nested)


def _without_unread_options(file: FileDescriptorProto) -> FileDescriptorProto:
    """Return a copy without the options of other files: they are known as texts only."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    pending: list[Any] = [copy]
    while pending:
        each = pending.pop()
        for field, value in each.ListFields():
            if field.message_type is None:
                continue
            if field.name == "options":
                value.ClearField("uninterpreted_option")
            elif field.is_repeated:
                pending += value
    return copy
