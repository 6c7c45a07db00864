"""The share group protocol: ShareGroupHeartbeat requests (KIP-932)."""

from collections.abc import Callable
from typing import TypeVar

from twisted.logger import Logger

from twisted_kafka.coordinator.append_errors import consumer_group_error
from twisted_kafka.coordinator.effects import Effects, Write
from twisted_kafka.group_coordinator.modern.member_timers import SESSION, MemberTimers
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.share.share_member_updater import ShareChange, ShareMemberUpdater
from twisted_kafka.group_coordinator.share.share_partition_manager import SharePartitionManager
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import LEAVE_EPOCH, Partitions
from twisted_kafka.group_coordinator.state.group_store import GroupStore
from twisted_kafka.group_coordinator.state.share import share_group_records as records
from twisted_kafka.group_coordinator.state.share.share_group import ShareAssignment, ShareGroup, ShareGroupMember, ShareProfile
from twisted_kafka.protocol.errors import (
    ErrorCode,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    UnknownMemberIdError,
)
from twisted_kafka.protocol.messages.share.share_groups import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
    ShareGroupHeartbeatResponseTopicPartitions,
)

_log = Logger()

Response = ShareGroupHeartbeatResponse
T = TypeVar("T")

FENCE_RETRY_MS = 500
"""How long after a failed write of a member's removal the next attempt follows (as in Kafka's CoordinatorRuntime)."""


def check_share_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Raise InvalidRequestError for a request that is invalid for any group."""
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise InvalidRequestError(f"{name} can't be empty.")
    if request.member_epoch == 0:
        if not request.subscribed_topic_names:
            raise InvalidRequestError("SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVE_EPOCH:
        raise InvalidRequestError("MemberEpoch is invalid.")


class ShareGroupProtocol:
    """Handles ShareGroupHeartbeat: members that join, stay or leave."""

    def __init__(
        self, store: GroupStore, environment: GroupEnvironment, effects: Effects, partitions: SharePartitionManager
    ) -> None:
        self._store = store
        self._environment = environment
        self._effects = effects
        self._partitions = partitions
        self._timers = MemberTimers(effects.timers, environment.clock)
        self._updater = ShareMemberUpdater(environment)

    def loaded(self) -> None:
        """Start the sessions of all members."""
        for group in self._store.share_groups():
            for member_id in group.members:
                self._touch(group.group_id, member_id)

    def unloaded(self) -> None:
        """Stop the timers."""
        self._timers.close()

    def heartbeat(self, request: ShareGroupHeartbeatRequest, client: Client) -> Response | Write[Response]:
        """Answer a heartbeat of a member that joins or stays.

        Raises GroupIdNotFoundError for a group of another type, or none that the member could be in; GroupMaxSizeReachedError;
        UnknownMemberIdError; FencedMemberEpochError; UnknownServerError if the assignor fails.
        """
        joins = request.member_epoch == 0
        group = self._group(request.group_id, joins)
        group_id, member_id = group.group_id, request.member_id
        self._check_room(group, member_id)
        old = _member(group, request)
        change = ShareChange(group, old, member_id, _profile(request, client, old))
        update = self._updater.update(change)
        current = update.member.current
        response = Response(
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self._environment.group_config_manager.number(group_id, "share.heartbeat.interval.ms"),
        )
        is_full = joins or request.subscribed_topic_names is not None
        if is_full or old is None or current.assigned != old.current.assigned:
            response.assignment = _assignment(current.assigned)
        wanted = self._partitions.wanted(group, update.topics, update.snapshot)
        written = [*update.records, *self._partitions.asking(group, wanted, update.snapshot)]
        if not written:
            group.seen = update.snapshot
            self._touch(group_id, member_id)
            return response

        def completed(error: ErrorCode) -> Response:
            stored = self._store.share(group_id)
            if stored is not None and member_id in stored.members:
                self._touch(group_id, member_id)
            if error or stored is None:
                return _failed(consumer_group_error(error))
            stored.seen = update.snapshot
            self._partitions.initialize(group_id, wanted, update.epoch)
            return response

        return Write(written, completed)

    def _group(self, group_id: str, joins: bool) -> ShareGroup:
        group = self._store.share(group_id)
        if group is not None:
            return group
        if group_id in self._store.groups:
            raise GroupIdNotFoundError(f"Group {group_id} is not a share group.")
        if not joins:
            raise GroupIdNotFoundError(f"Share group {group_id} not found.")
        return ShareGroup(group_id)

    def _check_room(self, group: ShareGroup, member_id: str) -> None:
        limit = self._environment.config.share_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise GroupMaxSizeReachedError(f"The share group has reached its maximum capacity of {limit} members.")

    # leaving

    def leave(self, request: ShareGroupHeartbeatRequest) -> Write[Response]:
        """Remove a member. Raises GroupIdNotFoundError, UnknownMemberIdError."""
        group_id, member_id = request.group_id, request.member_id
        group = self._store.share(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        if member_id not in group.members:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {group_id}.")
        response = Response(member_id=member_id, member_epoch=request.member_epoch)
        return self._remove(group, member_id, "it left", lambda error: _failed(error) if error else response)

    def _remove(self, group: ShareGroup, member_id: str, reason: str, answer: Callable[[ErrorCode], T]) -> Write[T]:
        """Return the write that removes a member; ``answer`` returns the response for the outcome."""
        group_id = group.group_id
        _log.info("Group {group}: removing member {member}: {reason}", group=group_id, member=member_id, reason=reason)
        epoch = group.epoch + 1
        metadata_hash = self._updater.hash_without(group, member_id)
        written = [*records.TYPES.member_removed(group_id, member_id), records.group_epoch(group_id, epoch, metadata_hash)]
        if len(group.members) == 1:
            written.append(records.target_epoch(group_id, epoch, 0))

        def completed(error: ErrorCode) -> T:
            if not error:
                self._timers.forget(group_id, member_id)
            return answer(consumer_group_error(error))

        return Write(written, completed)

    def _touch(self, group_id: str, member_id: str) -> None:
        """Restart a member's session."""
        timeout_ms = self._environment.group_config_manager.number(group_id, "share.session.timeout.ms")
        self._timers.touch(group_id, member_id, timeout_ms, lambda: self._fence(group_id, member_id))

    def _fence(self, group_id: str, member_id: str) -> None:
        """Remove a member whose session has expired, if it is still in the group; try again soon if that fails."""
        group = self._store.share(group_id)
        if group is None or member_id not in group.members:
            self._timers.forget(group_id, member_id)
            return

        def answer(error: ErrorCode) -> None:
            if error:
                _log.warn("Group {group}: failed to write a member's fencing: {error}", group=group_id, error=error.name)
                self._timers.set(SESSION, group_id, member_id, FENCE_RETRY_MS, lambda: self._fence(group_id, member_id))

        self._effects.writes.append(self._remove(group, member_id, "its session expired", answer))


