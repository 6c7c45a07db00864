"""An internal topic in memory, and a group coordinator on it that a test pumps by hand."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import twisted_kafka.coordinator.coordinator_record
import twisted_kafka.protocol.errors.base
from tests.support.fake import Fake
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.coordinator.coordinator_record import CoordinatorRecord, decode_record
from twisted_kafka.coordinator.interfaces import Appended
from twisted_kafka.coordinator.runtime import CoordinatorRuntime, RuntimeSettings
from twisted_kafka.group_coordinator.assignors.loading import load_assignors, load_task_assignors
from twisted_kafka.group_coordinator.assignors.simple import SimpleAssignor
from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.group_coordinator.group_shard import GroupShardFactory
from twisted_kafka.group_coordinator.requests import JoinRequest
from twisted_kafka.group_coordinator.shared.end_offsets import EndOffset
from twisted_kafka.group_coordinator.shared.environment import GroupEnvironment
from twisted_kafka.group_coordinator.shared.group_config_manager import GroupConfigManager
from twisted_kafka.group_coordinator.shared.group_coordinator_config import GroupCoordinatorConfig
from twisted_kafka.group_coordinator.shared.group_coordinator_metrics import GroupCoordinatorMetrics
from twisted_kafka.group_coordinator.shared.topology_descriptions import TopologyDescriptionPlugin, TopologyDescriptions
from twisted_kafka.group_coordinator.state.classic_group_member import MemberTerms
from twisted_kafka.group_coordinator.state.group_kinds import GROUP_RECORD_KINDS
from twisted_kafka.metadata.cache import MetadataSnapshot, Node
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode, NotLeaderOrFollowerError
from twisted_kafka.protocol.messages.share.share_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteShareGroupStateResponsePartitionResult,
    DeleteStateResult,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeShareGroupStateResponsePartitionResult,
    InitializeStateResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadShareGroupStateSummaryResponsePartitionResult,
    ReadStateSummaryResult,
)
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler
from twisted_kafka.timing.timer import Timer
from twisted_kafka.waiting.futures import completed

BROKER_CONFIG = KafkaConfig.embedded({"broker.id": "1"})
"""The broker's values of the groups' own keys; a Bench may be given others, such as share_max_size."""


class NoBrokers:
    """An IBrokerClient of a broker that is alone."""

    def send(self, node: Node, request: Message) -> "Future[Any]":
        raise AssertionError("there is nobody to send to")

    def disconnect(self, broker_id: int) -> None:
        raise AssertionError("there is no connection")


class MemoryLog(Fake):
    """Partitions as lists of batches; appends can be made to fail, or to wait for replicas."""

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, list[Any]] = defaultdict(list)
        self.end_offsets: dict[TopicPartition, int] = defaultdict(int)
        self.uncommitted: dict[TopicPartition, int] = {}
        """The first offset that the replicas do not have."""
        self.fail_next: list[Any] = []
        self.holds = False
        self.held: list[Any] = []
        self.missing = False
        self.directories: dict[int, Path] = {}
        """The log directories of partitions; None for the others."""

    def append(self, partition: TopicPartition, batch: Any, guard: object) -> Appended | ErrorCode:
        if self.fail_next and (error := self.fail_next.pop(0)):
            return error
        base_offset = self.end_offsets[partition]
        data = base_offset.to_bytes(8, "big") + bytes(batch)[8:]
        self.batches[partition].append(data)
        self.end_offsets[partition] = next(iter(batches(data))).last_offset + 1
        if self.holds:
            future: Future[Any] = Future()
            self.held.append(future)
            self.uncommitted.setdefault(partition, base_offset)
            return Appended(base_offset, future)
        self.uncommitted.pop(partition, None)
        return Appended(base_offset)

    def delete_records(self, partition: TopicPartition, before: int) -> "Future[ErrorCode]":
        if not self.is_committed(partition, before - 1) or before > self.end_offsets[partition]:
            return completed(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.batches[partition] = [data for data in self.batches[partition] if next(iter(batches(data))).last_offset >= before]
        return completed(ErrorCode.NONE)

    def is_committed(self, partition: TopicPartition, offset: int) -> bool:
        return offset < self.uncommitted.get(partition, offset + 1)

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        held, self.held, self.holds = self.held, [], False
        if not error:
            self.commit()
        for future in held:
            future.set_result(error)

    def commit(self) -> None:
        """Let the replicas have everything."""
        self.uncommitted.clear()

    def directory(self, partition: TopicPartition) -> Path | None:
        return self.directories.get(partition.partition)

    def read_all(self, partition: TopicPartition, buffer_size: int) -> Iterator[bytes]:
        if self.missing:
            raise NotLeaderOrFollowerError("no such log")
        yield from list(self.batches[partition])

    def records(self, partition: TopicPartition) -> list[CoordinatorRecord]:
        return [
            decode_record(GROUP_RECORD_KINDS, record.key, record.value)
            for data in self.batches[partition]
            for batch in batches(data)
            for record in batch.records()
        ]


class MemoryPersister(Fake):
    """States of share partitions in memory; answers can be held, and errors set by partition."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, bytes, int], ReadShareGroupStateSummaryResponsePartitionResult] = {}
        self.errors: dict[tuple[bytes, int], ErrorCode] = {}
        self.holds = False
        self.held: list[Callable[[], None]] = []
        self.requests: list[Message] = []

    def initialize_state(self, request: InitializeShareGroupStateRequest) -> "Future[InitializeShareGroupStateResponse]":
        def put(topic_id: bytes, each: Any) -> None:
            state = ReadShareGroupStateSummaryResponsePartitionResult(
                partition=each.partition, state_epoch=each.state_epoch, start_offset=each.start_offset, delivery_complete_count=0
            )
            self.states[request.group_id, topic_id, each.partition] = state

        return self._each(request, put, InitializeShareGroupStateResponse)

    def delete_state(self, request: DeleteShareGroupStateRequest) -> "Future[DeleteShareGroupStateResponse]":
        def remove(topic_id: bytes, each: Any) -> None:
            self.states.pop((request.group_id, topic_id, each.partition), None)

        return self._each(request, remove, DeleteShareGroupStateResponse)

    def read_state_summary(self, request: ReadShareGroupStateSummaryRequest) -> "Future[ReadShareGroupStateSummaryResponse]":
        def state(topic_id: bytes, index: int) -> ReadShareGroupStateSummaryResponsePartitionResult:
            unknown = ReadShareGroupStateSummaryResponsePartitionResult(partition=index, start_offset=-1)
            return self.states.get((request.group_id, topic_id, index), unknown)

        results = [
            ReadStateSummaryResult(
                topic_id=topic.topic_id,
                partitions=[state(topic.topic_id, each.partition) for each in topic.partitions],
            )
            for topic in request.topics
        ]
        return completed(ReadShareGroupStateSummaryResponse(results=results))

    def _each(self, request: Any, act: Callable[[bytes, Any], None], response: Any) -> "Future[Any]":
        self.requests.append(request)
        answer: Future[Any] = Future()

        def perform() -> None:
            results = []
            for topic in request.topics:
                errors = {each.partition: self.errors.get((topic.topic_id, each.partition), 0) for each in topic.partitions}
                for each in topic.partitions:
                    if not errors[each.partition]:
                        act(topic.topic_id, each)
                results.append((topic.topic_id, errors))
            answer.set_result(_results(response, results))

        if self.holds:
            self.held.append(perform)
        else:
            perform()
        return answer

    def release(self) -> None:
        held, self.held, self.holds = self.held, [], False
        for perform in held:
            perform()


