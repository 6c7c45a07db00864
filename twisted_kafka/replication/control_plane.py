"""The controller's requests, applied to the replica manager.

It provides the controller's ``IControlPlane``; the broker, a floor above both, says so.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from twisted.logger import Logger

from twisted_kafka.metadata.store import StoreClosedError, StoreError
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import NO_EPOCH
from twisted_kafka.replication.partition.partition import LeaderState
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.system import machine

_log = Logger()

DeletionListener = Callable[[Sequence[TopicPartition]], None]


class ControlPlane:
    """Applies LeaderAndIsr, UpdateMetadata and StopReplica of any version; responds with the fields of the newest one.

    ``on_deleted`` are called with the partitions that UpdateMetadata reports as deleted (groups drop their offsets then).
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        on_deleted: Sequence[DeletionListener] = (),
        read_topics: Callable[[], Collection[str]] | None = None,
        run: Callable[[Callable[[], None]], object] = lambda action: action(),
    ) -> None:
        """``read_topics`` returns the names of all topics in the metadata store, to find topics whose deletion was not reported.

        It may wait for the store: ``run`` calls an action on a thread that handles no requests of the controller, and repeats it
        while it raises StoreError.
        """
        self._replicas = replicas
        self._on_deleted = tuple(on_deleted)
        self._read_topics = read_topics
        self._run = run
        self._lock = machine.Lock()
        self._last_epoch = NO_EPOCH
        self._renewed_epoch: int | None = None
        self._controller_epoch = NO_EPOCH
        self._is_in_doubt = False
        """Whether topics may be known that are deleted."""

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Make replicas leaders and followers."""
        states = {tp: (tp, topic_id, state) for tp, topic_id, state in _leader_states(request)}
        errors = self._replicas.state.become_leader_or_follower(request.controller_epoch, states.values())
        if errors is None:
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        self._replicas.start_checkpoints()
        topics: dict[bytes, LeaderAndIsrTopicError] = {}
        for topic_partition, error in errors.items():
            topic_id = states[topic_partition][1]
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=[])
            topic.partition_errors.append(
                LeaderAndIsrPartitionError(
                    topic_name=topic_partition.topic, partition_index=topic_partition.partition, error_code=error
                )
            )
        return LeaderAndIsrResponse(error_code=0, topics=list(topics.values()))

    def update_metadata(self, request: UpdateMetadataRequest) -> bool:
        """Update the metadata cache; return False, without an update, for a stale controller epoch."""
        if not self._replicas.state.accept_controller_epoch(request.controller_epoch):
            return False
        self._deleted(self._replicas.metadata.apply(request))
        with self._lock:
            self._last_epoch = request.broker_epoch
            if request.controller_epoch > self._controller_epoch:
                # The former one may have died with a deletion in its queue for this broker, which had no replica of the topic.
                self._is_in_doubt |= self._controller_epoch != NO_EPOCH
                self._controller_epoch = request.controller_epoch
        self._forget_if_in_doubt()
        return True

    def forget_deleted(self, broker_epoch: int) -> None:
        """Forget topics that were deleted while this broker had no session and no epoch: it was not informed of them.

        This happens with the first update for its new epoch. From then on, the controller reports deletions again.
        """
        with self._lock:
            self._renewed_epoch = broker_epoch
        self._forget_if_in_doubt()

    def _forget_if_in_doubt(self) -> None:
        with self._lock:
            if self._renewed_epoch is not None and self._last_epoch in (self._renewed_epoch, NO_EPOCH):
                self._renewed_epoch = None
                self._is_in_doubt = True
            if self._read_topics is None or not self._is_in_doubt:
                return
            self._is_in_doubt = False
            forget = partial(self._forget_all_but, self._read_topics)
        try:
            self._run(forget)
        except StoreError as error:
            _log.warn("Deleted topics stay in the metadata until the controller's next update: {error}", error=error)

    def _forget_all_but(self, read_topics: Callable[[], Collection[str]]) -> None:
        snapshot = self._replicas.metadata.snapshot
        known = {topic: snapshot.topic_ids.get(topic, NO_UUID) for topic in snapshot.topics}
        try:
            found = set(read_topics())
        except StoreClosedError:  # this broker stops
            return
        except StoreError:  # also without the node of all topics: that is no list of none
            with self._lock:
                self._is_in_doubt = True
            raise
        with self._lock:
            self._is_in_doubt = False
        gone = {topic: topic_id for topic, topic_id in known.items() if topic not in found}
        if gone:
            _log.info("Topics were deleted, and no controller reported it: {topics}", topics=", ".join(sorted(gone)))
            self._deleted(self._replicas.metadata.remove(gone))

    def _deleted(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            for listener in self._on_deleted:
                listener(partitions)

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop replicas, and delete the ones that the request marks for deletion."""
        errors = self._replicas.state.stop(request.controller_epoch, list(_stop_orders(request)))
        if errors is None:
            return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        partition_errors = [
            StopReplicaPartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=error)
            for tp, error in errors.items()
        ]
        return StopReplicaResponse(error_code=0, partition_errors=partition_errors)


def _leader_states(request: LeaderAndIsrRequest) -> Iterator[tuple[TopicPartition, bytes, LeaderState]]:
    for topic in request.topic_states:
        yield from _states_of(topic.topic_name, topic.topic_id, topic.partition_states)
    for state in request.ungrouped_partition_states:
        yield from _states_of(state.topic_name, NO_UUID, [state])


def _states_of(
    topic: str, topic_id: bytes, states: Iterable[LeaderAndIsrPartitionState]
) -> Iterator[tuple[TopicPartition, bytes, LeaderState]]:
    for state in states:
        leader = LeaderState(
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            tuple(state.isr),
            tuple(state.replicas),
            state.partition_epoch,
            state.is_new,
            tuple(state.adding_replicas),
            tuple(state.removing_replicas),
        )
        yield TopicPartition(topic, state.partition_index), topic_id, leader


def _stop_orders(request: StopReplicaRequest) -> Iterator[tuple[TopicPartition, int, bool]]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), state.leader_epoch, state.delete_partition
    for old in request.topics:
        for index in old.partition_indexes:
            yield TopicPartition(old.name, index), NO_EPOCH, request.delete_partitions
    for single in request.ungrouped_partitions:
        yield TopicPartition(single.topic_name, single.partition_index), NO_EPOCH, request.delete_partitions
