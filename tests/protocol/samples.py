"""Random messages for property tests: any value that a version supports, with a bias to edge values."""

import random
from collections.abc import Iterator
from typing import Any

from twisted_kafka.protocol.api import find_message, message_names
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.layout import is_flexible, tagged, untagged
from twisted_kafka.protocol.compiler.schema import ListOf
from twisted_kafka.protocol.compiler.types import Wire
from twisted_kafka.protocol.json_form import is_default

EDGES = {
    "b": (-128, 127),
    "h": (-(2**15), 2**15 - 1),
    "i": (-(2**31), 2**31 - 1),
    "q": (-(2**63), 2**63 - 1),
    "H": (0, 2**16 - 1),
    "I": (0, 2**32 - 1),
}
TEXTS = ["", "a", "orders", "grüße", "日本", "😀", "x" * 126, "x" * 127, "x" * 128, "y" * 300]
MAX_ITEMS = 3


def every_version() -> Iterator[tuple[type[Message], int]]:
    for name in message_names():
        cls = find_message(name)
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
            yield cls, version


UNKNOWN_TAGS = 0.2


def make(cls: type[Message], version: int, rng: random.Random, unknown_tags: float = UNKNOWN_TAGS) -> Any:
    """Return a random message; ``unknown_tags`` is the share of structs that have some."""
    return _struct(cls, version, rng, unknown_tags if is_flexible(cls, version) else 0)


def _struct(cls: Any, version: int, rng: random.Random, unknown_tags: float) -> Any:
    values: dict[str, Any] = {}
    for each in untagged(cls, version) + tagged(cls, version):
        if each.tag is not None and rng.random() < 0.5:
            continue
        nullable = each.nullable_at(version)
        if nullable and rng.random() < 0.3:
            values[each.name] = None
        else:
            values[each.name] = _value(each.type, version, rng, unknown_tags)
        # A tagged struct that equals the default one would be decoded as None.
        if each.tag is not None and is_default(each, values[each.name]):
            del values[each.name]
    made = cls(**values)
    if rng.random() < unknown_tags:
        made.unknown_tagged_fields = {
            rng.randrange(100, 20000): rng.randbytes(rng.randrange(4)) for _ in range(rng.randrange(1, 4))
        }
    return made


def _value(kind: Any, version: int, rng: random.Random, unknown_tags: float) -> Any:
    if isinstance(kind, ListOf):
        count = rng.randrange(MAX_ITEMS) if rng.random() < 0.97 or not isinstance(kind.element, Wire) else 130
        return [_value(kind.element, version, rng, unknown_tags) for _ in range(count)]
    if not isinstance(kind, Wire):
        return _struct(kind, version, rng, unknown_tags)
    if kind.kind == "string":
        return rng.choice(TEXTS)
    if kind.kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 5, 127, 128, 200)))
    if kind.code == "16s":
        return rng.randbytes(16)
    if kind.code == "?":
        return rng.random() < 0.5
    if kind.code == "d":
        return rng.uniform(-1e9, 1e9)
    low, high = EDGES[kind.code]
    return rng.choice((low, high, max(low, -1), 0, 1, rng.randint(low, high)))