def _member(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareGroupMember | None:
    """Return the stored member, None if it joins. Raises UnknownMemberIdError, FencedMemberEpochError."""
    member = group.members.get(request.member_id)
    if member is not None:
        _check_epoch(member.current, request.member_epoch)
    elif request.member_epoch != 0:
        raise UnknownMemberIdError(f"Member {request.member_id} is not a member of group {group.group_id}.")
    return member


def _check_epoch(current: ShareAssignment, epoch: int) -> None:
    """Raise FencedMemberEpochError unless ``epoch`` is the current one, the previous one, or 0, which rejoins.

    The previous epoch is valid, as the response with the current one may have been lost.
    """
    if epoch not in (0, current.epoch, current.previous_epoch):
        relation = "greater" if epoch > current.epoch else "smaller"
        raise FencedMemberEpochError(
            f"Member epoch {epoch} is {relation} than {current.epoch}, the one known to the coordinator. The member must give up "
            "its partitions and rejoin."
        )


def _profile(request: ShareGroupHeartbeatRequest, client: Client, old: ShareGroupMember | None) -> ShareProfile:
    """Return the member's profile; fields that the request omits keep their old values."""
    known = ShareProfile() if old is None else old.profile
    names = request.subscribed_topic_names
    return ShareProfile(
        known.rack_id if request.rack_id is None else request.rack_id,
        client.client_id,
        client.host,
        known.topics if names is None else frozenset(names),
    )


def _assignment(partitions: Partitions) -> ShareGroupHeartbeatResponseAssignment:
    return ShareGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ShareGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in sorted(partitions.items())
        ]
    )


def _failed(error: ErrorCode) -> Response:
    return Response(error_code=error, error_message="Failed to write the change of the group.")
