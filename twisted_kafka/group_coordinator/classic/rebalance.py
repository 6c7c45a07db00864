"""A classic group's rebalances: prepare, wait for joins, start a generation, store the assignment; sessions and timeouts.

PreparingRebalance ends when all members have joined or after the rebalance timeout. An Empty group waits
``group.initial.rebalance.delay.ms`` instead, and again while new members keep joining (KIP-134), up to the rebalance timeout.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.coordinator.append_errors import group_store_error
from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.group_coordinator.group_records import group_metadata
from twisted_kafka.group_coordinator.results import JoinResult, SyncResult
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.shared.group_coordinator_config import NEW_MEMBER_JOIN_TIMEOUT_MS
from twisted_kafka.group_coordinator.state.classic_group import ClassicGroup
from twisted_kafka.group_coordinator.state.classic_group_member import ClassicGroupMember, MemberTerms
from twisted_kafka.group_coordinator.state.classic_group_state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    may_follow,
)
from twisted_kafka.protocol.errors import ErrorCode

_log = Logger()

NS_PER_MS = 1_000_000

MAX_PENDING_BYTES: Final = 3_145_728
"""Memory of a shard's member ids that were given out and not used yet, about 2,000 of them. A client uses its id at once."""
PENDING_BYTES: Final = 1_500
"""The memory of a pending member id besides its text, if it has a group of its own."""

LEAST_WAIT_FOR_STATIC_MS: Final = 1_000
"""How long a group waits at least for static members that are away before it looks again: their rebalance timeout may be 0."""


class _Pending(NamedTuple):
    group: ClassicGroup
    member_id: str
    size_bytes: int


