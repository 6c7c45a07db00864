"""The compatibility levels: which schemas have to read the data of which others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from twisted_kafka.schema_registry.formats.parsed import ParsedSchema, SchemaError, as_schema_errors

DEFAULT_LEVEL: Final = "BACKWARD"


class Level(NamedTuple):
    """What a new schema has to be."""

    reads: bool
    """It reads the data of older schemas."""
    is_read: bool
    """Older schemas read its data."""
    is_transitive: bool
    """Older schemas are all of them, not only the latest."""


LEVELS: Final[Mapping[str, Level]] = {
    "NONE": Level(False, False, False),
    "BACKWARD": Level(True, False, False),
    "BACKWARD_TRANSITIVE": Level(True, False, True),
    "FORWARD": Level(False, True, False),
    "FORWARD_TRANSITIVE": Level(False, True, True),
    "FULL": Level(True, True, False),
    "FULL_TRANSITIVE": Level(True, True, True),
}


class Earlier(NamedTuple):
    """An earlier version of a subject; ``parse`` is called if the level needs its schema."""

    version: int
    parse: Callable[[], ParsedSchema]


def incompatibilities(level: str, new: ParsedSchema, earlier: Sequence[Earlier]) -> list[str]:
    """Return the differences that the level forbids, from the latest version with any; empty if the schema is compatible.

    ``earlier`` is in ascending order.
    """
    wanted = LEVELS[level]
    if not (wanted.reads or wanted.is_read):
        return []
    for each in reversed(earlier if wanted.is_transitive else earlier[-1:]):
        old = each.parse()
        found = _between(wanted, new, old)
        if found:
            return [
                *found,
                f"{{oldSchemaVersion: {each.version}}}",
                f"{{oldSchema: '{old.text}'}}",
                f"{{compatibility: '{level}'}}",
            ]
    return []


def _between(level: Level, new: ParsedSchema, old: ParsedSchema) -> list[str]:
    if new.schema_type != old.schema_type:
        return ["Incompatible because of different schema type"]
    found: list[str] = []
    try:
        with as_schema_errors():
            if level.reads:
                found += new.cannot_read(old)
            if level.is_read:
                found += old.cannot_read(new)
    except SchemaError as error:
        found.append(f"{{description:'the schemas cannot be compared: {error}'}}")
    return found
