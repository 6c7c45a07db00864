"""Several controllers on one tree of nodes, with brokers that are models, a network that delays, loses and doubles, and faults.

Everything runs on one thread, by a seed. Each broker has a real KafkaController and a session of its own; a session lets its broker
crash in the middle of anything, by a write that is done or not done, or live on without knowing. What must hold is checked after
each write.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.fake import Fake
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.controller.channels.interfaces import ControlRequest, OnResponse
from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.controller.machines.leader_elections import ElectionType
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.embedded import IN_MEMORY, SqliteStore
from twisted_kafka.metadata.registration import BrokerIdTakenError, broker_node, prepare_store, register_broker
from twisted_kafka.metadata.store import (
    ANY_VERSION,
    Operation,
    SessionExpiredError,
    StoreDisconnectedError,
    StoreError,
    WatchEvent,
)
from twisted_kafka.metadata.znodes import BrokerNode, NumberNode, PartitionStateNode, TopicNode
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.controller import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from twisted_kafka.protocol.messages.inter_broker import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.clock import ManualClock

CRASH_SHARE = 0.002
"""Of the writes."""
CUT_SHARE = 0.01
"""Of the writes: there is no answer in time, perhaps as the connection is lost; the broker does not know whether it was made."""
LOSS_SHARE = 0.2
"""Of the answers; a request whose answer is lost comes twice."""
MOST_TOPICS = 4
"""At a time."""
MAX_ROUNDS = 3_000
"""Until a cluster without faults has come to rest."""


class CrashError(Exception):
    """The broker's process ends here."""


