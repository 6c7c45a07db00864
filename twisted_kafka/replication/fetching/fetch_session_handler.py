"""The follower's side of a fetch session (KIP-227; Kafka: ``FetchSessionHandler``).

The first request of a session has all partitions. The following ones have those that were added, changed or removed, and their
responses only what is new.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """What is asked of a partition."""

    topic_id: bytes
    fetch_offset: int
    log_start_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    """-1: the leader need not compare it."""


class SessionRequest(NamedTuple):
    """What a request has of its session."""

    session_id: int
    session_epoch: int
    wanted: Mapping[TopicPartition, Wanted]
    forgotten: Mapping[TopicPartition, bytes]
    """Topic ids by partition."""


class FetchSessionHandler:
    """The session of one follower with one leader. Used by one thread."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._partitions: Mapping[TopicPartition, Wanted] = {}

    def build(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionRequest:
        """Return what a request for these partitions has to contain."""
        before, self._partitions = self._partitions, wanted
        if self._epoch == INITIAL_EPOCH:
            return SessionRequest(self._id, INITIAL_EPOCH, wanted, {})
        changed = {partition: each for partition, each in wanted.items() if before.get(partition) != each}
        forgotten = {}
        for partition, each in before.items():
            now = wanted.get(partition)
            if now is None or now.topic_id != each.topic_id:
                forgotten[partition] = each.topic_id
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def answered(self, error: int, session_id: int) -> bool:
        """Go on after a response; return False if it has nothing but an error of the session, after which another one begins."""
        if error:
            self._id = NO_SESSION if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._id
            self._epoch = INITIAL_EPOCH
            return False
        if session_id == NO_SESSION:  # the leader has no room for one
            self._epoch = INITIAL_EPOCH
        elif self._epoch == INITIAL_EPOCH:
            self._epoch = 1
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        self._id = session_id
        return True

    def failed(self) -> None:
        """Begin another session after a request without a response, and close this one with it."""
        self._epoch = INITIAL_EPOCH
