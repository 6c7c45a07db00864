"""What a StreamsGroupHeartbeat's response lists: a member's tasks, and which partitions are at which endpoint."""

from collections.abc import Collection, Iterable, Mapping

from twisted_kafka.group_coordinator.state.streams.configured_topology import ConfiguredSubtopology, ConfiguredTopology
from twisted_kafka.group_coordinator.state.streams.streams_group import StreamsGroup
from twisted_kafka.group_coordinator.state.streams.streams_group_member import StreamsGroupMember
from twisted_kafka.group_coordinator.state.streams.tasks import HeldTasks, Task, by_subtopology
from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.protocol.messages.streams.streams_groups import (
    Endpoint,
    EndpointToPartitions,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseTopicPartition,
    TaskIds,
)

_Subtopologies = Mapping[str, ConfiguredSubtopology]


def task_ids(tasks: Iterable[Task]) -> list[TaskIds]:
    """Return tasks in the form of requests and responses."""
    return [TaskIds(subtopology_id=subtopology_id, partitions=partitions) for subtopology_id, partitions in by_subtopology(tasks)]


def set_tasks(response: StreamsGroupHeartbeatResponse, assigned: HeldTasks) -> None:
    """List all tasks of the member."""
    response.active_tasks = task_ids(assigned.active)
    response.standby_tasks = task_ids(assigned.standby)
    response.warmup_tasks = task_ids(assigned.warmup)


def partitions_by_endpoint(
    group: StreamsGroup,
    member: StreamsGroupMember,
    superseded: Collection[str],
    configured: ConfiguredTopology,
    snapshot: MetadataSnapshot,
) -> list[EndpointToPartitions]:
    """Return the partitions of each member that has an endpoint (KIP-535).

    ``member`` is a new version of those members whose ids are ``superseded``.
    """
    subtopologies = configured.subtopologies or {}
    found = []
    for member_id, each in group.members.items():
        if each.profile.endpoint is None or member_id in superseded:
            continue
        known = group.endpoints.get(member_id)
        if known is None or known[0] is not configured.subtopologies:
            known = group.endpoints[member_id] = configured.subtopologies, _partitions(each, subtopologies, snapshot)
        found.append(known[1])
    if member.profile.endpoint is not None:
        found.append(_partitions(member, subtopologies, snapshot))
    return found


def _partitions(member: StreamsGroupMember, subtopologies: _Subtopologies, snapshot: MetadataSnapshot) -> EndpointToPartitions:
    assert member.profile.endpoint is not None
    host, port = member.profile.endpoint
    assigned = member.current.assigned
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=host, port=port),
        active_partitions=_listed(assigned.active, subtopologies, snapshot),
        standby_partitions=_listed(assigned.standby | assigned.warmup, subtopologies, snapshot),
    )


def _listed(
    tasks: Iterable[Task], subtopologies: _Subtopologies, snapshot: MetadataSnapshot
) -> list[StreamsGroupHeartbeatResponseTopicPartition]:
    found = []
    for subtopology_id, partitions in by_subtopology(tasks):
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        topics = subtopology.source_topics.union(topic.name for topic in subtopology.repartition_sources)
        for topic in sorted(topics):
            count = len(snapshot.topics.get(topic, ()))
            read = [partition for partition in partitions if partition < count]
            if read:
                found.append(StreamsGroupHeartbeatResponseTopicPartition(topic=topic, partitions=read))
    return found
