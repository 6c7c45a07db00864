"""Groups of a broker under test: their members, and how far they have read."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from twisted_kafka.group_coordinator.subscription import decode_assignment

NO_GROUP: Final = "Dead"
"""The state of a group that does not exist."""
GROUP_STATES: Final = (
    *("Stable", "Empty", NO_GROUP),
    *("PreparingRebalance", "CompletingRebalance"),  # of the classic protocol
    *("Assigning", "Reconciling"),  # of the consumer protocol
    "NotReady",  # of streams groups
)

SHARE_GROUP_STATES: Final = ("Stable", "Empty", NO_GROUP)
STREAMS_GROUP_STATES: Final = ("Stable", "Empty", NO_GROUP, "NotReady", "Assigning", "Reconciling")


def check_state(state: str) -> None:
    """Raise ValueError, one line, unless ``state`` is a state of groups."""
    if state not in GROUP_STATES:
        raise ValueError(f"no group is ever {state!r}: the states are {', '.join(GROUP_STATES)}")


def check_share_state(state: str) -> None:
    """Raise ValueError, one line, unless ``state`` is a state of share groups."""
    if state not in SHARE_GROUP_STATES:
        raise ValueError(f"no share group is ever {state!r}: the states are {', '.join(SHARE_GROUP_STATES)}")


def check_streams_state(state: str) -> None:
    """Raise ValueError, one line, unless ``state`` is a state of streams groups."""
    if state not in STREAMS_GROUP_STATES:
        raise ValueError(f"no streams group is ever {state!r}: the states are {', '.join(STREAMS_GROUP_STATES)}")


class GroupMember(NamedTuple):
    """A member of a group, with its assigned partitions."""

    member_id: str
    client_id: str
    client_host: str
    assigned: tuple[tuple[str, int], ...]


class DescribedGroup(NamedTuple):
    """A group as ``kafka-consumer-groups.sh --describe`` shows it."""

    state: str
    members: tuple[GroupMember, ...]


class InFlightRecords(NamedTuple):
    """Consecutive records in one state that a share group has fetched and not all finished with."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    state: str
    """AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING (on the way to the dead-letter queue) or ARCHIVED."""
    delivery_count: int
    member_id: str
    """The member that has acquired them; empty in other states."""


class DescribedShareGroup(NamedTuple):
    """A share group (KIP-932) as ``kafka-share-groups.sh --describe`` shows it."""

    state: str
    members: tuple[GroupMember, ...]
    offsets: dict[tuple[str, int], int]
    """The offsets before which the group has finished with all records, by topic and partition; -1 before the first fetch."""
    lag: dict[tuple[str, int], int]
    """The numbers of records with which the group has not finished, by topic and partition; without partitions of unknown lag."""
    in_flight: tuple[InFlightRecords, ...] = ()
    """The records from each offset on, up to the last one that was acquired."""

    @property
    def acquired(self) -> tuple[InFlightRecords, ...]:
        """The records that members have acquired and not yet acknowledged."""
        return tuple(each for each in self.in_flight if each.state == "ACQUIRED")


class StreamsMember(NamedTuple):
    """A member of a streams group, with its tasks: each is a subtopology's id and a partition."""

    member_id: str
    client_id: str
    client_host: str
    process_id: str
    active: tuple[tuple[str, int], ...]
    standby: tuple[tuple[str, int], ...]
    warmup: tuple[tuple[str, int], ...]


class DescribedStreamsGroup(NamedTuple):
    """A streams group (KIP-1071) as ``kafka-streams-groups.sh --describe`` shows it."""

    state: str
    members: tuple[StreamsMember, ...]
    source_topics: frozenset[str]
    """The topics of the application that its topology reads."""
    internal_topics: frozenset[str]
    """The changelog and repartition topics, which the broker creates for the application."""


def streams_group_of(described: Any) -> DescribedStreamsGroup:
    """Convert a group of a StreamsGroupDescribeResponse."""
    members = (
        StreamsMember(
            each.member_id,
            each.client_id,
            each.client_host,
            each.process_id,
            _tasks(each.assignment.active_tasks),
            _tasks(each.assignment.standby_tasks),
            _tasks(each.assignment.warmup_tasks),
        )
        for each in described.members
    )
    subtopologies = described.topology.subtopologies or ()
    return DescribedStreamsGroup(
        described.group_state,
        tuple(members),
        frozenset(topic for each in subtopologies for topic in each.source_topics),
        frozenset(
            topic.name for each in subtopologies for topic in (*each.state_changelog_topics, *each.repartition_source_topics)
        ),
    )


def members_of_streams_group(described: Any) -> DescribedGroup:
    """Convert a group of a StreamsGroupDescribeResponse to one whose members read all partitions that their active tasks read."""
    sources = {each.subtopology_id: each for each in described.topology.subtopologies or ()}

    def topics(subtopology_id: str) -> Iterable[str]:
        found = sources[subtopology_id]
        return sorted([*found.source_topics, *(topic.name for topic in found.repartition_source_topics)])

    members = (
        GroupMember(
            each.member_id,
            each.client_id,
            each.client_host,
            tuple(
                (topic, partition)
                for subtopology_id, partition in _tasks(each.assignment.active_tasks)
                if subtopology_id in sources
                for topic in topics(subtopology_id)
            ),
        )
        for each in described.members
    )
    return DescribedGroup(described.group_state, tuple(members))


def _tasks(listed: Any) -> tuple[tuple[str, int], ...]:
    return tuple((each.subtopology_id, partition) for each in listed for partition in each.partitions)


def classic_group_of(described: Any) -> DescribedGroup:
    """Convert a group of a DescribeGroupsResponse."""
    members = (
        GroupMember(each.member_id, each.client_id, each.client_host, _assigned(described.protocol_type, each.member_assignment))
        for each in described.members
    )
    return DescribedGroup(described.group_state, tuple(members))


def consumer_group_of(described: Any) -> DescribedGroup:
    """Convert a group of a ConsumerGroupDescribeResponse or a ShareGroupDescribeResponse."""
    members = (
        GroupMember(
            each.member_id,
            each.client_id,
            each.client_host,
            tuple((topic.topic_name, index) for topic in each.assignment.topic_partitions for index in topic.partitions),
        )
        for each in described.members
    )
    return DescribedGroup(described.group_state, tuple(members))


def share_group_of(described: Any, topics: Any, in_flight: Iterable[Any]) -> DescribedShareGroup:
    """Convert a group of a ShareGroupDescribeResponse and its topics of a DescribeShareGroupOffsetsResponse."""
    state, members = consumer_group_of(described)
    partitions = {(topic.topic_name, each.partition_index): each for topic in topics for each in topic.partitions}
    offsets = {where: each.start_offset for where, each in partitions.items()}
    lag = {where: each.lag for where, each in partitions.items() if each.lag >= 0}
    return DescribedShareGroup(state, members, offsets, lag, tuple(InFlightRecords(*each) for each in sorted(in_flight)))


def _assigned(protocol_type: str, assignment: bytes) -> tuple[tuple[str, int], ...]:
    """Return the partitions of an assignment; empty for other protocols than the consumers'."""
    if protocol_type != "consumer":
        return ()
    try:
        decoded = decode_assignment(bytes(assignment))
    except ValueError:  # a client's own format
        return ()
    return tuple((each.topic, index) for each in decoded.assigned_partitions for index in each.partitions)
