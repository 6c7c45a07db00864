"""What a StreamsGroupHeartbeat says, in the form of the group's state."""

from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.state.streams.streams_group_member import StreamsProfile, TaskOffsets
from twisted_kafka.group_coordinator.state.streams.tasks import Task
from twisted_kafka.protocol.messages.streams.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from twisted_kafka.protocol.messages.streams.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTopology,
    TaskOffset,
)
from twisted_kafka.protocol.messages.streams.streams_groups import TopicInfo as RequestedTopic


def profile_of(request: StreamsGroupHeartbeatRequest, client: Client, old: StreamsProfile | None) -> StreamsProfile:
    """Return the member's profile; fields that the request omits keep their old values, but a joining member's endpoint."""
    known = StreamsProfile() if old is None else old
    endpoint = None if request.user_endpoint is None else (request.user_endpoint.host, request.user_endpoint.port)
    tags = request.client_tags
    return StreamsProfile(
        known.instance_id if request.instance_id is None else request.instance_id,
        known.rack_id if request.rack_id is None else request.rack_id,
        client.client_id,
        client.host,
        known.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        known.topology_epoch if request.topology is None else request.topology.epoch,
        known.process_id if request.process_id is None else request.process_id,
        endpoint if endpoint is not None or request.member_epoch == 0 else known.endpoint,
        known.client_tags if tags is None else tuple(sorted({each.key: each.value for each in tags}.items())),
    )


def reported_offsets(request: StreamsGroupHeartbeatRequest, old: TaskOffsets | None) -> TaskOffsets | None:
    """Return what the member has reported of its changelogs so far; None if nothing."""
    if request.task_offsets is None and request.task_end_offsets is None:
        return old
    known = TaskOffsets({}, {}) if old is None else old
    return TaskOffsets(
        known.positions if request.task_offsets is None else _offsets(request.task_offsets),
        known.ends if request.task_end_offsets is None else _offsets(request.task_end_offsets),
    )


def _offsets(listed: list[TaskOffset]) -> dict[Task, int]:
    return {(each.subtopology_id, each.partition): each.offset for each in listed}


def topology_record(topology: StreamsGroupHeartbeatRequestTopology | None) -> StreamsGroupTopologyValue | None:
    """Return the record of a topology that a member brings."""
    if topology is None:
        return None
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=_topics(each.state_changelog_topics),
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=_topics(each.repartition_source_topics),
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _topics(listed: list[RequestedTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[TopicConfig(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in listed
    ]
