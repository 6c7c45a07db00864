"""Records of streams groups: types 17 and 19 to 23, as Kafka 4.4 writes them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, RecordKinds
from twisted_kafka.group_coordinator.state.modern_records import RecordTypes, record
from twisted_kafka.group_coordinator.state.streams.streams_group import GroupBasis, StreamsGroup
from twisted_kafka.group_coordinator.state.streams.streams_group_member import (
    MemberState,
    StreamsAssignment,
    StreamsProfile,
)
from twisted_kafka.group_coordinator.state.streams.tasks import HeldTasks, Task, Tasks, TaskSet, by_subtopology, tasks_of
from twisted_kafka.group_coordinator.state.streams.topology import Topology
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.streams.streams_group_records import (
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValueTaskIds,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMemberValueTaskIds,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

TYPES: Final = RecordTypes(
    current=StreamsGroupCurrentMemberAssignmentKey,
    target=StreamsGroupTargetAssignmentMemberKey,
    profile=StreamsGroupMemberMetadataKey,
    target_epoch=StreamsGroupTargetAssignmentMetadataKey,
    group_epoch=StreamsGroupMetadataKey,
)

KINDS: Final[RecordKinds] = {
    key.KEY: (key, value)
    for key, value in (
        (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
        (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
        (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
        (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
        (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
        (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
    )
}

_Ids = StreamsGroupCurrentMemberAssignmentValueTaskIds


def topology(group_id: str, value: StreamsGroupTopologyValue | None) -> CoordinatorRecord:
    """Return the record of the topology, or with None its tombstone."""
    return record(StreamsGroupTopologyKey(group_id=group_id), value)


def group_metadata(group_id: str, epoch: int, basis: GroupBasis) -> CoordinatorRecord:
    """Return the record of the group's epochs and configs."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=basis.metadata_hash,
        validated_topology_epoch=basis.validated_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=value) for key, value in sorted(basis.assignment_configs.items())
        ],
        stored_description_topology_epoch=basis.stored_description_epoch,
        failed_description_topology_epoch=basis.failed_description_epoch,
    )
    return record(StreamsGroupMetadataKey(group_id=group_id), value)


def member_profile(group_id: str, member_id: str, profile: StreamsProfile) -> CoordinatorRecord:
    """Return the record of a member's profile."""
    endpoint = None if profile.endpoint is None else Endpoint(host=profile.endpoint[0], port=profile.endpoint[1])
    value = StreamsGroupMemberMetadataValue(
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        rebalance_timeout_ms=profile.rebalance_timeout_ms,
        topology_epoch=profile.topology_epoch,
        process_id=profile.process_id,
        user_endpoint=endpoint,
        client_tags=[KeyValue(key=key, value=value) for key, value in profile.client_tags],
    )
    return record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def target_epoch(group_id: str, epoch: int, assigned_ms: int) -> CoordinatorRecord:
    """Return the record of the target assignment's epoch."""
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_ms)
    return record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def member_target(group_id: str, member_id: str, tasks: Tasks) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""

    def listed(part: TaskSet) -> list[StreamsGroupTargetAssignmentMemberValueTaskIds]:
        return [
            StreamsGroupTargetAssignmentMemberValueTaskIds(subtopology_id=subtopology_id, partitions=partitions)
            for subtopology_id, partitions in by_subtopology(part)
        ]

    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=listed(tasks.active), standby_tasks=listed(tasks.standby), warmup_tasks=listed(tasks.warmup)
    )
    return record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def member_current(group_id: str, member_id: str, current: StreamsAssignment) -> CoordinatorRecord:
    """Return the record of a member's current assignment."""
    assigned, revoking = current.assigned, current.revoking
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_listed(assigned.standby),
        warmup_tasks=_listed(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(revoking.active),
        standby_tasks_pending_revocation=_listed(revoking.standby),
        warmup_tasks_pending_revocation=_listed(revoking.warmup),
    )
    return record(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value)


def _listed(tasks: TaskSet) -> list[_Ids]:
    return [_Ids(subtopology_id=subtopology_id, partitions=partitions) for subtopology_id, partitions in by_subtopology(tasks)]


