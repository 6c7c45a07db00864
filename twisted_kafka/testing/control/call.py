"""A request to the control API: its query and body, whose fields are taken once, by name and type, with errors in one line."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.system.numbers import INT64_MAX, decimal
from twisted_kafka.testing.control.errors import bad
from twisted_kafka.testing.control.target import Target

_REQUIRED: Final = object()
_NAMES: Final = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}


class Fields:
    """The fields of a JSON object, or of a query string. Take each that is known, then call ``end``."""

    def __init__(self, values: Any, what: str = "the body") -> None:
        """Raise ControlError unless ``values`` is an object; None stands for an empty one."""
        if values is not None and not isinstance(values, Mapping):
            raise bad(f"{what} is {_shown(values)}: expected an object, as in {{}}")
        self._left = dict(values or {})
        self._what = what
        self._known: list[str] = []

    def any(self, name: str) -> Any:
        """Return a field of any type; None if it was not given."""
        self._known.append(name)
        return self._left.pop(name, None)

    def take(self, name: str, kind: type, default: Any = _REQUIRED) -> Any:
        """Return a field of this type, or its default; null counts as not given. Raises ControlError."""
        value = self.any(name)
        if value is None:
            if default is _REQUIRED:
                raise bad(f"{self._what} has no {name!r}: expected {_NAMES[kind]}")
            return default
        is_right = isinstance(value, int | float if kind is float else kind)
        if not is_right or isinstance(value, bool) is not (kind is bool):
            raise bad(f"{name} is {_shown(value)}: expected {_NAMES[kind]}")
        return value

    def number(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a whole number of at least 0, like ``take``; also reads a text, as in a query string."""
        value = self._left.get(name)
        if isinstance(value, str) and (read := decimal(value, INT64_MAX)) is not None:
            self._left[name] = read
        number = self.take(name, int, default)
        if number is not default and number < 0:
            raise bad(f"{name} is {number}: expected 0 or more")
        return number

    def flag(self, name: str) -> bool:
        """Return whether a field is true; also reads a text, as in a query string."""
        value = self._left.get(name)
        if value in ("true", "false"):
            self._left[name] = value == "true"
        return bool(self.take(name, bool, False))

    def has(self, name: str) -> bool:
        """Whether a field was given and not taken yet."""
        return self._left.get(name) is not None

    def rest(self) -> dict[str, Any]:
        """Return the fields that were not taken."""
        left, self._left = self._left, {}
        return left

    def end(self) -> None:
        """Raise ControlError for a field that was not taken."""
        for name in self._left:
            raise bad(f"{self._what} has {name!r}: expected {', '.join(self._known) or 'nothing'}")


def _shown(value: Any) -> str:
    return json.dumps(value)[:80]


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the control API."""

    target: Target
    names: tuple[str, ...]
    """The values of the variable parts of the path."""
    query: Mapping[str, str]
    body: Any

    @property
    def asked(self) -> Fields:
        """The query string."""
        return Fields(self.query, "the query")

    @property
    def given(self) -> Fields:
        """The body. Raises ControlError if it is not an object."""
        return Fields(self.body)
