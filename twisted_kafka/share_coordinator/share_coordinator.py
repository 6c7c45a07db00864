"""The share coordinator's interface for API handlers and the persister: routing by share partition, errors as values."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from twisted_kafka.coordinator.effects import Write
from twisted_kafka.coordinator.runtime import CoordinatorRuntime
from twisted_kafka.protocol.errors import KafkaError, error_class
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.share.share_partition_key import SharePartitionKey
from twisted_kafka.share_coordinator.environment import ShareCoordinatorConfig
from twisted_kafka.share_coordinator.share_coordinator_metrics import ShareCoordinatorMetrics
from twisted_kafka.share_coordinator.share_coordinator_shard import Failure, Found, ShareCoordinatorShard
from twisted_kafka.share_coordinator.share_state import ShareChange
from twisted_kafka.share_coordinator.state_batches import StateBatch
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import IScheduler, ScheduledTask
from twisted_kafka.waiting.futures import gather, when_done

R = TypeVar("R")
T = TypeVar("T")


class ShareCoordinator:
    """The state of share partitions (Kafka: ShareCoordinatorService). Methods may be called on any thread.

    Each takes a wire request and returns the wire response, or a future of it if replicas have to confirm first. A share
    partition's errors are in its result; NOT_COORDINATOR means that another broker leads its partition of the topic.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[ShareCoordinatorShard],
        scheduler: IScheduler,
        clock: IClock,
        config: ShareCoordinatorConfig,
        metrics: ShareCoordinatorMetrics,
    ) -> None:
        self.runtime = runtime
        self._scheduler = scheduler
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._tasks: list[ScheduledTask] = []

    def startup(self) -> None:
        """Start serving requests, pruning the topic and snapshots of cold share partitions."""
        self.runtime.startup()
        prune_ms, cold_ms = self._config.prune_interval_ms, self._config.cold_snapshot_interval_ms
        self._tasks = [
            self._scheduler.schedule("prune-share-group-state", self.prune, prune_ms, prune_ms),
            self._scheduler.schedule("snapshot-cold-share-partitions", self.snapshot_cold, cold_ms, cold_ms),
        ]
        runtime = self.runtime
        self._metrics.expose(runtime.partition_states, runtime.queue_size, runtime.busy_ns)

    def shutdown(self) -> None:
        """Stop serving requests."""
        for task in self._tasks:
            task.cancel()
        self.runtime.shutdown()

    def partition_for(self, coordinator_key: str) -> int:
        """Return the partition of ``__share_group_state`` that stores a share partition, by its key."""
        return self.runtime.partition_for(coordinator_key)

    def prune(self) -> None:
        """Delete the records that no share partition needs."""
        self.runtime.post_everywhere(ShareCoordinatorShard.prune)

    def snapshot_cold(self) -> None:
        """Write the state of share partitions that did not change for long again, so that older records may be deleted."""
        self.runtime.post_everywhere(ShareCoordinatorShard.snapshot_cold)

    def on_topics_deleted(self) -> None:
        """Remove the state of topics that do not exist any more."""
        self.runtime.post_everywhere(ShareCoordinatorShard.remove_deleted)

    # requests

    def initialize_state(
        self, request: wire.InitializeShareGroupStateRequest
    ) -> "wire.InitializeShareGroupStateResponse | Future[wire.InitializeShareGroupStateResponse]":
        """Initialize share partitions (InitializeShareGroupState)."""

        def one(key: SharePartitionKey, asked: Any) -> "Failure | Future[Failure]":
            return self._failing(key, lambda shard: shard.initialize_state(key, asked.state_epoch, asked.start_offset))

        def result(asked: Any, failure: Failure) -> wire.InitializeShareGroupStateResponsePartitionResult:
            made = wire.InitializeShareGroupStateResponsePartitionResult(partition=asked.partition)
            return _with(made, failure)

        return self._each(request, one, result, wire.InitializeStateResult, wire.InitializeShareGroupStateResponse)

    def write_state(
        self, request: wire.WriteShareGroupStateRequest
    ) -> "wire.WriteShareGroupStateResponse | Future[wire.WriteShareGroupStateResponse]":
        """Apply changes by the partitions' leaders (WriteShareGroupState)."""

        def one(key: SharePartitionKey, asked: Any) -> "Failure | Future[Failure]":
            change = _change_of(asked)
            began_ns = self._clock.monotonic_ns()
            self._metrics.write_began()

            def done(failure: Failure) -> Failure:
                self._metrics.write_answered((self._clock.monotonic_ns() - began_ns) / 1e6)
                return failure

            return when_done(self._failing(key, lambda shard: shard.write_state(key, change)), done)

        def result(asked: Any, failure: Failure) -> wire.WriteShareGroupStateResponsePartitionResult:
            return _with(wire.WriteShareGroupStateResponsePartitionResult(partition=asked.partition), failure)

        return self._each(request, one, result, wire.WriteStateResult, wire.WriteShareGroupStateResponse)

    def delete_state(
        self, request: wire.DeleteShareGroupStateRequest
    ) -> "wire.DeleteShareGroupStateResponse | Future[wire.DeleteShareGroupStateResponse]":
        """Remove the state of share partitions (DeleteShareGroupState)."""

        def one(key: SharePartitionKey, asked: Any) -> "Failure | Future[Failure]":
            return self._failing(key, lambda shard: shard.delete_state(key))

        def result(asked: Any, failure: Failure) -> wire.DeleteShareGroupStateResponsePartitionResult:
            return _with(wire.DeleteShareGroupStateResponsePartitionResult(partition=asked.partition), failure)

        return self._each(request, one, result, wire.DeleteStateResult, wire.DeleteShareGroupStateResponse)

    def read_state(
        self, request: wire.ReadShareGroupStateRequest
    ) -> "wire.ReadShareGroupStateResponse | Future[wire.ReadShareGroupStateResponse]":
        """Return states to the partitions' leaders (ReadShareGroupState)."""

        def one(key: SharePartitionKey, asked: Any) -> "Found | Future[Found]":
            return self._finding(key, lambda shard: shard.read_state(key, asked.leader_epoch))

        def result(asked: Any, found: Found) -> wire.ReadShareGroupStateResponsePartitionResult:
            made = _with(wire.ReadShareGroupStateResponsePartitionResult(partition=asked.partition), found.failure)
            if not found.failure.error:
                state = found.state
                made.state_epoch, made.start_offset = state.state_epoch, state.start_offset
                made.state_batches = [_encoded(each) for each in state.batches]
            return made

        return self._each(request, one, result, wire.ReadStateResult, wire.ReadShareGroupStateResponse)

    def read_state_summary(
        self, request: wire.ReadShareGroupStateSummaryRequest
    ) -> "wire.ReadShareGroupStateSummaryResponse | Future[wire.ReadShareGroupStateSummaryResponse]":
        """Return start offsets and epochs (ReadShareGroupStateSummary)."""

        def one(key: SharePartitionKey, asked: Any) -> "Found | Future[Found]":
            return self._finding(key, lambda shard: shard.read_state_summary(key))

        def result(asked: Any, found: Found) -> wire.ReadShareGroupStateSummaryResponsePartitionResult:
            made = _with(wire.ReadShareGroupStateSummaryResponsePartitionResult(partition=asked.partition), found.failure)
            if not found.failure.error:
                state = found.state
                made.state_epoch, made.leader_epoch = state.state_epoch, state.leader_epoch
                made.start_offset, made.delivery_complete_count = state.start_offset, state.delivery_complete_count
            return made

        return self._each(request, one, result, wire.ReadStateSummaryResult, wire.ReadShareGroupStateSummaryResponse)

    def _failing(
        self, key: SharePartitionKey, operation: "Callable[[ShareCoordinatorShard], Failure | Write[Failure]]"
    ) -> "Failure | Future[Failure]":
        return self.runtime.try_read(key.coordinator_key, operation, _failure_of)

    def _finding(
        self, key: SharePartitionKey, operation: "Callable[[ShareCoordinatorShard], Found | Write[Found]]"
    ) -> "Found | Future[Found]":
        return self.runtime.try_read(key.coordinator_key, operation, lambda error: Found(_failure_of(error)))

    def _each(
        self,
        request: Any,
        one: "Callable[[SharePartitionKey, Any], T | Future[T]]",
        result: Callable[[Any, T], Any],
        topic_result: Callable[..., Any],
        response: Callable[..., R],
    ) -> "R | Future[R]":
        """Run an operation for each share partition of a request; return the response, or a future of it.

        The generated messages of the five APIs have the same shape, and no type in common.
        """
        topics = request.topics if request.group_id else ()  # as in Kafka, nothing is answered without a group
        pairs = [(topic.topic_id, asked) for topic in topics for asked in topic.partitions]
        values = [one(SharePartitionKey(request.group_id, topic_id, asked.partition), asked) for topic_id, asked in pairs]

        def answer(done: list[T]) -> R:
            results = iter([result(asked, value) for (_, asked), value in zip(pairs, done, strict=True)])
            return response(
                results=[
                    topic_result(topic_id=topic.topic_id, partitions=[next(results) for _ in topic.partitions]) for topic in topics
                ]
            )

        return gather(values, answer)


def _failure_of(error: KafkaError) -> Failure:
    return Failure(error.code, str(error) or None)


def _with(result: T, failure: Failure) -> T:
    """Return a partition's result with an error and its message, if there is one."""
    if failure.error:
        made: Any = result
        made.error_code = failure.error
        made.error_message = failure.message or error_class(failure.error).general_message
    return result


def _change_of(asked: wire.WriteShareGroupStateRequestPartitionData) -> ShareChange:
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in asked.state_batches
    ]
    return ShareChange(asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches)


def _encoded(batch: StateBatch) -> wire.ReadShareGroupStateResponseStateBatch:
    return wire.ReadShareGroupStateResponseStateBatch(
        first_offset=batch.first_offset,
        last_offset=batch.last_offset,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )
