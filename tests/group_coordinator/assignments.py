"""Groups to assign partitions to, and checks of what they get."""

from typing import Any

from twisted_kafka.group_coordinator.assignors.interface import GroupSpec, MemberSpec, check_assignment

TOPICS = [bytes([65 + number]) * 16 for number in range(5)]


def size(partitions: Any) -> int:
    return sum(map(len, partitions.values()))


def group_of(
    counts: dict[bytes, int],
    subscriptions: dict[str, set[bytes]],
    assigned: Any = None,
) -> GroupSpec:
    members = {
        name: MemberSpec(None, None, frozenset(topics), (assigned or {}).get(name, {})) for name, topics in subscriptions.items()
    }
    wanted = frozenset().union(*subscriptions.values())
    return GroupSpec(members, {topic: count for topic, count in counts.items() if topic in wanted})


def ensure_whole(group: GroupSpec, assignment: Any) -> None:
    """Each partition of a topic that somebody subscribes to has one owner, who subscribes to it."""
    check_assignment(group, assignment)
    assert sum(map(size, assignment.values())) == sum(group.partition_counts.values())
