"""The topic ``_schemas`` of a broker or a cluster under test."""

from collections.abc import Sequence

from typing_extensions import override

from twisted_kafka.schema_registry import errors
from twisted_kafka.schema_registry.errors import RegistryError
from twisted_kafka.schema_registry.registry import SchemaLog
from twisted_kafka.testing.kafka import BrokerError, Kafka
from twisted_kafka.testing.records import Record

_UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
_TOO_LARGE = "MESSAGE_TOO_LARGE"


class TopicLog(SchemaLog):
    """Reads and writes with the kit's own requests: they need no ACL, and no fault of the broker applies to them."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._at = 0
        self._replaced = -1

    def create(self) -> None:
        """Create the topic, compacted, unless it exists. Raises BrokerError."""
        try:
            self._kafka.create_topic(self._topic, 1, cleanup_policy="compact")
        except BrokerError as error:
            if "TOPIC_ALREADY_EXISTS" not in str(error):
                raise

    @override
    def new_records(self) -> tuple[bool, Sequence[tuple[bytes | None, bytes | None]]]:
        try:
            end = self._end()
            is_new = self._replaced != self._kafka.replaced or end < self._at
            if is_new:
                self._at, self._replaced = 0, self._kafka.replaced
            found = self._kafka.records(self._topic, 0, start=self._at) if end > self._at else []
            self._at = end
            return is_new, [(each.key, each.value) for each in found]
        except (BrokerError, RuntimeError, OSError, TimeoutError) as error:
            raise _store_error(error) from None

    def _end(self) -> int:
        """Return the end of the topic, which a test may have deleted."""
        try:
            return self._kafka.end_offset(self._topic)
        except BrokerError as error:
            if _UNKNOWN not in str(error):
                raise
        self.create()
        self._at = 0
        self._replaced = -1
        return self._kafka.end_offset(self._topic)

    @override
    def append(self, records: Sequence[tuple[str, str | None]]) -> None:
        try:
            self._kafka.produce(self._topic, [Record(value, key) for key, value in records])  # type: ignore[arg-type]
        except (BrokerError, RuntimeError, OSError, TimeoutError) as error:
            if _TOO_LARGE in str(error):
                raise RegistryError(errors.SCHEMA_TOO_LARGE, f"the schema is too large for topic {self._topic}") from None
            raise _store_error(error) from None


def _store_error(error: Exception) -> RegistryError:
    code = errors.STORE_TIMEOUT if isinstance(error, TimeoutError) else errors.STORE_ERROR
    return RegistryError(code, f"Error in the backend Kafka store: {' '.join(str(error).split())}")
