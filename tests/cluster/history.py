"""What the clients of a cluster did and saw, in the manner of Jepsen's Kafka workload.

Each value is sent once and names its producer and its number there, so that wherever it turns up, it is known whose it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self


class Outcome(Enum):
    """How an operation ended, as its client knows."""

    OK = auto()
    """It was acknowledged."""
    FAILED = auto()
    """It has not happened, and never will."""
    UNKNOWN = auto()
    """It may have happened, or may happen yet."""


class Isolation(Enum):
    """What a consumer sees."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(slots=True)
class Send:
    """One record of a producer. ``number`` counts its sends, in the order in which it began them."""

    producer: str
    number: int
    partition: int
    idempotent: bool = True
    transaction: int | None = None
    """Its number among the producer's."""
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None
    """None if it was acknowledged without one: the leader had the record from an earlier try."""

    @property
    def value(self) -> str:
        return f"{self.producer}/{self.number}"

    def acknowledge(self, offset: int | None) -> None:
        self.outcome, self.offset = Outcome.OK, offset if offset is not None and offset >= 0 else None


@dataclass(slots=True)
class Transaction:
    """A transaction of a producer; its sends name it. OK: committed, FAILED: aborted."""

    producer: str
    number: int
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True)
class Reading:
    """What one consumer read of one partition, from when it got it until it lost it or jumped elsewhere."""

    consumer: str
    partition: int
    isolation: Isolation
    start: int
    """The offset that it began at."""
    records: list[tuple[int, str]] = field(default_factory=list)
    """Offsets and values, in the order in which they came."""


@dataclass(slots=True, frozen=True)
class Commit:
    """An acknowledged commit of a group's offset, or with ``was_read`` a committed offset that was asked for."""

    group: str
    partition: int
    offset: int
    began: float
    ended: float
    """Seconds of one clock for all."""
    was_read: bool = False


Log = dict[int, list[tuple[int, str]]]
"""Of each partition, offsets and values."""

Epochs = dict[tuple[int, int], int]
"""The producer epoch of each record, by partition and offset."""


@dataclass(slots=True)
class History:
    """Everything that happened; ``final`` is what the log has when the cluster is whole again and no transaction open."""

    sends: list[Send] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    final: dict[Isolation, Log] = field(default_factory=dict)
    epochs: Epochs = field(default_factory=dict)
    """Empty if they are not known: duplicates are the brokers' then, whatever their producer did."""

    @classmethod
    def merged(cls, parts: "Sequence[History]") -> Self:
        """Return one history of those that clients recorded, each its own."""
        whole = cls()
        for part in parts:
            whole.sends += part.sends
            whole.transactions += part.transactions
            whole.readings += part.readings
            whole.commits += part.commits
        return whole

    @property
    def acknowledged(self) -> int:
        """How many records."""
        return sum(send.outcome is Outcome.OK for send in self.sends)