class Rebalancer:
    """Performs the state transitions of groups, and sets their timers."""

    def __init__(self, effects: Effects, environment: GroupEnvironment, drop_if_unused: Callable[[str], None]) -> None:
        """``drop_if_unused`` removes the group with an id if it has nothing stored and nobody is about to join."""
        self._effects = effects
        self._drop_if_unused = drop_if_unused
        self._pending: deque[_Pending] = deque()
        """Member ids in the order in which they were given out, used ones too."""
        self._pending_bytes = 0
        self._clock = environment.clock
        self._config = environment.config
        self._metrics = environment.metrics

    # parked requests

    def park_join(self, group: ClassicGroup, member: ClassicGroupMember) -> "Future[JoinResult]":
        """Park a member's JoinGroup until the rebalance ends."""
        parked: Future[JoinResult] = Future()
        if member.awaiting_join is None:
            group.awaiting_joins += 1
        else:  # the first of two requests must be answered, too, though its connection is probably closed
            self._effects.reply(member.awaiting_join, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.awaiting_join = parked
        return parked

    def park_sync(self, member: ClassicGroupMember) -> "Future[SyncResult]":
        """Park a member's SyncGroup until the leader's assignment is stored."""
        parked: Future[SyncResult] = Future()
        if member.awaiting_sync is not None:
            self._effects.reply(member.awaiting_sync, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = parked
        return parked

    def answer_join(self, group: ClassicGroup, member: ClassicGroupMember, result: JoinResult) -> None:
        """Answer a member's parked JoinGroup, if there is one."""
        if member.awaiting_join is not None:
            group.awaiting_joins -= 1
            self._effects.reply(member.awaiting_join, result)
            member.awaiting_join = None

    def answer_sync(self, member: ClassicGroupMember, result: SyncResult) -> None:
        """Answer a member's parked SyncGroup, if there is one."""
        if member.awaiting_sync is not None:
            self._effects.reply(member.awaiting_sync, result)
            member.awaiting_sync = None

    def abandon(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Close a group and answer its parked requests with ``error``: it was converted or is no longer on this broker."""
        for member in group.close():
            self.answer_join(group, member, JoinResult(error, member.member_id))
            self.answer_sync(member, SyncResult(error))

    # members

    def add_member(self, group: ClassicGroup, member_id: str, instance_id: str | None, terms: MemberTerms) -> "Future[JoinResult]":
        """Add a new member and rebalance."""
        member = ClassicGroupMember(member_id, instance_id, terms)
        member.is_new = True
        if group.state is PREPARING_REBALANCE and group.generation == 0:
            group.new_member_added = True
        group.drop_pending(member_id)
        group.add(member)
        parked = self.park_join(group, member)
        self._watch(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS * NS_PER_MS)
        self.maybe_prepare(group, f"adding member {member_id}")
        return parked

    def rejoin(self, group: ClassicGroup, member: ClassicGroupMember, terms: MemberTerms) -> "Future[JoinResult]":
        """Let a known member rejoin with new terms, and rebalance."""
        group.use_terms(member, terms)
        parked = self.park_join(group, member)
        self.maybe_prepare(group, f"rejoining member {member.member_id}")
        return parked

    def remove_member(self, group: ClassicGroup, member: ClassicGroupMember, reason: str) -> None:
        """Remove a member, answer its parked requests, and rebalance the others."""
        self.answer_join(group, member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        self.answer_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        if group.state is PREPARING_REBALANCE:
            self.try_complete_join(group)
        elif group.state is STABLE or group.state is COMPLETING_REBALANCE:
            self.maybe_prepare(group, reason)

    def remove_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Forget a pending member id; a rebalance may have been waiting for it."""
        group.drop_pending(member_id)
        if group.state is PREPARING_REBALANCE:
            self.try_complete_join(group)
        elif group.state is EMPTY:
            self._drop_if_unused(group.group_id)

    def await_pending(self, group: ClassicGroup, member_id: str, session_timeout_ms: int) -> None:
        """Keep a new member id until the member joins with it, or its session times out.

        If very many others are assigned, it may be dropped earlier: the member then asks for another id.
        """

        def expired() -> None:
            _log.info("Group {group}: pending member {member} expired", group=group.group_id, member=member_id)
            self.remove_pending(group, member_id)

        group.pending_members[member_id] = self._effects.timers.after("pending member", session_timeout_ms, expired)
        size_bytes = PENDING_BYTES + len(member_id) + len(group.group_id)
        self._pending.append(_Pending(group, member_id, size_bytes))
        self._pending_bytes += size_bytes
        while self._pending_bytes > MAX_PENDING_BYTES and len(self._pending) > 1:
            oldest = self._pending.popleft()
            self._pending_bytes -= oldest.size_bytes
            if oldest.member_id in oldest.group.pending_members:
                self.remove_pending(oldest.group, oldest.member_id)

    # sessions

    def touch(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Restart a member's session."""
        member.deadline_ns = self._clock.monotonic_ns() + member.session_timeout_ns
        if member.session_timer is None:
            self._watch(group, member, member.session_timeout_ns)

    def start_session(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Restart a member's session and its timer: the timeout may have become shorter."""
        self._watch(group, member, member.session_timeout_ns)

    def _watch(self, group: ClassicGroup, member: ClassicGroupMember, timeout_ns: int) -> None:
        member.deadline_ns = self._clock.monotonic_ns() + timeout_ns
        member.cancel_timer()
        self._set_session_timer(group, member, timeout_ns)

    def _set_session_timer(self, group: ClassicGroup, member: ClassicGroupMember, delay_ns: int) -> None:
        member.session_timer = self._effects.timers.after(
            "session", delay_ns / NS_PER_MS, lambda: self._check_session(group, member)
        )

    def _check_session(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Expire the session, or set the timer again if heartbeats have moved the deadline since it was set."""
        member.session_timer = None
        if group.state is DEAD or group.members.get(member.member_id) is not member:
            return
        if not member.is_new and (member.awaiting_join is not None or member.awaiting_sync is not None):
            self._set_session_timer(group, member, member.session_timeout_ns)
            return
        left_ns = member.deadline_ns - self._clock.monotonic_ns()
        if left_ns > 0:
            self._set_session_timer(group, member, left_ns)
            return
        _log.info(
            "Group {group}: member {member} at {client} has failed, no heartbeat within its session timeout",
            group=group.group_id,
            member=member.member_id,
            client=member.terms.client_host,
        )
        self.remove_member(group, member, f"session of {member.member_id} expired")

    # rebalances

    def maybe_prepare(self, group: ClassicGroup, reason: str) -> None:
        """Start a rebalance; if the group is already preparing one, complete it if all members have joined."""
        if may_follow(group.state, PREPARING_REBALANCE):
            self.prepare(group, reason)
        elif group.state is PREPARING_REBALANCE:
            self.try_complete_join(group)

    def prepare(self, group: ClassicGroup, reason: str) -> None:
        """Start a rebalance: all members have to rejoin."""
        if group.state is COMPLETING_REBALANCE:
            self.fail_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._cancel_sync_timer(group)
        was_empty = group.state is EMPTY
        group.move_to(PREPARING_REBALANCE, self._clock.wall_ms())
        _log.info(
            "Group {group}: preparing to rebalance, generation {generation}: {reason}",
            group=group.group_id,
            generation=group.generation,
            reason=reason,
        )
        if was_empty:
            delay_ms = self._config.initial_rebalance_delay_ms
            self._wait_for_first_members(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        else:
            self._wait_for_members(group)
            self.try_complete_join(group)

    def _wait_for_first_members(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        if delay_ms <= 0:
            self._complete_join(group)
            return

        def delay_over() -> None:
            group.join_timer = None
            if group.state is not PREPARING_REBALANCE:
                return
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                more_ms = min(self._config.initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_first_members(group, more_ms, max(remaining_ms - more_ms, 0))
            else:
                self._complete_join(group)

        group.join_timer = self._effects.timers.after("initial rebalance delay", delay_ms, delay_over)
        group.initial_delay = True

    def _wait_for_members(self, group: ClassicGroup, least_ms: int = 0) -> None:
        def timed_out() -> None:
            group.join_timer = None
            if group.state is PREPARING_REBALANCE:
                self._complete_join(group)

        group.join_timer = self._effects.timers.after("rebalance", max(group.rebalance_timeout_ms, least_ms), timed_out)
        group.initial_delay = False

    def try_complete_join(self, group: ClassicGroup) -> None:
        """Complete the join phase if all members have joined (the initial delay always lasts its full time)."""
        if group.state is PREPARING_REBALANCE and not group.initial_delay and group.all_joined():
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
        if group.join_timer is not None:
            group.join_timer.cancel()
            group.join_timer = None
        for member in group.not_rejoined():
            if member.instance_id is None:
                _log.info("Group {group}: member {member} did not rejoin", group=group.group_id, member=member.member_id)
                group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():  # only static members, and all are away: wait for their sessions
            self._wait_for_members(group, LEAST_WAIT_FOR_STATIC_MS)
            return
        group.next_generation(self._clock.wall_ms())
        self._metrics.rebalance_completed()
        _log.info(
            "Group {group}: generation {generation} has {count} members",
            group=group.group_id,
            generation=group.generation,
            count=len(group.members),
        )
        if group.members:
            self._answer_joins(group)
        else:
            self._effects.write([group_metadata(group.group_id, group.to_value({}))], self._empty_group_stored)

    def _answer_joins(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            if member.awaiting_join is not None:
                self.answer_join(group, member, self.joined(group, member))
            member.is_new = False
            self.start_session(group, member)
        group.pending_sync.update(group.members)
        generation = group.generation
        group.sync_timer = self._effects.timers.after(
            "sync", group.rebalance_timeout_ms, lambda: self._sync_timed_out(group, generation)
        )

    def joined(self, group: ClassicGroup, member: ClassicGroupMember) -> JoinResult:
        """Return the join result of a member of the current generation."""
        leads = group.leader == member.member_id
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader or "",
            False,
            group.joined_members() if leads else (),
        )

    def _empty_group_stored(self, error: ErrorCode) -> None:
        if error:  # after a restart, the old members are loaded from the log and their sessions expire
            _log.warn("Failed to write an empty group's metadata: {error}", error=error.name)

    # assignments

    def store_assignment(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Write the leader's assignment; once it is committed, answer the parked SyncGroups with it."""
        generation = group.generation

        def stored(error: ErrorCode) -> None:
            # A join may have started the next rebalance during the write.
            if group.state is not COMPLETING_REBALANCE or group.generation != generation:
                return
            if error:
                self.fail_assignment(group, group_store_error(error))
                self.maybe_prepare(group, f"storing the assignment failed with {error.name}")
            else:
                group.move_to(STABLE, self._clock.wall_ms())
                self._propagate(group, ErrorCode.NONE)

        self._effects.write([group_metadata(group.group_id, group.to_value(assignments))], stored)

    def fail_assignment(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Clear all assignments and answer every parked SyncGroup with ``error``."""
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error)

    def _propagate(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            if member.awaiting_sync is None:
                continue
            if error:
                self.answer_sync(member, SyncResult(error))
            else:
                self.answer_sync(member, SyncResult(error, group.protocol_type, group.protocol, member.assignment))
            self.touch(group, member)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """Note that a member has sent its SyncGroup."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._cancel_sync_timer(group)

    def _cancel_sync_timer(self, group: ClassicGroup) -> None:
        if group.sync_timer is not None:
            group.sync_timer.cancel()
            group.sync_timer = None

    def _sync_timed_out(self, group: ClassicGroup, generation: int) -> None:
        group.sync_timer = None
        if group.generation != generation or group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_sync:
            return
        late = list(group.pending_sync)
        for member_id in late:
            group.remove(member_id)
        self.maybe_prepare(group, f"{len(late)} members did not sync in time")
