"""Protobuf schemas as texts: a ``.proto`` file becomes a FileDescriptorProto, as protoc makes one."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from antlr4.error.ErrorListener import ErrorListener
from google.protobuf import text_encoding
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    UninterpretedOption,
)
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser
from typing_extensions import override

from twisted_kafka.schema_registry.formats.parsed import SchemaError

SCALARS: Final[Mapping[str, int]] = {
    name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in (
        *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes"),
        *("uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
}
_LABELS: Final[Mapping[str, int]] = {
    "OPTIONAL": FieldDescriptorProto.LABEL_OPTIONAL,
    "REQUIRED": FieldDescriptorProto.LABEL_REQUIRED,
    "REPEATED": FieldDescriptorProto.LABEL_REPEATED,
}
_MAX_NUMBER: Final = 536_870_911
_MAX_ENUM_NUMBER: Final = 2**31 - 1
MAX_CHARACTERS: Final = 200_000
"""A longer text is rejected: the parser reads some 40 KB in a second. A descriptor in base64 may be longer."""
_NAME_PART: Final = re.compile(r"\(([^)]*)\)|([^.()]+)")


class Names:
    """The types that a file may use, by their full names: whether each is an enum."""

    def __init__(self, files: Iterable[FileDescriptorProto]) -> None:
        self._is_enum: dict[str, bool] = {}
        for file in files:
            self.add(file)

    def add(self, file: FileDescriptorProto) -> None:
        """Add the types of a file."""
        for name, is_enum in _types(file.package, file.message_type, file.enum_type):
            self._is_enum[name] = is_enum

    def find(self, name: str, scope: str) -> str | None:
        """Return the full name of a type that is named within a scope, the innermost one; None if there is no such type."""
        if name.startswith("."):
            return name[1:] if name[1:] in self._is_enum else None
        parts = scope.split(".") if scope else []
        for end in range(len(parts), -1, -1):
            full = ".".join((*parts[:end], name))
            if full in self._is_enum:
                return full
        return None

    def is_enum(self, full: str) -> bool:
        """Whether a type is an enum, not a message."""
        return self._is_enum[full]

    def written(self, full: str, scope: str) -> str:
        """Return the shortest name of a type within a scope."""
        parts = full.split(".")
        for start in range(len(parts) - 1, -1, -1):
            name = ".".join(parts[start:])
            if self.find(name, scope) == full:
                return name
        return f".{full}"


def _types(scope: str, messages: Iterable[DescriptorProto], enums: Iterable[EnumDescriptorProto]) -> Iterator[tuple[str, bool]]:
    for enum in enums:
        yield _join(scope, enum.name), True
    for message in messages:
        full = _join(scope, message.name)
        yield full, False
        yield from _types(full, message.nested_type, message.enum_type)


def _join(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


class _Errors(ErrorListener):  # type: ignore[misc]
    """Turns the parser's first complaint into an error."""

    @override
    def syntaxError(self, recognizer: Any, offendingSymbol: Any, line: int, column: int, msg: str, e: Any) -> None:
        what, _, _ = " ".join(msg.split()).partition(" expecting ")
        raise SchemaError(f"Syntax error at {line}:{column + 1}: {what[:200]}")


def _listen(part: Any) -> None:
    part.removeErrorListeners()
    part.addErrorListener(_Errors())


def parse(text: str) -> ast.File:
    """Return a ``.proto`` file's syntax tree. Raises SchemaError, with the place."""
    if len(text) > MAX_CHARACTERS:
        raise SchemaError(f"the .proto file has more than {MAX_CHARACTERS} characters")
    try:
        return Parser(setup_lexer=_listen, setup_parser=_listen).parse(text)
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise error if isinstance(error, SchemaError) else SchemaError(f"no .proto file: {error}") from None


def imports_of(tree: ast.File) -> list[str]:
    """Return the names of the files that a file imports."""
    return [each.name for each in tree.file_elements if isinstance(each, ast.Import)]


