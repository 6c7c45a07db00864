"""The states of consumer groups and of their members (KIP-848)."""

from enum import Enum, IntEnum


class ConsumerGroupState(Enum):
    """A consumer group's state; the value is the name shown by ConsumerGroupDescribe and ListGroups.

    It is derived from epochs and members, never set. Empty: no members. Assigning: the group epoch is ahead of the target
    assignment's. Reconciling: some member has not reached its target assignment. Stable: all have. Dead: no such group.
    """

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """A member's progress towards its target assignment; the value is the one in the record."""

    STABLE = 0
    """The member has reached the target assignment of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member has to revoke partitions before it advances to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member is in the target's epoch and waits for partitions that other members still own."""
    UNKNOWN = 127
    """Written by a newer broker; the member has to rejoin."""

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """Return the state with the value, or UNKNOWN."""
        return cls(value) if value in _KNOWN else cls.UNKNOWN


_KNOWN = frozenset(int(state) for state in MemberState)
