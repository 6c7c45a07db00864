"""The interface of assignors, for Python classes named in ``group.consumer.assignors``."""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, Protocol, runtime_checkable

from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import Partitions
from twisted_kafka.group_coordinator.state.consumer.target_index import TargetIndex


class MemberSpec(NamedTuple):
    """A member, as input of an assignor."""

    instance_id: str | None
    rack_id: str | None
    topic_ids: Set[bytes]
    """The subscribed topics that exist; the same object for members with the same subscription."""
    assigned: Partitions
    """The member's previous target: a sticky assignor keeps as much of it as possible."""


class GroupSpec(NamedTuple):
    """A group, as input of an assignor."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Number of partitions by topic id, of all subscribed topics."""
    assignable: Partitions | None = None
    """The partitions that members may get; None: all."""

    def assignable_of(self, topic_id: bytes) -> Sequence[int]:
        """Return the partitions of a topic that members may get, in order."""
        count = self.partition_counts.get(topic_id, 0)
        if self.assignable is None:
            return range(count)
        return sorted(index for index in self.assignable.get(topic_id, ()) if index < count)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        first = next(iter(self.members.values())).topic_ids
        return all(member.topic_ids is first or member.topic_ids == first for member in self.members.values())


@runtime_checkable
class ConsumerGroupAssignor(Protocol):
    """Computes target assignments; stateless, called on any thread."""

    @property
    def name(self) -> str:
        """The name by which members select the assignor."""

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Return each member's partitions; ``group`` has at least one member.

        Raises AssignmentError if there is no valid assignment; the heartbeat is then answered with UNKNOWN_SERVER_ERROR.
        """


class SteppingAssignor(ConsumerGroupAssignor, Protocol):
    """An assignor that can compute the changes for one joining or leaving member without visiting all members."""

    def step(self, index: TargetIndex, joining: str | None) -> Mapping[str, Partitions]:
        """Return the new partitions of all members whose partitions change; None as ``joining``: a member has left.

        All members subscribe to exactly the topics of ``index``, and there is at least one, including ``joining``.
        """


class AssignmentError(Exception):
    """An assignor could not compute an assignment, or computed an invalid one."""


def check_shared_assignment(group: GroupSpec, assignment: Mapping[str, Partitions]) -> None:
    """Raise AssignmentError if a partition may not be assigned, or its member does not subscribe to its topic."""
    for member_id, partitions in assignment.items():
        member = group.members.get(member_id)
        if member is None:
            raise AssignmentError(f"{member_id} is not a member")
        for topic_id, indexes in partitions.items():
            if topic_id not in member.topic_ids:
                raise AssignmentError(f"{member_id} does not subscribe to topic {topic_id.hex()}")
            if not indexes <= set(group.assignable_of(topic_id)):
                raise AssignmentError(f"a partition of topic {topic_id.hex()} does not exist or is not initialized")


def check_assignment(group: GroupSpec, assignment: Mapping[str, Partitions]) -> None:
    """Raise AssignmentError if a partition has two owners, does not exist, or its owner does not subscribe to its topic."""
    taken: set[tuple[bytes, int]] = set()
    for member_id, partitions in assignment.items():
        member = group.members.get(member_id)
        if member is None:
            raise AssignmentError(f"{member_id} is not a member")
        for topic_id, indexes in partitions.items():
            if topic_id not in member.topic_ids:
                raise AssignmentError(f"{member_id} does not subscribe to topic {topic_id.hex()}")
            for index in indexes:
                if not 0 <= index < group.partition_counts.get(topic_id, 0):
                    raise AssignmentError(f"partition {index} of topic {topic_id.hex()} does not exist")
                if (topic_id, index) in taken:
                    raise AssignmentError(f"partition {index} of topic {topic_id.hex()} is assigned twice")
                taken.add((topic_id, index))
