"""Loads the assignors named in ``group.consumer.assignors`` and ``group.share.assignors``."""

import importlib
from collections.abc import Iterable

from twisted_kafka.group_coordinator.assignors.interface import ConsumerGroupAssignor
from twisted_kafka.group_coordinator.assignors.range import RangeAssignor
from twisted_kafka.group_coordinator.assignors.simple import SimpleAssignor
from twisted_kafka.group_coordinator.assignors.uniform import UniformAssignor

_Assignors = dict[str, type[ConsumerGroupAssignor]]

_BUILT_IN: _Assignors = {
    "uniform": UniformAssignor,
    "range": RangeAssignor,
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UniformAssignor,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RangeAssignor,
}
"""By Kafka 4's names, and by the Java class names in Kafka 3.9's default value."""


_BUILT_IN_SHARE: _Assignors = {
    "simple": SimpleAssignor,
    "org.apache.kafka.coordinator.group.assignor.SimpleAssignor": SimpleAssignor,
}


class AssignorError(ValueError):
    """A configured assignor cannot be loaded; the message is one line."""


def load_assignors(names: Iterable[str]) -> dict[str, ConsumerGroupAssignor]:
    """Return the assignors by name, in the order configured; the first one is the default. Raises AssignorError."""
    return _load(names, _BUILT_IN, "group.consumer.assignors")


def load_share_assignor(names: Iterable[str]) -> ConsumerGroupAssignor:
    """Return the assignor of share groups, the first one configured. Raises AssignorError."""
    return next(iter(_load(names, _BUILT_IN_SHARE, "group.share.assignors").values()))


def _load(names: Iterable[str], built_in: _Assignors, key: str) -> dict[str, ConsumerGroupAssignor]:
    found: dict[str, ConsumerGroupAssignor] = {}
    for name in names:
        assignor = built_in[name]() if name in built_in else _custom(name, key)
        if assignor.name in found:
            raise AssignorError(f"{key} contains the assignor {assignor.name!r} twice")
        found[assignor.name] = assignor
    if not found:
        raise AssignorError(f"{key} is empty")
    return found


def _custom(name: str, key: str) -> ConsumerGroupAssignor:
    module, _, class_name = name.rpartition(".")
    try:
        assignor = getattr(importlib.import_module(module), class_name)()
    except Exception as error:
        raise AssignorError(f"{key}: cannot create an instance of Python class {name}: {error}") from error
    if not isinstance(assignor, ConsumerGroupAssignor):
        raise AssignorError(f"{key}: {name} has no attribute name or no method assign()")
    return assignor
