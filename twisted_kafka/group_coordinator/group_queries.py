"""Lists, descriptions and counts of groups of all types."""

from collections.abc import Callable, Collection, Mapping

from twisted_kafka.group_coordinator.results import GroupDescription, GroupListing
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import GroupCounts
from twisted_kafka.group_coordinator.state.classic_group_state import DEAD, EMPTY
from twisted_kafka.group_coordinator.state.consumer.consumer_group import ConsumerGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import ConsumerGroupMember, Partitions
from twisted_kafka.group_coordinator.state.group import Group
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.group_coordinator.state.share.share_group import ShareGroupMember
from twisted_kafka.group_coordinator.streams.descriptions import described
from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.protocol.errors import ErrorCode, GroupIdNotFoundError
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseTopicPartitions,
    DescribedGroup,
    Member,
)
from twisted_kafka.protocol.messages.share import share_groups
from twisted_kafka.protocol.messages.streams import streams_groups

_CONSUMER_MEMBER = 1
_CLASSIC_MEMBER = 0


class GroupQueries:
    """Answers queries about the groups of one partition."""

    def __init__(self, store: GroupStore, environment: GroupEnvironment) -> None:
        self._store = store
        self._environment = environment

    def list_groups(
        self,
        committed: Callable[[], Mapping[str, Group | None]],
        states: Collection[str],
        types: Collection[str],
    ) -> list[GroupListing]:
        """Return the groups with one of ``states`` and ``types`` (in lower case; empty: all), without the shard's lock.

        ``committed`` returns for each group with uncommitted changes what there was before them: a group that may be lost is left
        out, and one whose deletion may be lost is there. Call it after looking: a change is noted there before it is made.
        """
        table = self._store.groups
        groups: list[Group] = list(table.values())
        before = committed()
        if not before:
            if states and not any(number and state.value.lower() in states for state, number in list(table.classic_counts.items())):
                # Most groups are classic ones, and the numbers of these by state are known.
                groups = [*list(table.consumer.values()), *list(table.share.values()), *list(table.streams.values())]
            listings = [group.listing() for group in groups]
        else:
            listings = [group.listing() for group in groups if before.get(group.group_id, group) is not None]
            known = {group.group_id for group in groups}
            # Only an empty group is deleted.
            listings.extend(
                group.listing()._replace(group_state=EMPTY.value)
                for group_id, group in before.items()
                if group is not None and group_id not in known
            )
        if not states and not types:
            return listings
        return [
            each
            for each in listings
            if (not states or each.group_state.lower() in states) and (not types or each.group_type.lower() in types)
        ]

    def counts(self) -> GroupCounts:
        """Return the number of groups in each state; without the shard's lock it may see a change half done."""
        groups = self._store.groups
        return GroupCounts(
            dict(groups.classic_counts),
            groups.consumer_counts(),
            groups.share_counts(),
            groups.streams_counts(),
            len(self._store.offsets),
        )

    def describe(self, group_id: str) -> GroupDescription:
        """Describe a classic group; an unknown one is Dead, not an error (DescribeGroups up to v5)."""
        group = self._store.classic(group_id)
        return GroupDescription(ErrorCode.NONE, group_id, DEAD.value) if group is None else group.describe()

    def describe_consumer(self, group_id: str) -> DescribedGroup:
        """Describe a consumer group."""
        group = self._store.consumer(group_id)
        if group is None:
            is_classic = group_id in self._store.groups
            message = f"Group {group_id} is not a consumer group." if is_classic else f"Group {group_id} not found."
            return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_id=group_id)
        snapshot: MetadataSnapshot = self._environment.topics.snapshot
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=group.preferred_assignor(None, None) or next(iter(self._environment.assignors)),
            members=[_described(group, member, snapshot) for member in group.members.values()],
        )

    def describe_share(self, group_id: str) -> share_groups.DescribedGroup:
        """Describe a share group. Raises GroupIdNotFoundError."""
        group = self._store.share(group_id)
        if group is None:
            is_other = group_id in self._store.groups
            raise GroupIdNotFoundError(f"Group {group_id} is not a share group." if is_other else f"Group {group_id} not found.")
        snapshot: MetadataSnapshot = self._environment.topics.snapshot
        return share_groups.DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=self._environment.share_assignor.name,
            members=[_share_member(member, snapshot) for member in group.members.values()],
        )

    def describe_streams(self, group_id: str) -> streams_groups.DescribedGroup:
        """Describe a streams group. Raises GroupIdNotFoundError."""
        group = self._store.streams(group_id)
        if group is None:
            is_other = group_id in self._store.groups
            raise GroupIdNotFoundError(f"Group {group_id} is not a streams group." if is_other else f"Group {group_id} not found.")
        configs = self._environment.group_config_manager.streams(group_id)
        return described(group, self._environment.task_assignor(configs.assignor).name)


def _share_member(member: ShareGroupMember, snapshot: MetadataSnapshot) -> share_groups.Member:
    profile, names = member.profile, snapshot.topic_names
    return share_groups.Member(
        member_id=member.member_id,
        rack_id=profile.rack_id,
        member_epoch=member.current.epoch,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topics),
        assignment=share_groups.ShareGroupDescribeResponseAssignment(
            topic_partitions=[
                share_groups.ShareGroupDescribeResponseTopicPartitions(
                    topic_id=topic_id, topic_name=names[topic_id], partitions=sorted(indexes)
                )
                for topic_id, indexes in member.current.assigned.items()
                if topic_id in names
            ]
        ),
    )


def _described(group: ConsumerGroup, member: ConsumerGroupMember, snapshot: MetadataSnapshot) -> Member:
    profile = member.profile
    return Member(
        member_id=member.member_id,
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        member_epoch=member.current.epoch,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topics),
        subscribed_topic_regex=profile.regex or "",
        assignment=_assignment(member.current.assigned, snapshot),
        target_assignment=_assignment(group.target_of(member), snapshot),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(partitions: Partitions, snapshot: MetadataSnapshot) -> ConsumerGroupDescribeResponseAssignment:
    """Return partitions with their topics' names, without those of deleted topics."""
    names = snapshot.topic_names
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            ConsumerGroupDescribeResponseTopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=sorted(indexes))
            for topic_id, indexes in partitions.items()
            if topic_id in names
        ]
    )
