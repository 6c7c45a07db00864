"""Runs the assignor of a streams group, and checks its result."""

from collections.abc import Mapping

from twisted.logger import Logger

from twisted_kafka.config.group_configs import StreamsGroupConfigs
from twisted_kafka.group_coordinator.assignors.interface import AssignmentError
from twisted_kafka.group_coordinator.assignors.task_interface import TaskAssignor, TaskGroup, TaskMember, check_tasks
from twisted_kafka.group_coordinator.state.streams.configured_topology import ConfiguredTopology
from twisted_kafka.group_coordinator.state.streams.streams_group_member import StreamsGroupMember, TaskOffsets
from twisted_kafka.group_coordinator.state.streams.tasks import NOTHING, Tasks
from twisted_kafka.protocol.errors import UnknownServerError

_log = Logger()


def compute_targets(
    group_id: str,
    epoch: int,
    assignor: TaskAssignor,
    members: Mapping[str, StreamsGroupMember],
    offsets: Mapping[str, TaskOffsets],
    topology: ConfiguredTopology,
    configs: StreamsGroupConfigs,
) -> Mapping[str, Tasks]:
    """Return a target for each member; none has tasks while the topology is not ready.

    Raises UnknownServerError if the assignor fails.
    """
    if topology.problem is not None:
        return dict.fromkeys(members, NOTHING)
    group = TaskGroup(
        {member_id: _member(member, offsets.get(member_id)) for member_id, member in members.items()},
        {subtopology_id: each.task_count for subtopology_id, each in topology.ready.items()},
        {subtopology_id for subtopology_id, each in topology.ready.items() if each.is_stateful},
        configs.standby_replicas,
        configs.rack_aware_tags,
    )
    try:
        assignment = assignor.assign(group)
        check_tasks(group, assignment)
    except Exception as error:
        if not isinstance(error, AssignmentError):
            _log.failure("Group {group}: assignor {name} failed", group=group_id, name=assignor.name)
        message = f"Failed to compute a new target assignment for epoch {epoch}: {error}"
        _log.error("Group {group}: {message}", group=group_id, message=message)
        raise UnknownServerError(message) from error
    return {member_id: assignment.get(member_id, NOTHING) for member_id in members}


def _member(member: StreamsGroupMember, offsets: TaskOffsets | None) -> TaskMember:
    profile = member.profile
    return TaskMember(
        profile.process_id,
        profile.instance_id,
        profile.rack_id,
        dict(profile.client_tags),
        member.current.assigned.tasks,
        {} if offsets is None else offsets.positions,
    )
