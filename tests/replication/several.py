"""Several brokers' replica managers and the requests between them, over real logs, with every thread pumped by hand.

The controller is a table: it decides at once, and what it tells is applied when the test says. Requests take their wire form, and
go where the leader's handlers take them.
"""

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tests.support.fake import Fake
from tests.support.replica_apis import Apis
from tests.support.replication_harness import TOPIC, TP, batch_of, topic_id
from twisted_kafka.log.batch_headers import batches_in
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.controller import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.alter_partition_manager import AlterPartitionManager, Proposer
from twisted_kafka.replication.fetching.leader_requests import FetchLimits, LeaderRequests, Outgoing, PeerVersions
from twisted_kafka.replication.fetching.replica_fetcher import Answer, FetcherHost, Overtaken, Pause, ReplicaFetcher
from twisted_kafka.replication.fetching.replica_fetcher_manager import FetcherKey, ReplicaFetcherManager
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.timing.clock import ManualClock

BACKOFF_MS = 1_000
LIMITS = FetchLimits(500, 1, 1 << 20, 1 << 20)


class HandThread(Fake):
    """Works for a fetcher when it is stepped."""

    def __init__(self, member: "Member", key: FetcherKey) -> None:
        self.member = member
        self.leader_id = key.leader_id
        self.request: Outgoing | None = None
        """What is sent and not answered."""
        self.pause: Pause | None = None
        self.paused_until_ms = 0
        self.is_stopped = False

    def run(self, fetcher: ReplicaFetcher) -> None:
        self.fetcher = fetcher
        self._work = fetcher.work()
        self.pause = Pause(None)
        self._is_begun = False

    def wake(self) -> None:
        self.pause = None

    def overtake(self) -> None:
        """Leave the request to the leader that waits with it, and work on."""
        assert self.fetcher.may_be_overtaken
        self.step(Overtaken.OVERTAKEN)

    def refresh(self) -> None:
        pass

    def stop(self) -> None:
        self.is_stopped = True
        self.member.threads.remove(self)

    @property
    def is_ready(self) -> bool:
        """Whether it would do something."""
        if self.is_stopped or self.request is not None:
            return False
        pause = self.pause
        return pause is None or (pause.ms is not None and self.member.clock.wall_ms() >= self.paused_until_ms)

    def step(self, answer: Answer = None) -> None:
        """Work until something is sent, or there is nothing to do."""
        self.pause = self.request = None
        step = self._work.send(answer) if self._is_begun else next(self._work)
        self._is_begun = True
        if isinstance(step, Pause):
            if self.pause is None:
                self.pause = step
                self.paused_until_ms = self.member.clock.wall_ms() + (step.ms or 0)
        else:
            self.request = step


class Member(Apis):
    """One broker."""

    def __init__(self, cluster: "Cluster", broker_id: int, directory: Path, **properties: Any) -> None:
        self.broker_id = broker_id
        super().__init__(directory, clock=cluster.clock, **properties)
        self.is_direct = False
        self.cluster = cluster
        self.threads: list[HandThread] = []
        self.is_up = True
        host = FetcherHost(
            self.clock,
            LeaderRequests(broker_id, LIMITS, cluster.versions),
            self.replicas.follower_quota,
            BACKOFF_MS,
            lambda: 1000 + broker_id,
            lambda partition, size_bytes: self.replicas.stats.replicated_in(size_bytes, is_joining=partition.is_joining),
            self.replicas.purgatories.check_fetches,
        )
        self.fetchers = ReplicaFetcherManager(host, self._make_thread, 1, lambda _: None, self.scheduler, self.metrics)
        self.replicas.set_fetchers(self.fetchers)
        max_lag_ms = self.config.long("replica.lag.time.max.ms")
        self.replicas.set_in_sync_replicas(
            AlterPartitionManager(
                Proposer(broker_id, lambda: 1000 + broker_id, knows_epochs=True, channel=cluster.channel(self)),
                self.replicas.partitions,
                self.replicas.purgatories,
                self.timer,
                max_lag_ms,
                self.metrics,
                lambda action: action(),
            )
        )

    def _make_thread(self, key: FetcherKey) -> HandThread:
        thread = HandThread(self, key)
        self.threads.append(thread)
        return thread

    def partition(self, index: int = 0) -> Partition:
        return self.replicas.get_partition_or_error(TopicPartition(TOPIC, index))

    def due(self) -> None:
        """Do what has become due on the clock."""
        self.timer.expire_due()
        self.scheduler.run_due()

    def crash(self) -> None:
        """End without a word: nothing is flushed, but what was written is in the page cache."""
        self.is_up = False
        for partition in self.replicas.partitions:
            partition.log.close_handles()
        for directory in self.logs.directories:
            directory.release()

    def write(self, *values: bytes, acks: int = 1, index: int = 0) -> Any:
        """Append the values as one batch; return the partition's result, or a future."""
        return self.append(*values, acks=acks, topic_partition=TopicPartition(TOPIC, index), timeout_ms=60_000)

    def content(self, index: int = 0, *, committed: bool = True) -> bytes:
        """Return the bytes of the partition's segments, up to the high watermark."""
        content, size = self.content_and_committed(index)
        return content[:size] if committed else content

    def content_and_committed(self, index: int = 0) -> tuple[bytes, int]:
        """Return the bytes of the partition's segments, and how many of them are below the high watermark."""
        log = self.partition(index).log
        parts = []
        for name in sorted(os.listdir(log.dir)):
            if name.endswith(".log"):
                with open(f"{log.dir}/{name}", "rb") as segment:
                    parts.append(segment.read())
        content = b"".join(parts)
        return content, committed_bytes(content, log.high_watermark)


