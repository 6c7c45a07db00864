"""DeadLetterQueue: copies the records that a share group gives up on to the group's dead-letter topic (KIP-1191).

Such records are ARCHIVING. When their letters are in the topic, they are ARCHIVED. A new leader finds them ARCHIVING and goes on,
so a letter may be there twice, but none is missing. Letters that cannot be written, because there is no such topic or it must not
be used, are given up with a line in the log: they must not stop the group.

A letter has headers with the record's origin. With ``errors.deadletterqueue.copy.record.enable`` it has the record's key and value.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.coordinator.interfaces import IBrokerClient
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.protocol.errors import ErrorCode, InvalidTopicError, error_code_of, error_of
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.operations.delayed_produce import PendingResults
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.share.other_threads import OtherThreads
from twisted_kafka.share.share_partition import SharePartition
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.waiting.futures import completed, then

MAX_LETTERS: Final = 100
"""Letters in a batch."""
MAX_LETTER_BYTES: Final = 900_000
"""Bytes of keys, values and headers in a batch, unless a single record has more: within the default of ``max.message.bytes``."""
FIRST_BACKOFF_MS: Final = 100
"""How long until the first repetition; twice as long after each further one."""
MAX_ATTEMPTS: Final = 8
"""Attempts before letters are given up: some 13 seconds."""
ENABLE_KEY: Final = "errors.deadletterqueue.group.enable"
"""Only topics with this config may be dead-letter topics."""
DEAD_LETTERS_SINCE: Final = 2
"""The level of the feature ``share.version`` that has dead-letter queues."""
REJECTED: Final = "Offset rejected by client."
EXCEEDED: Final = "Offset delivery count exceeded the threshold."

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

_log = Logger()


class DeadLetterSettings(NamedTuple):
    """The broker's part in dead-letter queues; ``timeout_ms`` is ``request.timeout.ms``."""

    prefix: Callable[[], str]
    """Returns ``errors.deadletterqueue.topic.name.prefix``."""
    creates_topics: Callable[[], bool]
    """Returns ``errors.deadletterqueue.auto.create.topics.enable``."""
    listener_name: str
    timeout_ms: int


class DeadLetterTopics(NamedTuple):
    """How dead-letter topics are looked up and created."""

    is_enabled: Callable[[str], bool]
    """Returns whether a topic may be a dead-letter topic (``errors.deadletterqueue.group.enable``)."""
    create: Callable[[str], object]
    """Begins to create a dead-letter topic."""


class _Sending(NamedTuple):
    """Letters on their way: of which share partition, and how often they were tried."""

    share: SharePartition
    name: TopicPartition
    first_offset: int
    last_offset: int
    delivery_count: int
    attempt: int = 1


