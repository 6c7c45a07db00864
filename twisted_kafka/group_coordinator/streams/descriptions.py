"""Describes streams groups, as StreamsGroupDescribe does."""

from collections.abc import Iterable, Mapping

from twisted_kafka.group_coordinator.state.streams.configured_topology import ConfiguredSubtopology, InternalTopic
from twisted_kafka.group_coordinator.state.streams.streams_group import StreamsGroup
from twisted_kafka.group_coordinator.state.streams.streams_group_member import StreamsGroupMember
from twisted_kafka.group_coordinator.state.streams.tasks import Task, Tasks
from twisted_kafka.group_coordinator.streams.responses import task_ids
from twisted_kafka.protocol.messages.streams.streams_group_records import Subtopology
from twisted_kafka.protocol.messages.streams.streams_group_records import TopicInfo as StoredTopic
from twisted_kafka.protocol.messages.streams.streams_groups import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponseSubtopology,
    StreamsGroupDescribeResponseTopology,
    TaskOffset,
    TopicInfo,
)

_Subtopology = StreamsGroupDescribeResponseSubtopology


def described(group: StreamsGroup, assignor: str) -> DescribedGroup:
    """Return the description of a group; ``assignor`` is the name of the assignor that it uses."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
        assignor_name=assignor,
    )


def _topology(group: StreamsGroup) -> StreamsGroupDescribeResponseTopology | None:
    """Return the topology, with the partition counts of internal topics once they are known."""
    topology, configured = group.topology, group.configured
    if topology is None:
        return None
    if configured is not None and configured.problem is None:
        subtopologies = [_configured(subtopology_id, each) for subtopology_id, each in configured.ready.items()]
    else:
        subtopologies = [_stored(subtopology_id, each) for subtopology_id, each in topology.subtopologies.items()]
    return StreamsGroupDescribeResponseTopology(epoch=topology.epoch, subtopologies=subtopologies)


def _configured(subtopology_id: str, subtopology: ConfiguredSubtopology) -> _Subtopology:
    return _Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sinks),
        state_changelog_topics=[_internal_topic(topic) for topic in subtopology.changelogs],
        repartition_source_topics=[_internal_topic(topic) for topic in subtopology.repartition_sources],
    )


def _internal_topic(topic: InternalTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        topic_configs=_pairs(topic.configs),
    )


def _stored(subtopology_id: str, subtopology: Subtopology) -> _Subtopology:
    return _Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_stored_topics(subtopology.state_changelog_topics),
        repartition_source_topics=_stored_topics(subtopology.repartition_source_topics),
    )


def _stored_topics(topics: Iterable[StoredTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _pairs(values: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in values.items()]


def _member(group: StreamsGroup, member: StreamsGroupMember) -> Member:
    profile = member.profile
    offsets = group.offsets.get(member.member_id)
    return Member(
        member_id=member.member_id,
        member_epoch=member.current.epoch,
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        topology_epoch=profile.topology_epoch,
        process_id=profile.process_id,
        user_endpoint=None if profile.endpoint is None else Endpoint(host=profile.endpoint[0], port=profile.endpoint[1]),
        client_tags=_pairs(dict(profile.client_tags)),
        task_offsets=[] if offsets is None else _offsets(offsets.positions),
        task_end_offsets=[] if offsets is None else _offsets(offsets.ends),
        assignment=_assignment(member.current.assigned.tasks),
        target_assignment=_assignment(group.target_of(member.member_id)),
    )


def _assignment(tasks: Tasks) -> Assignment:
    active, standby, warmup = map(task_ids, tasks)
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def _offsets(offsets: Mapping[Task, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=subtopology_id, partition=partition, offset=offset)
        for (subtopology_id, partition), offset in sorted(offsets.items())
    ]
