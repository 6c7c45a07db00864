"""Declare a message once for all of its versions.

    class HeartbeatRequest(Message, key=12, versions=(0, 4), flexible=4):
        group_id: String = ""
        generation_id: Int32 = 0
        member_id: String = ""
        group_instance_id: String | None = field(default=None, since=3)

Fields are declared in wire order. The classes are slotted, their constructors take keyword arguments only, and mypy treats them as
dataclasses. The broker creates hundreds of these classes while it starts, so the constructor, decoders and encoders are compiled on
first use: a class takes some 70 us to create, a tenth of a dataclass.
"""

import sys
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, ParamSpec, TypeVar, dataclass_transform

from typing_extensions import override

from twisted_kafka.protocol.compiler.types import Bool, Wire

LAST_VERSION = 0x7FFF


class _Unset:
    """The default of constructor arguments whose real default is created for each instance."""

    @override
    def __repr__(self) -> str:
        return "<default>"


UNSET = _Unset()


class Field(NamedTuple):
    """A declared field: the versions that have it, those in which it may be null, its tag and its default."""

    name: str
    type: "FieldType"
    default: Any
    factory: Callable[[], Any] | None
    since: int
    until: int
    nullable_since: int
    nullable_until: int
    tag: int | None
    ignorable: bool
    compact: bool
    secret: bool

    def at(self, version: int) -> bool:
        """Whether messages of this version have the field."""
        return self.since <= version <= self.until

    def nullable_at(self, version: int) -> bool:
        """Whether the field may be null on the wire in this version."""
        return self.nullable_since <= version <= self.nullable_until

    def make_default(self) -> Any:
        """Return the default; lists and structs are created for each call."""
        return self.factory() if self.factory else self.default


class ListOf(NamedTuple):
    """An array of primitives or structs; its elements are never null."""

    element: "Wire | type[Struct]"


FieldType = typing.Union[Wire, ListOf, "type[Struct]"]


class _Options(NamedTuple):
    default: Any
    factory: Callable[[], Any] | None
    since: int
    until: int
    nullable_since: int | None
    nullable_until: int
    nullable: bool | None
    tag: int | None
    ignorable: bool
    compact: bool
    secret: bool


def field(
    *,
    default: Any = UNSET,
    factory: Callable[[], Any] | None = None,
    since: int = 0,
    until: int = LAST_VERSION,
    nullable_since: int | None = None,
    nullable_until: int = LAST_VERSION,
    nullable: bool | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    compact: bool = True,
    secret: bool = False,
) -> Any:
    """Describe a field that needs more than a type and a constant default.

    ``since`` and ``until`` are the first and last version with the field; a ``| None`` field may be null in all of them, unless
    ``nullable_since`` or ``nullable_until`` narrow the range. Encoding a version without the field raises UnsupportedVersionError
    when the value is not the default, unless the field is ``ignorable``. ``tag`` makes it a tagged field of its struct. A tagged
    struct is ``| None`` too: None stands for the default struct, which is not encoded, and is null on the wire only with
    ``nullable=True``. ``compact=False`` keeps the non-compact form of a string in flexible versions. ``repr`` hides a ``secret``.
    """
    return _Options(default, factory, since, until, nullable_since, nullable_until, nullable, tag, ignorable, compact, secret)


_PLAIN = _Options(UNSET, None, 0, LAST_VERSION, None, LAST_VERSION, None, None, False, True, False)


