"""The requests of a follower to its leader (Kafka: ``RemoteLeaderEndPoint``).

``inter.broker.protocol.version`` decides their versions.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from twisted_kafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.fetching.fetch_session_handler import SessionRequest

LATEST: Final = -1
EARLIEST: Final = -2

_LAST_FETCH_WITH_NAMES: Final = 12
_FIRST_FETCH_WITH_REPLICA_STATE: Final = 15


class PeerVersions(NamedTuple):
    """The latest versions of requests between brokers."""

    fetch: int = 17
    """At least 12, so that leaders compare leader epochs with each fetch (KIP-595)."""
    list_offsets: int = 9


class Outgoing(NamedTuple):
    """A request, and the newest version to send it in."""

    message: Message
    latest_version: int


class FetchLimits(NamedTuple):
    """How much a fetch asks for, and how long the leader may wait."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_bytes: int


class LeaderRequests:
    """Makes the requests of one follower, and reads the answers."""

    def __init__(self, replica_id: int, limits: FetchLimits, versions: PeerVersions) -> None:
        self._replica_id = replica_id
        self._limits = limits
        self.versions = versions

    def fetch(self, session: SessionRequest, replica_epoch: int, due_ms: int) -> Outgoing:
        """Return the next fetch of a session. The leader waits at most ``due_ms``, or not at all unless ``session.may_wait``."""
        limits = self._limits
        version = self.versions.fetch if session.has_ids else min(self.versions.fetch, _LAST_FETCH_WITH_NAMES)
        topics: dict[tuple[str, bytes], FetchTopic] = {}
        for (name, index), wanted in session.wanted.items():
            topic = topics.get((name, wanted.topic_id))
            if topic is None:
                topic = topics[name, wanted.topic_id] = FetchTopic(topic=name, topic_id=wanted.topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=wanted.leader_epoch,
                    fetch_offset=wanted.fetch_offset,
                    last_fetched_epoch=wanted.last_fetched_epoch,
                    log_start_offset=wanted.log_start_offset,
                    partition_max_bytes=limits.partition_bytes,
                )
            )
        forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
        for (name, index), topic_id in session.forgotten.items():
            each = forgotten.setdefault((name, topic_id), ForgottenTopic(topic=name, topic_id=topic_id))
            each.partitions.append(index)
        request = FetchRequest(
            max_wait_ms=min(limits.max_wait_ms, due_ms) if session.may_wait else 0,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=session.session_id,
            session_epoch=session.session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )
        if version >= _FIRST_FETCH_WITH_REPLICA_STATE:
            request.replica_state = ReplicaState(replica_id=self._replica_id, replica_epoch=replica_epoch)
        else:
            request.replica_id = self._replica_id
        return Outgoing(request, version)

    def offset(self, topic_partition: TopicPartition, leader_epoch: int, timestamp: int) -> Outgoing:
        """Return a question for the beginning (EARLIEST) or the end (LATEST) of the leader's log."""
        name, index = topic_partition
        asked = ListOffsetsPartition(partition_index=index, current_leader_epoch=leader_epoch, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=self._replica_id, topics=[ListOffsetsTopic(name=name, partitions=[asked])])
        return Outgoing(request, self.versions.list_offsets)


def fetched(response: FetchResponse, name_of: Callable[[bytes], str | None]) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Return the part of each partition of a response; ``name_of`` returns the name of a topic by its id."""
    for topic in response.responses:
        name = topic.topic or name_of(topic.topic_id)
        if name is not None:
            for data in topic.partitions:
                yield TopicPartition(name, data.partition_index), data


def listed(response: ListOffsetsResponse) -> tuple[int, int]:
    """Return the error and the offset of the only partition in a response."""
    for topic in response.topics:
        for data in topic.partitions:
            return data.error_code, data.offset
    return ErrorCode.UNKNOWN_SERVER_ERROR, -1