def _results(response: Any, results: list[tuple[bytes, dict[int, int]]]) -> Any:
    names = {
        InitializeShareGroupStateResponse: (InitializeStateResult, InitializeShareGroupStateResponsePartitionResult),
        DeleteShareGroupStateResponse: (DeleteStateResult, DeleteShareGroupStateResponsePartitionResult),
    }
    topic, partition = names[response]
    return response(
        results=[
            topic(topic_id=topic_id, partitions=[partition(partition=index, error_code=error) for index, error in errors.items()])
            for topic_id, errors in results
        ]
    )


class FakeTopics(Fake):
    """The cluster's topics; each change makes a new snapshot. A topic's id is its name, padded."""

    def __init__(self) -> None:
        self.change({})

    def change(self, counts: dict[str, int]) -> None:
        """Have these topics, with so many partitions each, from now on."""
        ids = {name: name.encode().ljust(16, b".") for name in counts}
        self.counts = counts
        topics = {name: dict.fromkeys(range(count)) for name, count in counts.items()}
        self.snapshot = MetadataSnapshot({}, topics, ids, {topic_id: name for name, topic_id in ids.items()})


class Bench:
    """A coordinator over a MemoryLog under a ManualClock."""

    def __init__(
        self,
        partitions: int = 1,
        log: MemoryLog | None = None,
        clock: ManualClock | None = None,
        assignors: list[str] | tuple[str, str] = ("uniform", "range"),
        plugin: TopologyDescriptionPlugin | None = None,
        **settings: Any,
    ) -> None:
        """``plugin`` keeps topology descriptions."""
        self.plugin = plugin
        self.clock = clock or ManualClock()
        self.topics = FakeTopics()
        self.assignors = load_assignors(assignors)
        self.metrics = MetricsRegistry(self.clock)
        self.log = log or MemoryLog()
        self.partitions = partitions
        own = {name: value for name, value in settings.items() if name in GroupCoordinatorConfig._fields}
        self.config = GroupCoordinatorConfig(**own)
        rest = {f"group.{name.replace('_', '.')}": str(value) for name, value in settings.items() if name not in own}
        self.broker_config = BROKER_CONFIG.updated(rest) if rest else BROKER_CONFIG
        self._ids = itertools.count(1)
        self.persister = MemoryPersister()
        self.ends: dict[TopicPartition, EndOffset] = {}
        self.start()

    def start(self, load: bool = True) -> None:
        self.scheduler = self.make_scheduler()
        self.timer = Timer(self.clock)
        self.group_config_manager = GroupConfigManager(self.broker_config)
        metrics = GroupCoordinatorMetrics(self.metrics, self.clock)
        self.environment = GroupEnvironment(
            self.clock,
            self.config,
            self.group_config_manager,
            self.topics,
            self.assignors,
            SimpleAssignor(),
            load_task_assignors(["sticky"]),
            metrics,
            lambda: f"id{next(self._ids)}",
            self.persister,
            lambda wanted: completed({each: self.ends.get(each, EndOffset(0)) for each in wanted}),
            None if self.plugin is None else TopologyDescriptions(self.plugin, self.clock, metrics),
        )
        shards = GroupShardFactory(self.environment)
        self.runtime = CoordinatorRuntime(
            RuntimeSettings(GROUP_METADATA_TOPIC, lambda: self.partitions, on_loaded=self.environment.metrics.partition_loaded),
            shards,
            self.log,
            self.log,
            self.scheduler,
            self.timer,
            self.clock,
        )
        self.groups = GroupCoordinator(self.runtime, self.scheduler, self.environment)
        self.groups.startup()
        if load:
            self.elect()

    def make_scheduler(self) -> ManualScheduler:
        return ManualScheduler(self.clock)

    def elect(self, epoch: int = 0, load: bool = True) -> None:
        self.groups.runtime.on_leadership_change([(partition, epoch) for partition in range(self.partitions)], [])
        if load:
            self.scheduler.run_due()

    def reload(self, epoch: int) -> None:
        """Let another broker lead all partitions for a moment."""
        self.groups.runtime.on_leadership_change([], [(partition, epoch) for partition in range(self.partitions)])
        self.elect(epoch)

    def restart(self, load: bool = True) -> None:
        """Stop, and start again over the same log; without ``load`` nobody is elected."""
        self.groups.shutdown()
        self.scheduler.shutdown()
        self.start(load)

    def delete_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Apply the deletion of partitions to the end."""
        self.groups.on_partitions_deleted(list(partitions))
        self.scheduler.run_due()

    def advance(self, ms: int) -> None:
        """Let time pass in steps, as timers that ring set others."""
        end_ns = self.clock.monotonic_ns() + int(ms * 1_000_000)
        while (left_ns := end_ns - self.clock.monotonic_ns()) > 0:
            self.clock.advance_ms(min(left_ns / 1_000_000, 100))
            self.timer.expire_due()
            self.scheduler.run_due()

    def written(self, partition: int = 0) -> list[Any | twisted_kafka.coordinator.coordinator_record.CoordinatorRecord]:
        return self.log.records(TopicPartition(GROUP_METADATA_TOPIC, partition))


def join(group_id: str, member_id: str = "") -> JoinRequest:
    terms = MemberTerms("client", "/127.0.0.1", 60_000, 10_000, "consumer", (("range", b"\0\0"),))
    return JoinRequest(group_id, member_id, None, terms, False, False)
