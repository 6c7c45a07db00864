"""What a follower asks its leader, as ``inter.broker.protocol.version`` allows (Kafka: ``RemoteLeaderEndPoint``)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from twisted_kafka.log.results import EpochEndOffset
from twisted_kafka.protocol.codec import Message
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
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.protocol.types import NO_UUID
from twisted_kafka.replication.fetching.fetch_session_handler import SessionRequest

LATEST: Final = -1
EARLIEST: Final = -2

_LAST_FETCH_WITH_NAMES: Final = 12
_FIRST_FETCH_WITH_DIVERGING_EPOCHS: Final = 12
_FIRST_FETCH_WITH_REPLICA_STATE: Final = 15


class PeerVersions(NamedTuple):
    """The latest versions of requests between brokers."""

    fetch: int = 17
    epochs: int = 4
    list_offsets: int = 9

    @property
    def truncates_on_fetch(self) -> bool:
        """Whether leaders compare leader epochs with each fetch (KIP-595)."""
        return self.fetch >= _FIRST_FETCH_WITH_DIVERGING_EPOCHS


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

    def fetch(self, session: SessionRequest, replica_epoch: int, *, has_ids: bool) -> Outgoing:
        """Return a fetch. ``has_ids``: all topics of the session have ids."""
        limits = self._limits
        version = self.versions.fetch if has_ids else min(self.versions.fetch, _LAST_FETCH_WITH_NAMES)
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
            max_wait_ms=limits.max_wait_ms,
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

    def end_offsets(self, wanted: Mapping[TopicPartition, tuple[int, int]]) -> Outgoing:
        """Return a question for the ends of leader epochs; ``wanted`` has the current leader epoch and the epoch asked for."""
        topics: dict[str, OffsetForLeaderTopic] = {}
        for (name, index), (current, epoch) in wanted.items():
            topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name))
            topic.partitions.append(OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch))
        request = OffsetForLeaderEpochRequest(replica_id=self._replica_id, topics=list(topics.values()))
        return Outgoing(request, self.versions.epochs)

    def offset(self, topic_partition: TopicPartition, leader_epoch: int, timestamp: int) -> Outgoing:
        """Return a question for the beginning (EARLIEST) or the end (LATEST) of the leader's log."""
        name, index = topic_partition
        asked = ListOffsetsPartition(partition_index=index, current_leader_epoch=leader_epoch, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=self._replica_id, topics=[ListOffsetsTopic(name=name, partitions=[asked])])
        return Outgoing(request, self.versions.list_offsets)


def fetched(response: FetchResponse, names: Mapping[bytes, str]) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Return what a response has of each partition; ``names`` are those of topics by id."""
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is not None:
            for data in topic.partitions:
                yield TopicPartition(name, data.partition_index), data


def ends_of_epochs(response: OffsetForLeaderEpochResponse) -> Iterator[tuple[TopicPartition, int, EpochEndOffset]]:
    """Return the error and the end of each partition's epoch."""
    for topic in response.topics:
        for data in topic.partitions:
            yield (
                TopicPartition(topic.topic, data.partition),
                data.error_code,
                EpochEndOffset(data.leader_epoch, data.end_offset),
            )


def listed(response: ListOffsetsResponse) -> tuple[int, int]:
    """Return the error and the offset of the only partition that was asked for."""
    for topic in response.topics:
        for data in topic.partitions:
            return data.error_code, data.offset
    return ErrorCode.UNKNOWN_SERVER_ERROR, -1


def all_have_ids(topic_ids: Iterable[bytes]) -> bool:
    """Return whether no topic lacks an id."""
    return all(topic_id != NO_UUID for topic_id in topic_ids)
