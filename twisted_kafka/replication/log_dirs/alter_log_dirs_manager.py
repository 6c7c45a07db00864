"""The threads that move replicas to other log directories (Kafka: ``ReplicaAlterLogDirsManager`` and its threads)."""

from collections.abc import Callable, Iterable
from typing import Final

from twisted.logger import Logger

from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.log_dirs.alter_log_dirs_copy import ReplicaCopier
from twisted_kafka.replication.log_dirs.replication_quota import ReplicationQuota
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.system import machine
from twisted_kafka.system.threads import make_thread, repeat
from twisted_kafka.timing.scheduler import IScheduler

QUOTA_WAIT_S: Final = 0.1
IDLE_WAIT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 30.0
RETRY_MS: Final = 1_000
_METRICS: Final = "ReplicaAlterLogDirsManager"
_TAGS: Final = {"clientId": "ReplicaAlterLogDirs"}

_log = Logger()


class ReplicaMover:
    """The partitions that one thread moves, one piece of each in turn."""

    def __init__(
        self, copier: ReplicaCopier, quota: ReplicationQuota, requests: Meter, on_moved: Callable[[TopicPartition], object]
    ) -> None:
        self._copier = copier
        self._quota = quota
        self._on_moved = on_moved
        self._step_lock = machine.Lock()
        self.requests = requests
        self.changed = machine.Condition()
        self.partitions: dict[TopicPartition, Partition] = {}
        self.failed: set[TopicPartition] = set()
        self.is_stopped = False

    def add(self, partition: Partition) -> None:
        """Start to move a partition."""
        with self.changed:
            self.partitions[partition.topic_partition] = partition
            self.failed.discard(partition.topic_partition)
            self.changed.notify()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop moving a partition; return when no piece of it is being copied."""
        with self.changed:
            self.partitions.pop(topic_partition, None)
            self.failed.discard(topic_partition)
        with self._step_lock:
            pass

    def run_once(self) -> int:
        """Copy a piece of each partition; return the number of bytes, 0 also when the quota is exceeded.

        Failed moves are tried again after a pause, when there is nothing else to move.
        """
        size_bytes = 0
        for topic_partition in [each for each in list(self.partitions) if each not in self.failed] or list(self.partitions):
            if self._quota.is_exceeded or self.is_stopped:
                break
            size_bytes += self._step(topic_partition)
        return size_bytes

    def _step(self, topic_partition: TopicPartition) -> int:
        with self._step_lock:
            partition = self.partitions.get(topic_partition)
            if partition is None:
                return 0
            try:
                size_bytes, is_done = self._copier.step(partition)
            except Exception as error:  # noqa: BLE001 one replica's failure must not stop the moves of others
                self._fail(topic_partition, error)
                return 0
            self.failed.discard(topic_partition)
            self.requests.mark()
            self._quota.record(size_bytes)
            if is_done:
                self.partitions.pop(topic_partition, None)
        if is_done:
            _log.info("{partition} was moved to {directory}", partition=str(topic_partition), directory=str(partition.log.parent))
            self._on_moved(topic_partition)
        return size_bytes

    def _fail(self, topic_partition: TopicPartition, error: Exception) -> None:
        """Leave a partition for later. A directory that has failed ends its moves (``directory_failed``)."""
        if topic_partition in self.failed:
            return
        if isinstance(error, KafkaError | OSError):
            _log.error("{partition} cannot be moved for now: {error}", partition=str(topic_partition), error=error)
        else:
            _log.failure("The move of {partition} failed for now", partition=str(topic_partition))
        self.failed.add(topic_partition)

    @property
    def max_lag(self) -> int:
        """The largest lag of a future log, in records."""
        lags = [
            partition.log.log_end_offset - future.log_end_offset
            for partition in list(self.partitions.values())
            if (future := partition.future_log) is not None
        ]
        return max(lags, default=0)


class ReplicaAlterLogDirsManager:
    """Spreads the partitions over threads, one per mover, which start when there is something to move."""

    def __init__(
        self,
        movers: list[ReplicaMover],
        quota: ReplicationQuota,
        backoff_ms: int,
        metrics: MetricsRegistry,
        scheduler: IScheduler,
    ) -> None:
        """The scheduler tries again if the system has no thread to give."""
        self._movers = movers
        self._scheduler = scheduler
        self._quota = quota
        self._backoff_s = backoff_ms / 1000
        self.is_threaded = True
        """False, for tests, moves replicas only in ``pump``."""
        self._threads: dict[ReplicaMover, machine.Thread] = {}
        self._lock = machine.Lock()
        gauges: dict[str, Callable[[], object]] = {
            "MaxLag": lambda: max(mover.max_lag for mover in movers),
            "MinFetchRate": lambda: min(mover.requests.one_minute_rate() for mover in movers),
            "FailedPartitionsCount": lambda: sum(len(mover.failed) for mover in movers),
            "DeadThreadCount": lambda: sum(not thread.is_alive() for thread in list(self._threads.values())),
        }
        for name, function in gauges.items():
            metrics.gauge(_METRICS, name, function, **_TAGS)

    def add(self, partition: Partition) -> None:
        """Start to move a partition that has a future log."""
        mover = self._mover(partition.topic_partition)
        mover.add(partition)
        self._start(mover)

    def _start(self, mover: ReplicaMover) -> None:
        with self._lock:
            if self.is_threaded and mover not in self._threads and not mover.is_stopped:
                thread = make_thread(lambda: self._run(mover), f"ReplicaAlterLogDirsThread-{self._movers.index(mover)}")
                try:
                    thread.start()
                    self._threads[mover] = thread
                except RuntimeError as error:
                    _log.error("Replicas are moved later: {error}", error=error)
                    self._scheduler.schedule_once("start-alter-log-dirs", lambda: self._start(mover), RETRY_MS)

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop moving these partitions; return when nothing of them is being copied."""
        for topic_partition in topic_partitions:
            self._mover(topic_partition).remove(topic_partition)

    def pump(self) -> int:
        """Copy a piece of each partition on this thread; return the number of bytes."""
        return sum([mover.run_once() for mover in self._movers])

    def shutdown(self) -> None:
        """Stop the threads. Unfinished moves continue after the next start."""
        with self._lock:
            threads = list(self._threads.values())
            for mover in self._movers:
                with mover.changed:
                    mover.is_stopped = True
                    mover.changed.notify()
        for thread in threads:
            thread.join(STOP_TIMEOUT_S)

    def _mover(self, topic_partition: TopicPartition) -> ReplicaMover:
        return self._movers[hash(topic_partition) % len(self._movers)]

    def _run(self, mover: ReplicaMover) -> None:
        def pause(seconds: float) -> bool:
            with mover.changed:
                return mover.changed.wait_for(lambda: mover.is_stopped, seconds)

        repeat(lambda: self._step(mover), pause, "the mover of replicas")

    def _step(self, mover: ReplicaMover) -> bool:
        if mover.is_stopped:
            return False
        moved = mover.run_once()
        with mover.changed:
            if mover.is_stopped or moved:
                return True
            if not mover.partitions:
                mover.changed.wait(IDLE_WAIT_S)
            else:
                mover.changed.wait(QUOTA_WAIT_S if self._quota.is_exceeded else self._backoff_s)
        return True
