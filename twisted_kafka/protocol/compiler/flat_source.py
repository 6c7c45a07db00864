"""Generate the Python source that reads and writes a flat form of one version of a message (`protocol/compiler/flat.py`).

Adjacent fixed-width fields, counts, lengths and tag counts are read by one ``struct`` call, then compared with the
form. Nothing checks that a string ends within the data: the next field or the position at the end shows it.
"""

from collections.abc import Collection, Iterator, Mapping
from struct import error as struct_error
from typing import Any

from twisted_kafka.protocol.compiler import wire
from twisted_kafka.protocol.compiler.layout import SourceWriter, absent, struct_name, tagged, untagged
from twisted_kafka.protocol.compiler.schema import Field, ListOf, StructType
from twisted_kafka.protocol.compiler.types import Wire


def fields_of_form(message: StructType, names: Collection[str]) -> dict[str, Field]:
    """Return the fields that a form's names mean: of several the first on the wire. Raises TypeError for a name without one."""
    found: dict[str, Field] = {}
    for each in _all_fields(message):
        found.setdefault(each.name, each)
    unknown = [each for each in names if each not in found]
    if unknown:
        raise TypeError(f"{struct_name(message)} has no fields {', '.join(unknown)}")
    return {each: found[each] for each in names}


def _all_fields(struct: StructType) -> Iterator[Field]:
    for each in struct.FIELDS:
        yield each
        if isinstance(each.type, ListOf) and isinstance(each.type.element, StructType):
            yield from _all_fields(each.type.element)


class _FlatSource(SourceWriter):
    """The common part of reader and writer: the fields of the form, and the defaults of the other fields."""

    def __init__(self, message: StructType, version: int, fields: Mapping[str, Field]) -> None:
        super().__init__(message, version)
        self._fields = fields

    def has(self, each: Field) -> bool:
        """Whether the form has the field."""
        return self._fields.get(each.name) is each

    def has_any_element(self, kind: ListOf) -> bool:
        """Whether the form has a field of the array's elements."""
        element = kind.element
        return isinstance(element, StructType) and any(self.has(each) for each in _all_fields(element))

    def is_compact(self, each: Field) -> bool:
        """Whether the field's length is a varint."""
        return self.flexible and each.compact

    def default_length(self, each: Field) -> int:
        """Return the length or count on the wire of a field with its default."""
        default = each.make_default()
        compact = self.is_compact(each)
        if default is None:
            return 0 if compact else -1
        return len(default) + compact

    def refuse(self, struct: StructType, each: Field, what: str) -> TypeError:
        """Return the error for a field that no form can have."""
        return TypeError(f"{self.where}: {struct_name(struct)}.{each.name} {what}, which a flat form cannot have")


class FlatReaderSource(_FlatSource):
    """Generates ``read(data, pos)``, which returns the form's object, or None."""

    def __init__(self, message: StructType, version: int, form: type, fields: Mapping[str, Field]) -> None:
        super().__init__(message, version, fields)
        self._checks: list[str] = []
        self.scope.update(
            new=object.__new__,
            form=form,
            uvarint=wire.unsigned_varint,
            memoryview=memoryview,
            Refused=(IndexError, UnicodeDecodeError, struct_error, wire.MalformedMessageError),
        )
        self._write(message)

    def _write(self, message: StructType) -> None:
        self.line("def read(data, pos):")
        self.line("    o = new(form)")
        self.line("    try:")
        self.depth = 2
        self._struct(message)
        self._flush()
        self.line("return o if pos == len(data) else None")
        self.depth = 1
        self.line("except Refused:")
        self.line("    return None")

    def _flush(self) -> None:
        """Write the ``struct`` call that reads the collected run, and the checks of its values."""
        if self.run:
            layout = "".join(code for code, _ in self.run)
            packer = wire.packer(layout)
            unpack = self.use(f"unpack_{layout.replace('?', 'z')}", packer.unpack_from)
            targets = ", ".join(target for _, target in self.run)
            self.line(f"{targets}{',' if len(self.run) == 1 else ''} = {unpack}(data, pos)")
            self.line(f"pos += {packer.size}")
            self.run = []
        if self._checks:
            self.line(f"if {' or '.join(self._checks)}:")
            self.line("    return None")
            self._checks = []

    def _expect(self, code: str, value: Any) -> None:
        """Read a value that must be this one."""
        found = self.fresh("v")
        self.run.append((code, found))
        self._checks.append(f"{found} != {value!r}" if value else found)

    def _struct(self, struct: StructType) -> None:
        for each in (*absent(struct, self.version), *tagged(struct, self.version)):
            if self.has(each):
                self._default(each)
        for each in untagged(struct, self.version):
            self._field(struct, each)
        if self.flexible:
            self._expect("B", 0)

    def _default(self, each: Field) -> None:
        self.line(f"o.{each.name} = {self.use(f'default_{each.name}', each.make_default())}")

    def _field(self, struct: StructType, each: Field) -> None:
        kind = each.type
        if isinstance(kind, ListOf):
            if self.has_any_element(kind):
                self._element(kind.element, each)  # type: ignore[arg-type]
            elif self.has(each):
                raise self.refuse(struct, each, "is an array")
            else:
                self._expect("B" if self.is_compact(each) else "i", self.default_length(each))
        elif not isinstance(kind, Wire):
            raise self.refuse(struct, each, "is a struct")
        elif kind.kind == "fixed":
            if self.has(each):
                self.run.append((kind.code, f"o.{each.name}"))
            else:
                self._expect(kind.code, each.default)
        elif self.has(each):
            self._sized(kind, each)
        else:
            self._expect("B" if self.is_compact(each) else "h" if kind.kind == "string" else "i", self.default_length(each))

    def _element(self, struct: StructType, each: Field) -> None:
        """Read an array of structs: one element, or none if the form names the array."""
        compact = self.is_compact(each)
        code, one = ("B", 2) if compact else ("i", 1)
        if not self.has(each):
            self._expect(code, one)
            self._struct(struct)
            return
        count = self.fresh("n")
        self.run.append((code, count))
        self._flush()
        self.line(f"if {count} == {one}:")
        self.depth += 1
        self.line(f"o.{each.name} = 1")
        self._struct(struct)
        self._flush()
        self.depth -= 1
        self.line(f"elif {count} == {one - 1}:")
        self.depth += 1
        self.line(f"o.{each.name} = 0")
        self._defaults(struct)
        self.depth -= 1
        self.line("else:")
        self.line("    return None")

    def _defaults(self, struct: StructType) -> None:
        for each in struct.FIELDS:
            if isinstance(each.type, ListOf) and self.has_any_element(each.type):
                self._defaults(each.type.element)  # type: ignore[arg-type]
            elif self.has(each):
                self._default(each)

    def _sized(self, kind: Wire, each: Field) -> None:
        """Read a string or records of the form, not null."""
        text, target, compact = kind.kind == "string", f"o.{each.name}", self.is_compact(each)
        size = self.fresh("n")
        self.run.append(("B" if compact else "h" if text else "i", size))
        self._flush()
        if compact:
            self.line(f"if {size} > 127:")
            self.line(f"    {size}, pos = uvarint(data, pos - 1)")
        self.line(f"if {size} < {1 if compact else 0}:")
        self.line("    return None")
        stop = self.fresh("e")
        self.line(f"{stop} = pos + {size}{' - 1' if compact else ''}")
        value = f"data[pos:{stop}]"
        self.line(f"{target} = " + (f"str({value}, 'utf-8')" if text else f"memoryview(data)[pos:{stop}]"))
        self.line(f"pos = {stop}")


