"""The states of a record in a share group, and the permitted transitions, as a table (Kafka: RecordState, KIP-932, KIP-1191)."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    """A record's delivery state, by its number in requests and in ``__share_group_state``."""

    AVAILABLE = 0
    """It can be acquired."""
    ACQUIRED = 1
    """A member has it until it acknowledges it or the lock expires. Never persisted."""
    ACKNOWLEDGED = 2
    """It was accepted."""
    ARCHIVING = 3
    """It is on its way to the dead-letter queue (``share.version`` 2)."""
    ARCHIVED = 4
    """It is not delivered again: rejected, over the delivery limit, a gap, or gone from the log."""

    @property
    def is_terminal(self) -> bool:
        """Whether the record's delivery is complete."""
        return self in _TERMINAL


_TERMINAL: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})

TRANSITIONS: Final[Mapping[RecordState, frozenset[RecordState]]] = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED, RecordState.ARCHIVED}),
    RecordState.ACQUIRED: frozenset({RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED}),
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVING: frozenset({RecordState.ARCHIVED}),
    RecordState.ARCHIVED: frozenset(),
}
"""The permitted next states of each state."""
