"""The group coordinator's state in one partition of ``__consumer_offsets``, and who answers what on it.

``replay`` alone changes what is stored: committed offsets, a classic group's assignment, all of a consumer group. What is
volatile by nature, who has joined an ongoing rebalance and whose session runs until when, lives beside it and is changed by
the operations; it's rebuilt by the members when another broker takes over.
"""

from zope.interface import implementer

from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.coordinator.group.admin import GroupAdmin
from twisted_kafka.coordinator.group.classic.classic_group import ClassicGroup
from twisted_kafka.coordinator.group.classic.rebalance import Rebalancer
from twisted_kafka.coordinator.group.consumer.classic_members import ClassicMembers
from twisted_kafka.coordinator.group.consumer.members import ConsumerMembers
from twisted_kafka.coordinator.group.consumer.protocol import ConsumerProtocol
from twisted_kafka.coordinator.group.members import MemberRequests
from twisted_kafka.coordinator.group.offsets import OffsetRequests
from twisted_kafka.coordinator.group.parts import GroupParts
from twisted_kafka.coordinator.group.store import GroupStore
from twisted_kafka.coordinator.interfaces import ICoordinatorShard
from twisted_kafka.coordinator.records import CoordinatorRecord
from twisted_kafka.protocol.errors import ErrorCode


@implementer(ICoordinatorShard)
class GroupShard:
    """Groups and offsets of one partition; everything is called with the partition's lock held."""

    def __init__(self, effects: Effects, parts: GroupParts) -> None:
        self.store = GroupStore()
        self._config = parts.config
        self._rebalancer = Rebalancer(effects, parts)
        self._consumer_members = ConsumerMembers(self.store, parts, effects, self._rebalancer)
        self.consumers = ConsumerProtocol(self.store, parts, self._consumer_members)
        classic_members = ClassicMembers(parts, self._consumer_members, self.consumers)
        self.members = MemberRequests(self.store, parts, self._rebalancer, effects, classic_members)
        self.offsets = OffsetRequests(self.store, parts, effects, self._rebalancer)
        self.admin = GroupAdmin(self.store, parts)

    def replay(self, record: CoordinatorRecord, producer_id: int = -1) -> None:
        """Apply a record that is in the log; see ICoordinatorShard."""
        self.store.replay(record, producer_id)

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit or drop the offsets of a transaction; see ICoordinatorShard."""
        self.store.end_transaction(producer_id, committed)

    def loaded(self) -> None:
        """Begin the sessions of all members of the groups that were loaded."""
        self.store.loaded()
        self._consumer_members.loaded()
        for group in list(self.store.groups.values()):
            if not isinstance(group, ClassicGroup):
                continue
            if len(group.members) > self._config.max_size:
                self._rebalancer.prepare(group, "the loaded group is larger than group.max.size")
            for member in list(group.members.values()):
                self._rebalancer.start_session(group, member)

    def unloaded(self) -> None:
        """Answer all that is parked with NOT_COORDINATOR and stop the timers."""
        for group in self.store.groups.values():
            if isinstance(group, ClassicGroup):
                self._rebalancer.abandon(group, ErrorCode.NOT_COORDINATOR)
        self._consumer_members.unloaded()
        self.store.groups.clear()
