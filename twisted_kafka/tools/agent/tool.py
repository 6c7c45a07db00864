"""A tool: its name, its arguments, and the function that answers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from twisted_kafka.console.cluster.session import Session
from twisted_kafka.system.numbers import INT64_MAX
from twisted_kafka.timing.clock import IClock

_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class Argument(NamedTuple):
    """An argument, by the names of JSON Schema. A required one has no default."""

    name: str
    type: str
    description: str
    default: Any = None
    is_required: bool = False
    choices: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """The argument in a JSON Schema."""
        found: dict[str, Any] = {"type": self.type, "description": self.description}
        if self.type == "array":
            found["items"] = {"type": "string"}
        if self.type == "object":
            found["additionalProperties"] = {"type": "string"}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.default not in (None, "", [], {}):
            found["default"] = self.default
        return found


class Context(NamedTuple):
    """What a tool works with."""

    session: Session
    clock: IClock
    access_log: Path | None


class Tool(NamedTuple):
    """A tool. ``call`` gets the arguments, all of them, with the types that they declare."""

    name: str
    description: str
    arguments: tuple[Argument, ...]
    call: Callable[[Context, dict[str, Any]], Any]
    writes: bool = False
    destroys: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": {each.name: each.schema for each in self.arguments},
            "required": [each.name for each in self.arguments if each.is_required],
            "additionalProperties": False,
        }

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with defaults. Raises ValueError for a missing, unknown or wrong one."""
        known = {each.name: each for each in self.arguments}
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(f"{self.name} has no argument {unknown[0]!r}: it has {', '.join(known) or 'none'}")
        found = {}
        for name, each in known.items():
            value = given.get(name)
            if value is None:
                if each.is_required:
                    raise ValueError(f"{self.name} needs the argument {name!r}: {each.description}")
                value = each.default
            elif not isinstance(value, _KINDS[each.type]) or (isinstance(value, bool) and each.type != "boolean"):
                raise ValueError(f"{name} must be a JSON {each.type}, not {value!r:.80}")
            elif isinstance(value, int | float) and not abs(value) <= INT64_MAX:
                raise ValueError(f"{name} must be a number of 64 bits, not {value!r:.80}")
            elif each.choices and value not in each.choices:
                raise ValueError(f"{name} must be one of {', '.join(each.choices)}, not {value!r:.80}")
            elif isinstance(value, list) and not all(isinstance(item, str | int) for item in value):
                raise ValueError(f"{name} must be a list of texts")
            found[name] = value
        return found
