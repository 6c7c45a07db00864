"""The streams group protocol: StreamsGroupHeartbeat requests (KIP-1071)."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from twisted.logger import Logger

from twisted_kafka.coordinator.append_errors import consumer_group_error
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord
from twisted_kafka.coordinator.effects import Effects, Write
from twisted_kafka.group_coordinator.modern.member_timers import INITIAL, REVOCATION, SESSION, MemberTimers
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import STATIC_LEAVE_EPOCH
from twisted_kafka.group_coordinator.state.group_kinds import tombstones
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.group_coordinator.state.streams import streams_group_records as records
from twisted_kafka.group_coordinator.state.streams.configured_topology import ConfiguredTopology, InternalTopic, Problem, Status
from twisted_kafka.group_coordinator.state.streams.streams_group import StreamsGroup
from twisted_kafka.group_coordinator.state.streams.streams_group_member import (
    MemberState,
    StreamsGroupMember,
    TaskOffsets,
)
from twisted_kafka.group_coordinator.state.streams.tasks import HELD_NOTHING, Task
from twisted_kafka.group_coordinator.state.streams.topology import NO_EPOCH
from twisted_kafka.group_coordinator.streams.heartbeat_validation import check_epoch, owned_tasks
from twisted_kafka.group_coordinator.streams.request_content import profile_of, reported_offsets, topology_record
from twisted_kafka.group_coordinator.streams.responses import partitions_by_endpoint, set_tasks
from twisted_kafka.group_coordinator.streams.streams_member_updater import StreamsChange, StreamsMemberUpdater, StreamsUpdate
from twisted_kafka.protocol.errors import (
    ErrorCode,
    FencedInstanceIdError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    KafkaError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from twisted_kafka.protocol.messages.streams.streams_groups import Status as StatusMessage
from twisted_kafka.protocol.messages.streams.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

_log = Logger()

Request = StreamsGroupHeartbeatRequest
Response = StreamsGroupHeartbeatResponse
T = TypeVar("T")

FENCE_RETRY_MS: Final = 500
"""How long after a failed write of a member's removal the next attempt follows (as in Kafka's CoordinatorRuntime)."""

CLIENT_TAGS_SINCE: Final = 1
"""The version of StreamsGroupHeartbeat whose clients know the status of missing client tags."""

_NOBODY: Final = ""
"""In the place of a member id: a timer of the whole group."""


class Heartbeat(NamedTuple):
    """The answer to a heartbeat, and what the broker has to do for it."""

    response: Response
    missing: tuple[InternalTopic, ...] = ()
    """Internal topics that have to be created."""
    undescribed_epoch: int = NO_EPOCH
    """The epoch of a topology that the plug-in has no description of."""


class StreamsGroupProtocol:
    """Handles StreamsGroupHeartbeat: members that join, stay or leave."""

    def __init__(self, store: GroupStore, environment: GroupEnvironment, effects: Effects) -> None:
        self._store = store
        self._environment = environment
        self._effects = effects
        self._timers = MemberTimers(effects.timers, environment.clock)
        self._updater = StreamsMemberUpdater(environment)

    def loaded(self) -> None:
        """Start the session and revocation timers of all members."""
        for group in self._store.streams_groups():
            for member in group.members.values():
                self._touch(group.group_id, member.member_id)
                self._time_revocation(group.group_id, member)

    def unloaded(self) -> None:
        """Stop the timers."""
        self._timers.close()

    def heartbeat(self, request: Request, client: Client, version: int) -> Heartbeat | Write[Heartbeat]:
        """Answer a heartbeat of a member that joins or stays.

        Raises GroupIdNotFoundError for a group of another type, or none that the member could be in; GroupMaxSizeReachedError;
        UnknownMemberIdError; FencedMemberEpochError; FencedInstanceIdError or UnreleasedInstanceIdError for a static member whose
        instance id another one has; and the errors of ``StreamsMemberUpdater.update``.
        """
        group, replaced = self._group(request.group_id, request.member_epoch == 0)
        change = self._change(group, request, client)
        update = self._updater.update(change)
        response = self._response(change, update, request, version)
        answer = Heartbeat(response, update.configured.missing, _undescribed(group, update))
        if request.shutdown_application and group.shutdown_by is None:
            _log.info("Group {group}: member {member} asks all to shut down", group=group.group_id, member=request.member_id)
            group.shutdown_by = request.member_id
        if not update.records:
            self._settle(group, change, update)
            return answer

        def completed(error: ErrorCode) -> Heartbeat:
            # The records may be in the log despite an error, if only the replicas did not confirm: the stored state decides.
            stored = self._store.streams(request.group_id)
            if stored is not None and request.member_id in stored.members:
                self._settle(stored, change, update)
            return Heartbeat(_failed(consumer_group_error(error))) if error else answer

        return Write([*replaced, *update.records], completed)

    # the group and the member

    def _group(self, group_id: str, joins: bool) -> tuple[StreamsGroup, list[CoordinatorRecord]]:
        """Return the group, and the tombstones of an empty classic group in its place."""
        group = self._store.streams(group_id)
        if group is not None:
            return group, []
        other = self._store.groups.get(group_id)
        if joins and (other is None or (isinstance(other, ClassicGroup) and other.is_empty())):
            return StreamsGroup(group_id), [] if other is None else tombstones(other)
        if other is not None:
            raise GroupIdNotFoundError(f"Group {group_id} is not a streams group.")
        raise GroupIdNotFoundError(f"Streams group {group_id} not found.")

    def _change(self, group: StreamsGroup, request: Request, client: Client) -> StreamsChange:
        joins = request.member_epoch == 0
        static = group.static_member(request.instance_id)
        if joins and static is None:
            self._check_room(group, request.member_id)
        owned = owned_tasks(request)
        old = group.members.get(request.member_id)
        if request.instance_id is not None and (static is not None or not joins):
            old = _static(group, static, request)
        if joins:
            if old is not None and old is static and old.current.epoch != STATIC_LEAVE_EPOCH:
                raise UnreleasedInstanceIdError(
                    f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because the "
                    f"instance id is owned by {old.member_id} member."
                )
        elif old is None:
            raise UnknownMemberIdError(f"Member {request.member_id} is not a member of group {group.group_id}.")
        else:
            check_epoch(old.current, request.member_epoch, owned)
        return StreamsChange(
            group,
            old,
            request.member_id,
            profile_of(request, client, None if old is None else old.profile),
            topology_record(request.topology),
            owned,
            reported_offsets(request, group.offsets.get(request.member_id)),
            replaces=joins and old is not None and old is static,
            is_delayed=self._is_delayed(group),
        )

    def _check_room(self, group: StreamsGroup, member_id: str) -> None:
        limit = self._environment.config.streams_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise GroupMaxSizeReachedError(f"The streams group has reached its maximum capacity of {limit} members.")

    # the first assignment of a group

    def _is_delayed(self, group: StreamsGroup) -> bool:
        """Return whether a group that had no members still waits for others; the first member starts that time."""
        group_id = group.group_id
        if group.is_empty():
            delay_ms = self._environment.group_config_manager.number(group_id, "streams.initial.rebalance.delay.ms")
            if delay_ms > 0:
                self._timers.set_if_absent(INITIAL, group_id, _NOBODY, delay_ms, lambda: self._assign_at_last(group_id))
        return self._timers.is_set(INITIAL, group_id, _NOBODY)

    def _assign_at_last(self, group_id: str) -> None:
        """Compute the first target assignment; if that fails, the next heartbeat does it."""
        group = self._store.streams(group_id)
        if group is None or not group.members or group.configured is None or group.epoch <= group.target_epoch:
            return
        written: list[CoordinatorRecord] = []
        try:
            self._updater.assign(group, group.epoch, group.members, group.offsets, group.target, group.configured, written)
        except KafkaError as error:
            _log.warn("Group {group}: no first assignment: {error}", group=group_id, error=error)
            return

        def completed(error: ErrorCode) -> None:
            if error:
                _log.warn("Group {group}: failed to write the first assignment: {error}", group=group_id, error=error.name)

        self._effects.writes.append(Write(written, completed))

    # the answer

    def _response(self, change: StreamsChange, update: StreamsUpdate, request: Request, version: int) -> Response:
        group, member = change.group, update.member
        number = self._environment.group_config_manager.number
        response = Response(
            member_id=member.member_id,
            member_epoch=member.current.epoch,
            heartbeat_interval_ms=number(group.group_id, "streams.heartbeat.interval.ms"),
            task_offset_interval_ms=number(group.group_id, "streams.task.offset.interval.ms"),
            acceptable_recovery_lag=number(group.group_id, "streams.acceptable.recovery.lag"),
        )
        has_new_tasks = member.current.assigned != change.start.assigned
        if request.member_epoch == 0 or has_new_tasks or _missed_an_answer(change, request.member_epoch):
            set_tasks(response, member.current.assigned)
        has_moved = change.old_profile.endpoint != member.profile.endpoint
        if has_moved or (has_new_tasks and member.profile.endpoint is not None):
            group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            superseded = {member.member_id} if change.old is None else {member.member_id, change.old.member_id}
            snapshot = self._environment.topics.snapshot
            response.partitions_by_user_endpoint = partitions_by_endpoint(group, member, superseded, update.configured, snapshot)
        if group.group_id in self._store.groups:
            response.endpoint_information_epoch = group.endpoint_epoch
        statuses = _statuses(group, update, request, version)
        response.status = [StatusMessage(status_code=int(each.status), status_detail=each.detail) for each in statuses]
        return response

    # after the change

    def _settle(self, group: StreamsGroup, change: StreamsChange, update: StreamsUpdate) -> None:
        """Keep the volatile results of a change, and set the member's timers."""
        group_id, member_id = group.group_id, change.member_id
        if group.topology == update.topology:
            group.put_configured(update.configured)
        if change.offsets is not None:
            group.offsets[member_id] = _of_existing_tasks(change.offsets, update.configured)
        if change.replaces and change.old is not None and change.old.member_id != member_id:
            self._timers.forget(group_id, change.old.member_id)
        self._touch(group_id, member_id)
        if update.member.current != change.start:
            self._time_revocation(group_id, group.members[member_id])

    def _touch(self, group_id: str, member_id: str) -> None:
        """Restart a member's session."""
        timeout_ms = self._environment.group_config_manager.number(group_id, "streams.session.timeout.ms")
        self._timers.touch(
            group_id, member_id, timeout_ms, lambda: self._fence(SESSION, group_id, member_id, "its session expired")
        )

    def _time_revocation(self, group_id: str, member: StreamsGroupMember) -> None:
        """Set or cancel a member's revocation timer."""
        current, member_id = member.current, member.member_id
        if current.state is not MemberState.UNREVOKED_TASKS:
            self._timers.cancel(REVOCATION, group_id, member_id)
            return

        def too_late() -> None:
            group = self._store.streams(group_id)
            present = None if group is None else group.members.get(member_id)
            if present is not None and present.current.epoch == current.epoch:
                self._fence(REVOCATION, group_id, member_id, "it did not revoke its tasks in time")

        self._timers.set(REVOCATION, group_id, member_id, member.profile.rebalance_timeout_ms, too_late)

    # leaving

    def leave(self, request: Request) -> Write[Heartbeat]:
        """Remove a member, or mark a static member as temporarily absent.

        Raises GroupIdNotFoundError, UnknownMemberIdError, or FencedInstanceIdError if another member has its instance id.
        """
        group_id, member_id = request.group_id, request.member_id
        group = self._store.streams(group_id)
        if group is None:
            other = group_id in self._store.groups
            raise GroupIdNotFoundError(f"Group {group_id} is not a streams group." if other else f"Group {group_id} not found.")
        member = group.members.get(member_id)
        if request.instance_id is not None:
            member = _static(group, group.static_member(request.instance_id), request)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {group_id}.")
        if request.shutdown_application and group.shutdown_by is None:
            group.shutdown_by = member_id
        response = Response(member_id=member_id, member_epoch=request.member_epoch)

        def answer(error: ErrorCode) -> Heartbeat:
            return Heartbeat(_failed(error) if error else response)

        if request.member_epoch != STATIC_LEAVE_EPOCH:
            return self._remove(group, member_id, "it left", answer)
        assigned = member.current.assigned
        away = member.current._replace(
            epoch=STATIC_LEAVE_EPOCH,
            assigned=assigned._replace(active=dict.fromkeys(assigned.active, 0)),
            revoking=HELD_NOTHING,
        )

        def completed(error: ErrorCode) -> Heartbeat:
            if not error:
                self._timers.cancel(REVOCATION, group_id, member_id)
            return answer(consumer_group_error(error))

        return Write([records.member_current(group_id, member_id, away)], completed)

    def _remove(self, group: StreamsGroup, member_id: str, reason: str, answer: Callable[[ErrorCode], T]) -> Write[T]:
        """Return the write that removes a member; ``answer`` returns the response for the outcome."""
        group_id = group.group_id
        _log.info("Group {group}: removing member {member}: {reason}", group=group_id, member=member_id, reason=reason)
        epoch = group.epoch + 1
        written = [*records.TYPES.member_removed(group_id, member_id), records.group_metadata(group_id, epoch, group.basis)]
        if len(group.members) == 1:
            written.append(records.target_epoch(group_id, epoch, 0))

        def completed(error: ErrorCode) -> T:
            if not error:
                self._timers.forget(group_id, member_id)
            return answer(consumer_group_error(error))

        return Write(written, completed)

    def _fence(self, kind: str, group_id: str, member_id: str, reason: str) -> None:
        """Remove a member whose timer of this kind has run out, if it is still in the group; try again soon if that fails."""
        group = self._store.streams(group_id)
        if group is None or member_id not in group.members:
            self._timers.forget(group_id, member_id)
            return

        def answer(error: ErrorCode) -> None:
            if error:
                _log.warn("Group {group}: failed to write a member's fencing: {error}", group=group_id, error=error.name)
                self._timers.set(kind, group_id, member_id, FENCE_RETRY_MS, lambda: self._fence(kind, group_id, member_id, reason))

        self._effects.writes.append(self._remove(group, member_id, reason, answer))


