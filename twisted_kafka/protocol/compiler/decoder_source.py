"""Generate the Python source of a decoder for one version of a message.

Structs are decoded inline, in nested loops: a call per struct would cost more than decoding a small one. Adjacent fixed-width
fields, and the length that follows them, are read by one ``struct`` call. Truncated data raises IndexError or struct.error, which
the decoder turns into MalformedMessageError. Slices do not raise, so each length is compared with the remaining bytes before it is
used. A count is rejected unless that many elements of the smallest size could follow, and if all counts add up to more than the
caller takes.
"""

from struct import error as struct_error
from typing import Any

from twisted_kafka.protocol.compiler import wire
from twisted_kafka.protocol.compiler.layout import (
    SourceWriter,
    absent,
    has_records,
    minimal_size,
    struct_name,
    tagged,
    untagged,
)
from twisted_kafka.protocol.compiler.schema import Field, ListOf, StructType
from twisted_kafka.protocol.compiler.types import Wire

NUMBER_CODES = {"b": "int8", "h": "int16", "i": "int32", "q": "int64", "H": "uint16", "I": "uint32", "d": "float64", "?": "bool"}


class DecoderSource(SourceWriter):
    """Generates ``decode(data, pos, left)``, which returns the object and the position after it.

    ``left`` is how many elements it may have in all of its arrays.

    ``from_view`` selects the variant for memoryviews: they have no ``decode()``, and ``str(view, "utf-8")`` takes twice as long.
    """

    def __init__(self, message: StructType, version: int, from_view: bool) -> None:
        super().__init__(message, version)
        self.from_view = from_view
        self.scope.update(
            new=object.__new__,
            uvarint=wire.unsigned_varint,
            read_tags=wire.read_tags,
            Malformed=wire.MalformedMessageError,
            TooMany=wire.TooManyElementsError,
            StructError=struct_error,
            memoryview=memoryview,
        )
        self._write(message)

    def _write(self, message: StructType) -> None:
        self.line("def decode(data, pos, left):")
        self.depth += 1
        self.line("end = len(data)")
        self.with_view = has_records(message)
        if self.with_view:
            self.line("view = data" if self.from_view else "view = memoryview(data)")
        self.line("try:")
        self.depth += 1
        target = self._struct(message)
        self._flush()
        self.line(f"return {target}, pos")
        self.depth -= 1
        self.line("except (IndexError, StructError):")
        self.line(
            f"    raise Malformed('{self.where} is truncated: it has %d bytes and needs more after byte %d' % (end, pos)) from None"
        )
        self.line("except UnicodeDecodeError as error:")
        self.line(f"    raise Malformed('{self.where}: a string near byte %d is not UTF-8: %s' % (pos, error)) from None")

    # Runs of fixed-width fields

    def _add(self, code: str, target: str) -> None:
        self.run.append((code, target))

    def _flush(self) -> None:
        """Write the ``struct`` call that reads the collected run."""
        if not self.run:
            return
        codes = [code for code, _ in self.run]
        targets = [target for _, target in self.run]
        self.run = []
        if codes == ["B"]:
            self.line(f"{targets[0]} = data[pos]")
            self.line("pos += 1")
            return
        layout = "".join(codes)
        packer = wire.packer(layout)
        unpack = self.use(f"unpack_{layout.replace('?', 'z')}", packer.unpack_from)
        left = ", ".join(targets) if len(targets) > 1 else f"({targets[0]},)"
        self.line(f"{left} = {unpack}(data, pos)")
        self.line(f"pos += {packer.size}")

    # Lengths

    def _fail(self, text: str) -> str:
        where = ".".join(self.path) or "the message"
        return f"raise Malformed('{self.where}: {where} near byte %d {text}' % pos)"

    def _length(self, code: str, compact: bool, limit: int | None = None) -> tuple[str, str]:
        """Read a length with the run before it; return its variable and the expression of the decoded length."""
        size = self.fresh("n")
        self._add("B" if compact else code, size)
        self._flush()
        if not compact:
            return size, size
        self.line(f"if {size} > 127:")
        if limit is None:  # usually two bytes: those of records
            self.line("    if data[pos] < 128:")
            self.line(f"        {size} += (data[pos] << 7) - 128")
            self.line("        pos += 1")
            self.line("    else:")
            self.line(f"        {size}, pos = uvarint(data, pos - 1)")
        else:
            self.line(f"    {size}, pos = uvarint(data, pos - 1)")
            self.line(f"    if {size} > {limit + 1}:")
            self.line("        " + self._fail("is too long"))
        return size, f"{size} - 1"

    def _if_present(self, size: str, compact: bool, nullable: bool, target: str) -> bool:
        """Handle null and negative lengths; return whether the code that follows is inside an ``if``."""
        if nullable:
            self.line(f"if not {size}:" if compact else f"if {size} == -1:")
            self.line(f"    {target} = None")
            if not compact:
                self.line(f"elif {size} < 0:")
                self.line("    " + self._fail("has a negative length"))
            self.line("else:")
            self.depth += 1
            return True
        self.line(f"if not {size}:" if compact else f"if {size} < 0:")
        self.line("    " + self._fail("is null or has a negative length"))
        return False

    def _count(self, count: str) -> None:
        """Write the code that counts elements against the limit."""
        self.line(f"left -= {count}")
        self.line("if left < 0:")
        where = ".".join(self.path) or "the message"
        self.line(f"    raise TooMany('{self.where}: too many elements with those of {where} near byte %d' % pos)")

    def _count_unknown_tags(self, count: str, known: int) -> None:
        if not known:
            self._count(count)
            return
        self.line(f"if {count} > {known}:")
        self.depth += 1
        self._count(f"{count} - {known}")
        self.depth -= 1

    # Values

    def _value(self, kind: Any, target: str, compact: bool, nullable: bool) -> None:
        if isinstance(kind, ListOf):
            self._array(kind, target, compact, nullable)
        elif not isinstance(kind, Wire):
            self._single_struct(kind, target, nullable)
        elif kind.kind == "fixed":
            self._add(kind.code, target)
        else:
            self._sized(kind, target, compact, nullable)

    def _sized(self, kind: Wire, target: str, compact: bool, nullable: bool) -> None:
        """Write the decoding of a string, bytes or records: a length, then that many bytes."""
        text = kind.kind == "string"
        size, length = self._length("h" if text else "i", compact, wire.MAX_STRING_BYTES if text else None)
        inside = self._if_present(size, compact, nullable, target)
        stop = self.fresh("e")
        self.line(f"{stop} = pos + {length}")
        self.line(f"if {stop} > end:")
        self.line("    " + self._fail("is longer than the remaining bytes"))
        if text:
            value = f'str(data[pos:{stop}], "utf-8")' if self.from_view else f"data[pos:{stop}].decode()"
        elif kind.kind == "records":
            value = f"view[pos:{stop}]"
        else:
            value = f"bytes(data[pos:{stop}])"
        if kind.kind != "records":
            self.line(f"if {size} > {1 << wire.ELEMENT_BYTES_SHIFT}:")
            self.depth += 1
            self._count(f"{size} >> {wire.ELEMENT_BYTES_SHIFT}")
            self.depth -= 1
        self.line(f"{target} = {value}")
        self.line(f"pos = {stop}")
        self.depth -= inside

    def _array(self, kind: ListOf, target: str, compact: bool, nullable: bool) -> None:
        size, _ = self._length("i", compact)
        inside = self._if_present(size, compact, nullable, target)
        if compact:
            self.line(f"{size} -= 1")
        # Elements of zero bytes would leave the count unbounded, so they count as one byte.
        least = max(1, minimal_size(kind.element, self.version, self.flexible))
        self.line(f"if {size}{f' * {least}' if least > 1 else ''} > end - pos:")
        self.line("    " + self._fail("has more elements than there are remaining bytes"))
        element = kind.element
        if isinstance(element, Wire) and element.kind == "fixed":
            self._count(f"{size} >> {wire.NUMBERS_PER_ELEMENT_SHIFT}")
            self._fixed_array(element, size, target)
        else:
            self._count(size)
            items = self.fresh("items")
            self.line(f"{items} = []")
            self.line(f"for _ in range({size}):")
            self.depth += 1
            if isinstance(element, Wire):
                item = self.fresh("item")
                self._value(element, item, compact, False)
            else:
                item = self._struct(element)
                self._flush()
            self.line(f"{items}.append({item})")
            self.depth -= 1
            self.line(f"{target} = {items}")
        self.depth -= inside

    def _fixed_array(self, element: Wire, size: str, target: str) -> None:
        if element.code == "16s":
            self.line(f"{target} = [bytes(data[i:i + 16]) for i in range(pos, pos + {size} * 16, 16)]")
        else:
            array = self.use(f"read_{NUMBER_CODES[element.code]}s", array_codec(element.code).read)
            self.line(f"{target} = {array}(data, pos, {size})")
        self.line(f"pos += {size}{f' * {element.size}' if element.size > 1 else ''}")

    def _single_struct(self, kind: StructType, target: str, nullable: bool, null: int = -1) -> None:
        if nullable:
            present = self.fresh("n")
            self._add("b", present)
            self._flush()
            self.line(f"if {present} == {null}:")
            self.line(f"    {target} = None")
            self.line(f"elif {present} != 1:")
            self.line("    " + self._fail("has an invalid presence byte"))
            self.line("else:")
            self.depth += 1
        inner = self._struct(kind)
        self.line(f"{target} = {inner}")
        if nullable:
            self._flush()
            self.depth -= 1

    def _struct(self, struct: StructType) -> str:
        """Write the decoding of a struct; return its variable. Its last fields may still be in the run."""
        name = self.fresh("o")
        self.line(f"{name} = new({self.use(struct_name(struct), struct)})")
        self._defaults(struct, name)
        for each in untagged(struct, self.version):
            self.path.append(each.name)
            self._value(each.type, f"{name}.{each.name}", self.flexible and each.compact, each.nullable_at(self.version))
            self.path.pop()
        if self.flexible:
            self._tags(struct, name)
        return name

    def _defaults(self, struct: StructType, name: str) -> None:
        """Set the fields that may be missing to their defaults."""
        groups: dict[str, list[str]] = {"None": [f"{name}.unknown_tagged_fields"]}
        for each in absent(struct, self.version) + tagged(struct, self.version):
            target = f"{name}.{each.name}"
            if each.factory is list:
                self.line(f"{target} = []")
            elif each.factory:
                self.line(f"{target} = {self.use(f'make_{struct_name(struct)}_{each.name}', each.factory)}()")
            else:
                groups.setdefault(repr(each.default), []).append(target)
        for value, targets in groups.items():
            self.line(f"{' = '.join(targets)} = {value}")

    # Tagged fields

    def _tags(self, struct: StructType, name: str) -> None:
        count = self.fresh("n")
        self._add("B", count)
        self._flush()
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > 127:")
        self.line(f"    {count}, pos = uvarint(data, pos - 1)")
        self.line(f"if {count} * 2 > end - pos:")
        self.line("    " + self._fail("has more tagged fields than there are remaining bytes"))
        self._count_unknown_tags(count, len(tagged(struct, self.version)))
        known = self._known_tags(struct, name)
        self.line(f"{name}.unknown_tagged_fields, pos = read_tags(data, pos, end, {count}, {known})")
        self.depth -= 1

    def _known_tags(self, struct: StructType, name: str) -> str:
        """Write the function that decodes the tagged fields of this version of the struct; return its name."""
        fields = tagged(struct, self.version)
        if not fields:
            return "None"
        function = self.fresh("known")
        # Its variables are passed as argument defaults: a closure would slow down every access to them in the outer function.
        view = ", view=view" if self.with_view else ""
        self.line(f"def {function}(tag, pos, stop, {name}={name}, data=data, end=end{view}):")
        self.depth += 1
        self.line("nonlocal left")
        for each in fields:
            self._tagged_field(each, name)
        self.line("return -1")
        self.depth -= 1
        return function

    def _tagged_field(self, each: Field, name: str) -> None:
        self.line(f"if tag == {each.tag}:")
        self.depth += 1
        self.path.append(each.name)
        target, nullable = f"{name}.{each.name}", each.nullable_at(self.version)
        if isinstance(each.type, StructType):
            # Null is -1 in the body of a struct and 0 in a tagged field.
            self._single_struct(each.type, target, nullable, 0)
        else:
            self._value(each.type, target, each.compact, nullable)
        self._flush()
        self.path.pop()
        self.line("return pos")
        self.depth -= 1


_ARRAYS: dict[str, wire.ArrayCodec] = {}


def array_codec(code: str) -> wire.ArrayCodec:
    """Return the codec for arrays of this ``struct`` code."""
    if code not in _ARRAYS:
        _ARRAYS[code] = wire.ArrayCodec(code)
    return _ARRAYS[code]
