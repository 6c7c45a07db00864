"""The uniform assignor: balances the number of partitions per member, and is sticky (Kafka: UniformAssignor).

If all members have the same subscription, their numbers of partitions differ by at most one. Otherwise partitions move from a
member to another subscriber of the topic that has at least two fewer, until no such move is left.
"""

import heapq
from collections.abc import Iterable, Mapping
from itertools import chain

from twisted_kafka.group_coordinator.assignors.interface import GroupSpec
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import NO_PARTITIONS, Partitions
from twisted_kafka.group_coordinator.state.consumer.target_index import TargetIndex

MAX_BALANCING_ROUNDS = 64
"""Limit of rounds: each move improves the balance, so they end anyway, but a hostile subscription could make them take long."""

_Owned = dict[str, dict[bytes, set[int]]]


class UniformAssignor:
    """Assigns evenly and stickily."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Return each member's partitions; see ConsumerGroupAssignor."""
        owned, free = _kept_and_free(group)
        if group.is_homogeneous:
            _share(group, owned, free)
        else:
            balance = _Balance(group, owned)
            balance.hand_out(free)
            balance.even_out()
        return {
            member_id: {topic_id: frozenset(indexes) for topic_id, indexes in topics.items() if indexes}
            for member_id, topics in owned.items()
        }

    def step(self, index: TargetIndex, joining: str | None) -> dict[str, Partitions]:
        """Return the changed assignments after ``joining`` joined, or a member left; see SteppingAssignor.

        The result is as balanced and as sticky as that of ``assign``.
        """
        step = _Step(index, joining)
        step.take_back()
        step.hand_out()
        return {
            member_id: {topic_id: frozenset(indexes) for topic_id, indexes in topics.items() if indexes}
            for member_id, topics in step.changed.items()
        }


class _Step:
    """Changes a balanced assignment to the next: each member gets ``quota`` partitions, and ``larger`` members get one more."""

    def __init__(self, index: TargetIndex, joining: str | None) -> None:
        self.changed: dict[str, dict[bytes, set[int]]] = {}
        self._index = index
        self._joining = () if joining is None else (joining,)
        count = sum(map(len, index.by_size.values())) + len(self._joining)
        self._quota, larger = divmod(index.total, count)
        rich = sum(len(members) for size, members in index.by_size.items() if size > self._quota)
        self._too_many = max(rich - larger, 0)
        self._extra = max(larger - rich, 0)
        self._free = list(index.free)

    def take_back(self) -> None:
        """Take partitions from members that have too many."""
        top, by_size = self._quota + 1, self._index.by_size
        demoted = self._too_many
        for size in sorted(by_size, reverse=True):
            for member_id in by_size[size]:
                limit = self._quota if demoted else top
                if size <= limit:
                    return
                demoted -= demoted > 0
                self._free.extend(_give_back(self._of(member_id), size - limit))

    def hand_out(self) -> None:
        """Give free partitions to members that have too few."""
        quota, by_size = self._quota, self._index.by_size
        newcomers: Iterable[tuple[str, int]] = ((member_id, 0) for member_id in self._joining)
        others = ((member_id, size) for size in sorted(by_size) if size <= quota for member_id in by_size[size])
        self._free.sort(reverse=True)
        for member_id, size in chain(newcomers, others):
            missing = quota - size + (self._extra > 0)
            if not missing and size == quota:
                break
            self._extra -= self._extra > 0
            topics = self._of(member_id)
            for _ in range(min(missing, len(self._free))):
                topic_id, index = self._free.pop()
                topics.setdefault(topic_id, set()).add(index)
        # A new member gets a target, even if it is empty.
        for member_id in self._joining:
            self._of(member_id)

    def _of(self, member_id: str) -> dict[bytes, set[int]]:
        topics = self.changed.get(member_id)
        if topics is None:
            had = self._index.target.get(member_id, NO_PARTITIONS)
            topics = self.changed[member_id] = {topic_id: set(indexes) for topic_id, indexes in had.items()}
        return topics


def _kept_and_free(group: GroupSpec) -> tuple[_Owned, list[tuple[bytes, int]]]:
    """Return the partitions that each member keeps, and the unassigned ones."""
    taken: set[tuple[bytes, int]] = set()
    owned: _Owned = {}
    for member_id in sorted(group.members):
        member = group.members[member_id]
        topics = owned[member_id] = {}
        for topic_id, indexes in member.assigned.items():
            if topic_id not in member.topic_ids:
                continue
            count = group.partition_counts.get(topic_id, 0)
            kept = {index for index in indexes if index < count and (topic_id, index) not in taken}
            if kept:
                topics[topic_id] = kept
                taken.update((topic_id, index) for index in kept)
    free = [
        (topic_id, index)
        for topic_id, count in group.partition_counts.items()
        for index in range(count)
        if (topic_id, index) not in taken
    ]
    return owned, free