def _static(group: StreamsGroup, static: StreamsGroupMember | None, request: Request) -> StreamsGroupMember:
    """Return the member with the instance id. Raises UnknownMemberIdError, and FencedInstanceIdError if it is another one."""
    if static is None:
        raise UnknownMemberIdError(f"Instance id {request.instance_id} is unknown.")
    if request.member_epoch != 0 and static.member_id != request.member_id:
        raise FencedInstanceIdError(
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member {static.member_id}."
        )
    return static


def _of_existing_tasks(offsets: TaskOffsets, configured: ConfiguredTopology) -> TaskOffsets:
    """Return offsets without those of tasks that the topology does not have: a member may report any number."""
    counts = {subtopology_id: each.task_count for subtopology_id, each in configured.ready.items()}

    def known(reported: dict[Task, int]) -> dict[Task, int]:
        return {task: offset for task, offset in reported.items() if 0 <= task[1] < counts.get(task[0], 0)}

    return TaskOffsets(known(offsets.positions), known(offsets.ends))


def _missed_an_answer(change: StreamsChange, epoch: int) -> bool:
    """Return whether the member seems not to know its tasks: it names an old epoch, or reports other tasks."""
    return epoch != change.start.epoch or (change.owned is not None and change.owned != change.start.assigned.tasks)


