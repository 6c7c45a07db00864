"""A replica manager over real logs in a directory, with its clock, timer and scheduler in the test's hand."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.log_manager import LogManager
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import KafkaStorageError
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from twisted_kafka.protocol.records.builder import build_batch, end_transaction_marker
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.control_plane import ControlPlane
from twisted_kafka.replication.operations.purgatories import Purgatories
from twisted_kafka.replication.partition.fetch_data import FetchParams, PartitionFetch
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler
from twisted_kafka.timing.timer import Timer

BROKER = 1
OTHER = 2
TOPIC = "orders"
TP = TopicPartition(TOPIC, 0)
NO_ID = bytes(16)


def topic_id(topic: str) -> bytes:
    return topic.encode().ljust(16, b".")[:16]


class Logs(LogManager):
    """A log manager that remembers what it deleted, and fails where the test says."""

    def __init__(self, config: KafkaConfig, scheduler: ManualScheduler, clock: ManualClock) -> None:
        super().__init__(config, scheduler, clock)
        self.configs: dict[str, dict[str, str]] = {}
        self.deleted: list[TopicPartition] = []
        self.failing: set[TopicPartition] = set()
        self.startup(lambda topic: self.configs.get(topic, {}))

    def get_or_create_log(self, topic_partition: TopicPartition, *args: Any, **options: Any) -> UnifiedLog:
        if topic_partition in self.failing:
            raise KafkaStorageError("the disk is broken")
        return super().get_or_create_log(topic_partition, *args, **options)

    def delete_log(self, topic_partition: TopicPartition) -> bool:
        if topic_partition in self.failing:
            raise KafkaStorageError("the disk is broken")
        self.deleted.append(topic_partition)
        return super().delete_log(topic_partition)


class Harness:
    broker_id = BROKER

    def __init__(self, directory: Path | list[Path], *, clock: ManualClock | None = None, **properties: Any) -> None:
        self.clock = clock or ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.timer = Timer(self.clock)
        self.metrics = MetricsRegistry(self.clock)
        given = {key.replace("_", "."): str(value) for key, value in properties.items()}
        directories = [directory] if isinstance(directory, Path) else directory
        self.config = KafkaConfig.from_properties(
            {"log.dirs": ",".join(map(str, directories)), "log.cleaner.threads": "0", **given}
        )
        self.directory = directory
        self.metadata = MetadataCache(self.broker_id, "cluster")
        self.logs = Logs(self.config, self.scheduler, self.clock)
        self.replicas = ReplicaManager(
            self.config,
            self.logs,
            self.metadata,
            self.scheduler,
            self.clock,
            Purgatories(self.clock, self.timer),
            self.metrics,
        )
        self.replicas.moves.manager.is_threaded = False
        self.control = ControlPlane(self.replicas)
        self.changes: list[tuple[list[Any], list[Any]]] = []
        self.replicas.add_leadership_listener(lambda led, not_led: self.changes.append((list(led), list(not_led))))

    def close(self) -> None:
        """Stop as a broker does."""
        self.replicas.shutdown()
        self.logs.shutdown()

    def advance_ms(self, ms: int) -> None:
        self.clock.advance_ms(ms)
        self.timer.expire_due()
        self.scheduler.run_due()

    def order(
        self,
        topic: str = TOPIC,
        partition: int = 0,
        *,
        leader: int = BROKER,
        epoch: int = 0,
        isr: Any = None,
        replicas: tuple[int, ...] = (BROKER,),
        controller_epoch: int = 1,
        version: int = 0,
        topic_uuid: Any = None,
    ) -> int:
        """Order a role as the controller does; return the partition's error code, or the response's."""
        state = LeaderAndIsrPartitionState(
            partition_index=partition,
            controller_epoch=controller_epoch,
            leader=leader,
            leader_epoch=epoch,
            isr=list(replicas if isr is None else isr),
            partition_epoch=version,
            replicas=list(replicas),
        )
        topic_state = LeaderAndIsrTopicState(
            topic_name=topic, topic_id=topic_id(topic) if topic_uuid is None else topic_uuid, partition_states=[state]
        )
        response = self.control.leader_and_isr(
            LeaderAndIsrRequest(controller_id=BROKER, controller_epoch=controller_epoch, topic_states=[topic_state])
        )
        if response.error_code:
            return response.error_code
        return response.topics[0].partition_errors[0].error_code

    def announce(
        self,
        topic: str = TOPIC,
        partition: int = 0,
        *,
        leader: int = BROKER,
        epoch: int = 0,
        replicas: tuple[int, ...] = (BROKER,),
        topic_uuid: Any = None,
        controller_epoch: int = 1,
    ) -> None:
        """Tell the metadata cache of a partition, and of two brokers."""
        state = UpdateMetadataPartitionState(
            partition_index=partition, leader=leader, leader_epoch=epoch, isr=list(replicas), replicas=list(replicas)
        )
        brokers = [
            UpdateMetadataBroker(
                id=broker,
                endpoints=[
                    UpdateMetadataEndpoint(port=9090 + broker, host=f"b{broker}", listener="PLAINTEXT", security_protocol=0)
                ],
            )
            for broker in (BROKER, OTHER)
        ]
        self.control.update_metadata(
            UpdateMetadataRequest(
                controller_id=BROKER,
                controller_epoch=controller_epoch,
                topic_states=[
                    UpdateMetadataTopicState(
                        topic_name=topic, topic_id=topic_id(topic) if topic_uuid is None else topic_uuid, partition_states=[state]
                    )
                ],
                live_brokers=brokers,
            )
        )

    def lead(self, topic: str = TOPIC, partition: int = 0, *, config: Any = None, **how: Any) -> Partition:
        """Lead a partition that everybody knows of."""
        if config:
            self.logs.configs[topic] = config
        assert self.order(topic, partition, **how) == 0
        self.announce(topic, partition, epoch=how.get("epoch", 0), replicas=how.get("replicas", (BROKER,)))
        return self.replicas.get_partition(TopicPartition(topic, partition))

    def stop_replica(self, *, epoch: int = -2, delete: bool = True, controller_epoch: int = 1) -> int:
        """Stop the replica of partition 0 as the controller does; return the partition's error code, or the response's."""
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=epoch, delete_partition=delete)
        response = self.control.stop_replica(
            StopReplicaRequest(
                controller_epoch=controller_epoch,
                topic_states=[StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])],
            )
        )
        return response.error_code or response.partition_errors[0].error_code

    def append(
        self,
        *values: Any,
        topic_partition: Any = TP,
        acks: int = 1,
        timeout_ms: int = 1000,
        batch_options: Any = None,
        **options: Any,
    ) -> Any:
        """Append the values as one batch; return the partition's result, or a future of the results."""
        batch = batch_of(*values, **(batch_options or {}))
        results = self.replicas.appender.append(timeout_ms, acks, {topic_partition: batch}, **options)
        return results[topic_partition] if isinstance(results, dict) else results

    def begin_transaction(self, *values: Any, topic_partition: TopicPartition = TP) -> None:
        """Append the values as the first batch of a transaction of producer 1, which stays open."""
        options = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        guard = self.replicas.get_partition_or_error(topic_partition).log.start_verification(1, 0, 0)
        guards = {} if guard is None else {topic_partition: guard}
        assert self.append(*values, topic_partition=topic_partition, batch_options=options, guards=guards).error == 0

    def end_transaction(self, *, commit: bool = True, topic_partition: TopicPartition = TP) -> None:
        """Append the marker that ends producer 1's transaction."""
        results: Any = self.replicas.appender.append(0, 1, {topic_partition: end_marker(commit)}, AppendOrigin.COORDINATOR)
        assert results[topic_partition].error == 0