class DeadLetterQueue:
    """Writes letters, for each share partition one batch after the other. Methods may be called on any thread."""

    def __init__(
        self,
        replicas: ReplicaManager,
        configs_of: Callable[[str], ShareGroupConfigs],
        settings: DeadLetterSettings,
        topics: DeadLetterTopics,
        client: IBrokerClient,
        clock: IClock,
        threads: OtherThreads,
    ) -> None:
        """``client`` sends to other brokers."""
        self._replicas = replicas
        self._configs_of = configs_of
        self._settings = settings
        self._topics = topics
        self._client = client
        self._clock = clock
        self._threads = threads
        self._lock = machine.Lock()
        self._busy: set[SharePartition] = set()
        """Not their keys: the successor of a fenced share partition has letters of its own."""
        self._failures = LogRateLimit(clock.monotonic_ns)

    def undeliverable(self, share: SharePartition, name: TopicPartition) -> None:
        """Begin to write the letters of a share partition's records, unless that is under way."""
        with self._lock:
            if share in self._busy:
                return
            self._busy.add(share)
        self._threads.later(partial(self._next, share, name))

    def _next(self, share: SharePartition, name: TopicPartition) -> None:
        """Write the next letters, if there are some."""
        ranges = share.archiving()
        if not ranges:
            with self._lock:
                self._busy.discard(share)
            if share.archiving():  # they came just before
                self.undeliverable(share, name)
            return
        first, last, count = ranges[0]
        self._send(_Sending(share, name, first, min(last, first + MAX_LETTERS - 1), count))

    def _send(self, sending: _Sending) -> None:
        try:
            sent = self._produce(sending)
        except Exception as error:  # noqa: BLE001 the letters are tried again, or given up
            if error_of(error) is ErrorCode.UNKNOWN_SERVER_ERROR:
                _log.failure("Cannot write dead letters of {key}", key=sending.share.key)
            sent = completed((error_of(error), sending.last_offset))
        sent.add_done_callback(partial(self._sent, sending))

    def _sent(self, sending: _Sending, done: "Future[tuple[ErrorCode, int]]") -> None:
        failure = done.exception()
        error, last = done.result() if failure is None else (ErrorCode.NETWORK_EXCEPTION, sending.last_offset)
        if error in _RETRIABLE and sending.attempt < MAX_ATTEMPTS:
            again = sending._replace(attempt=sending.attempt + 1)
            self._threads.timer.add(FIRST_BACKOFF_MS << (sending.attempt - 1), partial(self._send, again))
            return
        if error and self._failures.allow():
            _log.error(
                "Group {group} has no letters in {topic!r} for records {first} to {last} of {partition}: {error}{more}",
                first=sending.first_offset,
                last=last,
                partition=sending.name,
                topic=self._configs_of(sending.share.key.group_id).dead_letter_topic,
                group=sending.share.key.group_id,
                error=error.name,
                more=self._failures.take_suppressed(),
            )
        sending.share.archive_dead(sending.first_offset, last)
        self._threads.later(partial(self._next, sending.share, sending.name))

    def _produce(self, sending: _Sending) -> "Future[tuple[ErrorCode, int]]":
        """Write letters; return the outcome, and the last offset that has one.

        Raises InvalidTopicError if the group's dead-letter topic has not the prefix, and the errors of reading the records.
        """
        group_id = sending.share.key.group_id
        configs = self._configs_of(group_id)
        topic = configs.dead_letter_topic
        self._check(topic)
        count = self._replicas.metadata.partition_count(topic)
        if not count:
            if not self._settings.creates_topics():
                return completed((ErrorCode.INVALID_TOPIC_EXCEPTION, sending.last_offset))
            self._topics.create(topic)
            return completed((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sending.last_offset))
        if not self._topics.is_enabled(topic):
            return completed((ErrorCode.POLICY_VIOLATION, sending.last_offset))
        letters, last = self._letters(sending, configs)
        target = TopicPartition(topic, sending.name.partition % count)
        return then(self._append(target, build_batch(letters)), lambda error: (error, last))

    def _check(self, topic: str) -> None:
        prefix = self._settings.prefix()
        if not topic or not topic.startswith(prefix):
            raise InvalidTopicError(f"The name of a dead-letter topic begins with {prefix!r}: {topic!r}")

    def _letters(self, sending: _Sending, configs: ShareGroupConfigs) -> tuple[list[SimpleRecord], int]:
        """Return the letters, and the last offset of a record that they are for: large records come one by one."""
        now_ms = self._clock.wall_ms()
        found = self._read(sending) if configs.dead_letter_copies_record else {}
        letters: list[SimpleRecord] = []
        size_bytes = 0
        reason = EXCEEDED if sending.delivery_count >= configs.delivery_count_limit else REJECTED
        last = sending.last_offset
        for offset in range(sending.first_offset, sending.last_offset + 1):
            key, value = found.get(offset, (None, None))
            headers = [
                (name, text.encode())
                for name, text in (
                    ("__dlq.errors.topic", sending.name.topic),
                    ("__dlq.errors.partition", str(sending.name.partition)),
                    ("__dlq.errors.offset", str(offset)),
                    ("__dlq.errors.group", sending.share.key.group_id),
                    ("__dlq.errors.delivery.count", str(sending.delivery_count)),
                    ("__dlq.errors.message", reason),
                )
            ]
            size_bytes += len(key or b"") + len(value or b"") + sum(len(name) + len(text) for name, text in headers)
            if letters and size_bytes > MAX_LETTER_BYTES:
                last = offset - 1
                break
            letters.append(SimpleRecord(now_ms, key, value, headers))
        return letters, last

    def _read(self, sending: _Sending) -> dict[int, tuple[bytes | None, bytes | None]]:
        """Return keys and values by offset, as far as the log still has the records.

        Raises NotLeaderOrFollowerError or KafkaStorageError if this broker cannot read the partition.
        """
        log = self._replicas.get_partition_or_error(sending.name).log
        found: dict[int, tuple[bytes | None, bytes | None]] = {}
        position = max(sending.first_offset, log.log_start_offset)
        size_bytes = 0
        while position <= sending.last_offset:
            data = log.content(log.read(position, MAX_LETTER_BYTES, FetchIsolation.HIGH_WATERMARK).records)
            if not data:
                break
            for batch in batches(data):
                if batch.base_offset > sending.last_offset:
                    return found
                for record in batch.records():
                    if sending.first_offset <= record.offset <= sending.last_offset:
                        key = None if record.key is None else bytes(record.key)
                        value = None if record.value is None else bytes(record.value)
                        found[record.offset] = key, value
                        size_bytes += len(key or b"") + len(value or b"")
                        if size_bytes > MAX_LETTER_BYTES:  # a small batch may have giant records: the rest has its turn later
                            return found
                position = batch.last_offset + 1
        return found

    def _append(self, target: TopicPartition, batch: bytes) -> "Future[ErrorCode]":
        """Append to the partition, on whichever broker leads it."""
        metadata = self._replicas.metadata
        state = metadata.partition(target)
        if state is None:
            return completed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if state.leader == metadata.broker_id:
            results = self._replicas.appender.append(self._settings.timeout_ms, -1, {target: batch})
            if isinstance(results, PendingResults):
                return then(results, lambda done: ErrorCode(done[target].error))
            return completed(ErrorCode(results[target].error))
        node = metadata.node(state.leader, self._settings.listener_name)
        if node is None:
            return completed(ErrorCode.LEADER_NOT_AVAILABLE)
        data = PartitionProduceData(index=target.partition, records=batch)
        topic = TopicProduceData(name=target.topic, topic_id=metadata.topic_id(target.topic), partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=self._settings.timeout_ms, topic_data=[topic])
        return then(self._client.send(node, request), _error_of)


def _error_of(response: ProduceResponse) -> ErrorCode:
    ((result,),) = [topic.partition_responses for topic in response.responses]
    return error_code_of(result.error_code)
