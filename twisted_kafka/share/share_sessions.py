"""Share sessions: a member sends its partitions once to each broker, and later requests name only changes (KIP-932).

How a request's session epoch is handled; a session belongs to a group and a member:

    epoch 0            ShareFetch: forget the session, start a new one      ShareAcknowledge: INVALID_SHARE_SESSION_EPOCH
    epoch -1           end the session after the request; the records that the member still has are released
    its epoch          add and remove partitions
    other epoch        INVALID_SHARE_SESSION_EPOCH
    no session         SHARE_SESSION_NOT_FOUND

Epochs are 1, 2, ..., 2^31-1, then 1 again. A session ends with its connection.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import (
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)
from twisted_kafka.system import machine

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MOST_PARTITIONS: Final = 200_000
"""Most partitions of all sessions together: each takes some 200 bytes."""
MOST_KEY_CHARACTERS: Final = 4 * 1024 * 1024
"""Most characters of the group and member ids of all sessions together: a client chooses each up to 32,767 bytes."""
TYPE: Final = "ShareSessionCache"

_MAX_INT: Final = 2**31 - 1

PartitionId = tuple[bytes, int]
"""A topic id and a partition."""
SessionKey = tuple[str, str]
"""A group id and a member id."""


class ShareSession:
    """The partitions that a member fetches from this broker."""

    __slots__ = ("connection_id", "epoch", "is_ended", "key", "partitions", "unanswered")

    def __init__(self, key: SessionKey, connection_id: str) -> None:
        self.key = key
        self.connection_id = connection_id
        self.epoch = 1
        """The epoch of the next request."""
        self.partitions: dict[PartitionId, None] = {}
        self.unanswered: set[PartitionId] = set()
        """Partitions that the next response has even without records: new ones, and ones whose last response was an error."""
        self.is_ended = False

    def rotated(self) -> list[PartitionId]:
        """Return the partitions, beginning with another one in each epoch: the first ones get most of the response."""
        ids = list(self.partitions)
        if not ids:
            return ids
        start = (self.epoch - 1) % len(ids)
        return ids[start:] + ids[:start]


class ShareSessionCache:
    """The sessions of this broker. Methods may be called on any thread."""

    def __init__(self, most_sessions: int, registry: MetricsRegistry) -> None:
        """``most_sessions`` is ``group.share.max.share.sessions``."""
        self._most_sessions = most_sessions
        self._lock = machine.Lock()
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._partitions = 0
        self._key_characters = 0
        self._evictions = registry.meter(TYPE, "ShareSessionEvictionsPerSec")
        registry.gauge(TYPE, "ShareSessionsCount", lambda: len(self._sessions))
        registry.gauge(TYPE, "SharePartitionsCount", lambda: self._partitions)

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        connection_id: str,
        added: Sequence[PartitionId],
        forgotten: Iterable[PartitionId],
    ) -> ShareSession:
        """Return the session of a ShareFetch, with its changes. With FINAL_EPOCH the caller ends it when the request is done.

        Raises ShareSessionNotFoundError, InvalidShareSessionEpochError, ShareSessionLimitReachedError.
        """
        with self._lock:
            if epoch == INITIAL_EPOCH:
                return self._start(key, connection_id, added)
            session = self._session(key, epoch)
            if epoch != FINAL_EPOCH:
                gone = set(forgotten)  # also if the request adds it
                self._change(session, [each for each in added if each not in gone] if gone else added, gone)
            return session

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a ShareAcknowledge. With FINAL_EPOCH the caller ends it when the request is done.

        Raises ShareSessionNotFoundError, InvalidShareSessionEpochError.
        """
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpochError("A share session begins with ShareFetch.")
        with self._lock:
            return self._session(key, epoch)

    def end(self, session: ShareSession) -> bool:
        """End a session; return False if it has ended already."""
        with self._lock:
            if session.is_ended:
                return False
            session.is_ended = True
            self._partitions -= len(session.partitions)
            self._key_characters -= _characters(session.key)
            del self._sessions[session.key]
            return True

    def evict(self, session: ShareSession) -> bool:
        """End a session whose connection was closed; return False if it has ended already."""
        is_evicted = self.end(session)
        if is_evicted:
            self._evictions.mark(1)
        return is_evicted

    def _start(self, key: SessionKey, connection_id: str, added: Sequence[PartitionId]) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            if len(self._sessions) >= self._most_sessions:
                raise ShareSessionLimitReachedError(
                    f"There are {self._most_sessions} share sessions (group.share.max.share.sessions)."
                )
            if self._key_characters + _characters(key) > MOST_KEY_CHARACTERS:
                raise ShareSessionLimitReachedError(
                    f"The ids of all share sessions may have {MOST_KEY_CHARACTERS} characters together."
                )
            session = ShareSession(key, connection_id)
        # The same object for a member that begins again: it may do that as often as it likes.
        session.connection_id, session.epoch = connection_id, 1
        self._change(session, added, list(session.partitions))
        if key not in self._sessions:
            self._key_characters += _characters(key)
            self._sessions[key] = session
        return session

    def _session(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session for a request with this epoch, and expect the next epoch."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFoundError(f"Group {key[0]} has no share session of member {key[1]} on this broker.")
        if epoch not in (session.epoch, FINAL_EPOCH):
            raise InvalidShareSessionEpochError(f"The share session expects epoch {session.epoch}, not {epoch}.")
        if epoch != FINAL_EPOCH:
            session.epoch = 1 if epoch == _MAX_INT else epoch + 1
        return session

    def _change(self, session: ShareSession, added: Sequence[PartitionId], forgotten: Iterable[PartitionId]) -> None:
        for each in forgotten:
            if each in session.partitions:
                del session.partitions[each]
                session.unanswered.discard(each)
                self._partitions -= 1
        new = [each for each in dict.fromkeys(added) if each not in session.partitions]
        if self._partitions + len(new) > MOST_PARTITIONS:
            raise ShareSessionLimitReachedError(f"All share sessions together may have {MOST_PARTITIONS} partitions.")
        session.partitions.update(dict.fromkeys(new))
        session.unanswered.update(new)
        self._partitions += len(new)


def _characters(key: SessionKey) -> int:
    return len(key[0]) + len(key[1])
