"""A share coordinator over a MemoryLog, under a clock that a test moves by hand."""

from concurrent.futures import Future
from typing import Any, TypeVar

from tests.support.coordinator_fakes import FakeTopics, MemoryLog
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, decode_record
from twisted_kafka.coordinator.runtime import CoordinatorRuntime, RuntimeSettings
from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.topic_partition import SHARE_TOPIC, TopicPartition
from twisted_kafka.share.share_partition_key import SharePartitionKey
from twisted_kafka.share_coordinator.environment import ShareCoordinatorConfig, ShareEnvironment
from twisted_kafka.share_coordinator.share_coordinator import ShareCoordinator
from twisted_kafka.share_coordinator.share_coordinator_metrics import ShareCoordinatorMetrics
from twisted_kafka.share_coordinator.share_coordinator_shard import ShareShardFactory
from twisted_kafka.share_coordinator.share_state import SHARE_RECORD_KINDS
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler
from twisted_kafka.timing.timer import Timer

T = TypeVar("T")

ORDERS = b"orders".ljust(16, b".")
"""The id that FakeTopics gives to the topic."""
KEY = SharePartitionKey("group", ORDERS, 0)


class ShareTopics(FakeTopics):
    """The topics by their ids, too."""

    def topic_name(self, topic_id: bytes) -> str | None:
        snapshot: MetadataSnapshot = self.snapshot
        return snapshot.topic_names.get(topic_id)

    def partition_count(self, topic: str) -> int | None:
        return self.counts.get(topic)


class ShareBench:
    """The coordinator, and short forms of its requests for one share partition."""

    def __init__(self, log: MemoryLog | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.log = log or MemoryLog()
        self.topics = ShareTopics()
        self.topics.change({"orders": 3})
        self.config = ShareCoordinatorConfig(**settings)
        self.metrics = MetricsRegistry(self.clock)
        self.timer = Timer(self.clock)
        self.epoch = 0
        self.start()

    def start(self) -> None:
        self.scheduler = ManualScheduler(self.clock)
        environment = ShareEnvironment(self.clock, self.config, self.topics)
        runtime = CoordinatorRuntime(
            RuntimeSettings(SHARE_TOPIC, lambda: 1),
            ShareShardFactory(environment),
            self.log,
            self.log,
            self.scheduler,
            self.timer,
            self.clock,
        )
        metrics = ShareCoordinatorMetrics(self.metrics, self.clock)
        self.shares = ShareCoordinator(runtime, self.scheduler, self.clock, self.config, metrics)
        self.shares.startup()
        runtime.on_leadership_change([(0, self.epoch)], [])
        self.scheduler.run_due()

    def restart(self) -> None:
        """Stop, and start again over the same log."""
        self.shares.shutdown()
        self.scheduler.shutdown()
        self.epoch += 1
        self.start()

    def advance(self, ms: int) -> None:
        self.clock.advance_ms(ms)
        self.timer.expire_due()
        self.scheduler.run_due()

    def initialize(self, state_epoch: int = 1, start_offset: int = -1, key: SharePartitionKey = KEY) -> Any:
        data = wire.InitializeShareGroupStateRequestPartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = wire.InitializeStateData(topic_id=key.topic_id, partitions=[data])
        return _only(self.shares.initialize_state(wire.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic])))

    def write(
        self,
        *state_batches: tuple[int, int, int, int],
        start_offset: int = -1,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        count: int = 0,
        key: SharePartitionKey = KEY,
    ) -> Any:
        return _only(self.shares.write_state(self.write_request(*state_batches, start_offset=start_offset, state_epoch=state_epoch,
                                                                leader_epoch=leader_epoch, count=count, key=key)))  # fmt: skip

    def write_request(
        self,
        *state_batches: tuple[int, int, int, int],
        start_offset: int = -1,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        count: int = 0,
        key: SharePartitionKey = KEY,
    ) -> wire.WriteShareGroupStateRequest:
        data = wire.WriteShareGroupStateRequestPartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            state_batches=[
                wire.WriteShareGroupStateRequestStateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=deliveries
                )
                for first, last, state, deliveries in state_batches
            ],
        )
        topic = wire.WriteStateData(topic_id=key.topic_id, partitions=[data])
        return wire.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])

    def read(self, leader_epoch: int = 0, key: SharePartitionKey = KEY) -> Any:
        data = wire.ReadShareGroupStateRequestPartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = wire.ReadStateData(topic_id=key.topic_id, partitions=[data])
        return _only(self.shares.read_state(wire.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic])))

    def summary(self, key: SharePartitionKey = KEY) -> Any:
        data = wire.ReadShareGroupStateSummaryRequestPartitionData(partition=key.partition)
        topic = wire.ReadStateSummaryData(topic_id=key.topic_id, partitions=[data])
        return _only(self.shares.read_state_summary(wire.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic])))

    def delete(self, key: SharePartitionKey = KEY) -> Any:
        data = wire.DeleteShareGroupStateRequestPartitionData(partition=key.partition)
        topic = wire.DeleteStateData(topic_id=key.topic_id, partitions=[data])
        return _only(self.shares.delete_state(wire.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic])))

    def first_offset(self) -> int:
        """Return the first offset that is still in the log."""
        return next(iter(batches(self.log.batches[TopicPartition(SHARE_TOPIC, 0)][0]))).base_offset

    def records(self) -> list[CoordinatorRecord]:
        return [
            decode_record(SHARE_RECORD_KINDS, record.key, record.value)
            for data in self.log.batches[TopicPartition(SHARE_TOPIC, 0)]
            for batch in batches(data)
            for record in batch.records()
        ]


def _only(response: Any) -> Any:
    """Return the only partition's result, or the future of the response."""
    if isinstance(response, Future):
        if not response.done():
            return response
        response = response.result()
    ((result,),) = [topic.partitions for topic in response.results]
    return result


def state_of(result: Any) -> tuple[int, int, list[tuple[int, int, int, int]]]:
    """Return state epoch, start offset and batches of a read."""
    assert not result.error_code, result.error_message
    found = [(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in result.state_batches]
    return result.state_epoch, result.start_offset, found
