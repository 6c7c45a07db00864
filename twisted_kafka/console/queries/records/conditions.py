"""Conditions on records, as an address or a command has them: ``value.customer.id=7``, ``header.trace~abc``, ``offset>=100``."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twisted_kafka.console.cluster.record_forms import Seen
from twisted_kafka.console.queries.records.values import parsed
from twisted_kafka.system.numbers import decimal

MOST_CONDITIONS: Final = 20
FORM: Final = (
    "FIELD OPERATOR TEXT, with a field such as key, value, value.customer.id, header.trace, offset, partition or timestamp"
)
"""For error texts."""

_CONDITION: Final = re.compile(r"\s*([\w.\-\[\]]+)\s*(!=|>=|<=|=|>|<|!~|~)(.*)", re.DOTALL)
_NUMBERS: Final = ("offset", "partition", "timestamp")
_MISSING: Final = object()

_Compare = Callable[[Any, Any], bool]
_OPERATORS: Final[Mapping[str, _Compare]] = {
    "=": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    ">": lambda left, right: bool(left > right),
    "<": lambda left, right: bool(left < right),
    ">=": lambda left, right: bool(left >= right),
    "<=": lambda left, right: bool(left <= right),
    "~": lambda left, right: str(right).casefold() in str(left).casefold(),
    "!~": lambda left, right: str(right).casefold() not in str(left).casefold(),
}
_TEXTUAL: Final = ("~", "!~")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. A record without the field satisfies only ``!=`` and ``!~``."""

    field: str
    operator: str
    text: str

    def holds(self, record: Seen, value: Any) -> bool:
        """Whether it holds for a record, whose value is read as JSON or by a schema already, or None."""
        found = self._found(record, value)
        if found is _MISSING:
            return self.operator.startswith("!")
        right: Any = self.text
        if self.operator not in _TEXTUAL:
            if isinstance(found, bool) or found is None:
                found = json.dumps(found)
            elif isinstance(found, int | float):
                try:
                    right = float(self.text)
                except ValueError:
                    found = str(found)
            elif not isinstance(found, str):
                found = json.dumps(found, ensure_ascii=False)
        return _OPERATORS[self.operator](found, right)

    def _found(self, record: Seen, value: Any) -> Any:
        name, _, path = self.field.partition(".")
        match name:
            case "key":
                return _within(parsed(record.key), path) if path else _text(record.key)
            case "value":
                return _within(value, path) if path else _text(record.value)
            case "header":
                texts = [_text(each) for key, each in record.headers if key == path]
                return texts[-1] if texts else _MISSING
            case "offset" | "partition":
                return getattr(record, name)
            case _:
                return record.timestamp_ms


def parse_condition(text: str) -> Condition:
    """Return the condition of a text; raise ValueError that lists the form."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is not a condition: expected {FORM}")
    field, operator, wanted = found[1], found[2], found[3].strip()
    name, _, path = field.partition(".")
    if name not in ("key", "value", "header", *_NUMBERS) or (name == "header" and not path) or (name in _NUMBERS and path):
        raise ValueError(f"{field[:80]!r} is not a field of records: expected {FORM}")
    if name in _NUMBERS:
        try:
            int(wanted)
        except ValueError:
            raise ValueError(f"{field} is a number, not {wanted[:80]!r}") from None
    return Condition(field, operator, wanted)


def parse_conditions(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Return the conditions; raise ValueError."""
    if len(texts) > MOST_CONDITIONS:
        raise ValueError(f"{len(texts)} conditions: at most {MOST_CONDITIONS}")
    return tuple(parse_condition(each) for each in texts)


def _text(data: bytes | None) -> Any:
    return _MISSING if data is None else data.decode("utf-8", "replace")


def _within(found: Any, path: str) -> Any:
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and (place := decimal(step, len(found) - 1)) is not None:
            found = found[place]
        else:
            return _MISSING
    return found