def end_marker(commit: bool, producer_id: int = 1) -> bytearray:
    """Return the batch that ends the producer's transaction."""
    return bytearray(
        end_transaction_marker(
            commit=commit, coordinator_epoch=0, timestamp_ms=1_700_000_000_000, producer_id=producer_id, producer_epoch=0
        )
    )


def batch_of(*values: Any, timestamp_ms: int = 1_700_000_000_000, **options: Any) -> bytearray:
    return bytearray(build_batch([SimpleRecord(timestamp_ms, None, value) for value in values], **options))


def in_thread(action: Callable[[], Any]) -> Any:
    """Run the action on another thread, to its end."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(action()))
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return outcome[0] if outcome else None


def follower_fetch(offset: int, epoch: int = -1, log_start_offset: int = 0) -> PartitionFetch:
    """Return a follower's fetch from TP."""
    fetch = PartitionFetch(TP, bytes(16), 0, offset, 1 << 20, epoch)
    fetch.log_start_offset = log_start_offset
    return fetch


def follower_fetches(h: Harness, offset: int, *, replica: int = OTHER, epoch: int = -1) -> Any:
    params = FetchParams(replica, 0, 1, 1 << 20, FetchIsolation.LOG_END, 12)
    fetch = follower_fetch(offset, epoch)
    read: Any = h.replicas.reader.fetch(params, [fetch])
    return read[0]