def annotations_of(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations of a class that is being created; from Python 3.14 on they are a function until somebody asks."""
    if sys.version_info >= (3, 14) and "__annotations__" not in namespace:
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        return annotationlib.call_annotate_function(annotate, annotationlib.Format.VALUE) if annotate else {}
    found: dict[str, Any] = namespace.get("__annotations__", {})
    return found


def _resolve(annotation: Any) -> tuple["FieldType", bool]:
    """Return the wire type of an annotation, and whether it allows None."""
    optional = False
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not types.NoneType]
        if len(members) != 1:
            raise TypeError(f"{annotation} is a union of more than one type and None")
        optional, annotation = True, members[0]
    if annotation is bool:
        annotation = Bool
    if typing.get_origin(annotation) is list:
        element, _ = _resolve(typing.get_args(annotation)[0])
        if isinstance(element, ListOf):
            raise TypeError(f"{annotation}: Kafka has no arrays of arrays")
        return ListOf(element), optional
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, Wire):
            return extra, optional
    if isinstance(annotation, StructType):
        return typing.cast("type[Struct]", annotation), optional
    raise TypeError(f"{annotation} is not a protocol type")


def _make_field(name: str, annotation: Any, declared: Any) -> Field:
    options = declared if isinstance(declared, _Options) else _PLAIN._replace(default=declared)
    kind, optional = _resolve(annotation)
    tagged_struct = options.tag is not None and isinstance(kind, StructType)
    nullable = options.nullable if options.nullable is not None else optional and not tagged_struct
    nullable_since = max(options.since, options.nullable_since or 0) if nullable else LAST_VERSION + 1
    if options.default is UNSET and options.factory is None:
        raise TypeError(f"the field {name} has no default")
    return Field(
        name=name,
        type=kind,
        default=None if options.factory else options.default,
        factory=options.factory,
        since=options.since,
        until=options.until,
        nullable_since=nullable_since,
        nullable_until=options.nullable_until,
        tag=options.tag,
        ignorable=options.ignorable,
        compact=options.compact,
        secret=options.secret,
    )


@dataclass_transform(kw_only_default=True, eq_default=True, field_specifiers=(field,))
class StructType(type):
    """The metaclass of all structs and messages: turns annotations into slots and fields."""

    FIELDS: tuple[Field, ...]
    KEY: int
    VERSIONS: tuple[int, int]
    FLEXIBLE: int

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int = -1,
        versions: tuple[int, int] = (0, LAST_VERSION),
        flexible: int = LAST_VERSION,
    ) -> "StructType":
        """Create the class; ``flexible`` is the first version with compact lengths and tagged fields."""
        annotations = annotations_of(namespace)
        if not bases or name == "Message":
            return super().__new__(mcs, name, bases, namespace)
        fields = tuple(_make_field(n, a, namespace.pop(n, UNSET)) for n, a in annotations.items())
        namespace["__slots__"] = tuple(annotations)
        namespace.update(FIELDS=fields, KEY=key, VERSIONS=versions, FLEXIBLE=flexible, DECODERS={}, ENCODERS={})
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_options: Any) -> None:
        super().__init__(name, bases, namespace)


def _compile_constructor(cls: StructType) -> Callable[..., None]:
    """Return an ``__init__`` that takes the fields as keyword arguments."""
    arguments, lines, scope = _assignments(cls)
    source = f"def __init__(self, *, {arguments}):\n" + lines
    exec(compile(source, f"<constructor of {cls.__name__}>", "exec"), scope)
    return typing.cast(Callable[..., None], scope["__init__"])


def _assignments(cls: StructType) -> tuple[str, str, dict[str, Any]]:
    """Return a constructor's arguments, the lines that assign them to the fields of ``self``, and the names that both use."""
    arguments, lines, scope = [], [], {"UNSET": UNSET}
    for each in cls.FIELDS:
        name, default = each.name, f"default_{each.name}"
        if each.factory:
            scope[default] = each.factory  # type: ignore[assignment]
            arguments.append(f"{name}=UNSET")
            made = "[]" if each.factory is list else f"{default}()"
            lines.append(f"    self.{name} = {made} if {name} is UNSET else {name}")
        else:
            scope[default] = each.default
            arguments.append(f"{name}={default}")
            lines.append(f"    self.{name} = {name}")
    arguments.append("unknown_tagged_fields=None")
    lines.append("    self.unknown_tagged_fields = unknown_tagged_fields")
    return ", ".join(arguments), "\n".join(lines), scope


_Arguments = ParamSpec("_Arguments")
_Made = TypeVar("_Made", bound="Struct")


def maker(cls: Callable[_Arguments, _Made]) -> Callable[_Arguments, _Made]:
    """Return a function equivalent to calling the struct class, in half the time: for the responses of hot APIs.

    Calling a class with keyword arguments makes the interpreter build a dictionary of them; calling a function does not.
    """
    struct = typing.cast(StructType, cls)
    arguments, lines, scope = _assignments(struct)
    scope.update(new=object.__new__, cls=struct)
    source = f"def make({arguments}):\n    self = new(cls)\n{lines}\n    return self"
    exec(compile(source, f"<maker of {struct.__name__}>", "exec"), scope)
    return typing.cast(Callable[_Arguments, _Made], scope["make"])


def _shown(declared: Field, value: Any) -> str:
    return "[hidden]" if declared.secret and value else repr(value)


class Struct(metaclass=StructType):
    """A structure of the protocol: compared by value, not hashable, with its fields in slots.

    ``unknown_tagged_fields`` holds by tag the fields that a newer sender added, or is None.
    """

    __slots__ = ("unknown_tagged_fields",)

    FIELDS: ClassVar[tuple[Field, ...]]
    KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int]

    if TYPE_CHECKING:
        unknown_tagged_fields: dict[int, bytes] | None = None
        __hash__ = None  # type: ignore[assignment]
    else:
        __hash__ = None

        def __init__(self, **values):
            """Compile the constructor of this class on its first use, and replace this method with it."""
            cls = type(self)
            constructor = cls.__init__ = _compile_constructor(cls)
            constructor(self, **values)

    @override
    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        for each in type(self).FIELDS:
            if getattr(self, each.name) != getattr(other, each.name):
                return False
        return (self.unknown_tagged_fields or None) == (other.unknown_tagged_fields or None)

    @override
    def __repr__(self) -> str:
        values = [f"{each.name}={_shown(each, getattr(self, each.name))}" for each in type(self).FIELDS]
        if self.unknown_tagged_fields:
            values.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__name__}({', '.join(values)})"
