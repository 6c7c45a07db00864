"""A FileDescriptorProto as the text of a ``.proto`` file, always in the same order."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto

from twisted_kafka.schema_registry.formats.protobuf_source import SCALARS, Names, json_name

_SCALAR_NAMES: Final = {number: name for name, number in SCALARS.items()}
_LABELS: Final = {
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
    FieldDescriptorProto.LABEL_OPTIONAL: "optional ",
}
_MAX_NUMBER: Final = 536_870_911
_MAX_ENUM_NUMBER: Final = 2**31 - 1


def proto_text(file: FileDescriptorProto, imported: Iterable[FileDescriptorProto]) -> str:
    """Return the text; ``imported`` are the files that it uses."""
    return _Printer(file, imported).text()


class _Printer:
    def __init__(self, file: FileDescriptorProto, imported: Iterable[FileDescriptorProto]) -> None:
        self._file = file
        self._names = Names((*imported, file))
        self._is_proto3 = file.syntax == "proto3"

    def text(self) -> str:
        file = self._file
        if file.syntax == "editions":
            head = f'edition = "{file.edition}";\n'
        else:
            head = f'syntax = "{file.syntax or "proto2"}";\n'
        if file.package:
            head += f"package {file.package};\n"
        kinds = dict.fromkeys(file.public_dependency, "public ") | dict.fromkeys(file.weak_dependency, "weak ")
        imports = [f"import {kinds.get(index, '')}{json.dumps(name)};" for index, name in enumerate(file.dependency)]
        options = [f"option {each};" for each in _options(file.options)]
        blocks = ["\n".join(lines) for lines in (imports, options) if lines]
        blocks += ["\n".join(self._message(each, file.package)) for each in file.message_type]
        blocks += ["\n".join(_enum(each)) for each in file.enum_type]
        blocks += ["\n".join(self._extension(each, file.package)) for each in file.extension]
        blocks += ["\n".join(self._service(each)) for each in file.service]
        return head + "".join(f"\n{block}\n" for block in blocks)

    def _message(self, message: DescriptorProto, scope: str, head: str = "message") -> Iterator[str]:
        scope = f"{scope}.{message.name}" if scope else message.name
        yield f"{head} {message.name} {{"
        yield from _indented(self._inside(message, scope))
        yield "}"

    def _inside(self, message: DescriptorProto, scope: str) -> Iterator[str]:
        yield from (f"option {each};" for each in _options(message.options))
        yield from _reserved(message.reserved_name, ((each.start, each.end - 1) for each in message.reserved_range), _MAX_NUMBER)
        for each in message.extension_range:
            yield f"extensions {_range(each.start, each.end - 1, _MAX_NUMBER)};"
        nested = {each.name: each for each in message.nested_type}
        groups = {each.type_name.rpartition(".")[2] for each in message.field if each.type == FieldDescriptorProto.TYPE_GROUP}
        in_oneof: dict[int, list[FieldDescriptorProto]] = {}
        for field in message.field:
            if field.HasField("oneof_index") and not field.proto3_optional:
                in_oneof.setdefault(field.oneof_index, []).append(field)
            else:
                yield from self._field(field, scope, nested)
        for index, oneof in enumerate(message.oneof_decl):
            members = in_oneof.get(index)
            if members:
                yield f"oneof {oneof.name} {{"
                yield from _indented(f"option {each};" for each in _options(oneof.options))
                for field in members:
                    yield from _indented(self._field(field, scope, nested))
                yield "}"
        for each in message.nested_type:
            if not each.options.map_entry and each.name not in groups:
                yield from self._message(each, scope)
        for enum in message.enum_type:
            yield from _enum(enum)
        for extension in message.extension:
            yield from self._extension(extension, scope)

    def _field(self, field: FieldDescriptorProto, scope: str, nested: dict[str, DescriptorProto]) -> Iterator[str]:
        entry = nested.get(field.type_name.rpartition(".")[2])
        if field.type == FieldDescriptorProto.TYPE_GROUP and entry is not None:
            first, *others = self._message(entry, scope, f"{self._label(field)}group")
            yield f"{first.removesuffix('{')}= {field.number} {{"
            yield from others
            return
        if entry is not None and entry.options.map_entry and field.type_name == f".{scope}.{entry.name}":
            key, value = (self._type(part, scope) for part in entry.field)
            kind = f"map<{key}, {value}>"
        else:
            kind = self._label(field) + self._type(field, scope)
        options = list(_options(field.options))
        if field.HasField("default_value"):
            is_text = field.type in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
            options.insert(0, f"default = {json.dumps(field.default_value) if is_text else field.default_value}")
        if field.json_name and field.json_name != json_name(field.name):
            options.append(f"json_name = {json.dumps(field.json_name)}")
        written = f" [{', '.join(options)}]" if options else ""
        yield f"{kind} {field.name} = {field.number}{written};"

    def _label(self, field: FieldDescriptorProto) -> str:
        is_repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
        is_shown = is_repeated or field.proto3_optional or not (self._is_proto3 or field.HasField("oneof_index"))
        return _LABELS[field.label] if is_shown else ""

    def _type(self, field: FieldDescriptorProto, scope: str) -> str:
        return _SCALAR_NAMES.get(field.type) or self._names.written(field.type_name.removeprefix("."), scope)

    def _extension(self, field: FieldDescriptorProto, scope: str) -> Iterator[str]:
        yield f"extend {self._names.written(field.extendee.removeprefix('.'), scope)} {{"
        yield from _indented(self._field(field, scope, {}))
        yield "}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _indented(f"option {each};" for each in _options(service.options))
        for method in service.method:
            asked, answered = (
                ("stream " if is_stream else "") + self._names.written(name.removeprefix("."), self._file.package)
                for name, is_stream in (
                    (method.input_type, method.client_streaming),
                    (method.output_type, method.server_streaming),
                )
            )
            options = [f"option {each};" for each in _options(method.options)]
            head = f"rpc {method.name} ({asked}) returns ({answered})"
            yield from _indented((f"{head} {{", *_indented(options), "}") if options else (f"{head};",))
        yield "}"


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(f"option {each};" for each in _options(enum.options))
    yield from _indented(_reserved(enum.reserved_name, ((each.start, each.end) for each in enum.reserved_range), _MAX_ENUM_NUMBER))
    for value in enum.value:
        options = ", ".join(_options(value.options))
        yield f"  {value.name} = {value.number}{f' [{options}]' if options else ''};"
    yield "}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _reserved(names: Iterable[str], ranges: Iterable[tuple[int, int]], most: int) -> Iterator[str]:
    shown = [_range(start, end, most) for start, end in ranges]
    if shown:
        yield f"reserved {', '.join(shown)};"
    texts = [json.dumps(name) for name in names]
    if texts:
        yield f"reserved {', '.join(texts)};"


def _range(start: int, end: int, most: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end >= most else end}"


def _options(options: Any) -> Iterator[str]:
    """Yield each option as ``name = value``."""
    for field, value in options.ListFields():
        if field.name == "uninterpreted_option":
            yield from map(_uninterpreted, value)
        elif field.name != "map_entry" and field.message_type is None and not field.is_extension:
            yield f"{field.name} = {_value(field, value)}"


def _value(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    return json.dumps(value)


def _uninterpreted(option: Any) -> str:
    name = ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)
    field, value = next((field, value) for field, value in option.ListFields() if field.name != "name")
    if field.name == "aggregate_value":
        return f"{name} = {{{value}}}"
    return f"{name} = {json.dumps(value.decode()) if isinstance(value, bytes) else value}"
