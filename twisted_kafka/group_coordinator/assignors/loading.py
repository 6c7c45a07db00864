"""Loads the assignors named in ``group.consumer.assignors``."""

import importlib
from collections.abc import Iterable

from twisted_kafka.group_coordinator.assignors.interface import ConsumerGroupAssignor
from twisted_kafka.group_coordinator.assignors.range import RangeAssignor
from twisted_kafka.group_coordinator.assignors.uniform import UniformAssignor

_BUILT_IN: dict[str, type[ConsumerGroupAssignor]] = {
    "uniform": UniformAssignor,
    "range": RangeAssignor,
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UniformAssignor,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RangeAssignor,
}
"""By Kafka 4's names, and by the Java class names in Kafka 3.9's default value."""


class AssignorError(ValueError):
    """A configured assignor cannot be loaded; the message is one line."""


def load_assignors(names: Iterable[str]) -> dict[str, ConsumerGroupAssignor]:
    """Return the assignors by name, in the order configured; the first one is the default. Raises AssignorError."""
    found: dict[str, ConsumerGroupAssignor] = {}
    for name in names:
        assignor = _BUILT_IN[name]() if name in _BUILT_IN else _custom(name)
        if assignor.name in found:
            raise AssignorError(f"group.consumer.assignors contains the assignor {assignor.name!r} twice")
        found[assignor.name] = assignor
    if not found:
        raise AssignorError("group.consumer.assignors is empty")
    return found


def _custom(name: str) -> ConsumerGroupAssignor:
    module, _, class_name = name.rpartition(".")
    try:
        assignor = getattr(importlib.import_module(module), class_name)()
    except Exception as error:
        raise AssignorError(f"group.consumer.assignors: cannot create an instance of Python class {name}: {error}") from error
    if not isinstance(assignor, ConsumerGroupAssignor):
        raise AssignorError(f"group.consumer.assignors: {name} has no attribute name or no method assign()")
    return assignor
