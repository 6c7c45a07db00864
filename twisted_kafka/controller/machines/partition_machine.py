"""The partition state machine: creates state nodes and elects leaders (Kafka: ``ZkPartitionStateMachine``)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from twisted.logger import Logger

from twisted_kafka.controller.channels.requests import RequestBatch
from twisted_kafka.controller.context.context import ControllerContext, Leadership
from twisted_kafka.controller.context.fenced_store import FencedStore
from twisted_kafka.controller.context.states import PARTITION_SOURCES, PartitionStatus
from twisted_kafka.controller.machines.leader_elections import Elect, Elected, first_leader, leader_after_restarts, offline_leader
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import BadVersionError, Create, NodeExistsError, NoNodeError, Operation, Set, Stat, StoreError
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import PartitionStateNode, state_path
from twisted_kafka.protocol.topic_partition import TopicPartition

_log = Logger()

MAX_ELECTION_ATTEMPTS: Final = 10
"""Attempts to elect a leader while the one before changes the in-sync replicas."""

RECOVERING: Final = 1
"""The recovery state of a leader that was not in sync (KIP-704)."""


class PartitionStateMachine:
    """Moves partitions between states. ``handle`` sends the requests to brokers that a change causes."""

    def __init__(
        self,
        context: ControllerContext,
        store: FencedStore,
        requests: RequestBatch,
        allow_unclean: Callable[[Collection[str]], set[str]],
        *,
        elected_unclean: Callable[[], None],
    ) -> None:
        """``allow_unclean`` returns the given topics that have unclean.leader.election.enable, with one read of the store.

        ``elected_unclean`` is called for each leader that was not in sync.
        """
        self._elected_unclean = elected_unclean
        self._context = context
        self._store = store
        self._requests = requests
        self._allow_unclean = allow_unclean

    def startup(self) -> None:
        """Set every partition's state by whether its leader is online, then elect leaders for those without."""
        for partition in self._context.all_partitions():
            leadership = self._context.leaderships.get(partition)
            if leadership is None:
                state = PartitionStatus.NEW
            elif self._context.is_online(partition, leadership.leader):
                state = PartitionStatus.ONLINE
            else:
                state = PartitionStatus.OFFLINE
            self._context.partition_states[partition] = state
        self.elect_for_offline()

    def elect_after_restarts(self, restarted: Mapping[TopicPartition, Collection[int]]) -> None:
        """Elect leaders, in a new epoch, where in-sync replicas have restarted unnoticed; ``restarted`` has these brokers.

        To be called before brokers hear of these partitions. A broker that lost power must not lead on in its former epoch: the
        followers would truncate their logs to its log, or keep records that it has lost. Kafka with ZooKeeper lacks this.
        """

        def elect(partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
            replicas = self._context.assignment(partition).replicas
            return leader_after_restarts(replicas, leadership, alive, restarted[partition])

        doubtful = [partition for partition, brokers in restarted.items() if self._is_doubtful(partition, brokers)]
        if doubtful:
            _log.info("In-sync replicas of {count} partitions have restarted unnoticed", count=len(doubtful))
            self._context.partition_states.update(dict.fromkeys(doubtful, PartitionStatus.ONLINE))
            self.elect_online(doubtful, elect)

    def _is_doubtful(self, partition: TopicPartition, restarted: Collection[int]) -> bool:
        """Return whether restarts matter: the leader is among them, or there are other in-sync replicas that live."""
        if self._context.is_to_be_deleted(partition.topic):
            return False
        leadership, alive = self._context.leaderships[partition], self._alive(partition)
        return leadership.leader in restarted or any(each in alive and each not in restarted for each in leadership.isr)

    def elect_for_offline(self) -> None:
        """Elect a leader for every new or offline partition, except those of topics that are being deleted."""
        states = self._context.partition_states
        waiting = (PartitionStatus.NEW, PartitionStatus.OFFLINE)
        self.handle(
            [each for each in states if states[each] in waiting and not self._context.is_to_be_deleted(each.topic)],
            PartitionStatus.ONLINE,
        )

    def elect_online(self, partitions: Iterable[TopicPartition], elect: Elect) -> None:
        """Elect leaders with ``elect``; partitions that are not online yet come online."""
        self.handle(partitions, PartitionStatus.ONLINE, elect)

    def handle(self, partitions: Iterable[TopicPartition], target: PartitionStatus, elect: Elect | None = None) -> None:
        """Move the partitions to ``target``. An invalid or failed transition is logged and changes nothing."""
        self._requests.new_batch()
        valid = [partition for partition in partitions if self._may_become(partition, target)]
        if target is PartitionStatus.ONLINE:
            states = self._context.partition_states
            new = [partition for partition in valid if states[partition] is PartitionStatus.NEW]
            others = [partition for partition in valid if states[partition] is not PartitionStatus.NEW]
            self._initialize(new)
            if others:
                self._elect([partition for partition in others if partition in self._context.leaderships], elect)
        else:
            for partition in valid:
                self._context.partition_states[partition] = target
                if target is PartitionStatus.NON_EXISTENT:
                    del self._context.partition_states[partition]
        self._requests.send()

    def _may_become(self, partition: TopicPartition, target: PartitionStatus) -> bool:
        state = self._context.partition_states.get(partition, PartitionStatus.NON_EXISTENT)
        if state in PARTITION_SOURCES[target]:
            return True
        _log.error(
            "Partition {partition} is {state} and cannot become {target}",
            partition=partition,
            state=state.value,
            target=target.value,
        )
        return False

    def _alive(self, partition: TopicPartition) -> list[int]:
        return [broker for broker in self._context.assignment(partition).replicas if self._context.is_online(partition, broker)]

    def _initialize(self, partitions: Sequence[TopicPartition]) -> None:
        chosen = {}
        for partition in partitions:
            elected = first_leader(self._context.assignment(partition).replicas, self._alive(partition))
            if elected is None:
                _log.error("Partition {partition} has no leader: none of its replicas is alive", partition=partition)
            else:
                chosen[partition] = Leadership(elected.leader, 0, elected.isr, self._context.epoch, 0)
        if not chosen:
            return
        topics = {each.topic for each in chosen}
        known, partitions_of = self._context.leaderships, self._context.partitions
        parents = [_parent(topic) for topic in topics if not any(partition in known for partition in partitions_of(topic))]
        # A new partition seldom has a node already: its state is written first, and read only if that fails.
        left = self._create(chosen, self._missing(sorted(parents)).union(map(znodes.partition_path, chosen)))
        if left:
            self._create_the_rest(left)

    def _missing(self, paths: Sequence[str]) -> set[str]:
        return {path for path, found in zip(paths, self._store.get_many(paths), strict=True) if found is None}

    def _create(self, chosen: Mapping[TopicPartition, Leadership], missing: set[str]) -> dict[TopicPartition, Leadership]:
        """Create the partitions' nodes, after their ``missing`` parents. Return the partitions with some existing nodes."""
        groups: list[list[Operation]] = []
        missing = set(missing)
        for partition, leadership in chosen.items():
            paths = [path for path in (_parent(partition.topic), znodes.partition_path(partition)) if path in missing]
            missing.difference_update(paths)
            groups.append([*map(Create, paths), Create(state_path(partition), encoded_leadership(leadership))])
        left = {}
        for (partition, leadership), result in zip(chosen.items(), self._store.batch(groups), strict=True):
            if isinstance(result, NoNodeError | NodeExistsError):
                left[partition] = leadership
            elif isinstance(result, StoreError):
                _log.error("Partition {partition} could not be created: {error}", partition=partition, error=result)
            else:
                self._became_online(partition, leadership, is_new=True)
        return left

    def _create_the_rest(self, chosen: Mapping[TopicPartition, Leadership]) -> None:
        """Create the missing nodes of partitions with some existing ones: Kafka creates their nodes one by one."""
        states = [state_path(partition) for partition in chosen]
        parents = {_parent(partition.topic) for partition in chosen}
        missing = self._missing([*sorted(parents), *map(znodes.partition_path, chosen), *states])
        without_state = {each: leadership for each, leadership in chosen.items() if state_path(each) in missing}
        for partition, error in self._create(without_state, missing).items():
            _log.error("Partition {partition} has no leader: {error}", partition=partition, error=error)
        others = [partition for partition in chosen if partition not in without_state]
        for partition, found in zip(others, self._store.get_many([state_path(each) for each in others]), strict=True):
            leadership = None if found is None else decoded_leadership(*found)
            if leadership is not None:
                self._context.leaderships[partition] = leadership
                self._context.partition_states[partition] = PartitionStatus.OFFLINE
        self._elect([partition for partition in others if partition in self._context.leaderships], None)

    def _elect(self, partitions: Sequence[TopicPartition], elect: Elect | None) -> None:
        """Elect leaders with ``elect``; without it, elect for partitions that have lost their leader."""
        # The context's states first, which saves reading them: the write of one that is out of date is refused.
        known = {each: self._context.leaderships[each] for each in partitions if self._is_clean(each, elect)}
        waiting = [each for each in partitions if each not in known] + self._try_to_elect(known, elect)
        for _ in range(MAX_ELECTION_ATTEMPTS):
            if not waiting:
                return
            found = self._store.get_many([state_path(partition) for partition in waiting])
            read = {each: None if node is None else decoded_leadership(*node) for each, node in zip(waiting, found, strict=True)}
            waiting = self._try_to_elect(read, elect)
        for partition in waiting:
            _log.error("Partition {partition} has no leader: its state changes all the time", partition=partition)

    def _is_clean(self, partition: TopicPartition, elect: Elect | None) -> bool:
        """Return whether the partition gets a leader that is in sync, by the state in the context."""
        elected = (elect or self._clean_election)(partition, self._context.leaderships[partition], self._alive(partition))
        return elected is not None and not elected.is_unclean

    def _try_to_elect(self, states: Mapping[TopicPartition, Leadership | None], elect: Elect | None) -> list[TopicPartition]:
        """Elect leaders; return the partitions whose state is not, or no longer, the given one."""
        elect = elect or self._offline_election(states)
        chosen: list[tuple[TopicPartition, Leadership]] = []
        groups: list[list[Operation]] = []
        for partition, leadership in states.items():
            if leadership is None or leadership.controller_epoch > self._context.epoch:
                _log.error("Partition {partition} has no leader: a newer controller wrote its state", partition=partition)
                continue
            changed = self._elected(partition, leadership, elect)
            if changed is not None:
                chosen.append((partition, changed))
                groups.append([Set(state_path(partition), encoded_leadership(changed), leadership.partition_epoch)])
        again = []
        for (partition, leadership), result in zip(chosen, self._store.batch(groups), strict=True):
            if isinstance(result, BadVersionError | NoNodeError):
                again.append(partition)
            elif isinstance(result, StoreError):
                _log.error("Partition {partition} has no leader: {error}", partition=partition, error=result)
            else:
                self._became_online(partition, leadership)
        return again

    def _elected(self, partition: TopicPartition, leadership: Leadership, elect: Elect) -> Leadership | None:
        elected = elect(partition, leadership, self._alive(partition))
        if elected is None:
            _log.error("Partition {partition} has no leader: no replica is eligible", partition=partition)
            return None
        if elected.is_unclean:
            self._elected_unclean()
            _log.warn("Partition {partition} has a leader that was not in sync: records may be lost", partition=partition)
        epoch = leadership.partition_epoch
        recovery_state = RECOVERING if elected.is_unclean else leadership.recovery_state
        leader_epoch = leadership.leader_epoch + 1
        return Leadership(elected.leader, leader_epoch, elected.isr, self._context.epoch, epoch + 1, recovery_state)

    def _became_online(self, partition: TopicPartition, leadership: Leadership, *, is_new: bool = False) -> None:
        self._context.leaderships[partition] = leadership
        self._context.partition_states[partition] = PartitionStatus.ONLINE
        replicas = self._context.assignment(partition).replicas
        told = [broker for broker in replicas if self._context.is_reachable(partition, broker)]
        self._requests.add_leader_and_isr(told, partition, leadership, is_new=is_new)

    def _offline_election(self, states: Mapping[TopicPartition, Leadership | None]) -> Elect:
        """Return the election for partitions that have lost their leaders; the store is asked once about all their topics."""
        leaderless = {
            partition.topic
            for partition, leadership in states.items()
            if leadership is not None and self._clean_election(partition, leadership, self._alive(partition)) is None
        }
        allowed = self._allow_unclean(leaderless) if leaderless else frozenset()

        def elect(partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
            replicas = self._context.assignment(partition).replicas
            return offline_leader(replicas, leadership.isr, alive, unclean=partition.topic in allowed)

        return elect

    def _clean_election(self, partition: TopicPartition, leadership: Leadership, alive: Sequence[int]) -> Elected | None:
        return offline_leader(self._context.assignment(partition).replicas, leadership.isr, alive, unclean=False)


def _parent(topic: str) -> str:
    return f"{znodes.topic_path(topic)}/partitions"


def decoded_leadership(data: bytes, stat: Stat) -> Leadership | None:
    """Decode a partition's state node; return None if that fails."""
    try:
        node = PartitionStateNode.decode(data)
    except BadNodeError:
        return None
    recovery_state = node.leader_recovery_state
    return Leadership(node.leader, node.leader_epoch, node.isr, node.controller_epoch, stat.version, recovery_state)


def encoded_leadership(leadership: Leadership) -> bytes:
    """Encode a partition's state node."""
    return PartitionStateNode(
        leader=leadership.leader,
        leader_epoch=leadership.leader_epoch,
        isr=list(leadership.isr),
        controller_epoch=leadership.controller_epoch,
        leader_recovery_state=leadership.recovery_state,
    ).encode()
