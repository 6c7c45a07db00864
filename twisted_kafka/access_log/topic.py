"""The access log as a topic: lines are also appended to ``__access_log`` (access.log.topic.enable).

They are appended directly to a partition that this broker leads, without a request, so that they cause no lines themselves. Lines
about fetches of this topic alone are omitted: a consumer of the topic would cause a line with every fetch.
"""

from collections.abc import Callable, Sequence
from typing import Final

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.store import StoreError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.system.threads import make_thread
from twisted_kafka.timing.clock import IClock

TOPIC: Final = "__access_log"
_ELEMENT: Final = '{"topic":"'
_FETCH: Final = '"api":"Fetch"'
_OWN: Final = f'"error":null,"topics":[{_ELEMENT}{TOPIC}",'
_MORE: Final = '"topics_left_out":'
_BATCH_BYTES: Final = 512 * 1024
"""The size of batches, half of the default message.max.bytes."""
_CREATE_INTERVAL_NS: Final = 5_000_000_000
_WARNING_INTERVAL_NS: Final = 10_000_000_000

Append = Callable[[TopicPartition, bytes], ErrorCode]
"""Appends a batch to a partition that this broker leads."""
CreateTopic = Callable[[str, int], object]
"""Starts creating a topic with this name and number of partitions."""

_log = Logger()


class AccessLogTopic:
    """Appends lines to a partition of ``__access_log`` that this broker leads. Used on the writer's thread only."""

    def __init__(
        self, config: KafkaConfig, metadata: MetadataCache, clock: IClock, append: Append, create_topic: CreateTopic
    ) -> None:
        self._node_id = config.broker_id
        self._num_partitions = config.int("access.log.topic.num.partitions")
        self._metadata = metadata
        self._clock = clock
        self._append_batch = append
        self._create_topic = create_topic
        self._key = b"%d" % self._node_id
        self._creation: machine.Thread | None = None
        self._creation_began_ns: int | None = None
        self._warned_at_ns: int | None = None

    def publish(self, lines: Sequence[str]) -> int:
        """Append the lines; return how many could not be appended."""
        wanted = [line.encode("ascii").rstrip() for line in lines if not is_own_fetch(line)]
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
        """Create the topic on a thread of its own: the metadata store may not answer for long, and the files must go on."""
        if self._creation is not None and self._creation.is_alive():
            return
        now_ns = self._clock.monotonic_ns()
        if self._creation_began_ns is None or now_ns - self._creation_began_ns >= _CREATE_INTERVAL_NS:
            self._creation_began_ns = now_ns
            self._creation = make_thread(self._create_now, "kafka-access-log-topic")
            self._creation.start()

    def _create_now(self) -> None:
        try:
            self._create_topic(TOPIC, self._num_partitions)
        except StoreError as error:
            _log.warn("Access log: topic {topic} cannot be created for now: {error}", topic=TOPIC, error=error)

    def _append(self, partition: int, lines: Sequence[bytes]) -> bool:
        now_ms, where = self._clock.wall_ms(), TopicPartition(TOPIC, partition)
        records = [SimpleRecord(now_ms, self._key, line) for line in lines]
        batch = build_batch(records, compression=Compression.ZSTD)
        error = self._append_batch(where, batch)
        if error != ErrorCode.NONE:
            self._warn(error.name)
        return error == ErrorCode.NONE

    def _warn(self, why: str) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._warned_at_ns is None or now_ns - self._warned_at_ns >= _WARNING_INTERVAL_NS:
            self._warned_at_ns = now_ns
            _log.warn("Access log: appending to topic {topic} failed: {why}", topic=TOPIC, why=why)


def is_own_fetch(line: str) -> bool:
    """Whether a line is about a fetch that has read this topic and nothing else, without an error.

    No value of a field has these texts: in a value, quotation marks are escaped.
    """
    return _OWN in line and _FETCH in line and line.count(_ELEMENT) == 1 and _MORE not in line


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
