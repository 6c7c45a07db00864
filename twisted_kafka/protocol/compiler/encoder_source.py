"""Generate the Python source of an encoder for one version of a message.

The encoder appends byte strings to a list. Adjacent fixed-width fields, and the length that follows them, are packed by one
``struct`` call. A compact length below 128, which is nearly always the case, is packed in the same call as one byte.
"""

from struct import error as struct_error
from typing import Any

from twisted_kafka.protocol.compiler import wire
from twisted_kafka.protocol.compiler.decoder_source import NUMBER_CODES, array_codec
from twisted_kafka.protocol.compiler.layout import SourceWriter, absent, struct_name, tagged, untagged
from twisted_kafka.protocol.compiler.schema import Field, ListOf, StructType
from twisted_kafka.protocol.compiler.types import Wire
from twisted_kafka.protocol.errors import UnsupportedVersionError


class EncoderSource(SourceWriter):
    """Generates ``encode(message, out)``, which appends the parts of the message to ``out``."""

    def __init__(self, message: StructType, version: int) -> None:
        super().__init__(message, version)
        self.scope.update(
            BYTE=wire.BYTE,
            varint=wire.varint_bytes,
            tag_section=wire.tag_section,
            records_size=wire.records_size,
            EncodeError=wire.EncodeError,
            UnsupportedVersionError=UnsupportedVersionError,
            StructError=struct_error,
            join_uuids=wire.join_uuids,
        )
        self._write(message)

    def _write(self, message: StructType) -> None:
        self.line("def encode(o0, out):")
        self.depth += 1
        self.line("w = out.append")
        self.line("try:")
        self.depth += 1
        self.line("pass")
        self._struct(message, "o0")
        self._flush()
        self.depth -= 1
        self.line("except StructError as error:")
        self.line(f"    raise EncodeError('{self.where}: %s' % error) from None")

    # Runs of fixed-width fields: pairs of a struct code and the expression to pack

    def _add(self, code: str, expression: str) -> None:
        self.run.append((code, expression))

    def _pack(self, run: list[tuple[str, str]]) -> str:
        """Return the expression that packs a run."""
        layout = "".join(code for code, _ in run)
        values = ", ".join(expression for code, expression in run if code != "x")
        if not values:
            return repr(bytes(len(layout)))
        if layout == "B":
            return f"BYTE[{values}]"
        pack = self.use(f"pack_{layout.replace('?', 'z')}", wire.packer(layout).pack)
        return f"{pack}({values})"

    def _flush(self) -> None:
        if self.run:
            self.line(f"w({self._pack(self.run)})")
            self.run = []

    def _length(self, code: str, size: str, compact: bool, limit: int | None = None) -> None:
        """Write the run and a length; ``size`` of a compact length is already incremented by one."""
        if not compact:
            self._add(code, size)
            self._flush()
            return
        run, self.run = self.run, []
        self.line(f"if {size} < 128:")
        self.line(f"    w({self._pack([*run, ('B', size)])})")
        if limit is not None:
            self.line(f"elif {size} > {limit + 1}:")
            self.line("    " + self._fail("is too long"))
        self.line("else:")
        if run:
            self.line(f"    w({self._pack(run)})")
        self.line(f"    w(varint({size}))")

    def _fail(self, text: str) -> str:
        return f"raise EncodeError('{self.where}: {'.'.join(self.path)} {text}')"

    # Values

    def _value(self, kind: Any, source: str, compact: bool, nullable: bool) -> None:
        if isinstance(kind, ListOf):
            self._array(kind, source, compact, nullable)
        elif not isinstance(kind, Wire):
            self._single_struct(kind, source, nullable)
        elif kind.kind == "fixed":
            self._add(kind.code, source)
        else:
            self._sized(kind, source, compact, nullable)

    def _measure(self, value: str, compact: bool, nullable: bool, empty: str, steps: list[str]) -> str:
        """Write the code that measures ``value`` or handles null; return the variable of the length."""
        size = self.fresh("n")
        self.line(f"if {value} is None:")
        if nullable:
            self.line(f"    {size} = {0 if compact else -1}")
            self.line(f"    {value} = {empty}")
        else:
            self.line("    " + self._fail("is null"))
        self.line("else:")
        for step in steps[:-1]:
            self.line("    " + step)
        self.line(f"    {size} = {steps[-1]}{' + 1' if compact else ''}")
        return size

    def _sized(self, kind: Wire, source: str, compact: bool, nullable: bool) -> None:
        """Write the encoding of a string, bytes or records."""
        value = self.fresh("s")
        self.line(f"{value} = {source}")
        if kind.kind == "string":
            size = self._measure(value, compact, nullable, "b''", [f"{value} = {value}.encode()", f"len({value})"])
            self._length("h", size, compact, wire.MAX_STRING_BYTES)
        else:
            length = f"len({value})"
            if kind.kind == "records":
                length = f"(len({value}) if type({value}) is not list else records_size({value}))"
            size = self._measure(value, compact, nullable, "b''", [length])
            self._length("i", size, compact)
        if kind.kind == "records":
            self.line(f"if type({value}) is list:")
            self.line(f"    out += {value}")
            self.line("else:")
            self.line(f"    w({value})")
        else:
            self.line(f"w({value})")

    def _array(self, kind: ListOf, source: str, compact: bool, nullable: bool) -> None:
        value = self.fresh("items")
        self.line(f"{value} = {source}")
        size = self._measure(value, compact, nullable, "()", [f"len({value})"])
        self._length("i", size, compact)
        element = kind.element
        if isinstance(element, Wire) and element.kind == "fixed":
            if element.code == "16s":
                self.line(f"w(join_uuids({value}))")
            else:
                pack = self.use(f"pack_{NUMBER_CODES[element.code]}s", array_codec(element.code).pack)
                self.line(f"w({pack}({value}))")
            return
        item = self.fresh("o")
        self.line(f"for {item} in {value}:")
        self.depth += 1
        self.line("pass")
        if isinstance(element, Wire):
            self._value(element, item, compact, False)
        else:
            self._element(element, item)
        self._flush()
        self.depth -= 1

    def _element(self, struct: StructType, name: str) -> None:
        """Write the encoding of an array's element: one ``struct`` call if everything that has no fixed width is null or empty."""
        conditions: list[str] = []
        run: list[tuple[str, str]] = []
        for each in untagged(struct, self.version):
            source, compact = f"{name}.{each.name}", self.flexible and each.compact
            if isinstance(each.type, Wire) and each.type.kind == "fixed":
                run.append((each.type.code, source))
            elif each.default is None and each.factory is None and isinstance(each.type, Wire) and each.nullable_at(self.version):
                conditions.append(f"{source} is None")
                run.append(("B", "0") if compact else ("h" if each.type.kind == "string" else "i", "-1"))
            elif each.factory is list:
                conditions.append(f"{source} == []")
                run.append(("B", "1") if compact else ("i", "0"))
            else:
                conditions.clear()
                break
        if not conditions:
            self._struct(struct, name)
            return
        others = (*absent(struct, self.version), *tagged(struct, self.version))
        conditions += [
            f"not ({self._differs(struct, each, name)})" for each in others if not each.ignorable or each.tag is not None
        ]
        conditions.append(f"not {name}.unknown_tagged_fields")
        if self.flexible:
            run.append(("B", "0"))
        self.line(f"if {' and '.join(conditions)}:")
        self.line(f"    w({self._pack(run)})")
        self.line("else:")
        self.depth += 1
        self._struct(struct, name)
        self._flush()
        self.depth -= 1

    def _single_struct(self, kind: StructType, source: str, nullable: bool, null: int = 0xFF) -> None:
        inner = self.fresh("o")
        self.line(f"{inner} = {source}")
        if not nullable:
            self.line(f"if {inner} is None:")
            self.line("    " + self._fail("is null"))
            self._struct(kind, inner)
            return
        self._flush()
        self.line(f"if {inner} is None:")
        self.line(f"    w({bytes((null,))!r})")
        self.line("else:")
        self.depth += 1
        self._add("b", "1")
        self._struct(kind, inner)
        self._flush()
        self.depth -= 1

    def _struct(self, struct: StructType, name: str) -> None:
        """Write the encoding of a struct; its last fields may still be in the run."""
        for each in absent(struct, self.version):
            if not each.ignorable:
                self._check_default(struct, each, name)
        for each in untagged(struct, self.version):
            self.path.append(each.name)
            self._value(each.type, f"{name}.{each.name}", self.flexible and each.compact, each.nullable_at(self.version))
            self.path.pop()
        if self.flexible:
            self._tags(struct, name)
        else:
            self.line(f"if {name}.unknown_tagged_fields:")
            self.line(f"    raise UnsupportedVersionError('{self.where} has no tagged fields')")

    def _check_default(self, struct: StructType, each: Field, name: str) -> None:
        """Write the check that a field which this version lacks has its default."""
        self.line(f"if {self._differs(struct, each, name)}:")
        text = f"{self.where} does not support a non-default {'.'.join([*self.path, each.name])}"
        self.line(f"    raise UnsupportedVersionError('{text}')")

    def _differs(self, struct: StructType, each: Field, name: str) -> str:
        """Return the expression for whether a field differs from its default."""
        source = f"{name}.{each.name}"
        if each.factory is list:
            return f"{source} is None or len({source})"
        if each.factory:
            return f"{source} != {self.use(f'default_{struct_name(struct)}_{each.name}', each.make_default())}"
        if each.default is None:
            if isinstance(each.type, StructType) and each.nullable_since > each.until:
                default = self.use(f"default_{struct_name(struct)}_{each.name}", each.type())
                return f"{source} is not None and {source} != {default}"
            return f"{source} is not None"
        return f"{source} != {each.default!r}"

    # Tagged fields

    def _tags(self, struct: StructType, name: str) -> None:
        """Write the encoding of the tagged fields; without any it is one zero byte, which joins the run."""
        fields = tagged(struct, self.version)
        differs = [self._differs(struct, each, name) for each in fields]
        run, self.run = self.run, []
        self.line(f"if {' or '.join([f'{name}.unknown_tagged_fields', *differs])}:")
        self.depth += 1
        if run:
            self.line(f"w({self._pack(run)})")
        known = self.fresh("tags")
        self.line(f"{known} = {{}}")
        for each, condition in zip(fields, differs, strict=True):
            self._tagged_field(each, name, known, condition)
        self.line(f"w(tag_section({known}, {name}.unknown_tagged_fields))")
        self.depth -= 1
        self.line("else:")
        self.line(f"    w({self._pack([*run, ('x', '0')])})")

    def _tagged_field(self, each: Field, name: str, known: str, condition: str) -> None:
        """Write the encoding of one tagged field into a separate list, because its size precedes it."""
        outer = self.fresh("out")
        self.line(f"if {condition}:")
        self.depth += 1
        self.line(f"{outer} = out")
        self.line("out = []")
        self.line("w = out.append")
        self.path.append(each.name)
        source, nullable = f"{name}.{each.name}", each.nullable_at(self.version)
        if isinstance(each.type, StructType):
            # Null is -1 in the body of a struct and 0 in a tagged field.
            self._single_struct(each.type, source, nullable, 0)
        else:
            self._value(each.type, source, each.compact, nullable)
        self._flush()
        self.path.pop()
        self.line(f"{known}[{each.tag}] = b''.join(out)")
        self.line(f"out = {outer}")
        self.line("w = out.append")
        self.depth -= 1
