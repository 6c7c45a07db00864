"""Requests to the group coordinator, independent of the protocol's versions."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from twisted_kafka.group_coordinator.state.classic_group_member import MemberTerms


class Sender(NamedTuple):
    """The sender of a request for a group: a member in a generation or member epoch; generation -1: not a member."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1


class JoinRequest(NamedTuple):
    """A JoinGroup; ``member_id`` is empty for a member that has no id yet."""

    group_id: str
    member_id: str
    instance_id: str | None
    terms: MemberTerms
    needs_known_id: bool
    """The first join must be refused with an id to use in the next one (v4 and newer, dynamic members; KIP-394)."""
    can_skip_assignment: bool
    """The response may ask a static leader that rejoins a stable group to skip the assignment (v9, KIP-814)."""
    reason: str | None = None
    """The reason the client gives for joining (v8, KIP-800)."""


class SyncRequest(NamedTuple):
    """A SyncGroup; ``protocol_type`` and ``protocol`` are None if the request does not contain them."""

    sender: Sender
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class LeavingMember(NamedTuple):
    """A member to remove, by member id, by instance id with an empty member id, or by both."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


Describable = Callable[[Collection[str]], Collection[str]]
"""Returns the topics, among those given, that a client may describe."""


class Client(NamedTuple):
    """The client of a request, as stored in records and shown by tools."""

    client_id: str
    host: str
    describable: Describable | None = None
    """Selects the topics that the member's regular expressions may match; None: every topic."""