def _share(group: GroupSpec, owned: _Owned, free: list[tuple[bytes, int]]) -> None:
    """Balance all partitions among members with the same subscription."""
    total = sum(group.partition_counts.values())
    quota, larger = divmod(total, len(owned))
    needy: list[tuple[dict[bytes, set[int]], int]] = []
    for topics in owned.values():
        size = sum(map(len, topics.values()))
        limit = quota
        if larger and size > quota:
            limit += 1
            larger -= 1
        if size > limit:
            free.extend(_give_back(topics, size - limit))
        elif size <= quota:
            needy.append((topics, size))
    free.sort(reverse=True)
    for topics, size in sorted(needy, key=lambda each: each[1]):
        missing = quota - size
        if larger:
            missing += 1
            larger -= 1
        for _ in range(min(missing, len(free))):
            topic_id, index = free.pop()
            topics.setdefault(topic_id, set()).add(index)


def _give_back(topics: dict[bytes, set[int]], count: int) -> list[tuple[bytes, int]]:
    """Take ``count`` partitions from a member, from its largest topics first, highest index first."""
    given: list[tuple[bytes, int]] = []
    for topic_id in sorted(topics, key=lambda each: (-len(topics[each]), each)):
        for index in sorted(topics[topic_id], reverse=True)[: count - len(given)]:
            topics[topic_id].discard(index)
            given.append((topic_id, index))
        if len(given) == count:
            break
    return given


class _Balance:
    """Balances an assignment among members with different subscriptions."""

    def __init__(self, group: GroupSpec, owned: _Owned) -> None:
        self._owned = owned
        self._sizes = {member_id: sum(map(len, topics.values())) for member_id, topics in owned.items()}
        self._subscribers: dict[bytes, list[str]] = {topic_id: [] for topic_id in group.partition_counts}
        for member_id in owned:
            for topic_id in group.members[member_id].topic_ids:
                if topic_id in self._subscribers:
                    self._subscribers[topic_id].append(member_id)

    def hand_out(self, free: list[tuple[bytes, int]]) -> None:
        """Give each free partition to the subscriber with the fewest partitions; topics with few subscribers come first."""
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, index in free:
            by_topic.setdefault(topic_id, []).append(index)
        for topic_id in sorted(by_topic, key=lambda each: (len(self._subscribers[each]), each)):
            heap = [(self._sizes[member_id], member_id) for member_id in self._subscribers[topic_id]]
            heapq.heapify(heap)
            for index in by_topic[topic_id] if heap else ():
                size, member_id = heap[0]
                self._owned[member_id].setdefault(topic_id, set()).add(index)
                self._sizes[member_id] = size + 1
                heapq.heapreplace(heap, (size + 1, member_id))

    def even_out(self) -> None:
        """Move partitions to members with at least two fewer until no such move is left."""
        topic_ids = sorted(self._subscribers, key=lambda each: (-len(self._subscribers[each]), each))
        for _ in range(MAX_BALANCING_ROUNDS):
            moved = [self._even_out_topic(topic_id) for topic_id in topic_ids]
            if not any(moved):
                return

    def _even_out_topic(self, topic_id: bytes) -> bool:
        sizes, owned = self._sizes, self._owned
        members = self._subscribers[topic_id]
        givers = [(-sizes[member_id], member_id) for member_id in members if owned[member_id].get(topic_id)]
        takers = [(sizes[member_id], member_id) for member_id in members]
        heapq.heapify(givers)
        heapq.heapify(takers)
        moved = False
        while givers:
            size, giver = -givers[0][0], givers[0][1]
            if size != sizes[giver] or not owned[giver].get(topic_id):
                heapq.heappop(givers)
                if owned[giver].get(topic_id):
                    heapq.heappush(givers, (-sizes[giver], giver))
                continue
            least, taker = takers[0]
            if least != sizes[taker]:
                heapq.heapreplace(takers, (sizes[taker], taker))
                continue
            if size - least < 2:
                return moved
            index = max(owned[giver][topic_id])
            owned[giver][topic_id].discard(index)
            owned[taker].setdefault(topic_id, set()).add(index)
            sizes[giver], sizes[taker] = size - 1, least + 1
            moved = True
        return moved