def _undescribed(group: StreamsGroup, update: StreamsUpdate) -> int:
    """Return the epoch of the topology if the member has it and could describe it, otherwise NO_EPOCH."""
    epoch, basis = update.topology.epoch, group.basis
    is_known = epoch in (basis.stored_description_epoch, basis.failed_description_epoch)
    is_stale = any(each.status is Status.STALE_TOPOLOGY for each in update.statuses)
    return NO_EPOCH if is_known or is_stale else epoch


def _statuses(group: StreamsGroup, update: StreamsUpdate, request: Request, version: int) -> list[Problem]:
    found = list(update.statuses)
    if update.configured.problem is not None:
        found.append(update.configured.problem)
    if request.shutdown_application or group.shutdown_by is not None:
        detail = (
            f"Streams group member {group.shutdown_by or request.member_id} encountered a fatal error and requested a shutdown for "
            "the entire application."
        )
        found.append(Problem(Status.SHUTDOWN_APPLICATION, detail))
    tags = dict(update.member.profile.client_tags)
    lacking = [tag for tag in update.rack_aware_tags if tag not in tags]
    if lacking and version >= CLIENT_TAGS_SINCE:
        detail = (
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(lacking)}]. Configure them via "
            "'client.tag.<tagKey>' in your Streams config."
        )
        found.append(Problem(Status.MISSING_CLIENT_TAGS, detail))
    return found


def _failed(error: ErrorCode) -> Response:
    return Response(error_code=error, error_message="Failed to write the change of the group.")
