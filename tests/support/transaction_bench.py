"""A transaction coordinator on an internal topic in memory, with brokers that a test makes write markers late, badly or never."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from tests.support.coordinator_fakes import MemoryLog
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, decode_record
from twisted_kafka.coordinator.runtime import CoordinatorRuntime, RuntimeSettings
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.topic_partition import TRANSACTION_TOPIC, TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler
from twisted_kafka.timing.timer import Timer
from twisted_kafka.transaction_coordinator.environment import TransactionConfig, TransactionEnvironment
from twisted_kafka.transaction_coordinator.markers.transaction_marker import MarkerErrors, TransactionMarker
from twisted_kafka.transaction_coordinator.transaction_coordinator import TransactionCoordinator
from twisted_kafka.transaction_coordinator.transaction_metadata import TransactionEnd
from twisted_kafka.transaction_coordinator.transaction_metrics import TransactionMetrics
from twisted_kafka.transaction_coordinator.transaction_records import TRANSACTION_RECORD_KINDS
from twisted_kafka.transaction_coordinator.transaction_shard import TransactionShardFactory


class FakeProducerIds:
    """Gives out 0, 1, 2 and so on."""

    def __init__(self) -> None:
        self.next = 0
        self.failure: KafkaError | None = None

    def next_producer_id(self) -> int:
        if self.failure is not None:
            raise self.failure
        self.next += 1
        return self.next - 1


class FakeBrokers:
    """Write markers: at once, with errors by partition, or when told to."""

    def __init__(self) -> None:
        self.written: list[tuple[TopicPartition, TransactionMarker]] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.holds = False
        self.held: list[tuple[TransactionMarker, Future[MarkerErrors]]] = []
        self.dropped: list[tuple[int, int]] = []

    def write(self, markers: Sequence[TransactionMarker]) -> "list[MarkerErrors | Future[MarkerErrors]]":
        futures: list[MarkerErrors | Future[MarkerErrors]] = []
        for marker in markers:
            future: Future[MarkerErrors] = Future()
            self.held.append((marker, future))
            futures.append(future)
        if not self.holds:
            self.release()
        return futures

    def drop(self, log_partition: int, coordinator_epoch: int) -> None:
        self.dropped.append((log_partition, coordinator_epoch))

    def release(self) -> None:
        held, self.held = self.held, []
        for marker, future in held:
            future.set_result(self._write(marker))

    def fail(self, failure: Exception) -> None:
        held, self.held = self.held, []
        for _, future in held:
            future.set_exception(failure)

    def _write(self, marker: TransactionMarker) -> MarkerErrors:
        errors = {partition: self.errors.get(partition, ErrorCode.NONE) for partition in sorted(marker.partitions)}
        for partition, error in errors.items():
            if not error:
                self.written.append((partition, marker))
        return errors


class TransactionBench:
    """A coordinator over a MemoryLog under a ManualClock."""

    def __init__(self, partitions: int = 1, log: MemoryLog | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.log = log or MemoryLog()
        self.brokers = FakeBrokers()
        self.producer_ids = FakeProducerIds()
        self.partitions = partitions
        self.config = TransactionConfig(**settings)
        self.metrics = MetricsRegistry(self.clock)
        self.epoch = 0
        self.transaction_version = 0
        self.ends: list[TransactionEnd] = []
        """The ends that no request was answered with."""
        self.start()

    def start(self, load: bool = True) -> None:
        self.scheduler = ManualScheduler(self.clock)
        self.timer = Timer(self.clock)
        metrics = TransactionMetrics(self.metrics)
        environment = TransactionEnvironment(
            self.clock, self.config, self.brokers, lambda: self.transaction_version, self.ends.append
        )
        self.runtime = CoordinatorRuntime(
            RuntimeSettings(TRANSACTION_TOPIC, lambda: self.partitions, on_loaded=metrics.partition_loaded),
            TransactionShardFactory(environment),
            self.log,
            self.log,
            self.scheduler,
            self.timer,
            self.clock,
        )
        self.transactions = TransactionCoordinator(
            self.runtime,
            self.producer_ids,  # type: ignore[arg-type]
            self.scheduler,
            self.clock,
            self.config,
            metrics,
            None,  # for API handlers only
        )
        self.transactions.startup()
        if load:
            self.elect(self.epoch)

    def elect(self, epoch: int, load: bool = True) -> None:
        self.epoch = epoch
        self.transactions.runtime.on_leadership_change([(partition, epoch) for partition in range(self.partitions)], [])
        if load:
            self.scheduler.run_due()

    def resign(self) -> None:
        self.transactions.runtime.on_leadership_change([], [(partition, self.epoch) for partition in range(self.partitions)])

    def reload(self, epoch: int) -> None:
        """Let another broker lead all partitions for a moment."""
        self.resign()
        self.elect(epoch)

    def restart(self, load: bool = True) -> None:
        """Stop, and start again over the same log, as the leader of the next epoch."""
        self.transactions.shutdown()
        self.scheduler.shutdown()
        self.epoch += 1
        self.start(load)

    def advance(self, ms: int) -> None:
        """Let time pass in steps, as timers that ring set others."""
        left_ms = ms
        while left_ms > 0:
            step_ms = min(left_ms, 100)
            self.clock.advance_ms(step_ms)
            left_ms -= step_ms
            self.timer.expire_due()
            self.scheduler.run_due()

    def records(self) -> list[CoordinatorRecord]:
        return [
            decode_record(TRANSACTION_RECORD_KINDS, record.key, record.value)
            for index in range(self.partitions)
            for data in self.log.batches[TopicPartition(TRANSACTION_TOPIC, index)]
            for batch in batches(data)
            for record in batch.records()
        ]