class FlatWriterSource(_FlatSource):
    """Generates ``write(o, prefix)``, which returns the prefix and the message of the form's object ``o``."""

    def __init__(self, message: StructType, version: int, fields: Mapping[str, Field]) -> None:
        super().__init__(message, version, fields)
        self.scope.update(varint=wire.varint_bytes, len=len)
        self._parts = ["prefix"]
        self.line("def write(o, prefix):")
        self.depth = 1
        self._struct(message)
        self._flush()
        self.line(f"return {' + '.join(self._parts)}")

    def _pack(self, run: list[tuple[str, str]]) -> str:
        """Return the expression that packs a run; zeros are padding."""
        layout = "".join(f"{wire.packer(code).size}x" if value == "0" else code for code, value in run)
        values = ", ".join(value for _, value in run if value != "0")
        if not values:
            return repr(bytes(wire.packer(layout).size))
        pack = self.use(f"pack_{layout.replace('?', 'z')}", wire.packer(layout).pack)
        return f"{pack}({values})"

    def _flush(self) -> None:
        if self.run:
            self._parts.append(self._pack(self.run))
            self.run = []

    def _struct(self, struct: StructType) -> None:
        for each in untagged(struct, self.version):
            self._field(struct, each)
        if self.flexible:
            self.run.append(("B", "0"))

    def _field(self, struct: StructType, each: Field) -> None:
        kind, compact, source = each.type, self.is_compact(each), f"o.{each.name}"
        if isinstance(kind, ListOf):
            if self.has_any_element(kind):
                self.run.append(("B", "2") if compact else ("i", "1"))
                self._struct(kind.element)  # type: ignore[arg-type]
            elif self.has(each):
                raise self.refuse(struct, each, "is an array")
            else:
                self.run.append(("B" if compact else "i", str(self.default_length(each))))
        elif not isinstance(kind, Wire):
            raise self.refuse(struct, each, "is a struct")
        elif kind.kind == "fixed":
            self.run.append((kind.code, source if self.has(each) else repr(each.default)))
        elif not self.has(each):
            self.run.append(("B" if compact else "h" if kind.kind == "string" else "i", str(self.default_length(each))))
        elif kind.kind == "string":
            self._string(source, compact)
        else:
            raise self.refuse(struct, each, "is bytes")

    def _string(self, source: str, compact: bool) -> None:
        text, size = self.fresh("s"), self.fresh("n")
        self.line(f"{text} = {source}.encode()")
        self.line(f"{size} = len({text}){' + 1' if compact else ''}")
        run, self.run = self.run, []
        if compact:
            longer = f"{self._pack(run)} + varint({size})" if run else f"varint({size})"
            self._parts.append(f"({self._pack([*run, ('B', size)])} if {size} < 128 else {longer})")
        else:
            self._parts.append(self._pack([*run, ("h", size)]))
        self._parts.append(text)
