"""The assignor ``simple`` of share groups (KIP-932): partitions may have several members, and members may share partitions.

Each partition gets as many members as an even distribution needs, and the numbers of partitions of two members differ by at most
one. A member keeps its partitions as far as that allows. If members subscribe to different topics, this holds for each topic by
itself.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from twisted_kafka.group_coordinator.assignors.interface import GroupSpec
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import Partitions
from twisted_kafka.group_coordinator.state.consumer.target_index import PartitionId


class SimpleAssignor:
    """Distributes the assignable partitions of the subscribed topics."""

    name = "simple"

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Return each member's partitions."""
        held = {
            member_id: {(topic_id, index) for topic_id, indexes in member.assigned.items() for index in indexes}
            for member_id, member in group.members.items()
        }
        shares: dict[str, set[PartitionId]] = {member_id: set() for member_id in group.members}
        for members, topic_ids in _parts(group):
            partitions = [(topic_id, index) for topic_id in topic_ids for index in group.assignable_of(topic_id)]
            for member_id, found in _distribute(members, partitions, held).items():
                shares[member_id] |= found
        return {member_id: _by_topic(found) for member_id, found in shares.items()}


def _parts(group: GroupSpec) -> Iterable[tuple[Sequence[str], Sequence[bytes]]]:
    """Yield the members and topics that are distributed together."""
    if group.is_homogeneous:
        yield sorted(group.members), sorted(next(iter(group.members.values())).topic_ids)
        return
    subscribers: dict[bytes, list[str]] = {}
    for member_id, member in group.members.items():
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    for topic_id, members in sorted(subscribers.items()):
        yield sorted(members), [topic_id]


def _distribute(
    members: Sequence[str], partitions: Sequence[PartitionId], held: Mapping[str, set[PartitionId]]
) -> Mapping[str, set[PartitionId]]:
    """Return the partitions of each member; ``held`` has what each one had, perhaps of other topics too."""
    if not partitions:
        return {}
    sharing = -(-len(members) // len(partitions))
    total = sharing * len(partitions)
    known = set(partitions)
    holders = dict.fromkeys(partitions, 0)
    shares: dict[str, set[PartitionId]] = {}
    unfilled: deque[tuple[str, int]] = deque()
    for at, member_id in enumerate(members):
        quota = -(-total * (at + 1) // len(members)) - -(-total * at // len(members))
        kept: set[PartitionId] = set()
        for partition in sorted(held[member_id] & known):
            if len(kept) < quota and holders[partition] < sharing:
                kept.add(partition)
                holders[partition] += 1
        shares[member_id] = kept
        if len(kept) < quota:
            unfilled.append((member_id, quota))
    for partition, count in holders.items():
        _fill(partition, sharing - count, unfilled, shares)
    return shares


def _fill(partition: PartitionId, wanted: int, unfilled: deque[tuple[str, int]], shares: Mapping[str, set[PartitionId]]) -> None:
    """Give a partition to ``wanted`` members that have room, in turn; to fewer if the rest of them have it already."""
    for _ in range(len(unfilled)):
        if wanted == 0:
            return
        member_id, quota = unfilled.popleft()
        share = shares[member_id]
        if partition not in share:
            share.add(partition)
            wanted -= 1
        if len(share) < quota:
            unfilled.append((member_id, quota))


def _by_topic(partitions: Iterable[PartitionId]) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
