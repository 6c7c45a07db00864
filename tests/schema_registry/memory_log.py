"""A topic in memory, which several registries may use, and which a test may replace."""

from typing import Any

from typing_extensions import override

from twisted_kafka.schema_registry.registry import SchemaLog


class MemoryTopic:
    def __init__(self) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self.life = 0

    def replace(self, records: Any = ()) -> None:
        self.records = list(records)
        self.life += 1


class MemoryLog(SchemaLog):
    def __init__(self, topic: Any) -> None:
        self._topic = topic
        self._at = 0
        self._life = -1

    @override
    def new_records(self) -> Any:
        is_new = self._life != self._topic.life
        if is_new:
            self._life, self._at = self._topic.life, 0
        found = self._topic.records[self._at :]
        self._at = len(self._topic.records)
        return is_new, found

    @override
    def append(self, records: Any) -> None:
        self._topic.records += [(key.encode(), None if value is None else value.encode()) for key, value in records]
