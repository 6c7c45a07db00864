"""The replica state machine (Kafka: ``ZkReplicaStateMachine``)."""

from collections.abc import Iterable, Mapping, Sequence

from twisted.logger import Logger

from twisted_kafka.controller.channels.requests import RequestBatch
from twisted_kafka.controller.context.context import ControllerContext, Leadership, Replica
from twisted_kafka.controller.context.fenced_store import FencedStore
from twisted_kafka.controller.context.states import REPLICA_SOURCES, ReplicaStatus
from twisted_kafka.controller.machines.partition_machine import decoded_leadership, encoded_leadership
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.cache import NO_LEADER
from twisted_kafka.metadata.store import BadVersionError, NoNodeError, Operation, Set, StoreError
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()

MAX_ISR_ATTEMPTS = 10
"""Attempts to change in-sync replicas while leaders change the same nodes."""


class ReplicaStateMachine:
    """Moves replicas between states. ``handle`` sends the requests to brokers that a change causes."""

    def __init__(self, context: ControllerContext, store: FencedStore, requests: RequestBatch) -> None:
        self._context = context
        self._store = store
        self._requests = requests

    def startup(self) -> None:
        """Set every replica's state by whether its broker is alive, and send the brokers their replicas."""
        online, offline = [], []
        for replica in self._context.replicas(self._context.all_partitions()):
            if self._context.is_online(*replica):
                self._context.replica_states[replica] = ReplicaStatus.ONLINE
                online.append(replica)
            else:
                # An offline replica cannot be deleted before its broker returns.
                self._context.replica_states[replica] = ReplicaStatus.DELETION_INELIGIBLE
                offline.append(replica)
        self.handle(online, ReplicaStatus.ONLINE)
        self.handle(offline, ReplicaStatus.OFFLINE)

    def handle(self, replicas: Iterable[Replica], target: ReplicaStatus) -> None:
        """Move the replicas to ``target``. An invalid transition is logged and changes nothing."""
        self._requests.new_batch()
        by_broker: dict[int, list[TopicPartition]] = {}
        for replica in replicas:
            if self._may_become(replica, target):
                by_broker.setdefault(replica[1], []).append(replica[0])
        for broker, partitions in by_broker.items():
            self._move(broker, partitions, target)
        self._requests.send()

    def _may_become(self, replica: Replica, target: ReplicaStatus) -> bool:
        state = self._context.replica_states.get(replica, ReplicaStatus.NON_EXISTENT)
        if state in REPLICA_SOURCES[target]:
            return True
        _log.error(
            "Replica {broker} of {partition} is {state} and cannot become {target}",
            broker=replica[1],
            partition=replica[0],
            state=state.value,
            target=target.value,
        )
        return False

    def _move(self, broker: int, partitions: Sequence[TopicPartition], target: ReplicaStatus) -> None:
        if target is ReplicaStatus.NEW:
            self._become_new(broker, partitions)
        elif target is ReplicaStatus.ONLINE:
            self._become_online(broker, partitions)
        elif target is ReplicaStatus.OFFLINE:
            self._become_offline(broker, partitions)
        elif target is ReplicaStatus.DELETION_STARTED:
            for partition in partitions:
                self._requests.add_stop_replica((broker,), partition, delete=True)
        elif target is ReplicaStatus.NON_EXISTENT:
            for partition in partitions:
                self._context.replica_states.pop((partition, broker), None)
            return
        for partition in partitions:
            self._context.replica_states[partition, broker] = target

    def _become_new(self, broker: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            leadership = self._context.leaderships.get(partition)
            if leadership is not None and leadership.leader != broker:
                self._requests.add_leader_and_isr((broker,), partition, leadership, is_new=True)

    def _become_online(self, broker: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            leadership = self._context.leaderships.get(partition)
            if self._context.replica_states.get((partition, broker)) is not ReplicaStatus.NEW and leadership is not None:
                self._requests.add_leader_and_isr((broker,), partition, leadership)

    def _become_offline(self, broker: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._requests.add_stop_replica((broker,), partition, delete=False)
        # The state nodes of a topic that is being deleted vanish anyway.
        staying = [partition for partition in partitions if not self._context.is_to_be_deleted(partition.topic)]
        led = [partition for partition in staying if partition in self._context.leaderships]
        for partition, leadership in self._remove_from_isr(broker, led).items():
            others = [each for each in self._context.assignment(partition).replicas if each != broker]
            alive = [each for each in others if self._context.is_online(partition, each)]
            self._requests.add_leader_and_isr(alive, partition, leadership)
        unled = [partition for partition in partitions if partition not in self._context.leaderships]
        self._requests.add_update_metadata(self._context.brokers, unled)

    def _remove_from_isr(self, broker: int, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leadership]:
        """Remove the broker from the partitions' in-sync replicas. The last in-sync replica stays, without leading."""
        removed: dict[TopicPartition, Leadership] = {}
        # The context's states first, which saves reading them: the write of one that is out of date is refused.
        known = {each: self._context.leaderships[each] for each in partitions if broker in self._context.leaderships[each].isr}
        waiting = [each for each in partitions if each not in known] + self._try_to_remove(broker, known, removed)
        for _ in range(MAX_ISR_ATTEMPTS):
            if not waiting:
                break
            found = self._store.get_many([znodes.state_path(partition) for partition in waiting])
            read = {each: decoded_leadership(*node) for each, node in zip(waiting, found, strict=True) if node is not None}
            waiting = self._try_to_remove(broker, read, removed)
        return removed

    def _try_to_remove(
        self,
        broker: int,
        found: Mapping[TopicPartition, Leadership | None],
        removed: dict[TopicPartition, Leadership],
    ) -> list[TopicPartition]:
        """Remove the broker from these in-sync replicas; return the partitions whose state is not, or no longer, the given one."""
        changes: list[tuple[TopicPartition, Leadership]] = []
        groups: list[list[Operation]] = []
        for partition, leadership in found.items():
            if leadership is None or broker not in leadership.isr or leadership.controller_epoch > self._context.epoch:
                continue
            changed = self._without(broker, leadership)
            changes.append((partition, changed))
            groups.append([Set(znodes.state_path(partition), encoded_leadership(changed), leadership.partition_epoch)])
        again = []
        for (partition, changed), result in zip(changes, self._store.batch(groups), strict=True):
            if isinstance(result, BadVersionError | NoNodeError):
                again.append(partition)
            elif isinstance(result, StoreError):
                _log.error("The ISR of {partition} could not be changed: {error}", partition=partition, error=result)
            else:
                self._context.leaderships[partition] = removed[partition] = changed
        return again

    def _without(self, broker: int, leadership: Leadership) -> Leadership:
        return Leadership(
            leader=NO_LEADER if leadership.leader == broker else leadership.leader,
            leader_epoch=leadership.leader_epoch + 1,
            isr=[each for each in leadership.isr if each != broker] if len(leadership.isr) > 1 else leadership.isr,
            controller_epoch=self._context.epoch,
            partition_epoch=leadership.partition_epoch + 1,
            recovery_state=leadership.recovery_state,
        )
