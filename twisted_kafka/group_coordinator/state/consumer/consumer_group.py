"""A consumer group's stored state: in addition to that of a modern group, owners of partitions, static ids and classic members."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from typing_extensions import override

from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import (
    NO_PARTITIONS,
    ConsumerGroupMember,
    CurrentAssignment,
    Partitions,
    Profile,
)
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import ConsumerGroupState
from twisted_kafka.group_coordinator.state.consumer.target_index import TargetIndex
from twisted_kafka.group_coordinator.state.group import CONSUMER, MEMBER_EPOCHS_SINCE, OffsetRetention
from twisted_kafka.group_coordinator.state.modern_group import ModernGroup, add
from twisted_kafka.group_coordinator.state.topic_image import TopicInfo
from twisted_kafka.group_coordinator.subscription import CONSUMER_PROTOCOL_TYPE
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition


class SeenTopics(NamedTuple):
    """Which of the cluster's topics a group was compared with. Not stored."""

    snapshot: object = None
    """The metadata snapshot that the subscribed topics were last compared with."""
    regexes_snapshot: object = None
    """The metadata snapshot that all regular expressions were last matched against."""
    regexes_resolved_ms: int = 0
    """When they were matched."""
    regexes_matched: Mapping[str, frozenset[str]] = MappingProxyType({})
    """The topics of that snapshot that each one matched."""


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, and the time of matching (milliseconds since the epoch)."""

    topics: frozenset[str]
    resolved_ms: int


class ConsumerGroup(ModernGroup[ConsumerGroupMember, Partitions, ConsumerGroupState]):
    """One consumer group."""

    type = CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE

    __slots__ = (
        "_assignor_votes",
        "_classic_protocols",
        "_owners",
        "_regex_subscribers",
        "_static_ids",
        "_subscriptions",
        "classic_count",
        "regexes",
        "seen",
        "target_index",
        "topics",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.target_index: TargetIndex | None = None
        """Not stored; built when it is first needed."""
        self.topics: Mapping[str, TopicInfo] = {}
        """The subscribed topics that exist, as stored with the group."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.seen = SeenTopics()
        self.classic_count = 0
        self._classic_protocols: Counter[str] = Counter()
        self._static_ids: dict[str, str] = {}
        self._owners: dict[tuple[bytes, int], str] = {}
        self._regex_subscribers: Counter[str] = Counter()
        self._subscriptions: Counter[tuple[frozenset[str], str | None]] = Counter()
        self._assignor_votes: Counter[str] = Counter()

    @property
    def awaited_epoch(self) -> int:
        """The epoch that all members can reach now: that of the last targets while an assignment interval delays the next ones."""
        return self.target_epoch if self.assigned_ms else self.epoch

    # changes, called by replay only

    def put_profile(self, member_id: str, profile: Profile) -> None:
        """Add a member or replace its profile."""
        old = self.members.get(member_id)
        if old is not None:
            self._count(old.profile, -1)
        self.members[member_id] = ConsumerGroupMember(member_id, profile, CurrentAssignment() if old is None else old.current)
        self._count(profile, 1)
        if profile.instance_id is not None:
            self._static_ids[profile.instance_id] = member_id
        self._state = None

    def put_current(self, member_id: str, current: CurrentAssignment) -> None:
        """Set a member's current assignment; in a compacted log that record may precede the member's profile."""
        if member_id not in self.members:
            self.put_profile(member_id, Profile())
        member = self.members[member_id]
        self._release(member)
        self.members[member_id] = member._replace(current=current)
        for partitions in (current.assigned, current.revoking):
            for topic_id, indexes in partitions.items():
                for index in indexes:
                    self._owners[topic_id, index] = member_id
        self._state = None

    def forget_current(self, member_id: str) -> None:
        """Clear a member's current assignment."""
        if member_id in self.members:
            self.put_current(member_id, CurrentAssignment())

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self._count(member.profile, -1)
        instance_id = member.profile.instance_id
        if instance_id is not None and self._static_ids.get(instance_id) == member_id:
            del self._static_ids[instance_id]
        self._state = None

    @override
    def put_target(self, member_id: str, target: Partitions | None) -> None:
        if self.target_index is not None:
            self.target_index.put(member_id, self.target.get(member_id, NO_PARTITIONS), target)
        super().put_target(member_id, target)

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Set the topics that a regular expression matches; None removes it."""
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved

    def _release(self, member: ConsumerGroupMember) -> None:
        owners, member_id = self._owners, member.member_id
        for partitions in (member.current.assigned, member.current.revoking):
            for topic_id, indexes in partitions.items():
                for index in indexes:
                    if owners.get((topic_id, index)) == member_id:
                        del owners[topic_id, index]

    def _count(self, profile: Profile, by: int) -> None:
        add(self._subscriptions, (profile.topics, profile.regex), by)
        self._count_topics(profile.topics, by)
        if profile.regex:
            add(self._regex_subscribers, profile.regex, by)
        if profile.assignor is not None:
            add(self._assignor_votes, profile.assignor, by)
        if profile.classic is not None:
            self.classic_count += by
            for name in {name for name, _ in profile.classic.protocols}:
                add(self._classic_protocols, name, by)

    # queries

    @override
    def _compute_state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.current.is_reconciled_to(self.target_epoch) for member in list(self.members.values())):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member with the instance id."""
        member_id = None if instance_id is None else self._static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerGroupMember) -> Partitions:
        """Return a member's target assignment; a static member that replaces another one inherits its target."""
        target = self.target.get(member.member_id)
        if target is None:
            predecessor = self.static_member(member.profile.instance_id)
            target = None if predecessor is None else self.target.get(predecessor.member_id)
        return NO_PARTITIONS if target is None else target

    def owner(self, topic_id: bytes, index: int) -> str | None:
        """Return the id of the member that owns the partition."""
        return self._owners.get((topic_id, index))

    def waits_for_others(self, member: ConsumerGroupMember) -> bool:
        """Return whether another member still owns a partition of this member's target assignment."""
        for topic_id, indexes in self.target_of(member).items():
            for index in indexes:
                owner = self.owner(topic_id, index)
                if owner is not None and owner != member.member_id:
                    return True
        return False

    # offsets; see Group

    @override
    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        """Check a member and its epoch; without members, anybody without an epoch may commit."""
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member.is_classic and version < MEMBER_EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        if generation == member.current.epoch:
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH

    @override
    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, generation: int, partitions: Collection[TopicPartition] = ()
    ) -> ErrorCode:
        """Check a member and its epoch; producers know ILLEGAL_GENERATION only."""
        error = self.check_commit(member_id, instance_id, generation, MEMBER_EPOCHS_SINCE)
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    @override
    def check_fetch(self, member_id: str, generation: int) -> ErrorCode:
        """Check a member and its epoch, if the sender says that it is one."""
        if member_id or generation >= 0:
            return self.check_commit(member_id, None, generation, MEMBER_EPOCHS_SINCE)
        return ErrorCode.NONE

    @override
    def check_offset_deletion(self) -> ErrorCode:
        """Return NONE: the subscriptions are known."""
        return ErrorCode.NONE

    @override
    def offset_retention(self) -> OffsetRetention:
        """Return the retention of offsets of topics without subscription, which begins with the commit."""
        return OffsetRetention(None, self.is_subscribed)

    @override
    def is_subscribed(self, topic: str) -> bool:
        """Return whether any member subscribes to the topic, by name or by regular expression."""
        if topic in self._topic_subscribers:
            return True
        return any(topic in resolved.topics for regex, resolved in self.regexes.items() if regex in self._regex_subscribers)

    def all_subscribe_like(self, member: ConsumerGroupMember) -> bool:
        """Return whether all other members have the same subscription as ``member``, which may be a new version of a stored one."""
        wanted = (member.profile.topics, member.profile.regex)
        stored = self.members.get(member.member_id)
        same, others = self._subscriptions[wanted], len(self.members)
        if stored is not None:
            same -= (stored.profile.topics, stored.profile.regex) == wanted
            others -= 1
        return same == others

    def topic_names(
        self,
        removed: Iterable[Profile] = (),
        added: Iterable[Profile] = (),
        regexes: Mapping[str, ResolvedRegex] | None = None,
    ) -> set[str]:
        """Return the topics that would be subscribed after removing and adding members with these profiles."""
        counts, expressions = self._topic_subscribers, self._regex_subscribers
        removed, added = list(removed), list(added)
        if removed or added:
            counts, expressions = counts.copy(), expressions.copy()
            for profiles, by in ((removed, -1), (added, 1)):
                for profile in profiles:
                    for topic in profile.topics:
                        counts[topic] += by
                    if profile.regex:
                        expressions[profile.regex] += by
        names = {topic for topic, count in counts.items() if count > 0}
        known = self.regexes if regexes is None else regexes
        for regex, count in expressions.items():
            if count > 0 and regex in known:
                names |= known[regex].topics
        return names

    def regex_count(self, regex: str) -> int:
        """Return the number of members that subscribe with the regular expression."""
        return self._regex_subscribers[regex]

    def preferred_assignor(self, old: Profile | None, new: Profile | None) -> str | None:
        """Return the assignor with most votes after replacing one member's profile, or None if no member votes."""
        votes = self._assignor_votes.copy()
        if old is not None and old.assignor is not None:
            votes[old.assignor] -= 1
        if new is not None and new.assignor is not None:
            votes[new.assignor] += 1
        best = max(votes.items(), key=lambda vote: (vote[1], vote[0]), default=None)
        return None if best is None or best[1] <= 0 else best[0]

    def supports_classic(self, names: Iterable[str]) -> bool:
        """Return whether all members that use the classic protocol support one of these protocol names."""
        return any(self._classic_protocols[name] == self.classic_count for name in names)
