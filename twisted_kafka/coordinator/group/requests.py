"""What the coordinator is asked, before a version of the protocol is left: who asks, and for what."""

from typing import NamedTuple

from twisted_kafka.coordinator.group.classic.classic_group_member import MemberTerms


class Sender(NamedTuple):
    """Who speaks for which group: a member in one of its generations or member epochs, or (with -1) somebody outside."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1


class JoinRequest(NamedTuple):
    """A JoinGroup; ``member_id`` is empty for one that has none yet."""

    group_id: str
    member_id: str
    instance_id: str | None
    terms: MemberTerms
    needs_known_id: bool
    """The version asks that an id is given out first and used in a second join (v4 and newer, dynamic members)."""
    can_skip_assignment: bool
    """A static leader that comes back to a stable group may be told to lead without assigning (v9)."""
    reason: str | None = None
    """Why the client joins, in its own words (v8, KIP-800)."""


class SyncRequest(NamedTuple):
    """A SyncGroup; ``protocol_type`` and ``protocol`` None: the member doesn't say what it thinks they are."""

    sender: Sender
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class LeavingMember(NamedTuple):
    """Who is to leave: a member id, an instance id with an empty member id, or both."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class Client(NamedTuple):
    """The client that a request came from, as records and tools show it."""

    client_id: str
    host: str
