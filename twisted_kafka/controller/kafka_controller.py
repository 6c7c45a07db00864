"""The controller: elected among the brokers, it decides on leaders and makes and deletes partitions (Kafka: ``KafkaController``).

Everything happens on one event thread: watches, answers of brokers and calls from outside only queue an event for it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.controller.channels.network_channels import NetworkChannels
from twisted_kafka.controller.channels.requests import Addressee, RequestBatch, ResponseHandlers
from twisted_kafka.controller.context.context import ControllerContext, LiveBroker
from twisted_kafka.controller.context.fenced_store import ControllerMovedError, FencedStore
from twisted_kafka.controller.context.states import PartitionStatus, ReplicaStatus
from twisted_kafka.controller.context_loader import ContextLoader, NodeWatches
from twisted_kafka.controller.controller_election import ControllerElection
from twisted_kafka.controller.controller_metrics import ControllerMetrics
from twisted_kafka.controller.controller_metrics import ControllerState as State
from twisted_kafka.controller.machines.leader_elections import ElectionType, LeaderElections
from twisted_kafka.controller.machines.machinery import Machinery
from twisted_kafka.controller.machines.partition_machine import PartitionStateMachine
from twisted_kafka.controller.machines.replica_machine import ReplicaStateMachine
from twisted_kafka.controller.operations.alter_partitions import AlterPartitions
from twisted_kafka.controller.operations.broker_changes import BrokerChanges
from twisted_kafka.controller.operations.controlled_shutdown import ControlledShutdown
from twisted_kafka.controller.operations.feature_updates import FeatureUpdates
from twisted_kafka.controller.operations.leader_balance import LeaderBalance
from twisted_kafka.controller.operations.reassignments import Reassignments
from twisted_kafka.controller.operations.request_nodes import RequestNodes
from twisted_kafka.controller.operations.topic_deletion import TopicDeletion
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.store import (
    EventKind,
    IMetadataStore,
    IWatch,
    NoNodeError,
    SessionExpiredError,
    StoreClosedError,
    StoreDisconnectedError,
    WatchEvent,
    split_path,
)
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.errors import ElectionNotNeededError, NotControllerError
from twisted_kafka.protocol.messages.inter_broker import LeaderAndIsrResponse, StopReplicaResponse
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

_log = Logger()

EXPIRE_TIMEOUT_S: Final = 50.0
"""How long an expired session waits for the controller's current event."""

FIRST_ELECTION_BACKOFF_S: Final = 0.1
MAX_ELECTION_BACKOFF_S: Final = 5.0
"""How long an elected broker that could not become the controller waits before the next attempt: twice as long each time."""

CATCH_UP_PAUSE_S: Final = 1.0
"""How long it waits before it asks a store again that did not answer twice in a row."""

TopicsListener = Callable[[Collection[str]], None]
_T = TypeVar("_T")


