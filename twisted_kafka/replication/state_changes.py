"""Changes of the hosted partitions (Kafka: ``ReplicaManager.becomeLeaderOrFollower`` and ``stopReplicas``).

One order at a time. An order of an older controller is refused as a whole with STALE_CONTROLLER_EPOCH; a partition whose leader
epoch is newer here than in the order keeps its state.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from twisted.logger import Logger

from twisted_kafka.log.directories.log_directories import is_out_of_descriptors
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.metadata.store import StoreError
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode, InconsistentTopicIdError, KafkaError
from twisted_kafka.protocol.topic_partition import TopicPartition, is_legal_topic
from twisted_kafka.replication.interfaces import (
    FixedReplicas,
    IInSyncReplicas,
    IReplicaFetchers,
    LeadershipListener,
)
from twisted_kafka.replication.log_dirs.alter_log_dirs import AlterLogDirs
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.partition.fetch_data import NO_EPOCH
from twisted_kafka.replication.partition.high_watermarks import HighWatermarkCheckpoints
from twisted_kafka.replication.partition.partition import LeaderState, Partition
from twisted_kafka.replication.partition.partition_table import PartitionTable
from twisted_kafka.replication.partition.topic_stats import BrokerTopicStats
from twisted_kafka.system import machine

EPOCH_DURING_DELETE: Final = -2

_log = Logger()


class StateChanges:
    """Applies the controller's requests to the partition table (Kafka: ``becomeLeaderOrFollower``, ``stopReplicas``)."""

    __slots__ = (
        "_broker_id",
        "_checkpoints",
        "_fetchers",
        "_in_sync",
        "_is_leaving",
        "_listeners",
        "_logs",
        "_make_partition",
        "_moves",
        "_on_starved",
        "_purgatories",
        "_starved",
        "_stats",
        "controller_epoch",
        "lock",
        "partitions",
    )

    def __init__(
        self,
        broker_id: int,
        partitions: PartitionTable,
        logs: LogManager,
        checkpoints: HighWatermarkCheckpoints,
        purgatories: Purgatories,
        stats: BrokerTopicStats,
        make_partition: Callable[[UnifiedLog, bytes], Partition],
    ) -> None:
        self._broker_id = broker_id
        self.partitions = partitions
        self._logs = logs
        self._checkpoints = checkpoints
        self._purgatories = purgatories
        self._stats = stats
        self._make_partition = make_partition
        self._fetchers: IReplicaFetchers | None = None
        self._in_sync: IInSyncReplicas = FixedReplicas()
        self._listeners: list[LeadershipListener] = []
        self._moves: AlterLogDirs | None = None
        self._starved: set[TopicPartition] = set()
        self._on_starved: Callable[[], object] | None = None
        self._is_leaving = False
        self.lock = machine.RLock()
        """Held while a request is applied."""
        self.controller_epoch = 0

    def set_fetchers(self, fetchers: IReplicaFetchers) -> None:
        """Set the replica fetchers, which are made later."""
        self._fetchers = fetchers

    def set_in_sync_replicas(self, in_sync: IInSyncReplicas) -> None:
        """Set the part that changes the in-sync replicas, which is made later."""
        self._in_sync = in_sync

    def set_moves(self, moves: AlterLogDirs) -> None:
        """Set the moves between log directories, which are made later."""
        self._moves = moves

    def set_starved_listener(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` when a log could not be used for another reason than its disk: ``retry_starved`` may succeed later."""
        self._on_starved = listener

    def leave(self) -> None:
        """Follow no further leader: this broker is about to stop.

        The controller makes it follow the new leaders of its partitions, and removes it from the in-sync replicas. A leader that
        it fetched from would propose it again, and commit nothing without it until the controller has refused.
        """
        with self.lock:
            self._is_leaving = True

    def retry_starved(self) -> bool:
        """Let the next request use the logs that could not be used; return whether there are any."""
        with self.lock:
            starved, self._starved = self._starved, set()
            self.partitions.forget_offline(starved)
            return bool(starved)

    def add_listener(self, listener: LeadershipListener) -> None:
        """Call ``listener`` after each change of leaders, on the controller's thread."""
        self._listeners.append(listener)

    def accept_controller_epoch(self, epoch: int) -> bool:
        """Remember a request's controller epoch; return False if it is stale."""
        with self.lock:
            if epoch < self.controller_epoch:
                _log.warn("Ignoring a request of controller epoch {old}, now {new}", old=epoch, new=self.controller_epoch)
                return False
            self.controller_epoch = epoch
            return True

    def become_leader_or_follower(
        self, controller_epoch: int, states: Iterable[tuple[TopicPartition, bytes, LeaderState]]
    ) -> dict[TopicPartition, ErrorCode] | None:
        """Apply LeaderAndIsr; return an error code (or NONE) for each partition, None for a stale controller epoch."""
        with self.lock:
            if not self.accept_controller_epoch(controller_epoch):
                return None
            errors: dict[TopicPartition, ErrorCode] = {}
            led: list[TopicPartition] = []
            followed: list[Partition] = []
            for topic_partition, topic_id, state in states:
                errors[topic_partition] = self._change(topic_partition, topic_id, state, led, followed)
            if self._fetchers is not None and followed and not self._is_leaving:
                self._fetchers.follow(followed)
            if self._moves is not None:
                self._moves.resume([each for tp in errors if (each := self.partitions.get(tp)) is not None])
            self._tell(led, [partition.topic_partition for partition in followed])
            return errors

    def _change(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        state: LeaderState,
        led: list[TopicPartition],
        followed: list[Partition],
    ) -> ErrorCode:
        if self.partitions.is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not is_legal_topic(topic_partition.topic) or topic_partition.partition < 0:
            _log.error("Rejecting LeaderAndIsr for {partition!r}: no partition has this name", partition=str(topic_partition))
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if self._broker_id not in state.replicas:
            _log.error("Rejecting LeaderAndIsr for {partition}: this broker is not among its replicas", partition=topic_partition)
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            partition = self._get_or_create(topic_partition, topic_id, state.is_new)
            if state.leader_epoch < partition.leader_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            if state.leader == self._broker_id:
                self._lead(partition, state, led)
            else:
                self._follow(partition, state, followed)
        except InconsistentTopicIdError as error:
            _log.error("{error}", error=error)
            return error.code
        except StoreError as error:  # no fault of the disk
            _log.error("The topic's settings of {partition} cannot be read: {error}", partition=str(topic_partition), error=error)
            self._starve(topic_partition)
            return ErrorCode.REQUEST_TIMED_OUT
        except Exception as error:  # noqa: BLE001 one partition's failure is its own
            if isinstance(error, KafkaError | OSError):
                _log.error("The log of {partition} cannot be used: {error}", partition=str(topic_partition), error=error)
            else:
                _log.failure("The log of {partition} cannot be used", partition=str(topic_partition))
            self.partitions.mark_offline(topic_partition)
            self._purgatories.check_all(topic_partition)
            if is_out_of_descriptors(error) or not self._logs.has_failed_directory:
                self._starve(topic_partition)  # it is no fault of a disk
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._purgatories.check_all(topic_partition)
        return ErrorCode.NONE

    def _starve(self, topic_partition: TopicPartition) -> None:
        self._starved.add(topic_partition)
        if self._on_starved is not None:
            self._on_starved()

    def _get_or_create(self, topic_partition: TopicPartition, topic_id: bytes, is_new: bool) -> Partition:
        partition = self.partitions.get(topic_partition)
        if partition is None:
            log = self._logs.get_or_create_log(topic_partition, None if topic_id == NO_UUID else topic_id, is_new=is_new)
            log.update_high_watermark(self._checkpoints.last_known(log.parent, topic_partition))
            partition = self._make_partition(log, log.topic_id or topic_id)
            self.partitions.add(partition)
        _check_topic_id(topic_partition, topic_id, partition.topic_id)
        if partition.topic_id == NO_UUID:
            partition.topic_id = topic_id
        return partition

    def _lead(self, partition: Partition, state: LeaderState, led: list[TopicPartition]) -> None:
        if self._fetchers is not None and not partition.is_leader:
            self._fetchers.stop_following([partition.topic_partition])
        is_new_epoch = state.leader_epoch > partition.leader_epoch
        if partition.make_leader(state) or is_new_epoch:
            led.append(partition.topic_partition)
        if not partition.is_alone:
            self._in_sync.watch(partition)

    def _follow(self, partition: Partition, state: LeaderState, followed: list[Partition]) -> None:
        if not partition.make_follower(state):
            return  # it is fetched from this leader already
        if self._fetchers is not None:
            self._fetchers.stop_following([partition.topic_partition])
        followed.append(partition)

    def stop(
        self, controller_epoch: int, orders: Iterable[tuple[TopicPartition, int, bool]]
    ) -> dict[TopicPartition, ErrorCode] | None:
        """Apply StopReplica, given as (partition, leader epoch, whether to delete its log); None for a stale controller epoch."""
        with self.lock:
            if not self.accept_controller_epoch(controller_epoch):
                return None
            errors = {}
            for topic_partition, leader_epoch, delete in orders:
                errors[topic_partition] = self._stop(topic_partition, leader_epoch, delete)
            self._logs.forget_deleted()
            stopped = [topic_partition for topic_partition, error in errors.items() if error == ErrorCode.NONE]
            self._tell([], stopped)
            for topic in {topic_partition.topic for topic_partition in stopped}:
                if not self.partitions.hosts_topic(topic):
                    self._stats.remove(topic)
            return errors

    def _stop(self, topic_partition: TopicPartition, leader_epoch: int, delete: bool) -> ErrorCode:
        if self.partitions.is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self.partitions.get(topic_partition)
        # A deletion has a special leader epoch. Old controllers send none.
        if partition is not None and leader_epoch not in (EPOCH_DURING_DELETE, NO_EPOCH) and leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if self._fetchers is not None:
            self._fetchers.stop_following([topic_partition])
        if self._moves is not None:
            self._moves.stop([topic_partition])
        try:
            if delete:
                if partition is not None:
                    partition.resign()
                self.partitions.remove(topic_partition)
                if self._logs.get_log(topic_partition) is not None:
                    self._logs.delete_log(topic_partition)
        except Exception as error:  # noqa: BLE001 one partition's failure is its own
            if isinstance(error, KafkaError | OSError):
                _log.error("The log of {partition} cannot be deleted: {error}", partition=topic_partition, error=error)
            else:
                _log.failure("The log of {partition} cannot be deleted", partition=str(topic_partition))
            self.partitions.mark_offline(topic_partition)
            return ErrorCode.KAFKA_STORAGE_ERROR
        finally:
            self._purgatories.check_all(topic_partition)
        return ErrorCode.NONE

    def directory_failed(self, directory: Path) -> None:
        """Take the partitions of a log directory offline. They answer KAFKA_STORAGE_ERROR from now on."""
        with self.lock:
            if self._moves is not None:
                self._moves.directory_failed(directory)
            lost = [partition for partition in self.partitions if partition.log.parent == directory]
            if self._fetchers is not None and lost:
                self._fetchers.stop_following([partition.topic_partition for partition in lost])
            for partition in lost:
                self.partitions.mark_offline(partition.topic_partition)
            for partition in lost:
                partition.is_leader = False
                self._purgatories.check_all(partition.topic_partition)
            self._checkpoints.forget(directory)
            self._tell([], [partition.topic_partition for partition in lost])

    def _tell(self, led: Sequence[TopicPartition], not_led: Sequence[TopicPartition]) -> None:
        if not led and not not_led:
            return
        for listener in self._listeners:
            try:
                listener(led, not_led)
            except Exception:  # noqa: BLE001 the other listeners must be called, too
                _log.failure("Uncaught exception in the leadership listener {listener}", listener=listener)


def _check_topic_id(topic_partition: TopicPartition, asked: bytes, known: bytes) -> None:
    if NO_UUID not in (asked, known) and asked != known:
        raise InconsistentTopicIdError(f"{topic_partition} has topic id {known.hex()} here, the controller says {asked.hex()}")
