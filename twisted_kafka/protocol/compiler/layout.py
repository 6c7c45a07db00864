"""The layout of a struct in one version, which the generators of decoders and encoders share."""

from typing import Any

from twisted_kafka.protocol.compiler.schema import Field, ListOf, Struct, StructType
from twisted_kafka.protocol.compiler.types import Wire


def is_flexible(message: StructType, version: int) -> bool:
    """Whether this version of the message has compact lengths and tagged fields."""
    return version >= message.FLEXIBLE


def untagged(struct: StructType, version: int) -> list[Field]:
    """Return the fields of the body, in wire order."""
    return [each for each in struct.FIELDS if each.tag is None and each.at(version)]


def tagged(struct: StructType, version: int) -> list[Field]:
    """Return the tagged fields, in the order of their tags."""
    return sorted((each for each in struct.FIELDS if each.tag is not None and each.at(version)), key=lambda each: each.tag or 0)


def absent(struct: StructType, version: int) -> list[Field]:
    """Return the fields that this version does not have."""
    return [each for each in struct.FIELDS if not each.at(version)]


def minimal_size(kind: Any, version: int, flexible: bool, nullable: bool = False) -> int:
    """Return the smallest number of bytes that a value takes on the wire."""
    if isinstance(kind, ListOf):
        return 1 if flexible else 4
    if isinstance(kind, Wire):
        if kind.kind == "fixed":
            return kind.size
        if flexible:
            return 1
        return 2 if kind.kind == "string" else 4
    if nullable:
        return 1
    body = untagged(kind, version)
    return sum(minimal_size(each.type, version, flexible and each.compact, each.nullable_at(version)) for each in body) + flexible


def has_records(struct: StructType) -> bool:
    """Whether the struct, or a nested one, has a field of record batches."""
    for each in struct.FIELDS:
        kind = each.type.element if isinstance(each.type, ListOf) else each.type
        if isinstance(kind, Wire):
            if kind.kind == "records":
                return True
        elif has_records(kind):
            return True
    return False


def struct_name(struct: type[Struct] | StructType) -> str:
    """Return the name that generated code uses for a class."""
    return struct.__name__


class SourceWriter:
    """Lines of generated Python with their indentation, the outside names they use, and fresh variable names.

    ``run`` holds the fixed-width fields that are not written yet, ``path`` the names of the fields being written, outermost first.
    """

    def __init__(self, message: StructType, version: int) -> None:
        self.version = version
        self.flexible = is_flexible(message, version)
        self.where = f"{message.__name__} v{version}"
        self.run: list[tuple[str, str]] = []
        self.path: list[str] = []
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {}
        self.depth = 0
        self._fresh = 0

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str) -> str:
        """Return a variable name that is not used yet."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def use(self, name: str, value: Any) -> str:
        """Make ``value`` available to the generated code as ``name``."""
        if self.scope.setdefault(name, value) is not value and self.scope[name] != value:
            raise TypeError(f"the name {name} is used for two different values")
        return name

    def text(self) -> str:
        """Return the source."""
        return "\n".join(self.lines) + "\n"
