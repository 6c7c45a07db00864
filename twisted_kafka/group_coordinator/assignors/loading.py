"""Loads the assignors named in ``group.consumer.assignors``, ``group.share.assignors`` and ``group.streams.assignors``."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from twisted_kafka.group_coordinator.assignors.interface import ConsumerGroupAssignor
from twisted_kafka.group_coordinator.assignors.range import RangeAssignor
from twisted_kafka.group_coordinator.assignors.simple import SimpleAssignor
from twisted_kafka.group_coordinator.assignors.sticky_tasks import StickyTaskAssignor
from twisted_kafka.group_coordinator.assignors.task_interface import TaskAssignor
from twisted_kafka.group_coordinator.assignors.uniform import UniformAssignor

A = TypeVar("A", ConsumerGroupAssignor, TaskAssignor)

_BUILT_IN: Final[Mapping[str, type[ConsumerGroupAssignor]]] = {
    "uniform": UniformAssignor,
    "range": RangeAssignor,
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UniformAssignor,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RangeAssignor,
}
"""By Kafka 4's names, and by the Java class names in Kafka 3.9's default value."""

_BUILT_IN_SHARE: Final[Mapping[str, type[ConsumerGroupAssignor]]] = {
    "simple": SimpleAssignor,
    "org.apache.kafka.coordinator.group.assignor.SimpleAssignor": SimpleAssignor,
}

_BUILT_IN_STREAMS: Final[Mapping[str, type[TaskAssignor]]] = {
    "sticky": StickyTaskAssignor,
    "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor": StickyTaskAssignor,
}


class AssignorError(ValueError):
    """A configured assignor cannot be loaded; the message is one line."""


def load_assignors(names: Iterable[str]) -> dict[str, ConsumerGroupAssignor]:
    """Return the assignors by name, in the order configured; the first one is the default. Raises AssignorError."""
    return _load(names, _BUILT_IN, _consumer_group_assignor, "group.consumer.assignors")


def load_share_assignor(names: Iterable[str]) -> ConsumerGroupAssignor:
    """Return the assignor of share groups, the first one configured. Raises AssignorError."""
    return next(iter(_load(names, _BUILT_IN_SHARE, _consumer_group_assignor, "group.share.assignors").values()))


def load_task_assignors(names: Iterable[str]) -> dict[str, TaskAssignor]:
    """Return the assignors of streams groups by name; the first one is the default. Raises AssignorError."""
    return _load(names, _BUILT_IN_STREAMS, _task_assignor, "group.streams.assignors")


def _load(names: Iterable[str], built_in: Mapping[str, type[A]], checked: Callable[[object], A | None], key: str) -> dict[str, A]:
    found: dict[str, A] = {}
    for name in names:
        assignor = checked(built_in[name]() if name in built_in else _custom(name, key))
        if assignor is None:
            raise AssignorError(f"{key}: {name} has no attribute name or no method assign()")
        if assignor.name in found:
            raise AssignorError(f"{key} contains the assignor {assignor.name!r} twice")
        found[assignor.name] = assignor
    if not found:
        raise AssignorError(f"{key} is empty")
    return found


def _custom(name: str, key: str) -> object:
    module, _, class_name = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), class_name)()
    except Exception as error:
        raise AssignorError(f"{key}: cannot create an instance of Python class {name}: {error}") from error


def _consumer_group_assignor(made: object) -> ConsumerGroupAssignor | None:
    return made if isinstance(made, ConsumerGroupAssignor) else None


def _task_assignor(made: object) -> TaskAssignor | None:
    return made if isinstance(made, TaskAssignor) else None
