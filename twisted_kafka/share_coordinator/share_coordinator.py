"""The share coordinator's interface for API handlers and the persister: routing by share partition, errors as values."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from twisted_kafka.coordinator.runtime import CoordinatorRuntime
from twisted_kafka.coordinator.shared_append import Operation
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
from twisted_kafka.waiting.futures import gather, recover

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

        def operation(key: SharePartitionKey, asked: Any) -> "Operation[ShareCoordinatorShard, Failure]":
            return lambda shard: shard.initialize_state(key, asked.state_epoch, asked.start_offset)

        def result(asked: Any, failure: Failure) -> wire.InitializeShareGroupStateResponsePartitionResult:
            made = wire.InitializeShareGroupStateResponsePartitionResult(partition=asked.partition)
            return _with(made, failure)

        values = self._each(request, operation, _failure_of)
        return _response(request, values, result, wire.InitializeStateResult, wire.InitializeShareGroupStateResponse)

    def write_state(
        self, request: wire.WriteShareGroupStateRequest
    ) -> "wire.WriteShareGroupStateResponse | Future[wire.WriteShareGroupStateResponse]":
        """Apply changes by the partitions' leaders (WriteShareGroupState)."""
        began_ns = self._clock.monotonic_ns()

        def operation(key: SharePartitionKey, asked: Any) -> "Operation[ShareCoordinatorShard, Failure]":
            change = _change_of(asked)
            self._metrics.write_began()
            return lambda shard: shard.write_state(key, change)

        def result(asked: Any, failure: Failure) -> wire.WriteShareGroupStateResponsePartitionResult:
            self._metrics.write_answered((self._clock.monotonic_ns() - began_ns) / 1e6)
            return _with(wire.WriteShareGroupStateResponsePartitionResult(partition=asked.partition), failure)

        values = self._each(request, operation, _failure_of)
        return _response(request, values, result, wire.WriteStateResult, wire.WriteShareGroupStateResponse)

    def delete_state(
        self, request: wire.DeleteShareGroupStateRequest
    ) -> "wire.DeleteShareGroupStateResponse | Future[wire.DeleteShareGroupStateResponse]":
        """Remove the state of share partitions (DeleteShareGroupState)."""

        def operation(key: SharePartitionKey, asked: Any) -> "Operation[ShareCoordinatorShard, Failure]":
            return lambda shard: shard.delete_state(key)

        def result(asked: Any, failure: Failure) -> wire.DeleteShareGroupStateResponsePartitionResult:
            return _with(wire.DeleteShareGroupStateResponsePartitionResult(partition=asked.partition), failure)

        values = self._each(request, operation, _failure_of)
        return _response(request, values, result, wire.DeleteStateResult, wire.DeleteShareGroupStateResponse)

    def read_state(
        self, request: wire.ReadShareGroupStateRequest
    ) -> "wire.ReadShareGroupStateResponse | Future[wire.ReadShareGroupStateResponse]":
        """Return states to the partitions' leaders (ReadShareGroupState)."""

        def operation(key: SharePartitionKey, asked: Any) -> "Operation[ShareCoordinatorShard, Found]":
            return lambda shard: shard.read_state(key, asked.leader_epoch)

        def result(asked: Any, found: Found) -> wire.ReadShareGroupStateResponsePartitionResult:
            made = _with(wire.ReadShareGroupStateResponsePartitionResult(partition=asked.partition), found.failure)
            if not found.failure.error:
                state = found.state
                made.state_epoch, made.start_offset = state.state_epoch, state.start_offset
                made.state_batches = [_encoded(each) for each in state.batches]
            return made

        values = self._each(request, operation, _nothing_found)
        return _response(request, values, result, wire.ReadStateResult, wire.ReadShareGroupStateResponse)

    def read_state_summary(
        self, request: wire.ReadShareGroupStateSummaryRequest
    ) -> "wire.ReadShareGroupStateSummaryResponse | Future[wire.ReadShareGroupStateSummaryResponse]":
        """Return start offsets and epochs (ReadShareGroupStateSummary)."""

        def operation(key: SharePartitionKey, asked: Any) -> "Operation[ShareCoordinatorShard, Found]":
            return lambda shard: shard.read_state_summary(key)

        def result(asked: Any, found: Found) -> wire.ReadShareGroupStateSummaryResponsePartitionResult:
            made = _with(wire.ReadShareGroupStateSummaryResponsePartitionResult(partition=asked.partition), found.failure)
            if not found.failure.error:
                state = found.state
                made.state_epoch, made.leader_epoch = state.state_epoch, state.leader_epoch
                made.start_offset, made.delivery_complete_count = state.start_offset, state.delivery_complete_count
            return made

        values = self._each(request, operation, _nothing_found)
        return _response(request, values, result, wire.ReadStateSummaryResult, wire.ReadShareGroupStateSummaryResponse)

    def _each(
        self,
        request: Any,
        operation: "Callable[[SharePartitionKey, Any], Operation[ShareCoordinatorShard, T]]",
        failed: Callable[[KafkaError], T],
    ) -> "list[T | Future[T]]":
        """Run an operation for each share partition of a request; return the results in order, or futures of them.

        Share partitions in the same partition of the topic share an append.
        """
        asked = [(SharePartitionKey(request.group_id, *place), each) for place, each in _asked(request).items()]
        keys = [key.coordinator_key for key, _ in asked]
        operations = [operation(*each) for each in asked]
        together: dict[int, list[int]] = {}
        for number, key in enumerate(keys):
            together.setdefault(self.partition_for(key), []).append(number)
        values: dict[int, T | Future[T]] = {}
        for numbers in together.values():
            found = self._together([keys[each] for each in numbers], [operations[each] for each in numbers], failed)
            values.update(zip(numbers, found, strict=True))
        return [values[number] for number in range(len(keys))]

    def _together(
        self, keys: list[str], operations: "list[Operation[ShareCoordinatorShard, T]]", failed: Callable[[KafkaError], T]
    ) -> "list[T | Future[T]]":
        try:
            found = self.runtime.execute_together(keys, operations, is_read=True)
        except KafkaError as error:
            return [failed(error)] * len(keys)
        return [recover(each, KafkaError, failed) if isinstance(each, Future) else each for each in found]


def _asked(request: Any) -> dict[tuple[bytes, int], Any]:
    """Return the data of each share partition of a request by topic id and partition; as in Kafka, none without a group.

    The last entry of a share partition counts. The generated messages of the five APIs have the same shape, and no type in common.
    """
    if not request.group_id:
        return {}
    return {(topic.topic_id, each.partition): each for topic in request.topics for each in topic.partitions}


def _response(
    request: Any,
    values: "list[T | Future[T]]",
    result: Callable[[Any, T], Any],
    topic_result: Callable[..., Any],
    response: Callable[..., R],
) -> "R | Future[R]":
    """Return the response with the results of all share partitions, or a future of it."""
    asked = _asked(request)

    def answer(done: list[T]) -> R:
        topics: dict[bytes, list[Any]] = {}
        for ((topic_id, _), each), value in zip(asked.items(), done, strict=True):
            topics.setdefault(topic_id, []).append(result(each, value))
        return response(results=[topic_result(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()])

    return gather(values, answer)


def _nothing_found(error: KafkaError) -> Found:
    return Found(_failure_of(error))


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