def describe(tree: ast.File, name: str, imported: Iterable[FileDescriptorProto]) -> FileDescriptorProto:
    """Return a file's descriptor; ``imported`` are the files that it may use. Raises SchemaError."""
    try:
        return _Describer(imported).file(tree, name)
    except SchemaError:
        raise
    except ValueError as error:  # of a number that is too large
        raise SchemaError(" ".join(str(error).split())) from None


class _Describer:
    def __init__(self, imported: Iterable[FileDescriptorProto]) -> None:
        self._names = Names(imported)
        self._is_proto3 = False

    def file(self, tree: ast.File, name: str) -> FileDescriptorProto:
        if tree.edition is not None:
            raise SchemaError(f"edition {tree.edition} is not supported: expected proto2, proto3, or a descriptor in base64")
        syntax = (tree.syntax or "proto2").strip("\"'")
        if syntax not in ("proto2", "proto3"):
            raise SchemaError(f"the syntax {syntax!r} is not supported: expected proto2 or proto3")
        self._is_proto3 = syntax == "proto3"
        file = FileDescriptorProto(name=name)
        if self._is_proto3:
            file.syntax = syntax
        for each in tree.file_elements:
            if isinstance(each, ast.Package):
                file.package = each.name
            elif isinstance(each, ast.Import):
                if each.public:
                    file.public_dependency.append(len(file.dependency))
                elif each.weak:
                    file.weak_dependency.append(len(file.dependency))
                file.dependency.append(each.name)
        for each in tree.file_elements:
            if isinstance(each, ast.Message):
                self._message(each, file.message_type.add())
            elif isinstance(each, ast.Enum):
                self._enum(each, file.enum_type.add())
            elif isinstance(each, ast.Service):
                self._service(each, file.service.add())
            elif isinstance(each, ast.Extension):
                for field in each.elements:
                    if isinstance(field, ast.Field):
                        self._field(field, file.extension.add(extendee=each.typeName))
            elif isinstance(each, ast.Option):
                _set_option(file.options, each)
        self._names.add(file)
        self._resolve(file)
        return file

    def _message(self, tree: ast.Message | ast.Group, message: DescriptorProto) -> None:
        message.name = tree.name
        for each in tree.elements:
            if isinstance(each, ast.Field):
                self._field(each, message.field.add())
            elif isinstance(each, ast.MapField):
                self._map(each, message)
            elif isinstance(each, ast.Group):
                self._group(each, message, message.field.add())
            elif isinstance(each, ast.OneOf):
                self._oneof(each, message)
            elif isinstance(each, ast.Message):
                self._message(each, message.nested_type.add())
            elif isinstance(each, ast.Enum):
                self._enum(each, message.enum_type.add())
            elif isinstance(each, ast.Extension):
                for field in each.elements:
                    if isinstance(field, ast.Field):
                        self._field(field, message.extension.add(extendee=each.typeName))
            elif isinstance(each, ast.Reserved):
                message.reserved_name.extend(name.strip("\"'") for name in each.names)
                for start, end in map(_range, each.ranges):
                    message.reserved_range.add(start=start, end=end + 1)
            elif isinstance(each, ast.ExtensionRange):
                for start, end in map(_range, each.ranges):
                    message.extension_range.add(start=start, end=end + 1)
            elif isinstance(each, ast.Option):
                _set_option(message.options, each)
        # Synthetic oneofs of optional fields come after the others.
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _field(self, tree: ast.Field, field: FieldDescriptorProto) -> None:
        field.name, field.number, field.json_name = tree.name, tree.number, json_name(tree.name)
        cardinality = "OPTIONAL" if tree.cardinality is None else tree.cardinality.value
        field.label = _LABELS[cardinality]
        field.proto3_optional = self._is_proto3 and tree.cardinality is not None and cardinality == "OPTIONAL"
        if not field.proto3_optional:
            field.ClearField("proto3_optional")
        _set_type(field, tree.type)
        for option in tree.options:
            if option.name == "default":
                field.default_value = _default(option.value)
            elif option.name == "json_name":
                field.json_name = _plain(option.value)
            else:
                _set_option(field.options, option)

    def _map(self, tree: ast.MapField, message: DescriptorProto) -> None:
        entry = message.nested_type.add(name=f"{_camel(tree.name)}Entry")
        entry.options.map_entry = True
        for name, number, kind in (("key", 1, tree.key_type), ("value", 2, tree.value_type)):
            part = entry.field.add(name=name, number=number, json_name=name, label=FieldDescriptorProto.LABEL_OPTIONAL)
            _set_type(part, kind)
        field = message.field.add(name=tree.name, number=tree.number, json_name=json_name(tree.name), type_name=entry.name)
        field.label, field.type = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.TYPE_MESSAGE
        for option in tree.options:
            _set_option(field.options, option)

    def _group(self, tree: ast.Group, message: DescriptorProto, field: FieldDescriptorProto) -> None:
        self._message(tree, message.nested_type.add())
        cardinality = "OPTIONAL" if tree.cardinality is None else tree.cardinality.value
        field.name, field.number, field.json_name = tree.name.lower(), tree.number, json_name(tree.name.lower())
        field.label = _LABELS[cardinality]
        field.type, field.type_name = FieldDescriptorProto.TYPE_GROUP, tree.name

    def _oneof(self, tree: ast.OneOf, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=tree.name)
        for each in tree.elements:
            if isinstance(each, ast.Field):
                self._field(each, message.field.add(oneof_index=index))
            elif isinstance(each, ast.Group):
                self._group(each, message, message.field.add(oneof_index=index))
            elif isinstance(each, ast.Option):
                _set_option(oneof.options, each)

    def _enum(self, tree: ast.Enum, enum: EnumDescriptorProto) -> None:
        enum.name = tree.name
        for each in tree.elements:
            if isinstance(each, ast.EnumValue):
                value = enum.value.add(name=each.name, number=each.number)
                for option in each.options:
                    _set_option(value.options, option)
            elif isinstance(each, ast.EnumReserved):
                enum.reserved_name.extend(name.strip("\"'") for name in each.names)
                for text in each.ranges:
                    start, end = _range(text, _MAX_ENUM_NUMBER)
                    enum.reserved_range.add(start=start, end=end)
            elif isinstance(each, ast.Option):
                _set_option(enum.options, each)
        if not enum.value:
            raise SchemaError(f"enum {enum.name} has no values")
        if self._is_proto3 and enum.value[0].number:
            raise SchemaError(f"the first value of enum {enum.name} is {enum.value[0].number}: proto3 expects 0")

    def _service(self, tree: ast.Service, service: Any) -> None:
        service.name = tree.name
        for each in tree.elements:
            if isinstance(each, ast.Option):
                _set_option(service.options, each)
            elif isinstance(each, ast.Method):
                method = service.method.add(name=each.name, input_type=each.input_type.type, output_type=each.output_type.type)
                method.client_streaming, method.server_streaming = each.input_type.stream, each.output_type.stream
                for option in each.elements:
                    if isinstance(option, ast.Option):
                        _set_option(method.options, option)

    # Names of types become full names.

    def _resolve(self, file: FileDescriptorProto) -> None:
        for message in file.message_type:
            self._resolve_message(message, _join(file.package, message.name))
        for field in file.extension:
            self._resolve_field(field, file.package)
        for service in file.service:
            for method in service.method:
                method.input_type = f".{self._found(method.input_type, file.package)}"
                method.output_type = f".{self._found(method.output_type, file.package)}"

    def _resolve_message(self, message: DescriptorProto, scope: str) -> None:
        for field in (*message.field, *message.extension):
            self._resolve_field(field, scope)
        for nested in message.nested_type:
            self._resolve_message(nested, _join(scope, nested.name))

    def _resolve_field(self, field: FieldDescriptorProto, scope: str) -> None:
        if field.extendee:
            field.extendee = f".{self._found(field.extendee, scope)}"
        if not field.type_name:
            return
        full = self._found(field.type_name, scope)
        field.type_name = f".{full}"
        if field.type != FieldDescriptorProto.TYPE_GROUP:
            is_enum = self._names.is_enum(full)
            field.type = FieldDescriptorProto.TYPE_ENUM if is_enum else FieldDescriptorProto.TYPE_MESSAGE

    def _found(self, name: str, scope: str) -> str:
        full = self._names.find(name, scope)
        if full is None:
            raise SchemaError(f'"{name}" is not defined in "{scope}": import its file, and add a reference to it')
        return full


