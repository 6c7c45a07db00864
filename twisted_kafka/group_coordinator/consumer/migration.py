"""Conversion of groups with members from one type to the other (KIP-848, ``group.consumer.migration.policy``).

A classic group becomes a consumer group when the first member with the consumer group protocol joins; a consumer group becomes
a classic group when the last such member leaves. Members keep their ids and their assignments.
"""

from collections.abc import Iterable, Mapping, Sequence

from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import (
    ConsumerGroupMember,
    CurrentAssignment,
    Partitions,
    classic_profile,
)
from twisted_kafka.group_coordinator.state.consumer.consumer_group_state import MemberState
from twisted_kafka.group_coordinator.state.topic_image import known_topics
from twisted_kafka.group_coordinator.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.protocol.errors import GroupIdNotFoundError
from twisted_kafka.protocol.messages.coordinators.coordinator_records import GroupMetadataValue, MemberMetadata


def consumer_group_of(group: ClassicGroup, snapshot: MetadataSnapshot) -> ConsumerGroup:
    """Convert a classic group with members to a consumer group; its epoch is the generation, its assignments stay.

    Raises GroupIdNotFoundError if the members do not use the consumer embedded protocol.
    """
    upgraded = ConsumerGroup(group.group_id)
    upgraded.put_epochs(group.generation, group.generation)
    for member in group.members.values():
        terms = member.terms
        try:
            subscription = decode_subscription(terms.protocols[0][1])
            assignment = decode_assignment(member.assignment)
        except ValueError as error:
            raise GroupIdNotFoundError(
                f"Cannot upgrade classic group {group.group_id} to consumer group: a member's metadata is malformed: {error}"
            ) from error
        if assignment.user_data:
            raise GroupIdNotFoundError(
                f"Cannot upgrade classic group {group.group_id} to consumer group: custom assignors are unsupported, and an "
                "assignment contains user data"
            )
        assigned = topic_partitions(((each.topic, each.partitions) for each in assignment.assigned_partitions), snapshot)
        upgraded.put_profile(member.member_id, classic_profile(member.instance_id, subscription, terms))
        upgraded.put_current(member.member_id, CurrentAssignment(group.generation, group.generation, MemberState.STABLE, assigned))
        upgraded.put_target(member.member_id, assigned)
    upgraded.topics = known_topics(snapshot, upgraded.topic_names())
    return upgraded


def topic_partitions(listed: Iterable[tuple[str, Iterable[int]]], snapshot: MetadataSnapshot) -> Partitions:
    """Return partitions given by topic name with topic ids instead, without those of unknown topics."""
    found: dict[bytes, frozenset[int]] = {}
    for topic, indexes in listed:
        topic_id = snapshot.topic_ids.get(topic)
        if topic_id is not None and (partitions := frozenset(indexes)):
            found[topic_id] = found.get(topic_id, frozenset()) | partitions
    return found


def by_name(partitions: Partitions, snapshot: MetadataSnapshot) -> Mapping[str, frozenset[int]]:
    """Return partitions by topic name, without those of deleted topics."""
    names = snapshot.topic_names
    return {names[topic_id]: indexes for topic_id, indexes in partitions.items() if topic_id in names}


def classic_value_of(
    group: ConsumerGroup, members: Sequence[ConsumerGroupMember], snapshot: MetadataSnapshot, now_ms: int
) -> GroupMetadataValue:
    """Return the record value of the classic group that a consumer group with only these classic members is converted to."""
    classics = [
        (member, member.profile.classic, dict(member.profile.classic.protocols)) for member in members if member.profile.classic
    ]
    protocol = next((name for name in classics[0][2] if all(name in protocols for _, _, protocols in classics)), None)
    if protocol is None:
        raise RuntimeError(f"The classic members of group {group.group_id} have no protocol in common")
    return GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=protocol,
        leader=members[0].member_id,
        current_state_timestamp=now_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.profile.instance_id,
                client_id=member.profile.client_id,
                client_host=member.profile.client_host,
                rebalance_timeout=member.profile.rebalance_timeout_ms,
                session_timeout=classic.session_timeout_ms,
                subscription=protocols[protocol],
                assignment=encode_assignment(by_name(member.current.assigned, snapshot), version_of(protocols[protocol])),
            )
            for member, classic, protocols in classics
        ],
    )
