"""The range assignor: each member gets a contiguous range of partitions of every topic (Kafka: RangeAssignor).

Members that subscribe to several topics with the same number of partitions get the same partition indexes of each, so that one
member reads all records with the same key.
"""

from collections.abc import Mapping

from twisted_kafka.group_coordinator.assignors.interface import GroupSpec, MemberSpec
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import Partitions


class RangeAssignor:
    """Assigns ranges, first to static members in order of instance id, then to the others in order of member id."""

    name = "range"

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Return each member's partitions; see ConsumerGroupAssignor."""
        members = sorted(group.members.items(), key=_rank)
        assignment: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id, _ in members}
        is_homogeneous = group.is_homogeneous
        everyone = [member_id for member_id, _ in members]
        for topic_id, count in group.partition_counts.items():
            subscribers = everyone if is_homogeneous else [each for each, member in members if topic_id in member.topic_ids]
            size, larger = divmod(count, len(subscribers))
            start = 0
            for place, member_id in enumerate(subscribers):
                end = start + size + (place < larger)
                if end > start:
                    assignment[member_id][topic_id] = frozenset(range(start, end))
                start = end
        return assignment


def _rank(item: tuple[str, MemberSpec]) -> tuple[bool, str]:
    member_id, member = item
    return member.instance_id is None, member_id if member.instance_id is None else member.instance_id
