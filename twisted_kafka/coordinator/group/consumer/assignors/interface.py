"""What an assignor is given and what it gives back; ``group.consumer.assignors`` may name a Python class that is one."""

from collections.abc import Mapping, Set
from typing import NamedTuple, Protocol, runtime_checkable

from twisted_kafka.coordinator.group.consumer.consumer_group_member import Partitions
from twisted_kafka.coordinator.group.consumer.target_index import TargetIndex


class MemberSpec(NamedTuple):
    """One member as assignors see it."""

    instance_id: str | None
    rack_id: str | None
    topic_ids: Set[bytes]
    """The topics that it subscribes to and that exist; the same object for members with the same subscription."""
    assigned: Partitions
    """What it was to own before: a sticky assignor leaves it as much of that as it can."""


class GroupSpec(NamedTuple):
    """All that an assignment depends on."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """The number of partitions by topic id, of all topics that some member subscribes to."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        first = next(iter(self.members.values())).topic_ids
        return all(member.topic_ids is first or member.topic_ids == first for member in self.members.values())


@runtime_checkable
class ConsumerGroupAssignor(Protocol):
    """Computes target assignments; has no state, is called on any thread."""

    @property
    def name(self) -> str:
        """The name that members ask for it by."""

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Return each member's partitions; ``group`` has at least one member.

        Raises AssignmentError when it can't be done; the heartbeat that asked for it is answered UNKNOWN_SERVER_ERROR.
        """


class SteppingAssignor(ConsumerGroupAssignor, Protocol):
    """An assignor that can tell what changes when a member joins or left, without looking at all the others."""

    def step(self, index: TargetIndex, joining: str | None) -> Mapping[str, Partitions]:
        """Return the members whose partitions change, with what they have then; ``index`` has at least one member with ``joining``.

        All members subscribe to the same topics, those of the index.
        """


class AssignmentError(Exception):
    """An assignor could not compute an assignment, or computed one that is not allowed."""


def check_assignment(group: GroupSpec, assignment: Mapping[str, Partitions]) -> None:
    """Raise AssignmentError when a partition has two owners, does not exist, or is one that its owner did not subscribe to."""
    taken: set[tuple[bytes, int]] = set()
    for member_id, partitions in assignment.items():
        member = group.members.get(member_id)
        if member is None:
            raise AssignmentError(f"{member_id} is not a member")
        for topic_id, indexes in partitions.items():
            if topic_id not in member.topic_ids:
                raise AssignmentError(f"{member_id} does not subscribe to the topic {topic_id.hex()}")
            for index in indexes:
                if not 0 <= index < group.partition_counts.get(topic_id, 0):
                    raise AssignmentError(f"the topic {topic_id.hex()} has no partition {index}")
                if (topic_id, index) in taken:
                    raise AssignmentError(f"partition {index} of {topic_id.hex()} is assigned twice")
                taken.add((topic_id, index))
