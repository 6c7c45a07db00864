"""A member of a classic group."""

from collections.abc import Container
from concurrent.futures import Future
from typing import NamedTuple

from twisted_kafka.coordinator.effects import ShardTimer
from twisted_kafka.group_coordinator.results import JoinResult, SyncResult

Protocols = tuple[tuple[str, bytes], ...]


class MemberTerms(NamedTuple):
    """A member's own description, sent with each JoinGroup; times in milliseconds."""

    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols


class ClassicGroupMember:
    """A member with its assignment, its parked requests and its session deadline."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "deadline_ns",
        "instance_id",
        "is_new",
        "member_id",
        "session_timeout_ns",
        "session_timer",
        "terms",
    )

    def __init__(self, member_id: str, instance_id: str | None, terms: MemberTerms) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.terms = terms
        self.session_timeout_ns = terms.session_timeout_ms * 1_000_000
        self.assignment = b""
        self.awaiting_join: Future[JoinResult] | None = None
        self.awaiting_sync: Future[SyncResult] | None = None
        self.is_new = False
        self.deadline_ns = 0
        self.session_timer: ShardTimer | None = None

    def use_terms(self, terms: MemberTerms) -> None:
        """Take over the timeouts and protocols of a newer join."""
        self.terms = terms
        self.session_timeout_ns = terms.session_timeout_ms * 1_000_000

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for ``protocol``. Raises KeyError if the member does not support it."""
        for name, metadata in self.terms.protocols:
            if name == protocol:
                return metadata
        raise KeyError(f"member {self.member_id} does not support protocol {protocol!r}")

    def vote(self, candidates: Container[str]) -> str | None:
        """Return the member's first protocol that is among the candidates."""
        return next((name for name, _ in self.terms.protocols if name in candidates), None)

    def cancel_timer(self) -> None:
        """Cancel the session timer."""
        if self.session_timer is not None:
            self.session_timer.cancel()
            self.session_timer = None