class KafkaController:
    """One broker's controller. It is active while the broker holds ``/controller``; else it waits for that node to vanish."""

    def __init__(
        self,
        config: KafkaConfig,
        store: IMetadataStore,
        configs: ConfigRepository,
        channels: NetworkChannels,
        clock: IClock,
        *,
        threaded: bool = True,
        metrics: MetricsRegistry | None = None,
    ) -> None:
        """With ``threaded=False``, for tests, events run only in ``pump()``."""
        self._metrics = ControllerMetrics(clock, metrics or MetricsRegistry(clock))
        self.broker_id = config.broker_id
        self._config = config
        self._store = store
        self._configs = configs
        self._election = ControllerElection(store, self.broker_id, clock)
        self._worker = SerialWorker("controller-event-thread", threaded=threaded)
        self._watches: list[IWatch] = []
        self._controller_watch: IWatch | None = None
        self._listeners: list[TopicsListener] = []
        self._channels = channels
        self.context = ControllerContext()
        self._fenced = fenced = FencedStore(store, self.context)
        self._node_watches = NodeWatches(fenced)
        self._on_elected: Callable[[], None] | None = None
        self.active_controller_id = -1
        self._failed_elections = 0
        """How often in a row this broker was elected and could not become the controller."""
        self._is_behind = False
        """Whether an event failed because the store did not answer: the context may then differ from the store."""
        self._is_to_catch_up = False
        """Whether that is queued."""
        self._register: Callable[[], None] = lambda: None
        handlers = ResponseHandlers(self._leader_and_isr_answered, self._stop_replica_answered)
        self._requests = RequestBatch(self.broker_id, self.context, channels, handlers, config.inter_broker_listener_name)
        self._loader = ContextLoader(self.context, fenced)
        self._replicas = ReplicaStateMachine(self.context, fenced, self._requests)
        self._partitions = PartitionStateMachine(
            self.context, fenced, self._requests, self._allow_unclean_election, elected_unclean=self._metrics.unclean_election
        )
        machinery = Machinery(self.context, fenced, self._requests, self._partitions, self._replicas)
        self._deletion = TopicDeletion(machinery, deleted=self._topics_deleted)
        self._brokers = BrokerChanges(machinery, self._deletion)
        self.elections = LeaderElections(self.context, self._partitions.elect_online)
        self.controlled_shutdown = ControlledShutdown(machinery)
        self.reassignments = Reassignments(machinery)
        self._request_nodes = RequestNodes(machinery)
        self.isr_changes = AlterPartitions(machinery, self.reassignments)
        self.features = FeatureUpdates(self.context, fenced, config.initial_features)
        self._balance = LeaderBalance(self.context, self.elections.elect, config.int("leader.imbalance.per.broker.percentage"))
        self._metrics.show(self.context, lambda: self.is_active, lambda: self._worker.waiting)

    # Called by other threads

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self.active_controller_id == self.broker_id

    @property
    def epoch(self) -> int:
        """The controller epoch of this broker's last term."""
        return self.context.epoch

    def startup(self) -> "Future[None]":
        """Take part in the election. The future is done once there is a controller; if this broker is, once all brokers know."""
        started: Future[None] = Future()

        def start() -> None:
            try:
                self._controller_watch = self._store.watch(znodes.CONTROLLER, self._controller_watched)
                self._elect()
            except ControllerMovedError:
                started.set_result(None)
                raise
            except BaseException as error:
                started.set_exception(error)
                raise
            started.set_result(None)

        self._submit(start, State.CONTROLLER_CHANGE)
        return started

    def shutdown(self) -> None:
        """Stop. The ``/controller`` node vanishes with the store's session."""

        def stop() -> None:
            if self._controller_watch is not None:
                self._controller_watch.cancel()
            self._resign()

        self._submit(stop, State.CONTROLLER_SHUTDOWN)
        self._worker.close()

    def session_expired(self) -> None:
        """Resign, as the store's session has expired (Kafka: the ``Expire`` event).

        When this returns, nothing of the old session is under way. Not for the event thread.
        """
        resigned = machine.Event()

        def expire() -> None:
            try:
                self._is_behind = False
                self._resign()
            finally:
                resigned.set()

        if self._worker.submit(self._metrics.timed(State.CONTROLLER_CHANGE, expire)) and not resigned.wait(EXPIRE_TIMEOUT_S):
            _log.error("The controller did not resign within {seconds} s", seconds=EXPIRE_TIMEOUT_S)

    def reconnected(self, register: Callable[[], None]) -> None:
        """Take part in the election again, as the store has a connection again; ``register`` registers the broker first."""
        self._register = register
        self._submit(self._reconnect, State.CONTROLLER_CHANGE)

    def pump(self) -> int:
        """Run the queued events on this thread; return how many. Only with ``threaded=False``."""
        return self._worker.pump()

    def run(self, work: Callable[[], _T], state: State) -> "Future[_T]":
        """Run ``work`` on the event thread. The future raises NotControllerError if this broker is not the controller then.

        ``state`` names the kind of work for the metrics.
        """
        future: Future[_T] = Future()

        def event() -> None:
            try:
                if not self.is_active:
                    raise NotControllerError("This broker is not the controller")
                result = work()
            except ControllerMovedError:
                future.set_exception(NotControllerError("This broker is no longer the controller"))
                raise
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, NotControllerError):
                    raise
            else:
                future.set_result(result)

        if not self._submit(event, state):
            future.set_exception(NotControllerError("The controller has stopped"))
        return future

    def elect_for_offline(self) -> None:
        """Retry the election for partitions without a leader, as unclean election may be allowed now. For any thread."""
        self._submit_active(self._partitions.elect_for_offline, State.UNCLEAN_LEADER_ELECTION_ENABLE)

    def balance_leaders(self) -> None:
        """Elect leaders for partitions without one, and preferred leaders where too many others lead. For any thread.

        Also complete deletions of topics whose nodes the store did not delete, as its disk was full for example.
        """

        def balance() -> None:
            self._deletion.resume()
            self._partitions.elect_for_offline()
            if self._config.boolean("auto.leader.rebalance.enable"):
                self._balance.restore()

        self._submit_active(balance, State.AUTO_LEADER_BALANCE)

    def set_elected_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` on the event thread when this broker has become the controller."""
        self._on_elected = listener

    def tell_anew(self, broker: int) -> None:
        """Send a broker everything again, as requests to it were dropped. For any thread."""
        self._submit_active(partial(self._brokers.tell_anew, broker), State.BROKER_CHANGE)

    def add_topics_listener(self, listener: TopicsListener) -> None:
        """Call ``listener`` on the event thread with topics whose deletion is complete."""
        self._listeners.append(listener)

    def is_to_be_deleted(self, topic: str) -> bool:
        """Return whether the topic's deletion is in progress."""
        return topic in self.context.topics_to_delete

    # Failover and resignation

    def _submit(self, event: Callable[[], None], state: State) -> bool:
        """Queue ``event``; return False once the controller has stopped."""
        return self._worker.submit(self._metrics.timed(state, partial(self._handle, event)))

    def _handle(self, event: Callable[[], None]) -> None:
        try:
            self._run_unless_moved(event)
        except StoreDisconnectedError as error:
            _log.warn("The controller waits for the metadata store: {error}", error=error)
            # A write may be missing in the context, so the context is not used any more.
            self._resign()
            was_behind, self._is_behind = self._is_behind, True
            # If the connection was not lost, no event will report a new one. A new session is reported.
            if not self._is_to_catch_up and not isinstance(error, SessionExpiredError):
                if was_behind:
                    self._worker.pause(CATCH_UP_PAUSE_S)
                self._is_to_catch_up = self._submit(self._catch_up, State.CONTROLLER_CHANGE)

    def _run_unless_moved(self, event: Callable[[], None]) -> None:
        try:
            event()
        except ControllerMovedError as moved:  # the watch on the other's node has not fired yet
            _log.info("{moved}", moved=moved)
            self._resign()
            self._controller_changed()

    def _reconnect(self) -> None:
        self._register()
        if self._is_behind:
            self._step_down()
        self._controller_changed()

    def _catch_up(self) -> None:
        """Take part in the election again, unless that was done since the store did not answer."""
        self._is_to_catch_up = False
        if self._is_behind:
            self._reconnect()

    def _step_down(self) -> None:
        """Resign if this broker is the controller, so that the next term begins with the store's state."""
        self._resign()
        found = self._store.exists(znodes.CONTROLLER)
        if found is not None and found.ephemeral_owner == self._store.session_id:
            with suppress(NoNodeError):
                self._store.delete(znodes.CONTROLLER)
        self._is_behind = False

    def _submit_active(self, event: Callable[[], None], state: State) -> None:
        """Queue ``event``; it is dropped if this broker is no longer the controller at its turn."""

        def run() -> None:
            if self.is_active:
                event()

        self._submit(run, state)

    def _on_change(self, event: Callable[[], None], state: State) -> Callable[[WatchEvent], None]:
        """Return a watch callback that queues ``event``."""
        return lambda _: self._submit_active(event, state)

    def _watch_created(self, path: str, event: Callable[[], None], state: State) -> IWatch:
        """Queue ``event`` when somebody has created the node."""
        changed = self._on_change(event, state)

        def notice(watched: WatchEvent) -> None:
            if watched.kind is EventKind.CREATED:
                changed(watched)

        return self._store.watch(path, notice, data_only=True)

    def _controller_watched(self, _: WatchEvent) -> None:
        self._submit(self._controller_changed, State.CONTROLLER_CHANGE)

    def _controller_changed(self) -> None:
        was_active = self.is_active
        found = self._election.active()
        if was_active and found != self.broker_id:
            self._resign()
        if found == self.broker_id and not was_active:
            # It was elected in a write whose answer was lost, and has not become the controller.
            self._step_down()
            found = self._other_controller()
        self.active_controller_id = found
        if found < 0:
            self._elect()

    def _other_controller(self) -> int:
        """Return the controller's broker id; -1 without a controller, or if the node is this broker's from a former session."""
        found = self._election.active()
        return -1 if found == self.broker_id else found

    def _elect(self) -> None:
        won = self._election.run()
        if won is None:
            self.active_controller_id = self._other_controller()
            return
        self.active_controller_id = self.broker_id
        self.context.epoch, self.context.epoch_version = won
        _log.info("Broker {broker} is the controller, epoch {epoch}", broker=self.broker_id, epoch=self.epoch)
        try:
            self._failover()
        except (StoreClosedError, ControllerMovedError):
            raise
        except Exception:
            # A controller that could not load the cluster's state must not stay active.
            _log.failure("Becoming the controller failed")
            self._resign()
            self._fenced.delete(znodes.CONTROLLER)
            # Another broker may win before the next attempt. The pause avoids a busy loop if the cause of the failure lasts.
            self._worker.pause(min(MAX_ELECTION_BACKOFF_S, FIRST_ELECTION_BACKOFF_S * 2 ** min(self._failed_elections, 10)))
            self._failed_elections += 1
            raise
        self._failed_elections = 0

    def _failover(self) -> None:
        """Load the cluster's state, send it to all brokers, and resume unfinished operations (Kafka: onControllerFailover)."""
        context = self.context
        context.clear()
        self.features.startup()
        self._watches = [
            self._store.watch(znodes.BROKER_IDS, self._on_change(self._brokers_changed, State.BROKER_CHANGE)),
            self._store.watch(znodes.TOPICS, self._names_watched),
            self._store.watch(znodes.DELETE_TOPICS, self._on_change(self._deletions_changed, State.TOPIC_DELETION)),
            self._store.watch(znodes.ISR_CHANGES, self._on_change(self._isrs_changed, State.ISR_CHANGE)),
            self._store.watch(znodes.LOG_DIR_EVENTS, self._on_change(self._log_dirs_failed, State.LOG_DIR_CHANGE)),
            self._watch_created(znodes.REASSIGN_PARTITIONS, self.reassignments.take_requested, State.ALTER_PARTITION_REASSIGNMENT),
            self._watch_created(znodes.PREFERRED_ELECTION, self._preferred_elections_requested, State.MANUAL_LEADER_BALANCE),
        ]
        # Each broker gets LeaderAndIsr for all its replicas below, and answers which of them it has lost.
        self._loader.take_log_dir_events()
        context.brokers, context.brokers_version = self._live_brokers()
        for broker in context.brokers:
            self._channels.add_broker(broker, context.brokers[broker].node)
        topics = self._fenced.children(znodes.TOPICS)
        self._load_topics(topics)
        restarted = self._loader.load_leaderships(context.all_partitions())
        deletions = self._fenced.children(znodes.DELETE_TOPICS)
        if self._config.boolean("delete.topic.enable"):
            context.topics_to_delete = {topic for topic in deletions if topic in context.assignments}
            context.topics_being_deleted = set()
        # Brokers need the live brokers before they become leaders and followers.
        self._requests.update_metadata(context.brokers, ())
        self._partitions.elect_after_restarts(restarted)
        self._replicas.startup()
        self._partitions.startup()
        self._requests.update_metadata(context.brokers, context.all_partitions())
        self.reassignments.take_requested()
        self.reassignments.resume()
        self._preferred_elections_requested()
        self._handle_deletions(deletions)
        self._deletion.resume()
        if self._on_elected is not None:
            self._on_elected()

    def _resign(self) -> None:
        for watch in self._watches:
            watch.cancel()
        self._watches = []
        self._node_watches.forget_all()
        self._channels.remove_all()
        self.context.clear()
        if self.is_active:
            _log.info("Broker {broker} is no longer the controller", broker=self.broker_id)
        self.active_controller_id = -1

    # Brokers

    def _live_brokers(self) -> tuple[dict[int, LiveBroker], int]:
        """Read the registered brokers and watch them; return also the ``cversion`` of the list of them."""
        version = self._fenced.children_version(znodes.BROKER_IDS)
        ids = self._loader.broker_ids()
        changed = self._on_change(self._brokers_changed, State.BROKER_CHANGE)
        nodes = self._node_watches.watch_and_get([znodes.broker_path(broker) for broker in ids], changed)
        return self._loader.live_brokers(dict(zip(ids, nodes, strict=True))), version

    def _brokers_changed(self) -> None:
        context = self.context
        now, version = self._live_brokers()
        before = context.brokers
        # A broker that restarted between two reads has another epoch.
        restarted = {broker for broker in now.keys() & before.keys() if now[broker].epoch != before[broker].epoch}
        gone = before.keys() - now.keys() | restarted
        new = now.keys() - before.keys() | restarted
        context.shutting_down -= gone
        if gone:
            context.brokers = {broker: each for broker, each in before.items() if broker not in gone}
            for broker in gone:
                self._channels.remove_broker(broker)
                self._node_watches.forget(znodes.broker_path(broker))
            self._brokers.failed(gone)
        context.brokers, context.brokers_version = now, version
        moved = [broker for broker in now.keys() - new if now[broker].node != before[broker].node]
        for broker in moved:
            self._channels.add_broker(broker, now[broker].node)
        if new:
            for broker in new:
                self._channels.add_broker(broker, now[broker].node)
            self._brokers.started(new)
        elif moved:
            self._requests.update_metadata(now, ())

    # Topics

    def _load_topics(self, topics: Sequence[str]) -> list[TopicPartition]:
        """Read topics and watch them; return the partitions that are new."""
        nodes = self._node_watches.watch_and_get([znodes.topic_path(topic) for topic in topics], self._topic_watched)
        return self._loader.load_topics(dict(zip(topics, nodes, strict=True)))

    def _topic_watched(self, event: WatchEvent) -> None:
        self._submit_active(partial(self._partitions_changed, split_path(event.path)[1]), State.TOPIC_CHANGE)

    def _names_watched(self, event: WatchEvent) -> None:
        self._submit_active(partial(self._topics_changed, event.names), State.TOPIC_CHANGE)

    def _topics_changed(self, names: Collection[str]) -> None:
        """Add new topics to the context and remove deleted ones. Without ``names``, compare all topics."""
        known = self.context.assignments
        if names:
            now = self._loader.existing(znodes.TOPICS, names)
            gone = {name for name in names if name in known and name not in now}
        else:
            now = set(self._fenced.children(znodes.TOPICS))
            gone = known.keys() - now
        for topic in gone:
            if not self.context.is_to_be_deleted(topic):
                _log.warn("The node of topic {topic} is gone although its deletion was not requested", topic=topic)
            self._node_watches.forget(znodes.topic_path(topic))
            self.context.forget_topic(topic)
        new = sorted(name for name in now if name not in known)
        if new:
            self._new_partitions(self._load_topics(new))

    def _partitions_changed(self, topic: str) -> None:
        if topic in self.context.assignments:
            new = self._load_topics((topic,))
            if self.context.is_to_be_deleted(topic):
                if new:
                    _log.warn("Topic {topic} is being deleted: new partitions are ignored", topic=topic)
                for partition in new:
                    self.context.unassign(partition)
            elif new:
                self._new_partitions(new)

    def _new_partitions(self, partitions: list[TopicPartition]) -> None:
        self._partitions.handle(partitions, PartitionStatus.NEW)
        replicas = self.context.replicas(partitions)
        self._replicas.handle(replicas, ReplicaStatus.NEW)
        self._partitions.handle(partitions, PartitionStatus.ONLINE)
        self._replicas.handle(replicas, ReplicaStatus.ONLINE)

    def _preferred_elections_requested(self) -> None:
        """Elect the leaders that a tool asks for in ``/admin/preferred_replica_election``."""
        wanted = self._request_nodes.preferred_elections()
        if wanted is None:
            return
        for partition, error in self.elections.elect(wanted, ElectionType.PREFERRED).items():
            if error is not None and not isinstance(error, ElectionNotNeededError):
                _log.warn("{partition} does not get its preferred leader: {error}", partition=partition, error=error)
        self._request_nodes.settle_preferred_elections()

    # Deletions

    def _deletions_changed(self) -> None:
        self._handle_deletions(self._fenced.children(znodes.DELETE_TOPICS))

    def _handle_deletions(self, wanted: Iterable[str]) -> None:
        context = self.context
        enabled = self._config.boolean("delete.topic.enable")
        new = []
        for topic in wanted:
            if enabled and topic in context.assignments:
                if topic not in context.topics_to_delete:
                    new.append(topic)
            else:
                # There is no such topic, or deletion is not allowed: remove the request.
                self._fenced.delete(znodes.delete_topic_path(topic))
        if new:
            self._deletion.enqueue(new)

    def _topics_deleted(self, topics: Collection[str]) -> None:
        self.reassignments.resume(())
        for topic in topics:
            self._node_watches.forget(znodes.topic_path(topic))
        for listener in self._listeners:
            listener(topics)

    # Responses and notifications of brokers

    def _leader_and_isr_answered(self, to: Addressee, response: LeaderAndIsrResponse) -> None:
        take = partial(self._brokers.leaders_taken, to.broker, response)
        self._submit_answer(to, take, State.LEADER_AND_ISR_RESPONSE_RECEIVED)

    def _stop_replica_answered(self, to: Addressee, deleted: Collection[TopicPartition], response: StopReplicaResponse) -> None:
        self._submit_answer(to, partial(self._brokers.replicas_stopped, to.broker, deleted, response), State.TOPIC_DELETION)

    def _submit_answer(self, to: Addressee, event: Callable[[], None], state: State) -> None:
        """Queue ``event``; it is dropped if the controller's epoch has changed at its turn, or the broker has restarted."""

        def run() -> None:
            broker = self.context.brokers.get(to.broker)
            if to.controller_epoch == self.context.epoch and broker is not None and broker.epoch == to.broker_epoch:
                event()

        self._submit_active(run, state)

    def _isrs_changed(self) -> None:
        """Handle leaders' changes of in-sync replicas: read the new state, and send it to all brokers."""
        known = [partition for partition in self._loader.take_isr_changes() if partition in self.context.leaderships]
        self._loader.load_leaderships(known)
        self._requests.update_metadata(self.context.brokers, known)
        self.reassignments.resume(known)

    def _log_dirs_failed(self) -> None:
        """Handle failed log directories: the brokers' LeaderAndIsr responses say which replicas were in them (KIP-112)."""
        brokers = self._loader.take_log_dir_events() & self.context.brokers.keys()
        if brokers:
            _log.warn("Brokers {brokers} have failed log directories", brokers=sorted(brokers))
            self._replicas.handle(self.context.replicas_on(brokers), ReplicaStatus.ONLINE)

    def _allow_unclean_election(self, topics: Collection[str]) -> set[str]:
        """Return the topics that allow unclean election, with one read of the store."""
        default = self._config.boolean("unclean.leader.election.enable")
        configs = self._configs.configs(f"topics/{topic}" for topic in topics)
        own = [each.get("unclean.leader.election.enable") for each in configs]
        return {
            topic for topic, text in zip(topics, own, strict=True) if (default if text is None else text.strip().lower() == "true")
        }
