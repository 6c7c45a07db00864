"""The assignors that ``group.consumer.assignors`` names."""

import importlib
from collections.abc import Iterable

from twisted_kafka.coordinator.group.consumer.assignors.interface import ConsumerGroupAssignor
from twisted_kafka.coordinator.group.consumer.assignors.range import RangeAssignor
from twisted_kafka.coordinator.group.consumer.assignors.uniform import UniformAssignor

_BUILT_IN: dict[str, type[ConsumerGroupAssignor]] = {
    "uniform": UniformAssignor,
    "range": RangeAssignor,
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UniformAssignor,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RangeAssignor,
}
"""By Kafka 4's names, and by the Java classes that Kafka 3.9's default names."""


class AssignorError(ValueError):
    """An assignor that is configured can't be had; the text is one line."""


def load_assignors(names: Iterable[str]) -> dict[str, ConsumerGroupAssignor]:
    """Return the assignors by their names, in order: the first is the default. Raises AssignorError."""
    found: dict[str, ConsumerGroupAssignor] = {}
    for name in names:
        assignor = _BUILT_IN[name]() if name in _BUILT_IN else _custom(name)
        if assignor.name in found:
            raise AssignorError(f"group.consumer.assignors names two assignors {assignor.name!r}")
        found[assignor.name] = assignor
    if not found:
        raise AssignorError("group.consumer.assignors names no assignor")
    return found


def _custom(name: str) -> ConsumerGroupAssignor:
    module, _, class_name = name.rpartition(".")
    try:
        assignor = getattr(importlib.import_module(module), class_name)()
    except Exception as error:
        raise AssignorError(f"group.consumer.assignors: {name} is no Python class that can be made: {error}") from error
    if not isinstance(assignor, ConsumerGroupAssignor):
        raise AssignorError(f"group.consumer.assignors: {name} has no name and assign()")
    return assignor