@functools.lru_cache(maxsize=64)
def committed_bytes(data: bytes, end_offset: int) -> int:
    """Return how many bytes the batches before an offset have."""
    size = 0
    for batch in batches_in(memoryview(data)):
        if batch.last_offset >= end_offset:
            break
        size = batch.position + batch.size_bytes
    return size


class PartitionTableEntry:
    """What the controller knows of a partition."""

    def __init__(self, replicas: tuple[int, ...]) -> None:
        self.replicas = replicas
        self.leader = replicas[0]
        self.isr = list(replicas)
        self.epoch = 0
        self.version = 0
        self.adding: tuple[int, ...] = ()


class Cluster:
    """The brokers 1, 2, ... and their controller."""

    def __init__(self, directory: Path, count: int = 2, versions: PeerVersions | None = None, **properties: Any) -> None:
        self.clock = ManualClock()
        self.clock.advance_ms(1_000_000)
        self.versions = versions or PeerVersions()
        self._directory = directory
        self._properties = {"replica_lag_time_max_ms": 10_000, **properties}
        self.configs: dict[str, str] = {}
        self.table: dict[int, PartitionTableEntry] = {}
        self.is_reachable: Callable[[int, int], bool] = lambda _from, _to: True
        self.racks: dict[int, str] = {}
        self.members: dict[int, Member] = {}
        for broker_id in range(1, count + 1):
            self.start(broker_id)

    def start(self, broker_id: int) -> Member:
        """Start a broker, with the data that it had."""
        directory = self._directory / str(broker_id)
        directory.mkdir(exist_ok=True)
        member = self.members[broker_id] = Member(self, broker_id, directory, **self._properties)
        member.logs.configs[TOPIC] = self.configs
        return member

    def close(self) -> None:
        for member in self.members.values():
            if member.is_up:
                member.close()

    # The controller.

    def create(self, index: int = 0, replicas: tuple[int, ...] | None = None) -> None:
        """Create a partition, led by its first replica, and tell all."""
        self.table[index] = PartitionTableEntry(replicas or tuple(self.members))
        self.tell(index)

    def elect(self, leader: int, index: int = 0, *, isr: Iterable[int] | None = None) -> None:
        """Have another replica lead, and tell all."""
        entry = self.table[index]
        entry.leader = leader
        entry.epoch += 1
        entry.version += 1
        if isr is not None:
            entry.isr = list(isr)
        self.tell(index)

    def tell(self, index: int = 0, brokers: Iterable[int] | None = None) -> None:
        """Tell brokers of a partition, all of its replicas by default."""
        entry = self.table[index]
        for broker_id in brokers or entry.replicas:
            self.tell_one(self.members[broker_id], index)

    def tell_one(self, member: Member, index: int = 0) -> None:
        """Send a broker the partition's state, if it is up."""
        if member.is_up:
            self.order_of(member, index)()

    def order_of(self, member: Member, index: int = 0) -> Callable[[], None]:
        """Return what tells a broker of the partition's state as it is now."""
        entry = self.table[index]
        state = UpdateMetadataPartitionState(
            partition_index=index,
            leader=entry.leader,
            leader_epoch=entry.epoch,
            isr=list(entry.isr),
            replicas=list(entry.replicas),
            zk_version=entry.version,
        )
        alive = [
            UpdateMetadataBroker(
                id=each.broker_id,
                endpoints=[UpdateMetadataEndpoint(port=9, host="b", listener="PLAINTEXT")],
                rack=self.racks.get(each.broker_id),
            )
            for each in self.members.values()
            if each.is_up
        ]
        topic = UpdateMetadataTopicState(topic_name=TOPIC, topic_id=topic_id(TOPIC), partition_states=[state])
        update = UpdateMetadataRequest(controller_id=1, controller_epoch=1, topic_states=[topic], live_brokers=alive)
        role = LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=1,
            leader=entry.leader,
            leader_epoch=entry.epoch,
            isr=list(entry.isr),
            partition_epoch=entry.version,
            replicas=list(entry.replicas),
            adding_replicas=list(entry.adding),
        )
        roles = LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=topic_id(TOPIC), partition_states=[role])
        order = LeaderAndIsrRequest(controller_epoch=1, topic_states=[roles])

        def apply() -> None:
            member.control.update_metadata(update)
            member.control.leader_and_isr(order)

        return apply

    def channel(self, member: Member) -> "Channel":
        return Channel(self, member)

    def alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Decide about changes of in-sync replicas, as the controller does."""
        topics = []
        for topic in request.topics:
            partitions = []
            for data in topic.partitions:
                entry = self.table[data.partition_index]
                isr = [each.broker_id for each in data.new_isr_with_epochs]
                error = ErrorCode.NONE
                if data.leader_epoch != entry.epoch or request.broker_id != entry.leader:
                    error = ErrorCode.FENCED_LEADER_EPOCH
                elif set(isr) == set(entry.isr):
                    pass  # it was made before, and the answer was lost
                elif data.partition_epoch != entry.version:
                    error = ErrorCode.INVALID_UPDATE_VERSION
                elif any(not self.members[each].is_up for each in isr if each not in entry.isr):
                    error = ErrorCode.INELIGIBLE_REPLICA
                else:
                    entry.isr = isr
                    entry.version += 1
                partitions.append(
                    AlterPartitionResponsePartitionData(
                        partition_index=data.partition_index,
                        error_code=error,
                        leader_id=entry.leader,
                        leader_epoch=entry.epoch,
                        isr=list(entry.isr),
                        partition_epoch=entry.version,
                    )
                )
            topics.append(AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
        return AlterPartitionResponse(topics=topics)

    # The network.

    def deliver(self, thread: HandThread, request: Outgoing | None = None) -> "Future[Any]":
        """Have the leader handle a fetcher's request, without one its last; return a future of the response."""
        sent = request or thread.request
        assert sent is not None
        message, version = sent
        leader = self.members[thread.leader_id]
        future: Future[Any] = Future()
        if not leader.is_up or not self.is_reachable(thread.member.broker_id, leader.broker_id):
            future.set_exception(ConnectionError(f"broker {leader.broker_id} is down"))
            return future
        result = leader.start(message, version)  # type: ignore[arg-type]

        def decode(done: "Future[Any]") -> None:
            future.set_result(leader.decoded(type(message), done.result(), version))  # type: ignore[arg-type]

        if isinstance(result, Future):
            result.add_done_callback(decode)
        else:
            future.set_result(leader.decoded(type(message), result, version))  # type: ignore[arg-type]
        return future

    def advance_ms(self, ms: int) -> None:
        """Let time pass for all."""
        self.clock.advance_ms(ms)
        for member in self.members.values():
            if member.is_up:
                member.due()

    def run(self, rounds: int = 50) -> None:
        """Have all fetchers work until none makes progress, without time passing but for leaders' waits."""
        for _ in range(rounds):
            waiting = []
            for member in list(self.members.values()):
                for thread in list(member.threads) if member.is_up else []:
                    if thread.is_ready:
                        thread.step()
                    if thread.request is not None:
                        waiting.append((thread, self.deliver(thread)))
            self.advance_ms(LIMITS.max_wait_ms)
            for thread, done in waiting:
                if not thread.is_stopped:
                    failure = done.exception(0)
                    thread.step(failure if isinstance(failure, Exception) else done.result(0))

    def agree(self, index: int = 0) -> bool:
        """Return whether all replicas have the same bytes, all committed."""
        live = [self.members[each] for each in self.table[index].replicas if self.members[each].is_up]
        contents = {member.content(index) for member in live}
        ends = {(member.partition(index).log.log_end_offset, member.partition(index).log.high_watermark) for member in live}
        return len(contents) == 1 and len(ends) == 1 and len(set(next(iter(ends)))) == 1


class Channel:
    """A broker's requests to the controller, which answers at once unless they are held back."""

    def __init__(self, cluster: Cluster, member: Member) -> None:
        self._cluster = cluster
        self._member = member
        self.held: list[Future[Any]] = []

    def send(self, request: Any, latest_version: int | None = None) -> "Future[Any]":
        future: Future[Any] = Future()
        version = 3 if latest_version is None else latest_version
        decoded = AlterPartitionRequest.decode(bytes(request.encode(version)), version)
        response = self._cluster.alter(decoded)
        future.set_result(AlterPartitionResponse.decode(bytes(response.encode(version)), version))
        return future


__all__ = ["BACKOFF_MS", "TP", "Cluster", "HandThread", "Member", "batch_of"]
