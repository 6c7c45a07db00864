"""The interface of a shard to the runtime."""

from collections.abc import Collection
from typing import Protocol

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord


class CoordinatorShard(Protocol):
    """The state machine of one partition: operations read its state and return records to write, ``replay`` changes it."""

    def replay(self, record: CoordinatorRecord, producer_id: int, offset: int) -> None:
        """Apply one record, which is at ``offset`` in the log; ``producer_id`` is -1 outside a transaction."""

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        """Apply the end of a transaction that wrote to this partition."""

    def key_of(self, record: CoordinatorRecord) -> str:
        """Return the key that a record belongs to: operations on it are routed by this key."""

    def keys_of_transaction(self, producer_id: int) -> Collection[str]:
        """Return the keys that a producer's open transaction has records of."""

    def stored(self, key: str) -> object:
        """Return the whole value of a key, or None if the key has none. Only lists of all keys look into the value."""

    def loaded(self) -> None:
        """Become active: all records have been replayed."""

    def unloaded(self) -> None:
        """Answer parked requests and stop the timers: this broker no longer leads the partition."""