class Session:
    """One broker's session of the tree; provides what a controller uses of ``IMetadataStore``."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self._world = world
        self._broker_id = broker_id
        self.session_id = world.next_session()
        self.is_dead = False
        self.is_expired = False
        self.is_cut = False
        """Whether there was no connection; there is another one when the broker acts next."""
        self._is_answer_lost = False
        self.events: deque[tuple[Callable[[WatchEvent], None], WatchEvent]] = deque()
        self._watches: list[Any] = []

    def _reach(self, *, writes: bool = False) -> Any:
        if self.is_dead:
            raise CrashError
        if self.is_expired:
            raise SessionExpiredError("expired")
        self._is_answer_lost = False
        if writes and self._world.may_crash and self._world.random.random() < CUT_SHARE:
            self.is_cut = self._world.random.random() < 0.5
            if self._world.random.random() < 0.5:
                raise StoreDisconnectedError("no connection")
            self._is_answer_lost = True
        if writes and self._world.may_crash and self._world.random.random() < CRASH_SHARE:
            self.is_dead = True
            if self._world.random.random() < 0.5:
                raise CrashError
        self._world.tree.session_id = self.session_id
        return self._world.tree

    def _written(self) -> None:
        self._world.check_nodes(self._broker_id)
        if self.is_dead:  # after the write
            raise CrashError
        if self._is_answer_lost:
            self._is_answer_lost = False
            raise StoreDisconnectedError("no answer")

    def get(self, path: str) -> Any:
        return self._reach().get(path)

    def get_many(self, paths: Sequence[str]) -> Any:
        return self._reach().get_many(paths)

    def exists(self, path: str) -> Any:
        return self._reach().exists(path)

    def children(self, path: str) -> list[str]:
        found: list[str] = self._reach().children(path)
        return found

    def create(self, path: str, data: bytes = b"", **how: bool) -> str:
        made: str = self._reach(writes=True).create(path, data, **how)
        self._written()
        return made

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Any:
        result = self._reach(writes=True).set(path, data, expected_version)
        self._written()
        return result

    def delete(self, path: str, expected_version: int = ANY_VERSION, *, recursive: bool = False) -> None:
        self._reach(writes=True).delete(path, expected_version, recursive=recursive)
        self._written()

    def multi(self, operations: Sequence[Operation]) -> Any:
        result = self._reach(writes=True).multi(operations)
        self._written()
        return result

    def batch(self, groups: Sequence[Sequence[Operation]]) -> Any:
        results: list[Any] = []
        for group in groups:  # a crash may come between them
            try:
                result = self._reach(writes=True).multi(group)
                self._written()
                results.append(result)
            except StoreError as error:
                results.append(error)
        return results

    def watch(self, path: str, callback: Callable[[WatchEvent], None], *, data_only: bool = False) -> Any:
        watch = self._reach().watch(path, lambda event: self.events.append((callback, event)), data_only=data_only)
        self._watches.append(watch)
        return watch

    def watch_and_get(self, paths: Sequence[str], callback: Callable[[WatchEvent], None]) -> Any:
        return [(self.watch(path, callback, data_only=True), self.get(path)) for path in paths]

    def add_session_listener(self, callback: Callable[..., None]) -> None: ...

    def expire(self) -> None:
        """Have the tree forget the session, as its server does: the broker does not know yet."""
        self.is_expired = True
        tree = self._world.tree
        paths = [znodes.CONTROLLER, *(f"{znodes.BROKER_IDS}/{name}" for name in tree.children(znodes.BROKER_IDS))]
        for path in paths:
            found = tree.exists(path)
            if found is not None and found.ephemeral_owner == self.session_id:
                tree.delete(path)
        for watch in self._watches:
            watch.cancel()


class Model:
    """A broker's replicas as the controllers' requests make them."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self._world = world
        self.id = broker_id
        self.epoch = -1
        self.life = 0
        """How often its process has started. A process that gets another session, and registers again, has lost nothing."""
        self.cache = MetadataCache(broker_id)
        self.controller_epoch = 0
        self.updated_by = 0
        """The epoch of the controller whose metadata it has."""
        self.is_renewed = False
        """Whether it may know topics that were deleted while it had no session (``ControlPlane.forget_deleted``)."""
        self.replicas: dict[TopicPartition, tuple[bytes, LeaderAndIsrPartitionState]] = {}
        self.pending: dict[TopicPartition, tuple[int, int, list[int]]] = {}
        """Changes of in-sync replicas that were not answered, with leader epoch and partition epoch: they are sent again."""

    def receive(self, request: ControlRequest) -> Any:
        """Apply a request; return the response."""
        is_stale = request.broker_epoch < self.epoch
        if isinstance(request, LeaderAndIsrRequest):
            error = ErrorCode.STALE_BROKER_EPOCH if is_stale else self._accept(request)
            return LeaderAndIsrResponse(error_code=error) if error else self._lead(request)
        if isinstance(request, StopReplicaRequest):
            error = ErrorCode.STALE_BROKER_EPOCH if is_stale else self._accept(request)
            return StopReplicaResponse(error_code=error) if error else self._stop(request)
        if not is_stale and not self._accept(request):
            self.cache.apply(request)
            if request.controller_epoch > self.updated_by or (self.is_renewed and request.broker_epoch == self.epoch):
                self.updated_by = request.controller_epoch
                self.is_renewed &= request.broker_epoch != self.epoch
                gone = set(self.cache.topic_names()) - set(self._world.tree.children(znodes.TOPICS))
                self.cache.remove({topic: self.cache.topic_id(topic) for topic in gone})
        return None

    def _accept(self, request: ControlRequest) -> int:
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = request.controller_epoch
        return ErrorCode.NONE

    def _lead(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        topics = []
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                known = self.replicas.get(partition)
                error = ErrorCode.NONE
                if known is not None and known[0] == topic.topic_id and state.leader_epoch < known[1].leader_epoch:
                    error = ErrorCode.STALE_CONTROLLER_EPOCH
                else:
                    self._world.check_leader(partition, topic.topic_id, state)
                    if state.leader == self.id and len(state.replicas) > 1:
                        self._world.check_life(partition, topic.topic_id, state.leader_epoch, self.life)
                    if (
                        known is None
                        or known[0] != topic.topic_id
                        or (state.leader_epoch, state.partition_epoch) >= (known[1].leader_epoch, known[1].partition_epoch)
                    ):
                        self.replicas[partition] = (topic.topic_id, state)
                errors.append(LeaderAndIsrPartitionError(partition_index=partition.partition, error_code=error))
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return LeaderAndIsrResponse(topics=topics)

    def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                known = self.replicas.get(partition)
                error = ErrorCode.NONE
                if known is not None and 0 <= state.leader_epoch < known[1].leader_epoch:
                    error = ErrorCode.FENCED_LEADER_EPOCH
                elif known is not None and state.delete_partition:
                    del self.replicas[partition]
                errors.append(
                    StopReplicaPartitionError(topic_name=topic.topic_name, partition_index=partition.partition, error_code=error)
                )
        return StopReplicaResponse(partition_errors=errors)


class Channels(Fake):
    """One controller's channels: each request arrives at least once, in order, while the channel is there; and perhaps later."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.queues: dict[int, deque[tuple[ControlRequest, OnResponse | None]]] = {}

    def send(self, broker_id: int, request: ControlRequest, on_response: OnResponse | None) -> None:
        assert broker_id in self.queues
        self.queues[broker_id].append((request, on_response))

    def add_broker(self, broker_id: int, node: BrokerNode) -> None:
        self.queues.setdefault(broker_id, deque())

    def remove_broker(self, broker_id: int) -> None:
        queue = self.queues.pop(broker_id, None)
        if queue:
            self._world.stray.append((broker_id, queue[0][0]))  # it is on its way

    def remove_all(self) -> None:
        for broker_id in list(self.queues):
            self.remove_broker(broker_id)

    def deliver(self, broker_id: int, *, loses: bool) -> None:
        target = self._world.members.get(broker_id)
        if target is None:
            return
        request, on_response = self.queues[broker_id][0]
        response = target.model.receive(request)
        queue = self.queues.get(broker_id)
        if not loses and queue and queue[0][0] is request:
            queue.popleft()
            if on_response is not None:
                on_response(response)


class Member:
    """A broker's process: session, controller, and the model of its replicas."""

    def __init__(self, world: "World", broker_id: int, model: Model) -> None:
        self._world = world
        self.id = broker_id
        self.model = model
        config = KafkaConfig.embedded({"broker.id": str(broker_id), "auto.leader.rebalance.enable": "true"})
        self.session = Session(world, broker_id)
        self._sessions = [self.session.session_id]
        self._registered = self.session.session_id
        self.channels = Channels(world)
        configs = ConfigRepository(self.session, world.clock, threaded=False)  # type: ignore[arg-type]
        store: Any = self.session
        self.controller = KafkaController(config, store, configs, self.channels, world.clock, threaded=False)

    def start(self) -> None:
        """Register, and take part in the election."""
        self._register()
        self.controller.startup()

    def _register(self) -> None:
        point = EndPoint("localhost", 9000 + self.id, "PLAINTEXT", "PLAINTEXT")
        node = broker_node([point], rack=None, now_ms=self._world.clock.wall_ms())
        self.model.epoch = register_broker(self.session, self.id, node, self._sessions)  # type: ignore[arg-type]

    def notice_expiry(self) -> None:
        """The broker hears that its session has expired, finishes what it does without one, and gets another one."""
        self.session.events.clear()

        def expire() -> None:  # what ``session_expired`` does, and waits for
            self.controller._is_behind = False
            self.controller._resign()

        self.controller._worker.submit(expire)
        self.controller.pump()
        self.session.session_id = self._world.next_session()
        self._sessions.append(self.session.session_id)
        self.session.is_expired = False
        self.reconnect()

    def reconnect(self) -> None:
        """The broker has a connection again: it registers if the session is a new one."""
        self.session.is_cut = False
        self.controller.reconnected(self._register_again)

    def _register_again(self) -> None:
        if self._registered == self.session.session_id:
            return
        self._register()
        self.model.is_renewed = True
        self.session._watches = []
        self.controller._controller_watch = self.session.watch(znodes.CONTROLLER, self.controller._controller_watched)
        self._registered = self.session.session_id

    def step(self) -> bool:
        """Handle one event of the tree, or of the controller; return whether there was one."""
        if self.session.is_dead:
            return False
        if self.session.is_cut and not self.session.is_expired:
            self.reconnect()
        queue = self.controller._worker._queue
        if self.session.events and (not queue or self._world.random.random() < 0.5):
            callback, event = self.session.events.popleft()
            callback(event)
            return True
        if queue:
            self.controller._worker._call(queue.popleft())
            return True
        return False


class World:
    """The cluster, its faults, and what must hold."""

    def __init__(self, seed: int, brokers: int = 3) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.tree = SqliteStore(IN_MEMORY, self.clock, threaded=False)
        self._session = 1000
        self.may_crash = False
        self.stray: list[tuple[int, ControlRequest]] = []
        self.ids = list(range(1, brokers + 1))
        self.members: dict[int, Member] = {}
        self.models = {broker_id: Model(self, broker_id) for broker_id in self.ids}
        self._topics = 0
        self._leaders: dict[tuple[TopicPartition, bytes, int], int] = {}
        self._lives: dict[tuple[TopicPartition, bytes, int], int] = {}
        """In which of its lives a broker leads in a leader epoch."""
        self._states: dict[tuple[TopicPartition, int], tuple[int, PartitionStateNode]] = {}
        self._epoch = 0
        self._moved: set[str] = set()
        """Topics of which replicas were moved: those left over on brokers that were away stay there, as in Apache Kafka."""
        self._dying: list[Session] = []
        prepare_store(self.tree)
        for broker_id in self.ids:
            self._start(broker_id)
        self.may_crash = True

    def close(self) -> None:
        self.tree.close()

    def next_session(self) -> int:
        self._session += 1
        return self._session

    # What must hold

    def check_leader(self, partition: TopicPartition, topic_id: bytes, state: LeaderAndIsrPartitionState) -> None:
        """In each epoch of a partition there is one leader."""
        key = (partition, topic_id, state.leader_epoch)
        if state.leader >= 0:
            assert self._leaders.setdefault(key, state.leader) == state.leader, key

    def check_life(self, partition: TopicPartition, topic_id: bytes, leader_epoch: int, life: int) -> None:
        """No leader leads on in the same epoch after a restart, in which it may have lost records; unless the topic goes anyway."""
        key = (partition, topic_id, leader_epoch)
        if self.tree.exists(znodes.delete_topic_path(partition.topic)) is None:
            assert self._lives.setdefault(key, life) == life, key

    def check_nodes(self, writer: int) -> None:
        """Epochs never go back, leaders are in sync, and a controller that was deposed writes nothing."""
        found = self.tree.get(znodes.CONTROLLER_EPOCH)
        epoch = 0 if found is None else NumberNode.decode(found[0]).value
        assert epoch >= self._epoch
        self._epoch = epoch
        for topic in self.tree.children(znodes.TOPICS):
            node, stat = self.tree.get(znodes.topic_path(topic))
            for index, replicas in TopicNode.decode(node).partitions.items():
                partition = TopicPartition(topic, index)
                found = self.tree.get(znodes.state_path(partition))
                if found is not None:
                    self._check_state(partition, stat.czxid, replicas, found, writer)

    def _check_state(self, partition: TopicPartition, topic: int, replicas: list[int], found: Any, writer: int) -> None:
        state, version = PartitionStateNode.decode(found[0]), found[1].version
        before = self._states.get((partition, topic))
        self._states[partition, topic] = (version, state)
        if before is not None and before[0] == version:
            return
        assert state.isr, (partition, state)
        assert state.leader == -1 or state.leader in state.isr, (partition, state)
        assert state.controller_epoch == self._epoch, (partition, state, "written by a controller that was deposed", writer)
        assert state.leader_recovery_state == 0, (partition, state, "no election was unclean")
        if before is not None:
            was = before[1]
            assert version == before[0] + 1
            assert state.leader_epoch >= was.leader_epoch
            assert state.leader == was.leader or state.leader_epoch > was.leader_epoch, (partition, was, state)
            assert state.leader in (-1, was.leader) or state.leader in was.isr, (partition, was, state, "a clean election")

    # Faults, and work

    def _start(self, broker_id: int) -> None:
        model = self.models[broker_id]
        model.cache, model.controller_epoch, model.pending = MetadataCache(broker_id), 0, {}
        model.life += 1
        member = Member(self, broker_id, model)
        try:
            member.start()
        except BrokerIdTakenError:  # its last session has not expired yet
            return
        except (CrashError, StoreDisconnectedError):  # it does not start without a connection
            self._dying.append(member.session)
            return
        self.members[broker_id] = member

    def _kill(self, broker_id: int) -> None:
        member = self.members.pop(broker_id)
        member.session.is_dead = True
        self._dying.append(member.session)

    def _bury(self) -> None:
        for broker_id in [each for each, member in self.members.items() if member.session.is_dead]:
            self._dying.append(self.members.pop(broker_id).session)

    def step(self) -> None:
        """Do one thing, whatever comes."""
        self._bury()
        choice = self.random.random()
        if choice < 0.55:
            self._choose(self.members.values(), Member.step)
        elif choice < 0.85:
            self._deliver(loses=self.random.random() < LOSS_SHARE)
        elif choice < 0.87 and self.stray:
            broker_id, request = self.stray.pop(self.random.randrange(len(self.stray)))
            if broker_id in self.members:
                self.models[broker_id].receive(request)
        elif choice < 0.91:
            self._choose(self.members.values(), self._change_isr)
        elif choice < 0.95:
            self.random.choice((self._create, self._delete, self._grow, self._reassign, self._elect, self._drain))()
        elif choice < 0.97:
            self.random.choice((self._some_die, self._some_expire, self._depose))()
        else:
            self._recover()

    def _choose(self, among: Any, act: Callable[[Any], Any]) -> None:
        found = list(among)
        if found:
            act(self.random.choice(found))

    def _deliver(self, *, loses: bool) -> bool:
        full = [
            (member.channels, broker_id)
            for member in self.members.values()
            for broker_id, queue in member.channels.queues.items()
            if queue and broker_id in self.members
        ]
        if full:
            channels, broker_id = self.random.choice(full)
            channels.deliver(broker_id, loses=loses)
        return bool(full)

    def _some_die(self) -> None:
        self._choose(self.members, self._kill)

    def _some_expire(self) -> None:
        self._choose([each for each in self.members.values() if not each.session.is_expired], lambda each: each.session.expire())

    def _depose(self) -> None:
        """Somebody removes the controller's node: it does not know at first."""
        if self.tree.exists(znodes.CONTROLLER) is not None:
            self.tree.delete(znodes.CONTROLLER)

    def _recover(self) -> None:
        for session in self._dying:
            session.expire()
        self._dying.clear()
        for member in self.members.values():
            if member.session.is_expired and not member.session.is_dead:
                member.notice_expiry()
        for broker_id in set(self.ids) - self.members.keys():
            self._start(broker_id)

    def _controller(self) -> Member | None:
        return next((each for each in self.members.values() if each.controller.is_active), None)

    def _topic(self) -> str | None:
        topics = self.tree.children(znodes.TOPICS)
        return self.random.choice(topics) if topics else None

    def _create(self) -> None:
        if len(self.tree.children(znodes.TOPICS)) == MOST_TOPICS:
            return
        self._topics += 1
        node = TopicNode(
            partitions={index: self._replicas() for index in range(self.random.randint(1, 3))},
            topic_id=self._topics.to_bytes(16, "big"),
        )
        self.tree.create(znodes.topic_path(f"t{self._topics}"), node.encode())

    def _replicas(self) -> list[int]:
        return self.random.sample(self.ids, self.random.randint(1, len(self.ids)))

    def _delete(self) -> None:
        topic = self._topic()
        if topic is not None and self.tree.exists(znodes.delete_topic_path(topic)) is None:
            self.tree.create(znodes.delete_topic_path(topic))

    def _grow(self) -> None:
        topic = self._topic()
        if topic is not None:
            data, stat = self.tree.get(znodes.topic_path(topic))
            node = TopicNode.decode(data)
            if not node.adding_replicas and not node.removing_replicas and len(node.partitions) < 5:
                more = {**node.partitions, len(node.partitions): self._replicas()}
                self.tree.set(znodes.topic_path(topic), node._replace(partitions=more).encode(), stat.version)

    def _run(self, work: Callable[[KafkaController], Any]) -> None:
        member = self._controller()
        if member is not None:
            controller = member.controller
            controller.run(lambda: work(controller), ControllerState.IDLE)

    def _reassign(self) -> None:
        topic = self._topic()
        if topic is not None:
            self._moved.add(topic)
            targets = self._replicas() if self.random.random() < 0.8 else None
            self._run(lambda controller: controller.reassignments.alter({TopicPartition(topic, 0): targets}))

    def _elect(self) -> None:
        def elect(controller: KafkaController) -> None:
            controller.elections.elect(controller.context.all_partitions(), ElectionType.PREFERRED)

        self._run(elect)

    def _drain(self) -> None:
        """A broker is about to stop; it stops or does not."""
        broker_id = self.random.choice(self.ids)

        def drain(controller: KafkaController) -> None:
            if broker_id in controller.context.brokers:
                controller.controlled_shutdown.begin(broker_id, -1)

        self._run(drain)

    def _change_isr(self, leader: Member) -> None:
        """A leader wants other in-sync replicas."""
        led = self._led(leader)
        if led:
            partition = self.random.choice(led)
            replicas = leader.model.replicas[partition][1].replicas
            self._ask_for_isr(leader, partition, [each for each in replicas if self.random.random() < 0.7])

    def _led(self, leader: Member) -> list[TopicPartition]:
        return sorted(partition for partition, (_, state) in leader.model.replicas.items() if state.leader == leader.id)

    def _ask_for_isr(self, leader: Member, partition: TopicPartition, isr: Sequence[int]) -> None:
        """A leader asks the controller that it knows of."""
        found = leader.model.cache.controller_id
        asked = self.members.get(-1 if found is None else found)
        if asked is None or partition not in leader.model.replicas:
            return
        topic_id, state = leader.model.replicas[partition]
        pending = leader.model.pending.get(partition)
        if pending is None or pending[0] != state.leader_epoch:
            wanted = list(dict.fromkeys([leader.id, *isr]))
            pending = leader.model.pending[partition] = (state.leader_epoch, state.partition_epoch, wanted)
        data = AlterPartitionRequestPartitionData(
            partition_index=partition.partition, leader_epoch=pending[0], partition_epoch=pending[1]
        )
        data.new_isr_with_epochs = [BrokerState(broker_id=each) for each in pending[2]]
        topic = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[data])
        request = AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.model.epoch, topics=[topic])

        def answered(done: Any) -> None:
            if done.exception() is None and not done.result().error_code and self.random.random() > LOSS_SHARE:
                answer = done.result().topics[0].partitions[0]
                if leader.model.pending.get(partition) is pending:  # not an answer to the request of a former leader epoch
                    del leader.model.pending[partition]
                known = leader.model.replicas.get(partition)
                if not answer.error_code and known is not None and known[0] == topic_id:
                    now = known[1]
                    if answer.leader_epoch == now.leader_epoch and answer.partition_epoch > now.partition_epoch:
                        now.isr, now.partition_epoch = answer.isr, answer.partition_epoch

        controller = asked.controller
        controller.run(lambda: controller.isr_changes.alter(request, 3), ControllerState.ISR_CHANGE).add_done_callback(answered)

    # Coming to rest

    def heal(self) -> None:
        """Let all brokers come back and everything that is under way arrive; leaders take all replicas into the ISR."""
        self.may_crash = False
        self.stray.clear()
        for _ in range(3):
            self._bury()
            self._recover()
            self._settle()
            self._restart_drained()
            self._settle()
            for member in list(self.members.values()):
                for partition in self._led(member):
                    for _ in range(8):  # answers may be lost
                        held = member.model.replicas.get(partition)
                        if held is not None and held[1].leader == member.id:
                            self._ask_for_isr(member, partition, held[1].replicas)
                            self._settle()
            for member in self.members.values():
                member.controller.balance_leaders()
            self._settle()

    def _restart_drained(self) -> None:
        """A broker that has said that it stops does."""
        member = self._controller()
        drained = [] if member is None else sorted(member.controller.context.shutting_down)
        for broker_id in drained:
            if broker_id in self.members:
                self._kill(broker_id)
        self._recover()

    def _settle(self) -> None:
        for _ in range(MAX_ROUNDS):
            self.tree.pump()
            moved = self._deliver(loses=False)
            for member in list(self.members.values()):
                moved |= member.step()
            if not moved:
                return
        raise AssertionError("the cluster does not come to rest")

    def check_rest(self) -> None:
        """One controller, and all brokers know what the nodes say."""
        (active,) = [each for each in self.members.values() if each.controller.is_active]
        assert sorted(active.controller.context.brokers) == self.ids
        assert self.tree.children(znodes.DELETE_TOPICS) == [], "all deletions are done"
        assert self.tree.children(znodes.ISR_CHANGES) == []
        topics = set(self.tree.children(znodes.TOPICS))
        for member in self.members.values():
            assert member.model.cache.controller_id == active.id
            assert sorted(member.model.cache.snapshot.brokers) == self.ids
            names = set(member.model.cache.topic_names())
            assert names == topics, (member.id, names, topics)
        for topic in topics:
            node = TopicNode.decode(self.tree.get(znodes.topic_path(topic))[0])
            assert not node.adding_replicas, (topic, node)
            assert not node.removing_replicas, (topic, node)
            for index, replicas in node.partitions.items():
                self._check_partition(TopicPartition(topic, index), replicas)
        kept = {partition.topic for model in self.models.values() for partition in model.replicas}
        assert kept - self._moved <= topics, "deleted topics are gone from all brokers"

    def _check_partition(self, partition: TopicPartition, replicas: list[int]) -> None:
        found = self.tree.get(znodes.state_path(partition))
        assert found is not None, partition
        state = PartitionStateNode.decode(found[0])
        assert state.leader in replicas, (partition, replicas, state)
        assert set(state.isr) == set(replicas), (partition, replicas, state)
        for broker_id in self.ids:
            heard = self.models[broker_id].cache.partition(partition)
            assert (heard.leader, heard.leader_epoch, heard.isr) == (state.leader, state.leader_epoch, state.isr), (
                broker_id,
                heard,
            )
            assert heard.offline_replicas == []
            held = self.models[broker_id].replicas.get(partition)
            if broker_id not in replicas:
                assert held is None or partition.topic in self._moved, (partition, broker_id, held)
            else:
                assert held is not None, (partition, broker_id)
                assert (held[1].leader, held[1].leader_epoch) == (state.leader, state.leader_epoch), (partition, broker_id, held)
