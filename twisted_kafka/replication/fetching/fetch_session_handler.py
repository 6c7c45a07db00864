"""The follower's side of a fetch session (KIP-227; Kafka: ``FetchSessionHandler``).

The first request of a session has all partitions. Later requests have only the added, changed or removed ones, and their responses
only new data. So the cost of a request depends on the number of changes.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.topic_partition import TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """The fetch of one partition."""

    topic_id: bytes
    fetch_offset: int
    log_start_offset: int
    leader_epoch: int
    last_fetched_epoch: int


class SessionRequest(NamedTuple):
    """A request's part of its session."""

    session_id: int
    session_epoch: int
    wanted: Mapping[TopicPartition, Wanted]
    forgotten: Mapping[TopicPartition, bytes]
    """Topic ids by partition."""
    has_ids: bool
    """Whether all topics of the session have ids."""
    may_wait: bool
    """Whether the leader may wait for records. Until there is a session, nothing can be added to a request that waits."""


class FetchSessionHandler:
    """The session of one follower with one leader. Used by one thread."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._is_refused = False
        """Whether the leader had no room for a session the last time."""
        self._partitions: dict[TopicPartition, Wanted] = {}
        """The fetched partitions; the one that last had records is at the end."""
        self._topics: dict[bytes, tuple[str, int]] = {}
        """The name of each topic id, and the number of its fetched partitions."""

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._partitions)

    def asked(self, topic_partition: TopicPartition) -> Wanted | None:
        """Return the fetch of a partition in the last request; None if it was not in that request."""
        return self._partitions.get(topic_partition)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a fetched topic."""
        found = self._topics.get(topic_id)
        return None if found is None else found[0]

    def build(self, changes: Mapping[TopicPartition, Wanted | None]) -> SessionRequest:
        """Return the next request after these changes. None removes the partition from the session."""
        changed: dict[TopicPartition, Wanted] = {}
        forgotten: dict[TopicPartition, bytes] = {}
        for partition, wanted in changes.items():
            before = self._partitions.get(partition)
            if before == wanted:
                continue
            if before is not None:
                del self._partitions[partition]
                self._count(before.topic_id, partition.topic, -1)
                if wanted is None or wanted.topic_id != before.topic_id:
                    forgotten[partition] = before.topic_id
            if wanted is not None:
                self._partitions[partition] = changed[partition] = wanted
                self._count(wanted.topic_id, partition.topic, 1)
        has_ids = NO_UUID not in self._topics
        if self._epoch == INITIAL_EPOCH:
            return SessionRequest(self._id, INITIAL_EPOCH, dict(self._partitions), {}, has_ids, self._is_refused)
        return SessionRequest(self._id, self._epoch, changed, forgotten, has_ids, may_wait=True)

    def _count(self, topic_id: bytes, name: str, change: int) -> None:
        count = self._topics.get(topic_id, (name, 0))[1] + change
        if count:
            self._topics[topic_id] = (name, count)
        else:
            del self._topics[topic_id]

    @property
    def may_be_overtaken(self) -> bool:
        """Whether the next request may be sent before the last one is answered, because a session exists."""
        return self._epoch != INITIAL_EPOCH

    def overtaken(self) -> None:
        """Go on without the last response: the leader takes a request of the next epoch for its acknowledgement."""
        self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def answered(self, error: int, session_id: int) -> bool:
        """Go on after a response; return False if it has nothing but an error of the session, after which another one begins."""
        if error:
            self._id = NO_SESSION if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self._id
            self._epoch = INITIAL_EPOCH
            return False
        self._is_refused = session_id == NO_SESSION
        if self._is_refused:
            self._epoch = INITIAL_EPOCH
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        self._id = session_id
        return True

    def failed(self) -> None:
        """Begin another session after a request without a response, and close this one with it."""
        self._epoch = INITIAL_EPOCH
