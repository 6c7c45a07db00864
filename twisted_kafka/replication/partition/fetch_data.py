"""The parameters of a fetch, and the result of reading one partition."""

from typing import ClassVar, Final, NamedTuple

from twisted_kafka.log.results import AbortedTransaction, FetchIsolation, LogOffsetMetadata
from twisted_kafka.protocol.regions import Buffer, FileRegion
from twisted_kafka.protocol.topic_partition import TopicPartition

CONSUMER_REPLICA_ID: Final = -1
DEBUGGING_REPLICA_ID: Final = -2
"""The replica id of tools that ask followers for offsets, and for those up to the log end. In a fetch, it is a consumer's."""
FUTURE_LOCAL_REPLICA_ID: Final = -3
"""The only negative replica id whose fetches read to the log end. Fetches with others see committed records only, as in Kafka."""
NO_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1

_LAST_VERSION_WITH_HARD_LIMIT: Final = 2
_FIRST_VERSION_FROM_FOLLOWERS: Final = 11


class ClientMetadata(NamedTuple):
    """A consumer's properties for a replica selector."""

    rack_id: str
    client_id: str
    client_address: str
    principal: str
    listener_name: str


class FetchParams:
    """The parameters of a fetch that hold for all its partitions (Kafka: ``FetchParams``).

    ``hard_max_bytes``: versions up to 2 never get more than the limit, not even to make progress.
    ``fetch_only_leader``: consumers before version 11, and followers, read from the leader only.
    """

    __slots__ = (
        "client",
        "fetch_only_leader",
        "hard_max_bytes",
        "is_from_follower",
        "isolation",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "replica_epoch",
        "replica_id",
        "version",
    )

    def __init__(
        self,
        replica_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: FetchIsolation,
        version: int,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation
        self.version = version
        self.replica_epoch = replica_epoch
        self.client: ClientMetadata | None = None
        """The consumer, if it may be sent to another replica."""
        self.is_from_follower = replica_id >= 0
        self.hard_max_bytes = version <= _LAST_VERSION_WITH_HARD_LIMIT
        self.fetch_only_leader = replica_id >= 0 or (
            replica_id != FUTURE_LOCAL_REPLICA_ID and version < _FIRST_VERSION_FROM_FOLLOWERS
        )


class PartitionFetch:
    """The parameters of a fetch for one partition; an incremental session keeps them between requests.

    ``topic_partition`` is None while the topic id is unknown to this broker. ``log_start_offset`` is that of a follower, which sets
    it; -1 for a consumer.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition | None,
        topic_id: bytes,
        partition: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.log_start_offset = -1
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch


class PartitionRead:
    """The result of a fetch from one partition: records, which may not be read from the file yet, offsets, or an error code.

    ``diverging_epoch`` is (epoch, end offset) when the reader's log branched off (KIP-595). ``start`` says where the fetch offset
    lies in the log, if the read located it.
    """

    __slots__ = (
        "aborted_transactions",
        "diverging_epoch",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_end_offset",
        "log_start_offset",
        "records",
        "size_bytes",
        "start",
    )

    preferred_read_replica: ClassVar[int] = -1
    """Only a RedirectedRead has one."""

    def __init__(
        self,
        error: int,
        high_watermark: int = UNKNOWN_OFFSET,
        last_stable_offset: int = UNKNOWN_OFFSET,
        log_start_offset: int = UNKNOWN_OFFSET,
    ) -> None:
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = UNKNOWN_OFFSET
        self.records: Buffer | FileRegion = b""
        self.size_bytes = 0
        # A list, even an empty one, means that the reader asked for committed records only.
        self.aborted_transactions: list[AbortedTransaction] | None = None
        self.diverging_epoch: tuple[int, int] | None = None
        self.start: LogOffsetMetadata | None = None

    def withhold(self) -> None:
        """Drop the records: a follower gets them later."""
        self.records = b""
        self.size_bytes = 0


class RedirectedRead(PartitionRead):
    """No records: the consumer is to read from another replica (KIP-392)."""

    __slots__ = ("preferred_read_replica",)

    def __init__(self, preferred_read_replica: int, high_watermark: int, last_stable_offset: int, log_start_offset: int) -> None:
        super().__init__(0, high_watermark, last_stable_offset, log_start_offset)
        self.preferred_read_replica: int = preferred_read_replica  # type: ignore[misc]  # a class attribute of all others
