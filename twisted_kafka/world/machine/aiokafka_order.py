"""Gives aiokafka the same order in each run, whatever the hash seed of the interpreter, and its records the world's time.

Strings have other hashes in each process, unless PYTHONHASHSEED is set, and with them the order of sets. aiokafka chooses brokers,
and lists topics and partitions, in that order.
"""

import builtins
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final
from zlib import crc32

from typing_extensions import override

_PACKAGE: Final = "aiokafka"

Replace = Callable[[Any, str, Any], object]


class _SetType(type):
    @override
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, builtins.set)


class _FrozenType(type):
    @override
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, builtins.frozenset)


class _SortedSet(set[Any], metaclass=_SetType):
    """A set that is iterated in order, if its elements have one."""

    @override
    def __iter__(self) -> Iterator[Any]:
        return _in_order(super().__iter__())


class _SortedFrozenSet(frozenset[Any], metaclass=_FrozenType):
    """The same for a ``frozenset``."""

    @override
    def __iter__(self) -> Iterator[Any]:
        return _in_order(super().__iter__())


def _in_order(elements: Iterator[Any]) -> Iterator[Any]:
    found = list(elements)
    with suppress(TypeError):
        found.sort()
    return iter(found)


def replace_in_aiokafka(replace: Replace) -> None:
    """Call ``replace(owner, name, value)`` for each name; nothing if no program has imported aiokafka."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == _PACKAGE]
    for module in modules:
        replace(module, "set", _SortedSet)
        replace(module, "frozenset", _SortedFrozenSet)
    structs: Any = sys.modules.get("aiokafka.structs")
    if structs is not None:
        replace(structs.TopicPartition, "__hash__", lambda each: crc32(each.topic.encode()) + each.partition)
        replace(structs.BrokerMetadata, "__hash__", lambda each: hash(each.nodeId))
    producer: Any = sys.modules.get("aiokafka.producer.producer")
    if producer is not None:
        replace(producer.AIOKafkaProducer, "_PRODUCER_CLIENT_ID_SEQUENCE", 0)  # another world of the process has counted, too
    accumulator: Any = sys.modules.get("aiokafka.producer.message_accumulator")
    if accumulator is not None:
        replace(accumulator, "DefaultRecordBatchBuilder", _with_timestamps(accumulator.DefaultRecordBatchBuilder))


def _with_timestamps(builder: Any) -> Any:
    """Return a subclass of aiokafka's class of batches that takes missing timestamps from ``time.time``, not from the system."""

    class Builder(builder):  # type: ignore[misc]
        def append(self, offset: int, timestamp: int | None, *args: Any, **kwargs: Any) -> Any:
            return super().append(offset, int(time.time() * 1000) if timestamp is None else timestamp, *args, **kwargs)

    return Builder
