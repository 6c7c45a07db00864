"""A request of each API with something in every list."""

from typing import Any

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.schema import ListOf, StructType
from twisted_kafka.protocol.compiler.types import Wire

# Asked for in ZooKeeper mode; the others are KRaft's.
KEYS = [key for key in ApiKey if key <= 51 or key in (56, 57, 58, 60, 61, 65, 66, 67, 68, 69, 75)]


def example(struct: StructType, version: int) -> Any:
    """A message whose lists have one item each."""
    made = struct()
    for field in struct.FIELDS:
        if not field.at(version):
            continue
        kind = field.type
        if isinstance(kind, ListOf):
            element = kind.element
            if isinstance(element, StructType):
                setattr(made, field.name, [example(element, version)])
            elif isinstance(element, Wire):
                setattr(made, field.name, ["t"] if element.kind == "string" else [3] if element.kind == "fixed" else [])
    return made
