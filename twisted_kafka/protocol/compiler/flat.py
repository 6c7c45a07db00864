"""Flat forms: the fields of a message and its structs as the attributes of one object, for requests that move one thing.

    class OneBatch(FlatForm, of=ProduceRequest):
        acks: int
        name: str
        index: int
        records: Buffer

Most requests name one topic with one partition, and the objects of such a message cost as much as its handling. A form names
the fields it has, of any depth (of several with one name the first on the wire), which are not null. Every other field has its
default, each array of structs around the fields one element, and no struct has tagged fields. An array of structs that the form
names as an int may be empty too: the attribute is its count, and the fields of its element have their defaults then. ``read``
returns None for any other message, and for a malformed one: the message's own decoder says what that is. ``write`` writes what the
message with these values would be.

Produce, Fetch and ListOffsets have forms. For OffsetCommit and Heartbeat a form would win less than 1.1 times
(docs/performance-history.md, "Flat forms"). The functions are generated from the message's declaration, for each version on first
use (`protocol/compiler/flat_source.py`).
"""

import typing
from collections.abc import Callable
from typing import Any, ClassVar, Self, dataclass_transform

from twisted_kafka.protocol.compiler.codec import Message, compiled
from twisted_kafka.protocol.compiler.flat_source import FlatReaderSource, FlatWriterSource, fields_of_form
from twisted_kafka.protocol.compiler.schema import Field, annotations_of
from twisted_kafka.protocol.regions import Buffer


@dataclass_transform()
class FlatType(type):
    """The metaclass of flat forms: turns annotations into slots and the arguments of a constructor."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, of: type[Message] | None = None
    ) -> "FlatType":
        """Create the class; ``of`` is the message. Raises TypeError for an attribute that is not a field of it."""
        if of is None:
            return super().__new__(mcs, name, bases, namespace)
        names = tuple(annotations_of(namespace))
        defaults = {each: namespace.pop(each) for each in names if each in namespace}
        namespace.update(__slots__=names, FIELDS=fields_of_form(of, names), MESSAGE=of, READERS={}, WRITERS={})
        namespace["__init__"] = _constructor(name, names, defaults)
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_options: Any) -> None:
        super().__init__(name, bases, namespace)


def _constructor(label: str, names: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., None]:
    arguments = ", ".join(f"{each}=default_{each}" if each in defaults else each for each in names)
    lines = "\n".join(f"    self.{each} = {each}" for each in names)
    scope = {f"default_{each}": value for each, value in defaults.items()}
    exec(compile(f"def __init__(self, {arguments}):\n{lines}", f"<constructor of {label}>", "exec"), scope)
    return typing.cast(Callable[..., None], scope["__init__"])


class FlatForm(metaclass=FlatType):
    """The base class of flat forms."""

    __slots__ = ()

    FIELDS: ClassVar[dict[str, Field]]
    MESSAGE: ClassVar[type[Message]]
    READERS: ClassVar[dict[int, Callable[[Buffer, int], Any]]]
    WRITERS: ClassVar[dict[int, Callable[[Any, bytes], bytes]]]

    @classmethod
    def read(cls, data: Buffer, version: int, offset: int) -> Self | None:
        """Read the message from ``offset`` to the end of ``data``; None when it has not this form. Records are memoryviews."""
        reader = cls.READERS.get(version)
        if reader is None:
            source = FlatReaderSource(cls.MESSAGE, version, cls, cls.FIELDS)
            reader = cls.READERS[version] = compiled(source, f"flat reader of {cls.__name__} v{version}", "read")
        return reader(data, offset)  # type: ignore[no-any-return]

    def write(self, version: int, prefix: bytes = b"") -> bytes:
        """Return ``prefix`` and the message; fields that the version lacks are left out."""
        cls = type(self)
        writer = cls.WRITERS.get(version)
        if writer is None:
            source = FlatWriterSource(cls.MESSAGE, version, cls.FIELDS)
            writer = cls.WRITERS[version] = compiled(source, f"flat writer of {cls.__name__} v{version}", "write")
        return writer(self, prefix)
