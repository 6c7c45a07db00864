"""The transaction coordinator's interface for API handlers: validation, routing by transactional id, errors as values."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from twisted.logger import Logger

from twisted_kafka.coordinator.coordinator_record import Producer
from twisted_kafka.coordinator.effects import Write
from twisted_kafka.coordinator.runtime import CoordinatorRuntime
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler, ScheduledTask
from twisted_kafka.transaction_coordinator.environment import TransactionConfig
from twisted_kafka.transaction_coordinator.markers.marker_writer import MarkerAppender
from twisted_kafka.transaction_coordinator.producer_id_manager import ProducerIdManager
from twisted_kafka.transaction_coordinator.transaction_metadata import TransactionMetadata
from twisted_kafka.transaction_coordinator.transaction_metrics import TransactionMetrics
from twisted_kafka.transaction_coordinator.transaction_shard import Ended, Initialized, ProducerIdNeededError, TransactionShard
from twisted_kafka.transaction_coordinator.transaction_state import STATES_BY_LABEL

_log = Logger()

T = TypeVar("T")


class Listing(NamedTuple):
    """The answer to ListTransactions: an error, the filters that name no state, and the transactions."""

    error: ErrorCode
    unknown_states: list[str]
    transactions: list[TransactionMetadata]


class TransactionCoordinator:
    """Transactional ids and their transactions (Kafka: TransactionCoordinator). Methods may be called on any thread.

    A method that returns ``T | Future[T]`` returns a future if the result has to wait for replicas. The shard's method that each
    one calls has the details.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionShard],
        producer_ids: ProducerIdManager,
        scheduler: IScheduler,
        clock: IClock,
        config: TransactionConfig,
        metrics: TransactionMetrics,
        marker_appender: MarkerAppender,
    ) -> None:
        self.runtime = runtime
        self.marker_appender = marker_appender
        """What writes markers on this broker, for other brokers' coordinators and for administrators, too."""
        self.is_started = False
        """Whether the broker serves requests: the controller has sent it the cluster's metadata."""
        self._producer_ids = producer_ids
        self._scheduler = scheduler
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._tasks: list[ScheduledTask] = []

    def startup(self) -> None:
        """Start serving requests, aborting transactions that time out, and removing expired ids."""
        self.is_started = True
        self.runtime.startup()
        abort_ms, removal_ms = self._config.abort_interval_ms, self._config.removal_interval_ms
        self._tasks = [
            self._scheduler.schedule("transaction-abort", self.abort_timed_out_transactions, abort_ms, abort_ms),
            self._scheduler.schedule("transactionalId-expiration", self.remove_expired_ids, removal_ms, removal_ms),
        ]
        self._metrics.expose(
            lambda: sum(shard.completion.waiting_appends for shard in self.runtime.peek()),
            lambda: sum(shard.completion.fenced for shard in self.runtime.peek()),
        )

    def shutdown(self) -> None:
        """Stop serving requests; a transaction whose outcome is decided is completed after the next start."""
        for task in self._tasks:
            task.cancel()
        self.runtime.shutdown()

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` that stores the transactional id."""
        return self.runtime.partition_for(transactional_id)

    def _execute(
        self,
        transactional_id: str,
        operation: "Callable[[TransactionShard], T | Future[T] | Write[T]]",
        on_error: Callable[[ErrorCode], T],
    ) -> "T | Future[T]":
        if not transactional_id:
            return on_error(ErrorCode.INVALID_REQUEST)
        return self.runtime.try_read(transactional_id, operation, lambda error: on_error(error.code))

    # producers

    def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, expected: Producer | None
    ) -> "Initialized | Future[Initialized]":
        """Return a producer id and epoch. With a transactional id, they fence its previous producer.

        Without a transactional id, the producer id is always new.
        """
        if transactional_id is None:
            return self._with_new_id(lambda producer_id: Initialized(ErrorCode.NONE, Producer(producer_id, 0)), Initialized)
        if not transactional_id:
            return Initialized(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            return Initialized(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

        def initialize(shard: TransactionShard, new_producer_id: int | None) -> Initialized | Write[Initialized]:
            return shard.init_producer_id(transactional_id, timeout_ms, expected, new_producer_id)

        return self._execute_with_id(transactional_id, initialize, Initialized)

    def _execute_with_id(
        self,
        transactional_id: str,
        operation: Callable[[TransactionShard, int | None], T | Write[T]],
        on_error: Callable[[ErrorCode], T],
    ) -> "T | Future[T]":
        """Run an operation that may raise ProducerIdNeededError: it is run again then, with a new producer id."""

        def execute(new_producer_id: int | None) -> "T | Future[T]":
            return self._execute(transactional_id, lambda shard: operation(shard, new_producer_id), on_error)

        try:
            return execute(None)
        except ProducerIdNeededError:
            # The metadata store may be slow: with the shard's lock held, all of its transactional ids would wait.
            return self._with_new_id(execute, on_error)

    def _with_new_id(self, use: "Callable[[int], T | Future[T]]", on_error: Callable[[ErrorCode], T]) -> "T | Future[T]":
        try:
            producer_id = self._producer_ids.next_producer_id()
        except KafkaError as error:
            return on_error(error.code)
        return use(producer_id)

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], client_version: int = 0
    ) -> "ErrorCode | Future[ErrorCode]":
        """Add partitions to the producer's transaction."""
        added = frozenset(partitions)
        return self._execute(
            transactional_id, lambda shard: shard.add_partitions(transactional_id, producer, added, client_version), ErrorCode
        )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return for each partition whether it is part of the producer's transaction: NONE or the error."""

        errors: dict[TopicPartition, ErrorCode] = {}

        def verify(shard: TransactionShard) -> None:
            errors.update(shard.verify_partitions(transactional_id, producer, partitions))

        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        try:
            # The check ignores pending changes, so it waits for nothing; but the loaded state may be in doubt.
            self.runtime.read(transactional_id, verify)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return errors

    def end_transaction(self, transactional_id: str, producer: Producer, committed: bool) -> "Ended | Future[Ended]":
        """Commit or abort the producer's transaction."""
        return self._execute(transactional_id, lambda shard: shard.end_transaction(transactional_id, producer, committed), Ended)

    def end_transaction_with_bump(self, transactional_id: str, producer: Producer, committed: bool) -> "Ended | Future[Ended]":
        """Commit or abort the producer's transaction, and return the producer of the next one (``transaction.version`` 2)."""

        def end(shard: TransactionShard, new_producer_id: int | None) -> Ended | Write[Ended]:
            return shard.end_transaction_with_bump(transactional_id, producer, committed, new_producer_id)

        return self._execute_with_id(transactional_id, end, Ended)

    # time

    def abort_timed_out_transactions(self) -> None:
        """Abort the transactions that are open for longer than their timeouts."""
        for need_ids in self.runtime.execute_everywhere(lambda shard: shard.abort_timed_out()):
            for transactional_id in need_ids:
                try:
                    self._abort_with_new_id(transactional_id)
                except KafkaError as error:  # tried again with the next check
                    _log.warn("Cannot abort the transaction of {id!r} yet: {error!r}", id=transactional_id, error=error)

    def _abort_with_new_id(self, transactional_id: str) -> None:
        producer_id = self._producer_ids.next_producer_id()
        self.runtime.call(transactional_id, lambda shard: shard.abort_if_timed_out(transactional_id, producer_id))

    def remove_expired_ids(self) -> None:
        """Remove the transactional ids that were not used for ``transactional.id.expiration.ms``."""
        count = sum(self.runtime.execute_everywhere(lambda shard: shard.remove_expired()))
        if count:
            _log.info("Removed {n} expired transactional ids", n=count)

    # administration

    def describe(self, transactional_id: str) -> "tuple[ErrorCode, TransactionMetadata | None]":
        """Return the id's committed state, or an error."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST, None
        try:
            found = self.runtime.call(transactional_id, lambda shard: shard.store.committed(transactional_id))
        except KafkaError as error:
            return error.code, None
        return (ErrorCode.NONE if found is not None else ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), found

    def list_transactions(self, states: Collection[str], producer_ids: Collection[int], longer_than_ms: int) -> Listing:
        """Return the transactions with one of ``states`` and ``producer_ids`` (empty: all), by their names in Kafka's API.

        Only transactions that began more than ``longer_than_ms`` ago are returned; a negative value returns all. The error is
        COORDINATOR_LOAD_IN_PROGRESS, without transactions, while any partition loads.
        """
        if not self.is_started:
            return Listing(ErrorCode.COORDINATOR_NOT_AVAILABLE, [], [])
        if self.runtime.is_loading():
            return Listing(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [], [])
        wanted = {STATES_BY_LABEL[each] for each in states if each in STATES_BY_LABEL}
        now_ms = self._clock.wall_ms()
        found = [
            metadata
            for committed in self.runtime.execute_everywhere(lambda shard: shard.store.all_committed())
            for metadata in committed
            if (not states or metadata.state in wanted)
            and (not producer_ids or metadata.producer.producer_id in producer_ids)
            and (longer_than_ms < 0 or now_ms - metadata.start_ms > longer_than_ms)
        ]
        return Listing(ErrorCode.NONE, [each for each in states if each not in STATES_BY_LABEL], found)