def json_name(name: str) -> str:
    """Return a field's name in JSON, as protoc computes it."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _set_type(field: FieldDescriptorProto, name: str) -> None:
    if name in SCALARS:
        field.type = SCALARS[name]
    else:
        field.type_name = name


def _range(text: str, most: int = _MAX_NUMBER) -> tuple[int, int]:
    """Return the first and the last number of a range, as in ``2`` or ``4 to max``."""
    first, _, last = (part.strip() for part in text.partition(" to "))
    return int(first, 0), most if last == "max" else int(last or first, 0)


def _plain(value: Any) -> str:
    """Return a value as text; the parser leaves the escapes in texts."""
    if not isinstance(value, str):
        return str(getattr(value, "name", value))
    try:
        content: bytes = text_encoding.CUnescape(value)
        return content.decode()
    except (ValueError, UnicodeDecodeError):
        raise SchemaError(f"{value!r:.80} is no text in UTF-8") from None


def _default(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else _plain(value)


def _set_option(options: Any, tree: ast.Option) -> None:
    """Set an option that Protobuf itself knows, and keep others as they are written."""
    field = options.DESCRIPTOR.fields_by_name.get(tree.name)
    if field is not None and field.message_type is None and not field.is_repeated:
        try:
            if field.enum_type is not None:
                setattr(options, tree.name, field.enum_type.values_by_name[_plain(tree.value)].number)
            else:
                setattr(options, tree.name, _plain(tree.value) if isinstance(tree.value, str) else tree.value)
        except (KeyError, TypeError, ValueError):
            raise SchemaError(f"option {tree.name} has a value that it cannot have: {_plain(tree.value):.80}") from None
        return
    option: UninterpretedOption = options.uninterpreted_option.add()
    for extension, plain in _NAME_PART.findall(tree.name):
        option.name.add(name_part=extension or plain, is_extension=bool(extension))
    value = tree.value
    if isinstance(value, bool) or hasattr(value, "name"):
        option.identifier_value = _default(value)
    elif isinstance(value, int) and value >= 0:
        option.positive_int_value = value
    elif isinstance(value, int):
        option.negative_int_value = value
    elif isinstance(value, float):
        option.double_value = value
    elif isinstance(value, str):
        option.string_value = _plain(value).encode()
    else:
        option.aggregate_value = _literal(value)


def _literal(value: Any) -> str:
    """Return a message's literal in Protobuf's text format, without its outer braces."""
    if isinstance(value, ast.MessageLiteral):
        fields = (each for each in value.elements if isinstance(each, ast.MessageLiteralField))
        return ", ".join(f"{each.name}: {_braced(each.value)}" for each in fields)
    if isinstance(value, list):
        return f"[{', '.join(map(_braced, value))}]"
    return json.dumps(_plain(value)) if isinstance(value, str) else _default(value)


def _braced(value: Any) -> str:
    return f"{{{_literal(value)}}}" if isinstance(value, ast.MessageLiteral) else _literal(value)
