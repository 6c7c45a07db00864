"""The states of a consumer group and of its members; both follow from the epochs and are never set (KIP-848)."""

from enum import Enum, IntEnum


class ConsumerGroupState(Enum):
    """A consumer group's state; the value is the name that ConsumerGroupDescribe and ListGroups show.

    Empty: no members. Assigning: the group's epoch is ahead of its target assignment. Reconciling: a member has not got
    to the target assignment yet. Stable: all have. Dead: no such group.
    """

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """How far a member is on the way to its target assignment; the value is the one in the record."""

    STABLE = 0
    """It owns what it shall own in its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It has to give up partitions before it may go on to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in the target's epoch, and waits for partitions that others still own."""
    UNKNOWN = 127
    """A newer broker wrote a state that this one does not know: the member has to begin anew."""

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """Return the state with that value, UNKNOWN for any that is not listed."""
        return cls(value) if value in _KNOWN else cls.UNKNOWN


_KNOWN = frozenset(int(state) for state in MemberState)
