"""Validates a StreamsGroupHeartbeat; all but the last two functions do so without looking at the group."""

from collections.abc import Iterable, Mapping
from typing import Final

from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from twisted_kafka.group_coordinator.state.streams.configured_topology import ConfiguredSubtopology
from twisted_kafka.group_coordinator.state.streams.streams_group_member import StreamsAssignment
from twisted_kafka.group_coordinator.state.streams.tasks import Tasks, tasks_of
from twisted_kafka.protocol.errors import FencedMemberEpochError, InvalidRequestError, StreamsInvalidTopologyError
from twisted_kafka.protocol.messages.streams.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopology,
)

MOST_HOST_CHARACTERS: Final = 255
"""The longest host of an endpoint: no name is longer (RFC 1035), and the responses to all members list it."""


def is_leaving(request: StreamsGroupHeartbeatRequest) -> bool:
    """Return whether the member leaves the group, for good or temporarily."""
    return request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that the member reports, None without a report."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(tasks_of(request.active_tasks), tasks_of(request.standby_tasks), tasks_of(request.warmup_tasks))


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise InvalidRequestError or StreamsInvalidTopologyError for a request that is invalid for any group."""
    topology = request.topology
    if topology is not None and any(each.source_topic_regex for each in topology.subtopologies):
        raise InvalidRequestError("Regular expressions for source topics are not supported yet.")
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise InvalidRequestError(f"{name} can't be empty.")
    endpoint = request.user_endpoint
    if endpoint is not None and len(endpoint.host) > MOST_HOST_CHARACTERS:
        raise InvalidRequestError(f"The host of UserEndpoint has {len(endpoint.host)} characters, at most {MOST_HOST_CHARACTERS}.")
    if request.member_epoch == 0:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise InvalidRequestError("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequestError(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(tasks is not None for tasks in roles) and any(tasks is None for tasks in roles):
        raise InvalidRequestError("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != 0 and topology is not None:
        raise InvalidRequestError("Topology can only be provided when (re-)joining.")
    _check_offsets(request)
    tags = [each.key for each in request.client_tags or ()]
    if len(set(tags)) < len(tags):
        raise InvalidRequestError("A client tag is named twice.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise InvalidRequestError(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise InvalidRequestError("Topology must be non-null when (re-)joining.")
    _check_topology(request.topology)


def _check_topology(topology: StreamsGroupHeartbeatRequestTopology) -> None:
    if topology.epoch < 0:
        raise StreamsInvalidTopologyError(f"The topology's epoch is {topology.epoch}, but must not be negative.")
    ids = [each.subtopology_id for each in topology.subtopologies]
    if len(set(ids)) < len(ids):
        raise StreamsInvalidTopologyError("The topology has several subtopologies with the same id.")
    for each in topology.subtopologies:
        _check_subtopology(each)


def _check_subtopology(subtopology: StreamsGroupHeartbeatRequestSubtopology) -> None:
    for topic in subtopology.state_changelog_topics:
        if topic.partitions:
            raise StreamsInvalidTopologyError(
                f"Changelog topic {topic.name} must have an undefined partition count, but it is set to {topic.partitions}."
            )
    for topics in (subtopology.state_changelog_topics, subtopology.repartition_source_topics):
        if len({topic.name for topic in topics}) < len(topics):
            raise StreamsInvalidTopologyError(f"Subtopology {subtopology.subtopology_id} has an internal topic twice.")
    for topic in subtopology.repartition_source_topics:
        if topic.partitions < 0:
            raise StreamsInvalidTopologyError(f"Repartition topic {topic.name} has {topic.partitions} partitions.")
    for group in subtopology.copartition_groups:
        for indexes, count in (
            (group.source_topics, len(subtopology.source_topics)),
            (group.repartition_source_topics, len(subtopology.repartition_source_topics)),
        ):
            if any(not 0 <= index < count for index in indexes):
                raise StreamsInvalidTopologyError(
                    f"A copartition group of subtopology {subtopology.subtopology_id} names topics that it does not read."
                )


def _check_offsets(request: StreamsGroupHeartbeatRequest) -> None:
    for offsets in (request.task_offsets, request.task_end_offsets):
        tasks = [(each.subtopology_id, each.partition) for each in offsets or ()]
        if len(set(tasks)) < len(tasks):
            raise InvalidRequestError("Task offsets contain a duplicate entry for a subtopology and partition.")


def check_epoch(current: StreamsAssignment, epoch: int, owned: Tasks | None) -> None:
    """Raise FencedMemberEpochError unless ``epoch`` is the member's current epoch.

    Epoch 0 rejoins. The previous epoch is also valid if the tasks the member reports are part of its current assignment: the
    response with the new epoch was lost.
    """
    if epoch in (0, current.epoch):
        return
    if epoch < current.epoch and epoch == current.previous_epoch and owned is not None:
        assigned = current.assigned.tasks
        if all(reported <= known for reported, known in zip(owned, assigned, strict=True)):
            return
    relation = "greater" if epoch > current.epoch else "smaller"
    raise FencedMemberEpochError(
        f"The streams group member has a {relation} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin."
    )


def check_tasks(subtopologies: Mapping[str, ConfiguredSubtopology], owned: Tasks) -> None:
    """Raise InvalidRequestError if the topology has no such task."""
    for tasks in owned:
        _check_exist(subtopologies, tasks)


def _check_exist(subtopologies: Mapping[str, ConfiguredSubtopology], tasks: Iterable[tuple[str, int]]) -> None:
    for subtopology_id, partition in tasks:
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            raise InvalidRequestError(f"Subtopology {subtopology_id} does not exist in the topology.")
        if not 0 <= partition < subtopology.task_count:
            raise InvalidRequestError(
                f"Task {partition} for subtopology {subtopology_id} is invalid. Number of tasks for this subtopology: "
                f"{subtopology.task_count}"
            )
