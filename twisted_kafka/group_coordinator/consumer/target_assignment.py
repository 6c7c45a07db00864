"""Computes a consumer group's target assignment and the records of its changes (Kafka: TargetAssignmentBuilder)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.group_coordinator.assignors.interface import (
    ConsumerGroupAssignor,
    GroupSpec,
    MemberSpec,
    check_assignment,
)
from twisted_kafka.group_coordinator.modern.assigning import assign
from twisted_kafka.group_coordinator.state.consumer import consumer_group_records as records
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import NO_PARTITIONS, ConsumerGroupMember, Partitions
from twisted_kafka.group_coordinator.state.consumer.target_index import TargetIndex
from twisted_kafka.group_coordinator.state.topic_image import TopicInfo


class Basis(NamedTuple):
    """The input of a target assignment, in addition to the stored group."""

    member: ConsumerGroupMember
    """The new version of the member whose request triggers the computation."""
    replaces: str | None
    """The id of the member that it replaces."""
    topics: Mapping[str, TopicInfo]
    regexes: Mapping[str, ResolvedRegex]


def subscribed_names(topics: Iterable[str], regex: str | None, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Return the topics that a member subscribes to, by name or by a resolved regular expression."""
    names = frozenset(topics)
    if regex and regex in regexes:
        names |= regexes[regex].topics
    return names


def compute_target(
    group: ConsumerGroup, epoch: int, assignor: ConsumerGroupAssignor, basis: Basis
) -> tuple[Partitions, list[CoordinatorRecord]]:
    """Return the target of the member in ``basis``, and the records of the targets that change.

    Raises UnknownServerError if the assignor fails.
    """
    stepped = _step(group, assignor, basis)
    if stepped is not None:
        written = [records.member_target(group.group_id, member_id, partitions) for member_id, partitions in stepped.items()]
        own = stepped.get(basis.member.member_id)
        return group.target_of(basis.member) if own is None else own, written
    spec = _spec(group, basis)
    assignment = assign(group.group_id, epoch, assignor, spec, check_assignment)
    changed = [
        records.member_target(group.group_id, member_id, assignment.get(member_id, NO_PARTITIONS))
        for member_id in spec.members
        if group.target.get(member_id) != assignment.get(member_id, NO_PARTITIONS)
    ]
    return assignment.get(basis.member.member_id, NO_PARTITIONS), changed


def _step(group: ConsumerGroup, assignor: ConsumerGroupAssignor, basis: Basis) -> Mapping[str, Partitions] | None:
    """Return the changed targets if they can be computed without visiting all members, otherwise None.

    That is possible, and matters for large groups, if all members have the same subscription, its topics did not change, and one
    member joined or left.
    """
    member = basis.member
    step = getattr(assignor, "step", None)  # a SteppingAssignor's; isinstance would take as long as the step itself
    if step is None or basis.replaces is not None or not group.all_subscribe_like(member):
        return None
    counts = {info.topic_id: info.partition_count for info in basis.topics.values()}
    is_new = member.member_id not in group.members
    index = group.target_index
    if index is None or index.counts != counts:
        if group.target.keys() != group.members.keys():
            group.target_index = None
            return None
        index = group.target_index = TargetIndex(counts, group.target)
    if not index.fits(counts, len(group.members)):
        group.target_index = None
        return None
    changed: Mapping[str, Partitions] = step(index, member.member_id if is_new else None)
    return changed


def _spec(group: ConsumerGroup, basis: Basis) -> GroupSpec:
    members = dict(group.members)
    if basis.replaces is not None:
        members.pop(basis.replaces, None)
    members[basis.member.member_id] = basis.member
    topic_ids: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, member in members.items():
        profile = member.profile
        subscription = (profile.topics, profile.regex)
        ids = topic_ids.get(subscription)
        if ids is None:
            names = subscribed_names(profile.topics, profile.regex, basis.regexes)
            ids = topic_ids[subscription] = frozenset(basis.topics[name].topic_id for name in names if name in basis.topics)
        target = group.target_of(member)
        specs[member_id] = MemberSpec(profile.instance_id, profile.rack_id, ids, target)
    counts = {info.topic_id: info.partition_count for info in basis.topics.values()}
    return GroupSpec(specs, counts)