def _with_epochs(tasks: Mapping[Task, int]) -> list[_Ids]:
    return [
        _Ids(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[tasks[subtopology_id, partition] for partition in partitions],
        )
        for subtopology_id, partitions in by_subtopology(tasks)
    ]


def group_removed(group: StreamsGroup) -> list[CoordinatorRecord]:
    """Return all tombstones of a group, its members' first and its topology's last, as in Kafka."""
    return [*TYPES.group_removed(group.group_id, group.members), topology(group.group_id, None)]


def replay(group: StreamsGroup, key: Message, value: Message | None) -> None:
    """Apply a record to its group; the caller handles the group's own tombstone."""
    _REPLAYS[key.KEY](group, key, value)


def _replay_metadata(group: StreamsGroup, _: object, value: StreamsGroupMetadataValue) -> None:
    configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    group.put_basis(
        value.epoch,
        GroupBasis(
            value.metadata_hash,
            value.validated_topology_epoch,
            configs,
            value.stored_description_topology_epoch,
            value.failed_description_topology_epoch,
        ),
    )


def _replay_topology(group: StreamsGroup, _: object, value: StreamsGroupTopologyValue | None) -> None:
    group.put_topology(None if value is None else Topology(value))


def _replay_profile(group: StreamsGroup, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    endpoint = value.user_endpoint
    group.put_profile(
        key.member_id,
        StreamsProfile(
            value.instance_id,
            value.rack_id,
            value.client_id,
            value.client_host,
            value.rebalance_timeout_ms,
            value.topology_epoch,
            value.process_id,
            None if endpoint is None else (endpoint.host, endpoint.port),
            tuple(sorted((each.key, each.value) for each in value.client_tags)),
        ),
    )


def _replay_target_epoch(group: StreamsGroup, _: object, value: StreamsGroupTargetAssignmentMetadataValue | None) -> None:
    group.put_epochs(target_epoch=-1 if value is None else value.assignment_epoch)
    group.assigned_ms = 0 if value is None else value.assignment_timestamp


def _replay_target(
    group: StreamsGroup, key: StreamsGroupTargetAssignmentMemberKey, value: StreamsGroupTargetAssignmentMemberValue | None
) -> None:
    target = None
    if value is not None:
        target = Tasks(tasks_of(value.active_tasks), tasks_of(value.standby_tasks), tasks_of(value.warmup_tasks))
    group.put_target(key.member_id, target)


def _replay_current(
    group: StreamsGroup, key: StreamsGroupCurrentMemberAssignmentKey, value: StreamsGroupCurrentMemberAssignmentValue | None
) -> None:
    if value is None:
        group.forget_current(key.member_id)
        return
    epoch = value.member_epoch
    current = StreamsAssignment(
        epoch,
        value.previous_member_epoch,
        MemberState.of(value.state),
        _held(value.active_tasks, value.standby_tasks, value.warmup_tasks, epoch),
        _held(
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
            epoch,
        ),
    )
    group.put_current(key.member_id, current)


def _held(active: Iterable[_Ids], standby: Iterable[_Ids], warmup: Iterable[_Ids], member_epoch: int) -> HeldTasks:
    since: dict[Task, int] = {}
    for each in active:
        epochs = each.assignment_epochs or ()
        if len(epochs) != len(each.partitions):  # written by a broker that does not know them
            epochs = [member_epoch] * len(each.partitions)
        since.update(zip(((each.subtopology_id, partition) for partition in each.partitions), epochs, strict=True))
    return HeldTasks(since, tasks_of(standby), tasks_of(warmup))


_REPLAYS: Final[Mapping[int, Callable[..., None]]] = {
    StreamsGroupMetadataKey.KEY: _replay_metadata,
    StreamsGroupTopologyKey.KEY: _replay_topology,
    StreamsGroupMemberMetadataKey.KEY: _replay_profile,
    StreamsGroupTargetAssignmentMetadataKey.KEY: _replay_target_epoch,
    StreamsGroupTargetAssignmentMemberKey.KEY: _replay_target,
    StreamsGroupCurrentMemberAssignmentKey.KEY: _replay_current,
}
