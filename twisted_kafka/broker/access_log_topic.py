"""The access log as a topic: what the writer wrote to its file goes to `__access_log` too (access.log.topic.enable).

The lines are appended to a partition that this broker leads, without any request: no line is made about them. A line about a
request for that topic alone is left out of it, for whoever follows the topic would make a line with every fetch.
"""

from collections.abc import Callable, Sequence
from typing import Final

from twisted.logger import Logger

from twisted_kafka.admin.topic_orders import NewTopic
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.timing.clock import IClock

TOPIC: Final = "__access_log"
_OWN: Final = f'"topics":[{{"topic":"{TOPIC}"'
_BATCH_BYTES: Final = 512 * 1024
"""Lines are put into batches of about this size, half of the default message.max.bytes."""
_APPEND_TIMEOUT_MS: Final = 5_000
_CREATE_INTERVAL_NS: Final = 5_000_000_000
_COMPLAINT_INTERVAL_NS: Final = 10_000_000_000

_log = Logger()


class AccessLogTopic:
    """Appends lines to a partition of `__access_log` that this broker leads; called on the writer's thread alone."""

    def __init__(
        self,
        config: KafkaConfig,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        create_topics: Callable[[Sequence[NewTopic], int], object],
        clock: IClock,
    ) -> None:
        self._node_id = config.broker_id
        self._num_partitions = config.int("access.log.topic.num.partitions")
        self._metadata = metadata
        self._replicas = replicas
        self._create_topics = create_topics
        self._clock = clock
        self._key = b"%d" % self._node_id
        self._asked_at_ns: int | None = None
        self._told_at_ns: int | None = None

    def publish(self, lines: Sequence[str]) -> int:
        """Append the lines; return how many could not be."""
        wanted = [line.encode("ascii").rstrip() for line in lines if _OWN not in line]
        if not wanted:
            return 0
        partition = self._led()
        if partition is None:
            return len(wanted)
        lost = 0
        for batch in _batches(wanted):
            if not self._append(partition, batch):
                lost += len(batch)
        return lost

    def _led(self) -> int | None:
        if not self._metadata.contains(TOPIC):
            self._create()
            return None
        for state in self._metadata.partitions(TOPIC):
            if state.leader == self._node_id:
                return state.partition
        return None

    def _create(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._asked_at_ns is None or now_ns - self._asked_at_ns >= _CREATE_INTERVAL_NS:
            self._asked_at_ns = now_ns
            self._create_topics([NewTopic(TOPIC, self._num_partitions)], 0)

    def _append(self, partition: int, lines: Sequence[bytes]) -> bool:
        now_ms, where = self._clock.wall_ms(), TopicPartition(TOPIC, partition)
        records = [SimpleRecord(now_ms, self._key, line) for line in lines]
        batch = build_batch(records, compression=Compression.ZSTD)
        results = self._replicas.append_records(_APPEND_TIMEOUT_MS, 1, {where: batch}, internal_topics_allowed=True)
        if not isinstance(results, dict):
            results = results.result(_APPEND_TIMEOUT_MS / 1000)
        error = results[where].error
        if error != ErrorCode.NONE:
            self._complain(ErrorCode(error).name)
        return error == ErrorCode.NONE

    def _complain(self, why: str) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._told_at_ns is None or now_ns - self._told_at_ns >= _COMPLAINT_INTERVAL_NS:
            self._told_at_ns = now_ns
            _log.warn("Access log: topic {topic} did not take lines: {why}", topic=TOPIC, why=why)


def _batches(lines: Sequence[bytes]) -> list[list[bytes]]:
    batches: list[list[bytes]] = [[]]
    size = 0
    for line in lines:
        if size + len(line) > _BATCH_BYTES and batches[-1]:
            batches.append([])
            size = 0
        batches[-1].append(line)
        size += len(line)
    return batches
